"""Path classes from the bus, the node as a graph, and routes whose every part has a name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from fake_nvml import SWITCH, FakeNvml, cards
from trees import large_node, pci, switch, two_sockets, write_tree

from gpuwire_checks.topology.discover import discover
from gpuwire_checks.topology.model import (
    Cpu,
    Gpu,
    Link,
    Nic,
    NodeTopology,
    NumaNode,
    PairPath,
    PciDevice,
    Pcie,
    Software,
    Unread,
)
from gpuwire_checks.topology.nvml import NvmlSource
from gpuwire_checks.topology.pci import read_pci
from gpuwire_checks.topology.pci_paths import Place, path_class, pci_paths
from gpuwire_checks.topology.routes import node_graph, route

UNKNOWN = Unread.UNKNOWN


def gpu(
    index: int, *, at: str | Unread = UNKNOWN, numa: int | Unread = UNKNOWN, links: tuple[Link, ...] | Unread = UNKNOWN
) -> Gpu:
    return Gpu(
        index=index,
        vendor="nvidia",
        model="NVIDIA L40S",
        memory_bytes=UNKNOWN,
        pci_address=at,
        pcie_generation=1,
        pcie_width=16,
        max_pcie_generation=4,
        max_pcie_width=16,
        numa_node=numa,
        cpu_affinity=UNKNOWN,
        links=links,
    )


def nic(name: str, *, at: str | Unread = UNKNOWN, numa: int | Unread = UNKNOWN) -> Nic:
    return Nic(name=name, kind="infiniband", rate_bits=UNKNOWN, up=True, numa_node=numa, pci_address=at)


def node(
    gpus: Sequence[Gpu],
    nics: Sequence[Nic] = (),
    *,
    paths: Mapping[tuple[str, str], str] | None = None,
    bus: Sequence[PciDevice] = (),
    numa: Sequence[NumaNode] = (),
    sockets: int | Unread = UNKNOWN,
) -> NodeTopology:
    cpu = Cpu(model="cpu", sockets=sockets, cores=2, threads=2, usable=(0, 1), last_level_cache_bytes=UNKNOWN)
    return NodeTopology(
        source="test",
        hostname=UNKNOWN,
        cpu=cpu,
        memory_bytes=UNKNOWN,
        numa=tuple(numa),
        virtualised=None,
        nics=tuple(nics),
        gpus=tuple(gpus),
        paths=tuple(PairPath(a=a, b=b, path=path) for (a, b), path in (paths or {}).items()),
        software=Software(kernel=None, python=None, torch=None, driver=None, cuda=None, nccl=None),
        pci=tuple(bus),
    )


def up(remote: str | Unread, count: int = 1, *, speed: float | Unread = 25e9, down: int = 0) -> tuple[Link, ...]:
    live = [Link(number=n, kind="nvlink", up=True, speed_bytes=speed, remote=remote) for n in range(count)]
    return (*live, *(Link(number=count + n, kind="nvlink", up=False, speed_bytes=0.0) for n in range(down)))


def place(*bridges: str, root: str | Unread = "pci0000:16", numa: int | Unread = 0) -> Place:
    return Place(bridges=bridges, root=root, numa_node=numa)


ONE, OTHER = place("d1", "u", "p"), place("d2", "u", "p")
BELOW = place("d4", "u2", "d3", "u", "p")
CLASSES = [
    (ONE, OTHER, "PIX"),
    (place("p"), place("p"), "PIX"),
    (ONE, BELOW, "PXB"),
    (BELOW, place("d5", "u2", "d3", "u", "p"), "PIX"),
    (ONE, place("p2"), "PHB"),
    (ONE, place("p2", numa=1), "PHB"),
    (place(), place(), "PHB"),
    (ONE, place("p2", root="pci0000:40"), "NODE"),
    (ONE, place("p2", root="pci0000:80", numa=1), "SYS"),
    (ONE, place("p2", root="pci0000:80", numa=UNKNOWN), None),
    (place("p", numa=Unread.NO_PERMISSION), place("p2", root="pci0000:80"), None),
    (ONE, place(root=UNKNOWN), None),
    (place("d1", "u", root=UNKNOWN), place("d2", "u", root=UNKNOWN), "PIX"),
]


@pytest.mark.parametrize(("a", "b", "expected"), CLASSES)
def test_path_classes(a: Place, b: Place, expected: str | None) -> None:
    assert path_class(a, b) == path_class(b, a) == expected


def bus_paths(root: Path, gpus: Sequence[str], nics: Sequence[str], **kwargs: Any) -> dict[tuple[str, str], str]:
    """Paths of devices by their addresses."""
    parts = [gpu(n, at=at, **kwargs) for n, at in enumerate(gpus)]
    cards = [nic(f"mlx5_{n}", at=at) for n, at in enumerate(nics)]
    return {(pair.a, pair.b): pair.path for pair in pci_paths(read_pci(root), parts, cards)}


def test_each_gpu_has_a_path_to_each_nic(tmp_path: Path) -> None:
    write_tree(tmp_path, pci(f"{switch(0)}/0000:1b:00.0") | pci(f"{switch(0, port=2)}/0000:40:00.0", kind="nic"))
    write_tree(tmp_path, pci(f"{switch(1)}/0000:1c:00.0", numa="1") | pci("pci0000:c0/0000:41:00.0", kind="nic"))
    assert bus_paths(tmp_path, ["0000:1b:00.0", "0000:1c:00.0"], ["0000:40:00.0", "0000:41:00.0"]) == {
        ("GPU0", "mlx5_0"): "PIX",
        ("GPU0", "mlx5_1"): "NODE",
        ("GPU1", "mlx5_0"): "SYS",
        ("GPU1", "mlx5_1"): "SYS",
    }


def test_a_flat_virtual_machine_is_one_host_bridge(tmp_path: Path) -> None:
    write_tree(tmp_path, pci("pci0000:00/0000:00:05.0", numa="-1"))
    write_tree(tmp_path, pci("pci0000:00/0000:00:06.0", kind="nic", numa="-1"))
    assert bus_paths(tmp_path, ["0000:00:05.0"], ["0000:00:06.0"]) == {("GPU0", "mlx5_0"): "PHB"}


def test_a_virtual_machine_with_a_root_for_each_and_no_numa_has_no_known_path(tmp_path: Path) -> None:
    write_tree(tmp_path, pci("pci0001:00/0001:00:00.0", numa="-1"))
    write_tree(tmp_path, pci("pci0101:00/0101:00:00.0", kind="nic", numa="-1"))
    assert bus_paths(tmp_path, ["0001:00:00.0"], ["0101:00:00.0"]) == {}


def test_the_switch_of_an_amd_board_is_no_step(tmp_path: Path) -> None:
    board = f"{switch(0)}/0000:19:00.0"
    gpu_at = f"{board}/0000:1a:00.0/0000:1b:00.0"
    files = pci(gpu_at, kind="amd gpu") | pci(f"{board}/0000:1a:00.0", kind="amd bridge")
    files |= pci(board, kind="amd bridge")
    write_tree(tmp_path, files | pci(f"{switch(0, port=2)}/0000:40:00.0", kind="nic"))
    assert bus_paths(tmp_path, ["0000:1b:00.0"], ["0000:40:00.0"]) == {("GPU0", "mlx5_0"): "PIX"}


@pytest.mark.parametrize(
    ("links", "paths"),
    [
        ((), {("GPU0", "GPU1"): "PIX"}),
        (UNKNOWN, {}),
        (up("NVSwitch"), {}),
        (up(UNKNOWN), {}),
        (up("GPU7"), {("GPU0", "GPU1"): "PIX"}),
        (up("GPU1", 0, down=4), {("GPU0", "GPU1"): "PIX"}),
    ],
    ids=["none", "unread", "switched", "unknown end", "elsewhere", "down"],
)
def test_gpus_have_a_pcie_path_where_no_link_can_join_them(
    tmp_path: Path, links: tuple[Link, ...] | Unread, paths: dict[tuple[str, str], str]
) -> None:
    write_tree(tmp_path, pci(f"{switch(0)}/0000:1b:00.0", f"{switch(0, port=2)}/0000:1c:00.0"))
    assert bus_paths(tmp_path, ["0000:1b:00.0", "0000:1c:00.0"], [], links=links) == paths


def test_what_a_driver_told_is_left_out(tmp_path: Path) -> None:
    write_tree(tmp_path, pci(f"{switch(0)}/0000:1b:00.0", f"{switch(0, port=2)}/0000:1c:00.0"))
    gpus = [gpu(0, at="0000:1b:00.0", links=()), gpu(1, at="0000:1c:00.0", links=())]
    assert pci_paths(read_pci(tmp_path), gpus, [], known=[PairPath(a="GPU1", b="GPU0", path="SYS")]) == ()


def test_a_device_that_is_not_on_the_bus_has_no_path(tmp_path: Path) -> None:
    write_tree(tmp_path, pci(f"{switch(0)}/0000:1b:00.0"))
    assert bus_paths(tmp_path, ["0000:1b:00.0"], ["0000:99:00.0"]) == {}


def test_parents_in_a_circle_end() -> None:
    circle = [PciDevice(address="a", parent="b", root="r"), PciDevice(address="b", parent="a", root="r")]
    assert pci_paths(circle, [gpu(0, at="a")], [nic("n", at="b")]) == (PairPath(a="GPU0", b="n", path="PIX"),)
    assert route(node([gpu(0, at="a")], [nic("n", at="b")], bus=circle), "GPU0", "n") != ()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> NodeTopology:
    root = write_tree(tmp_path_factory.mktemp("large"), large_node())
    return discover(root=root, gpus=NvmlSource(FakeNvml(cards(16, [(SWITCH, "")] * 18)), root=root))


def test_every_pair_of_a_whole_node_has_a_route_of_named_parts(large: NodeTopology) -> None:
    graph = node_graph(large)
    names = [*(gpu.name for gpu in large.gpus), *(nic.name for nic in large.nics)]
    for a, b in combinations(names, 2):
        parts = route(large, a, b, graph=graph)
        assert (parts[0], parts[-1]) == (a, b)
        assert not set(parts[1:-1]) & set(names)
        assert all(graph.has_edge(*step) for step in pairwise(parts))


def test_routes_of_a_whole_node(large: NodeTopology) -> None:
    graph = node_graph(large)
    assert route(large, "GPU0", "GPU15", graph=graph) == ("GPU0", "NVSwitch", "GPU15")
    assert route(large, "GPU0", "mlx5_0", graph=graph) == (
        "GPU0",
        "switch 0000:b0:10.0",
        "switch 0000:b0:00.0",
        "switch 0000:b0:12.0",
        "mlx5_0",
    )
    assert route(large, "GPU0", "eth4") == (
        "GPU0",
        "switch 0000:b0:10.0",
        "switch 0000:b0:00.0",
        "switch 0000:a0:01.0",
        "root pci0000:a0",
        "NUMA 0",
        "root pci0000:c0",
        "eth4",
    )
    assert route(large, "eth4", "eth39") == (
        "eth4",
        "root pci0000:c0",
        "NUMA 0",
        "socket 0",
        "socket 1",
        "NUMA 1",
        "root pci0000:c7",
        "eth39",
    )


def test_edges_say_what_they_are_and_carry(large: NodeTopology) -> None:
    graph = node_graph(large)
    assert graph.edges["GPU0", "NVSwitch"] == {"kind": "nvlink", "links": 18, "speed": 450e9}
    to_switch = graph.edges["GPU0", "switch 0000:b0:10.0"]
    assert (to_switch["kind"], round(to_switch["speed"] / 1e9)) == ("pcie", 63)
    assert graph.edges["switch 0000:b0:10.0", "switch 0000:b0:00.0"] == {"kind": "pcie"}
    assert round(graph.edges["switch 0000:b0:00.0", "switch 0000:a0:01.0"]["speed"] / 1e9) == 63
    assert graph.edges["root pci0000:a0", "NUMA 0"] == {"kind": "host"}
    kinds = nx.get_node_attributes(graph, "kind")
    assert [kinds[name] for name in ("GPU0", "eth4", "NVSwitch", "root pci0000:a0", "NUMA 0", "socket 0")] == [
        "gpu",
        "nic",
        "nvswitch",
        "root",
        "numa",
        "socket",
    ]


def test_a_direct_link_is_better_than_a_switch_and_a_way_leads_through_no_other_gpu() -> None:
    chain = node(
        [gpu(0, numa=0), gpu(1, numa=0), gpu(2, numa=0)],
        paths={("GPU0", "GPU1"): "NV2", ("GPU1", "GPU2"): "NV2", ("GPU0", "GPU2"): "SYS"},
    )
    assert route(chain, "GPU0", "GPU1") == ("GPU0", "GPU1")
    assert route(chain, "GPU0", "GPU2") == ("GPU0", "NUMA 0", "GPU2")
    assert node_graph(chain).edges["GPU0", "GPU1"] == {"kind": "nvlink", "links": 2}


def test_links_of_both_ends_are_the_fewer_and_their_speed_adds_up() -> None:
    pair = node([gpu(0, links=up("GPU1", 4)), gpu(1, links=up("GPU0", 3, down=1))], paths={("GPU0", "GPU1"): "NV3"})
    assert node_graph(pair).edges["GPU0", "GPU1"] == {"kind": "nvlink", "links": 3, "speed": 75e9}


def test_a_speed_that_is_not_known_of_every_link_is_left_out() -> None:
    pair = node([gpu(0, links=(*up("GPU1"), *up("GPU1", speed=UNKNOWN))), gpu(1, links=())])
    assert node_graph(pair).edges["GPU0", "GPU1"] == {"kind": "nvlink", "links": 2}


def test_xgmi_is_a_wire_of_its_own() -> None:
    pair = node([gpu(0), gpu(1)], paths={("GPU0", "GPU1"): "XGMI"})
    assert route(pair, "GPU0", "GPU1") == ("GPU0", "GPU1")
    assert node_graph(pair).edges["GPU0", "GPU1"] == {"kind": "xgmi", "links": 1}


def test_paths_that_show_more_links_than_a_gpu_has_are_those_of_switches() -> None:
    every = {(f"GPU{a}", f"GPU{b}"): "NV12" for a, b in combinations(range(8), 2)}
    recorded = node([gpu(n) for n in range(8)], paths=every)
    assert route(recorded, "GPU0", "GPU5") == ("GPU0", "NVSwitch", "GPU5")
    assert node_graph(recorded).edges["GPU0", "NVSwitch"] == {"kind": "nvlink", "links": 12}


def test_a_gpu_whose_links_are_unread_is_on_the_switch_that_its_paths_show() -> None:
    pair = node([gpu(0, links=up("NVSwitch", 18)), gpu(1)], paths={("GPU0", "GPU1"): "NV18"})
    assert route(pair, "GPU0", "GPU1") == ("GPU0", "NVSwitch", "GPU1")


def test_a_gpu_without_a_link_that_is_up_goes_over_the_host() -> None:
    gpus = [gpu(0, numa=0, links=up("NVSwitch", 18)), gpu(1, numa=1, links=up("NVSwitch", 0, down=18))]
    pair = node(gpus, paths={("GPU0", "GPU1"): "SYS"})
    assert route(pair, "GPU0", "GPU1") == ("GPU0", "NUMA 0", "NUMA 1", "GPU1")


def test_path_classes_alone_show_switches_and_host_bridges() -> None:
    paths = {
        ("GPU0", "GPU1"): "PIX",
        ("GPU0", "NIC0"): "PXB",
        ("GPU1", "NIC0"): "PXB",
        ("GPU2", "NIC0"): "PHB",
        ("GPU3", "NIC0"): "SYS",
    }
    gpus = [gpu(n, numa=n // 3) for n in range(4)]
    recorded = node(gpus, [nic("NIC0"), nic("NIC1")], paths=paths)
    assert route(recorded, "GPU0", "GPU1") == ("GPU0", "switch above GPU0", "GPU1")
    assert route(recorded, "GPU0", "NIC0") == ("GPU0", "switch above GPU0", "switches above GPU0", "NIC0")
    assert route(recorded, "GPU2", "NIC0") == ("GPU2", "host bridge above GPU0", "switches above GPU0", "NIC0")
    assert route(recorded, "GPU1", "GPU3")[-3:] == ("NUMA 0", "NUMA 1", "GPU3")
    assert route(recorded, "GPU3", "NIC1") == ()
    assert round(node_graph(recorded).edges["GPU0", "switch above GPU0"]["speed"] / 1e9, 1) == 31.5


def test_a_nic_that_tells_no_numa_node_is_on_that_of_a_gpu_nearer_than_sys() -> None:
    paths = {("GPU0", "NIC0"): "NODE", ("GPU1", "NIC0"): "SYS"}
    recorded = node([gpu(0, numa=0), gpu(1, numa=1)], [nic("NIC0")], paths=paths)
    assert route(recorded, "GPU0", "NIC0") == ("GPU0", "NUMA 0", "NIC0")
    assert route(recorded, "GPU1", "NIC0") == ("GPU1", "NUMA 1", "NUMA 0", "NIC0")


def test_what_is_sys_to_all_is_behind_the_interconnect() -> None:
    recorded = node([gpu(0, numa=0)], [nic("NIC0")], paths={("GPU0", "NIC0"): "SYS"})
    assert route(recorded, "GPU0", "NIC0") == ("GPU0", "NUMA 0", "interconnect", "NIC0")


def test_without_any_numa_node_path_classes_still_tell_what_is_shared() -> None:
    paths = {("GPU0", "GPU1"): "NODE", ("GPU2", "GPU3"): "PHB", ("GPU0", "GPU2"): "SYS"}
    recorded = node([gpu(n) for n in range(4)], paths=paths)
    assert route(recorded, "GPU0", "GPU1") == ("GPU0", "host bridges above GPU0", "GPU1")
    assert route(recorded, "GPU1", "GPU3") == (
        "GPU1",
        "host bridges above GPU0",
        "interconnect",
        "host bridge above GPU2",
        "GPU3",
    )


def test_a_device_of_no_known_place_or_name_has_no_route() -> None:
    alone = node([gpu(0), gpu(1)])
    assert route(alone, "GPU0", "GPU1") == ()
    assert route(alone, "GPU0", "GPU9") == ()


def test_four_numa_nodes_have_the_socket_that_they_tell() -> None:
    numa = [NumaNode(number=n, cpus=(n,), memory_bytes=UNKNOWN, socket=n // 2) for n in range(4)]
    recorded = node([gpu(n, numa=n) for n in range(4)], numa=numa, sockets=2)
    assert route(recorded, "GPU0", "GPU1") == ("GPU0", "NUMA 0", "socket 0", "NUMA 1", "GPU1")
    assert route(recorded, "GPU0", "GPU3") == ("GPU0", "NUMA 0", "socket 0", "socket 1", "NUMA 3", "GPU3")


@pytest.mark.parametrize(
    ("sockets", "between"),
    [(1, ("socket 0",)), (2, ("socket 0", "socket 1")), (4, ()), (UNKNOWN, ())],
)
def test_sockets_that_no_numa_node_tells_are_known_where_they_must_be(
    sockets: int | Unread, between: tuple[str, ...]
) -> None:
    numa = [NumaNode(number=n, cpus=(n,), memory_bytes=UNKNOWN) for n in (0, 8)]
    recorded = node([gpu(0, numa=0), gpu(1, numa=8)], numa=numa, sockets=sockets)
    assert route(recorded, "GPU0", "GPU1") == ("GPU0", "NUMA 0", *between, "NUMA 8", "GPU1")


def test_nvswitches_on_the_bus_are_parts_but_no_way(tmp_path: Path) -> None:
    tree = pci(f"{switch(0)}/0000:05:00.0", kind="nvswitch") | pci(f"{switch(0, port=2)}/0000:1b:00.0")
    root = write_tree(tmp_path, two_sockets() | tree)
    graph = node_graph(discover(root=root, gpus=NvmlSource(FakeNvml(cards(1)), root=root)))
    assert graph.nodes["NVSwitch 0000:05:00.0"] == {"kind": "nvswitch"}
    assert list(graph["NVSwitch 0000:05:00.0"]) == ["switch 0000:b0:11.0"]


def test_a_virtual_interface_is_no_part() -> None:
    bridge = replace(nic("docker0"), kind="virtual")
    assert "docker0" not in node_graph(node([gpu(0)], [bridge]))


def test_two_ports_of_one_adapter_share_its_place(tmp_path: Path) -> None:
    bus = read_pci(write_tree(tmp_path, pci(f"{switch(0)}/0000:40:00.0", kind="nic")))
    ports = node([], [nic("mlx4_0", at="0000:40:00.0"), nic("mlx4_0:2", at="0000:40:00.0")], bus=bus)
    assert route(ports, "mlx4_0", "mlx4_0:2") == ("mlx4_0", "switch 0000:b0:11.0", "mlx4_0:2")


def test_a_bus_read_without_places_leaves_the_paths_to_tell() -> None:
    bus = [PciDevice(address=at, kind="gpu", pcie=Pcie(width=16)) for at in ("a", "b")]
    listed = node([gpu(0, at="a"), gpu(1, at="b")], paths={("GPU0", "GPU1"): "PIX"}, bus=bus)
    assert route(listed, "GPU0", "GPU1") == ("GPU0", "switch above GPU0", "GPU1")


def test_importing_routes_does_not_import_networkx() -> None:
    code = "import sys, gpuwire_checks.topology.routes; sys.exit('networkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
