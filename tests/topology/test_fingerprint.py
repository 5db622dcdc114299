"""The SKU survives a lost link, the exact hash sees it, and neither sees a renumbering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwire_checks.topology.fingerprint import facts, fingerprint, first_difference
from gpuwire_checks.topology.graph import graph_hash
from gpuwire_checks.topology.model import (
    CounterValue,
    Cpu,
    Doubt,
    Gpu,
    GpuState,
    Link,
    Nic,
    NodeTopology,
    NumaNode,
    PairPath,
    PciDevice,
    Pcie,
    PeerAccess,
    Software,
    Unread,
)

H100, V100, L40S = "NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-16GB", "NVIDIA L40S"
SOFTWARE = Software(kernel="6.1", python="3.11.7", torch="2.13.0", driver="570.86", cuda="12.8", nccl="2.27.5")
CPU = Cpu(
    model="AMD EPYC 7742 64-Core Processor",
    sockets=2,
    cores=128,
    threads=256,
    usable=tuple(range(256)),
    last_level_cache_bytes=16 << 20,
)
# The wires of a DGX-1 with V100: pairs with two links and with one (NVIDIA DGX-1 with Tesla V100 white paper).
DOUBLE = ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7))
SINGLE = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))


def gpu(index: int, model: str | Unread, numa: int | Unread) -> Gpu:
    return Gpu(
        index=index,
        vendor="nvidia",
        model=model,
        memory_bytes=80 << 30,
        pci_address=f"0000:{index + 16:02x}:00.0",
        pcie_generation=1,
        pcie_width=16,
        max_pcie_generation=5,
        max_pcie_width=16,
        numa_node=numa,
        cpu_affinity=Unread.UNKNOWN,
    )


def nic(at: int, numa: int) -> Nic:
    return Nic(name=f"mlx5_{at}", kind="infiniband", rate_bits=400_000_000_000, up=True, numa_node=numa)


def node(count: int, wires: Mapping[tuple[int, int], str], *, model: str = H100, other: str = "SYS") -> NodeTopology:
    """GPUs, half of them on each of two NUMA nodes, one NIC on each; pairs without a wire are ``other``."""
    paths = [
        PairPath(a=f"GPU{a}", b=f"GPU{b}", path=wires.get((a, b), other)) for a, b in combinations(range(count), 2)
    ]
    return NodeTopology(
        source="live",
        hostname="node-1",
        cpu=CPU,
        memory_bytes=1 << 40,
        numa=tuple(NumaNode(number=n, cpus=(2 * n, 2 * n + 1), memory_bytes=1 << 39) for n in range(2)),
        virtualised=None,
        nics=(nic(0, 0), nic(1, 1)),
        gpus=tuple(gpu(at, model, 2 * at // count) for at in range(count)),
        paths=tuple(paths),
        software=SOFTWARE,
    )


def switched(count: int = 8, links: int = 18) -> NodeTopology:
    return node(count, dict.fromkeys(combinations(range(count), 2), f"NV{links}"))


def cube_mesh() -> NodeTopology:
    return node(8, {**dict.fromkeys(DOUBLE, "NV2"), **dict.fromkeys(SINGLE, "NV1")}, model=V100)


def pcie() -> NodeTopology:
    return node(4, {(0, 1): "PIX", (2, 3): "PIX", (0, 2): "NODE"}, model=L40S)


def bridged(count: int = 4) -> NodeTopology:
    return node(count, {(at, at + 1): "NV4" for at in range(0, count, 2)}, model="NVIDIA RTX A6000")


SLOT = Pcie(generation=5, width=16, max_generation=5, max_width=16)


def link(number: int, remote: str | Unread = "NVSwitch", *, up: bool | Unread = True, speed: float = 25e9) -> Link:
    return Link(number=number, kind="nvlink", up=up, speed_bytes=speed, version=4, remote=remote)


def wired(topology: NodeTopology, links: Mapping[int, tuple[Link, ...]]) -> NodeTopology:
    """With links, NICs in slots, and the paths between: the first GPU of each NIC's NUMA node is near it."""
    gpus = tuple(replace(g, links=links[g.index]) for g in topology.gpus)
    nics = tuple(replace(n, pcie=SLOT) for n in topology.nics)
    near = [next(g.name for g in gpus if g.numa_node == n.numa_node) for n in nics]
    paths = [
        PairPath(a=g.name, b=n.name, path="PIX" if g.name == first else "NODE" if g.numa_node == n.numa_node else "SYS")
        for n, first in zip(nics, near, strict=True)
        for g in gpus
    ]
    return replace(topology, gpus=gpus, nics=nics, paths=(*topology.paths, *paths))


def full() -> NodeTopology:
    """Eight GPUs on switches, every link of each known."""
    return wired(switched(), {at: tuple(link(n) for n in range(18)) for at in range(8)})


def mesh_of_links() -> NodeTopology:
    """The cube mesh, every link of each GPU known with its other end."""
    ends: dict[int, list[str]] = {at: [] for at in range(8)}
    for count, wires in ((2, DOUBLE), (1, SINGLE)):
        for a, b in wires:
            ends[a] += [f"GPU{b}"] * count
            ends[b] += [f"GPU{a}"] * count
    return wired(cube_mesh(), {at: tuple(link(n, remote) for n, remote in enumerate(to)) for at, to in ends.items()})


NODES = {
    "switched": switched(),
    "cube mesh": cube_mesh(),
    "pcie": pcie(),
    "bridged": bridged(),
    "full": full(),
    "mesh of links": mesh_of_links(),
}


def rewired(topology: NodeTopology, changes: Mapping[tuple[int, int], str]) -> NodeTopology:
    names = {(f"GPU{a}", f"GPU{b}"): path for (a, b), path in changes.items()}
    assert names.keys() <= {(pair.a, pair.b) for pair in topology.paths}
    return replace(
        topology, paths=tuple(replace(pair, path=names.get((pair.a, pair.b), pair.path)) for pair in topology.paths)
    )


def narrowed(topology: NodeTopology, pair: tuple[int, int]) -> NodeTopology:
    """One link less on one pair."""
    links = next(p.nvlinks for p in topology.paths if (p.a, p.b) == (f"GPU{pair[0]}", f"GPU{pair[1]}"))
    return rewired(topology, {pair: f"NV{links - 1}" if links > 1 else "SYS"})


def renumbered(topology: NodeTopology, gpus: list[int], nics: list[int], numa: list[int]) -> NodeTopology:
    """The same node, where GPU ``i`` is now number ``gpus[i]``, and so on; links are numbered from the other end."""
    names = {f"GPU{old}": f"GPU{new}" for old, new in enumerate(gpus)}
    names |= {n.name: f"mlx5_{nics[i]}" for i, n in enumerate(topology.nics)}

    def numa_of(number: int | Unread) -> int | Unread:
        return number if isinstance(number, Unread) else numa[number]

    def renamed(links: tuple[Link, ...] | Unread) -> tuple[Link, ...] | Unread:
        if isinstance(links, Unread):
            return links
        moved = [replace(one, remote=names.get(one.remote, one.remote)) for one in reversed(links)]
        return tuple(replace(one, number=number) for number, one in enumerate(moved))

    moved = [
        replace(g, index=gpus[g.index], numa_node=numa_of(g.numa_node), links=renamed(g.links)) for g in topology.gpus
    ]
    cards = [replace(n, name=names[n.name], numa_node=numa_of(n.numa_node)) for n in topology.nics]
    paths = [(*sorted((names[p.a], names[p.b])), p.path) for p in topology.paths]
    return replace(
        topology,
        gpus=tuple(sorted(moved, key=lambda g: g.index)),
        nics=tuple(sorted(cards, key=lambda n: n.name)),
        numa=tuple(sorted((replace(n, number=numa[n.number]) for n in topology.numa), key=lambda n: n.number)),
        paths=tuple(PairPath(a=a, b=b, path=path) for a, b, path in sorted(paths)),
    )


@pytest.mark.parametrize("name", NODES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_renumbered_node_is_the_same_node(name: str, data: st.DataObject) -> None:
    topology = NODES[name]
    gpus = data.draw(st.permutations(range(len(topology.gpus))))
    nics, numa = data.draw(st.permutations(range(2))), data.draw(st.permutations(range(2)))
    assert fingerprint(renumbered(topology, gpus, nics, numa)) == fingerprint(topology)


@pytest.mark.parametrize("name", NODES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_another_path_on_one_pair_is_another_node(name: str, data: st.DataObject) -> None:
    topology = NODES[name]
    at = data.draw(st.integers(0, len(topology.paths) - 1))
    pair = topology.paths[at]
    path = data.draw(st.sampled_from(["NV1", "NV2", "NV17", "PIX", "PHB", "SYS"]).filter(lambda p: p != pair.path))
    changed = replace(topology, paths=(*topology.paths[:at], replace(pair, path=path), *topology.paths[at + 1 :]))
    assert fingerprint(changed).exact != fingerprint(topology).exact


LINK_FAULTS: dict[str, dict[str, Any]] = {
    "down": {"up": False, "speed_bytes": 0.0, "remote": Unread.UNKNOWN, "version": Unread.UNKNOWN},
    "half speed": {"speed_bytes": 12.5e9},
    "another version": {"version": 3},
    "another end": {"remote": "0000:ff:00.0"},
    "not readable": {"up": Unread.UNKNOWN},
}


@pytest.mark.parametrize("fault", LINK_FAULTS)
@pytest.mark.parametrize("name", ["full", "mesh of links"])
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_one_link_of_one_gpu_that_is_otherwise_is_another_node(name: str, fault: str, data: st.DataObject) -> None:
    topology = NODES[name]
    gpu, number = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 5))
    assert fingerprint(with_link(topology, gpu, number, LINK_FAULTS[fault])).exact != fingerprint(topology).exact


def with_link(topology: NodeTopology, at: int, number: int, fault: Mapping[str, Any]) -> NodeTopology:
    links = topology.gpus[at].links
    assert not isinstance(links, Unread)
    changed = tuple(replace(one, **fault) if one.number == number else one for one in links)
    gpus = tuple(replace(g, links=changed) if g.index == at else g for g in topology.gpus)
    return replace(topology, gpus=gpus)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_the_same_fault_of_another_part_of_an_even_node_is_the_same_node(data: st.DataObject) -> None:
    fault = data.draw(st.sampled_from(list(LINK_FAULTS.values())))
    faulty = [
        with_link(NODES["full"], gpu, data.draw(st.integers(0, 17)), fault)
        for gpu in data.draw(st.permutations([1, 2, 3, 5, 6, 7]))[:2]
    ]
    assert fingerprint(faulty[0]).exact == fingerprint(faulty[1]).exact


def test_where_a_slow_link_is_matters() -> None:
    near, far = (with_link(mesh_of_links(), 0, number, LINK_FAULTS["half speed"]) for number in (0, 5))
    assert fingerprint(near).exact != fingerprint(far).exact


@pytest.mark.parametrize("size", [1, 7, 40])
def test_functions_of_a_nic_that_are_alike_count(size: int) -> None:
    many = [replace(full().nics[0], name=f"vf{n}", pcie=Pcie()) for n in range(size)]
    hashes = {graph_hash(replace(full(), nics=(*full().nics, *many[:n]))) for n in range(size + 1)}
    assert len(hashes) == size + 1


def as_networkx(size: int, wires: set[tuple[int, int]]) -> nx.Graph[Any]:
    graph = nx.Graph(list(wires))
    graph.add_nodes_from((at, {"numa": 2 * at // size}) for at in range(size))
    return graph


def same_up_to_numa(a: nx.Graph[Any], b: nx.Graph[Any]) -> bool:
    """Isomorphic by an isomorphism that keeps the two NUMA groups, or swaps them."""
    flipped = b.copy()
    for at in flipped:
        flipped.nodes[at]["numa"] = 1 - flipped.nodes[at]["numa"]
    return any(nx.is_isomorphic(a, c, node_match=lambda x, y: x["numa"] == y["numa"]) for c in (b, flipped))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_equal_hashes_are_isomorphic_graphs(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([4, 6]))
    every = list(combinations(range(size), 2))
    number = data.draw(st.integers(2, len(every)))
    first, second = (set(data.draw(st.permutations(every))[:number]) for _ in range(2))
    hashes = {graph_hash(node(size, dict.fromkeys(wires, "NV4"), other="PHB")) for wires in (first, second)}
    same = same_up_to_numa(as_networkx(size, first), as_networkx(size, second))
    assert (len(hashes) == 1) == same


def test_two_crossed_cables_are_seen_where_every_gpu_keeps_its_number_of_wires() -> None:
    crossed = rewired(cube_mesh(), {(2, 6): "SYS", (3, 7): "SYS", (2, 7): "NV1", (3, 6): "NV1"})
    assert fingerprint(crossed).exact != fingerprint(cube_mesh()).exact
    assert fingerprint(crossed).sku == fingerprint(cube_mesh()).sku


def test_bridges_across_numa_nodes_are_not_bridges_within() -> None:
    across = rewired(bridged(), {(0, 1): "SYS", (2, 3): "SYS", (0, 2): "NV4", (1, 3): "NV4"})
    assert fingerprint(across).exact != fingerprint(bridged()).exact


OF_AN_INSTANT: dict[str, Any] = {
    "pcie_generation": 4,
    "uuid": "GPU-5b0e",
    "serial": "1320000000007",
    "cpu_affinity": "0-63",
    "state": GpuState(ecc=True, throttled=("SW Power Cap",), temperature_c=71, performance_state="P8"),
}
OF_AN_INSTANT_NIC: dict[str, Any] = {
    "pci_address": "0001:40:00.0",
    "device": "mlx5_9",
    "state": "Active",
    "physical": "LinkUp",
    "firmware": "28.43.2026",
}


@pytest.mark.parametrize("name", NODES)
def test_what_changes_between_boots_changes_nothing(name: str) -> None:
    before = NODES[name]
    docker = Nic(name="docker0", kind="virtual", rate_bits=Unread.UNKNOWN, up=False, numa_node=Unread.NOT_SUPPORTED)
    memory_alone = NumaNode(number=2, cpus=(), memory_bytes=96 << 30)
    after = replace(
        before,
        source="other",
        hostname="node-2",
        memory_bytes=(1 << 40) - (3 << 20),
        numa=(*before.numa, memory_alone),
        nics=(docker, *(replace(n, **OF_AN_INSTANT_NIC, pcie=replace(n.pcie, generation=1)) for n in before.nics)),
        gpus=tuple(replace(g, **OF_AN_INSTANT, pci_address=f"0001:{g.index:02x}:00.0") for g in before.gpus),
        peers=(PeerAccess(a="GPU0", b="GPU1", capability="read", status="GNS"),),
        pci=(PciDevice(address="0001:00:00.0", kind="gpu", acs=("SrcValid",)),),
        counters=(CounterValue(part="GPU0", name="pcie replay", value=174),),
        software=replace(SOFTWARE, driver="580.1", cuda="13.0", nccl=None, kernel="6.8"),
        doubts=(Doubt(line=None, text="a word"),),
    )
    assert fingerprint(after) == fingerprint(before)
    assert first_difference(facts(before), facts(after)) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda t: replace(t, gpus=(replace(t.gpus[0], pcie_width=Unread.UNKNOWN, max_pcie_width=8), *t.gpus[1:])),
        lambda t: replace(t, gpus=(replace(t.gpus[0], pcie_width=8), *t.gpus[1:])),
        lambda t: replace(t, gpus=(replace(t.gpus[0], numa_node=1), *t.gpus[1:])),
        lambda t: replace(t, gpus=(replace(t.gpus[0], model="NVIDIA H800"), *t.gpus[1:])),
        lambda t: replace(t, nics=t.nics[:1]),
        lambda t: replace(t, nics=(replace(t.nics[0], rate_bits=200_000_000_000), t.nics[1])),
        lambda t: replace(t, nics=(replace(t.nics[0], up=False, rate_bits=Unread.UNKNOWN), t.nics[1])),
        lambda t: replace(t, nics=(replace(t.nics[0], numa_node=1), t.nics[1])),
        lambda t: replace(t, virtualised="kvm"),
        lambda t: replace(t, paths=t.paths[:-1]),
        lambda t: replace(t, paths=tuple(replace(p, path="PXB") if p.path == "PIX" else p for p in t.paths)),
        lambda t: replace(t, cpu=replace(CPU, sockets=1)),
        lambda t: replace(t, nics=(replace(t.nics[0], pcie=replace(SLOT, width=8)), t.nics[1])),
        lambda t: replace(t, nics=(replace(t.nics[0], pcie=replace(SLOT, max_generation=4)), t.nics[1])),
        lambda t: replace(t, gpus=(replace(t.gpus[0], links=t.gpus[0].links[:17]), *t.gpus[1:])),
        lambda t: replace(t, gpus=(replace(t.gpus[0], links=Unread.UNKNOWN), *t.gpus[1:])),
    ],
    ids=[
        "width at most",
        "width",
        "gpu numa",
        "model",
        "nic gone",
        "nic rate",
        "nic down",
        "nic numa",
        "vm",
        "pair",
        "nic path",
        "socket",
        "nic width",
        "nic generation",
        "link gone",
        "links unread",
    ],
)
def test_another_part_or_place_is_another_node(change: object) -> None:
    assert callable(change)
    assert fingerprint(change(full())).exact != fingerprint(full()).exact


def test_who_reads_does_not_matter() -> None:
    refused = [
        replace(switched(), cpu=why, gpus=tuple(replace(g, max_pcie_width=why) for g in switched().gpus))
        for why in (Unread.UNKNOWN, Unread.NO_PERMISSION)
    ]
    assert graph_hash(refused[0]) == graph_hash(refused[1]) != graph_hash(switched())


SKUS = [
    (switched(), "h100-80gb-hbm3-8x-nv18"),
    (switched(4, 6), "h100-80gb-hbm3-4x-nv6"),
    (switched(3, 12), "h100-80gb-hbm3-3x-nv12"),
    (switched(2), "h100-80gb-hbm3-2x-nvlink"),
    (cube_mesh(), "v100-sxm2-16gb-8x-nvmesh"),
    (bridged(), "rtx-a6000-4x-nvbridge"),
    (node(3, {(0, 1): "NV4"}, model="NVIDIA RTX A6000"), "rtx-a6000-3x-nvbridge"),
    (pcie(), "l40s-4x-pcie"),
    (node(1, {}), "h100-80gb-hbm3-1x"),
    (node(2, {(0, 1): "XGMI"}), "h100-80gb-hbm3-2x"),
    (node(2, {(0, 1): "PHB"}, model="NVIDIA GeForce RTX 4090"), "rtx-4090-2x-pcie"),
]


@pytest.mark.parametrize(("topology", "name"), SKUS, ids=[name for _, name in SKUS])
def test_skus_are_names_a_person_can_read(topology: NodeTopology, name: str) -> None:
    assert fingerprint(topology).sku == name


@pytest.mark.parametrize("topology", [t for t, _ in SKUS if any(p.nvlinks > 1 for p in t.paths)] + [cube_mesh()])
def test_a_lost_link_is_no_other_sku(topology: NodeTopology) -> None:
    sku = fingerprint(topology).sku
    for pair in topology.paths:
        if pair.nvlinks:
            lost = narrowed(topology, (int(pair.a[3:]), int(pair.b[3:])))
            assert fingerprint(lost).sku == sku
            assert fingerprint(lost).exact != fingerprint(topology).exact


@pytest.mark.parametrize("links", [17, 10])
@pytest.mark.parametrize("count", [3, 4, 8])
def test_a_gpu_with_fewer_links_to_the_switch_is_no_other_sku(count: int, links: int) -> None:
    lost = rewired(switched(count), {(0, other): f"NV{links}" for other in range(1, count)})
    assert fingerprint(lost).sku == fingerprint(switched(count)).sku


def test_one_of_eight_without_any_link_is_no_other_sku() -> None:
    assert (
        fingerprint(rewired(switched(), {(0, other): "SYS" for other in range(1, 8)})).sku
        == fingerprint(switched()).sku
    )


def test_a_lost_gpu_is_no_other_sku_and_a_missing_one_is() -> None:
    healthy = switched()
    silent = replace(healthy.gpus[7], model=Unread.UNKNOWN, max_pcie_generation=Unread.UNKNOWN)
    known = tuple(pair for pair in healthy.paths if pair.b != "GPU7")
    lost = replace(healthy, gpus=(*healthy.gpus[:7], silent), paths=known)
    assert fingerprint(lost).sku == fingerprint(healthy).sku
    assert fingerprint(switched(7)).sku == "h100-80gb-hbm3-7x-nv18"


def test_unlike_gpus_are_all_named() -> None:
    mixed = node(3, {}, model="NVIDIA RTX A6000", other="PHB")
    models = ("NVIDIA RTX A6000", "NVIDIA L40S", Unread.UNKNOWN)
    mixed = replace(mixed, gpus=tuple(replace(g, model=m) for g, m in zip(mixed.gpus, models, strict=True)))
    assert fingerprint(mixed).sku == "l40s-1x-rtx-a6000-1x-unknown-1x-pcie"


@pytest.mark.parametrize(
    ("model", "cores", "name"),
    [
        ("AMD EPYC", 2, "cpu-amd-epyc-2c"),
        ("AMD EPYC 7742 64-Core Processor", 128, "cpu-amd-epyc-7742-128c"),
        ("Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz", 112, "cpu-intel-xeon-platinum-8480c-112c"),
        ("implementer 0x41 part 0xd4f", Unread.UNKNOWN, "cpu-implementer-0x41-part-0xd4f-256t"),
        ("../../etc", 2, "cpu-etc-2c"),
    ],
)
def test_skus_without_gpus(model: str, cores: int | Unread, name: str) -> None:
    topology = replace(node(0, {}), cpu=replace(CPU, model=model, cores=cores))
    assert fingerprint(topology).sku == name


def test_a_processor_that_cannot_be_read_is_unknown_not_zero() -> None:
    topology = replace(node(0, {}), cpu=Unread.NO_PERMISSION, memory_bytes=Unread.UNKNOWN, numa=())
    assert fingerprint(topology).sku == "cpu-unknown"
    assert facts(topology) == {
        "cpu_model": "no permission",
        "sockets": "no permission",
        "cores": "no permission",
        "numa_nodes": "unknown",
        "usable_cpus": "no permission",
        "nics": "2 x infiniband 400 Gbit/s",
        "memory_GiB": "unknown",
        "virtualised": "no",
    }


def test_facts_of_a_gpu_node_most_telling_first() -> None:
    assert list(facts(switched()).items()) == [
        ("gpu_vendor", "nvidia"),
        ("gpu_model", H100),
        ("gpus", 8),
        ("nvlinks", "NV18 on 28 of 28 pairs"),
        ("gpu_paths", "28 NV18"),
        ("pcie", "gen 5 x16"),
        ("numa_nodes", 2),
        ("sockets", 2),
        ("cores", 128),
        ("cpu_model", "AMD EPYC 7742 64-Core Processor"),
        ("nics", "2 x infiniband 400 Gbit/s"),
        ("virtualised", "no"),
    ]


def test_facts_of_links_and_slots() -> None:
    known = facts(full())
    assert (known["links"], known["nic_pcie"]) == ("18 NVLink4 at 25 GB/s", "gen 5 x16")
    assert list(known)[4:8] == ["gpu_paths", "links", "nic_paths", "pcie"]
    unread = replace(full().gpus[0], links=Unread.NO_PERMISSION)
    assert facts(replace(full(), gpus=(unread, *full().gpus[1:])))["links"] == (
        "7 x 18 NVLink4 at 25 GB/s, 1 x no permission"
    )
    bare = replace(full().gpus[0], links=())
    assert facts(replace(full(), gpus=(bare, *full().gpus[1:])))["links"] == "7 x 18 NVLink4 at 25 GB/s, 1 x none"
    other = replace(full().gpus[0], links=(Link(number=0, kind="xgmi", up=True), Link(number=1, kind="xgmi", up=False)))
    assert facts(replace(full(), gpus=(other,)))["links"] == "1 xGMI at speed unknown + 1 xGMI down"


def test_facts_leave_out_links_and_slots_that_no_source_tells() -> None:
    assert not {"links", "nic_pcie"} & facts(switched()).keys()
    assert facts(replace(node(0, {}), nics=(replace(nic(0, 0), pcie=SLOT),)))["nic_pcie"] == "gen 5 x16"


FAULTS = [
    (
        lambda t: with_link(t, 3, 7, LINK_FAULTS["half speed"]),
        "links is 7 x 18 NVLink4 at 25 GB/s, 1 x 17 NVLink4 at 25 GB/s + 1 NVLink4 at 12.5 GB/s, "
        "the baseline says 18 NVLink4 at 25 GB/s",
    ),
    (
        lambda t: with_link(t, 3, 7, LINK_FAULTS["down"]),
        "links is 7 x 18 NVLink4 at 25 GB/s, 1 x 17 NVLink4 at 25 GB/s + 1 NVLink down, "
        "the baseline says 18 NVLink4 at 25 GB/s",
    ),
    (
        lambda t: replace(t, nics=(replace(t.nics[0], pcie=replace(SLOT, width=8)), t.nics[1])),
        "nic_pcie is 1 x gen 5 x16, 1 x gen 5 x8, the baseline says gen 5 x16",
    ),
    (
        lambda t: replace(t, paths=tuple(replace(p, path="PXB") if p.path == "PIX" else p for p in t.paths)),
        "nic_paths is 2 PXB, 6 NODE, 8 SYS, the baseline says 2 PIX, 6 NODE, 8 SYS",
    ),
    (
        lambda t: replace(t, gpus=tuple(replace(g, links=Unread.UNKNOWN) for g in t.gpus)),
        "links is not known here, the baseline says 18 NVLink4 at 25 GB/s",
    ),
]


@pytest.mark.parametrize(("fault", "sentence"), FAULTS, ids=["slow link", "link down", "nic x8", "nic path", "unread"])
def test_the_first_difference_names_what_is_new(fault: Callable[[NodeTopology], NodeTopology], sentence: str) -> None:
    assert first_difference(facts(full()), facts(fault(full()))) == sentence


def test_facts_count_wires_by_class() -> None:
    known = facts(cube_mesh())
    assert known["nvlinks"] == "NV2 on 8 of 28 pairs, NV1 on 8 of 28 pairs"
    assert known["gpu_paths"] == "8 NV2, 8 NV1, 12 SYS"
    assert (facts(pcie())["nvlinks"], facts(pcie())["gpu_paths"]) == ("none", "2 PIX, 1 NODE, 3 SYS")


def test_facts_say_what_is_unknown_and_what_is_down() -> None:
    healthy, why = switched(), Unread.NOT_SUPPORTED
    silent = replace(healthy.gpus[7], model=Unread.UNKNOWN, pcie_width=why, max_pcie_width=why)
    known = tuple(pair for pair in healthy.paths if pair.b != "GPU7")
    down = replace(healthy.nics[0], up=False, rate_bits=Unread.UNKNOWN)
    found = facts(
        replace(healthy, gpus=(*healthy.gpus[:7], silent), paths=known, nics=(down, healthy.nics[1]), numa=())
    )
    assert found["gpu_model"] == "7 x NVIDIA H100 80GB HBM3, 1 x unknown"
    assert found["nvlinks"] == "NV18 on 21 of 28 pairs"
    assert found["gpu_paths"] == "21 NV18, 7 unknown"
    assert found["pcie"] == "7 x gen 5 x16, 1 x gen 5 width not supported"
    assert found["nics"] == "1 x infiniband 400 Gbit/s, 1 x infiniband down"
    assert found["numa_nodes"] == "unknown"
    assert facts(replace(healthy, paths=()))["nvlinks"] == "unknown"


def test_a_gpu_that_trained_too_narrow_is_the_first_difference() -> None:
    healthy = switched()
    narrow = replace(healthy, gpus=(replace(healthy.gpus[0], pcie_width=8), *healthy.gpus[1:]))
    assert first_difference(facts(healthy), facts(narrow)) == (
        "pcie is 7 x gen 5 x16, 1 x gen 5 x8, the baseline says gen 5 x16"
    )


def test_facts_count_paths_to_nics_and_skip_virtual_ones() -> None:
    near = PairPath(a="GPU0", b="mlx5_0", path="PIX")
    virtual = replace(nic(3, 0), name="veth1", kind="virtual")
    found = facts(replace(switched(), paths=(*switched().paths, near), nics=(*switched().nics, virtual)))
    assert (found["nic_paths"], found["nics"]) == ("1 PIX", "2 x infiniband 400 Gbit/s")
    assert facts(replace(switched(), nics=(virtual,)))["nics"] == "none"


def test_one_gpu_has_no_pairs_to_speak_of() -> None:
    assert not {"nvlinks", "gpu_paths"} & facts(node(1, {})).keys()


@pytest.mark.parametrize(
    ("expected", "actual", "sentence"),
    [
        ({"gpus": 8}, {"gpus": 8}, None),
        ({"gpus": 8, "pcie": "a"}, {"gpus": 7, "pcie": "b"}, "gpus is 7, the baseline says 8"),
        ({"memory_GiB": 1000}, {"memory_GiB": 951}, None),
        ({"memory_GiB": 1000}, {"memory_GiB": 949}, "memory_GiB is 949, the baseline says 1000"),
        ({"memory_GiB": 1000}, {"memory_GiB": "unknown"}, "memory_GiB is unknown, the baseline says 1000"),
        ({"gpus": 100}, {"gpus": 99}, "gpus is 99, the baseline says 100"),
        ({"gpus": 8}, {}, "gpus is not known here, the baseline says 8"),
        ({}, {"gpus": 8}, "gpus is 8, the baseline does not say"),
        ({}, {}, None),
    ],
)
def test_the_first_difference_is_a_sentence(
    expected: Mapping[str, object], actual: Mapping[str, object], sentence: str | None
) -> None:
    assert first_difference(expected, actual) == sentence


def test_a_lost_link_is_said_in_links() -> None:
    lost = narrowed(switched(), (2, 5))
    assert first_difference(facts(switched()), facts(lost)) == (
        "nvlinks is NV18 on 27 of 28 pairs, NV17 on 1 of 28 pairs, the baseline says NV18 on 28 of 28 pairs"
    )
