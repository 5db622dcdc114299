"""The shipped references: each is a node that can be, under the name that such a node gets, with figures in reach."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from reference_nodes import node_of

from gpuwire_checks.baseline import store
from gpuwire_checks.baseline.finding import Match, find_baseline
from gpuwire_checks.baseline.schema import COPIES, BaselineFile, FloorEntry
from gpuwire_checks.baseline.store import baseline_files
from gpuwire_checks.baseline.wiring import Wiring
from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.topology.fingerprint import facts, fingerprint
from gpuwire_checks.topology.model import Link, NodeTopology, PairPath, Unread
from gpuwire_checks.topology.sku import sku
from gpuwire_checks.yamlfile import load_yaml

SHIPPED = Path(__file__).resolve().parents[2] / "baselines"
FILES = {path.stem: path for path in baseline_files(SHIPPED)}
REFERENCES = {name: load_yaml(path, BaselineFile, error=BaselineError).value for name, path in FILES.items()}
KNOWN = {path: store.load_baseline(path) for path in FILES.values()}
LINKED = [name for name, stated in REFERENCES.items() if stated.wiring and stated.wiring.links]
FIGURES = [(name, floor) for name, stated in REFERENCES.items() for floor in stated.floors]

PCIE_LANE = {3: 15.75e9 / 16, 4: 31.5e9 / 16, 5: 63.0e9 / 16}
"""Payload bytes per second of a lane and direction (PCI Express Base Specification: 8, 16, 32 GT/s, 128b/130b)."""
FASTEST_SLOT = 16 * PCIE_LANE[5]
NVLS_FROM = 4
"""The NVLink whose NVSwitch can add up (NVIDIA: NVLink SHARP, third-generation NVSwitch, Hopper)."""
NO_SLIP = 1 / 3
"""Share of what the wires carry, below which a large transfer is rather a slip of a unit; the least here is 0.44."""


def wiring_of(name: str) -> Wiring:
    wiring = REFERENCES[name].wiring
    assert wiring is not None
    return wiring


def healthy(name: str) -> NodeTopology:
    return node_of(wiring_of(name), name)


def figure_id(figure: tuple[str, FloorEntry]) -> str:
    name, floor = figure
    return f"{name}-{floor.figure}-{floor.kind}-{floor.value / 1e9:g}"


def payload(wiring: Wiring, world_size: int) -> float:
    """Bytes per second in one direction that the wires of one GPU carry when so many GPUs work together.

    Through a switch every link of a GPU serves any peer; a direct link serves its one peer. Where the links do not
    connect so many GPUs, some hop is PCIe, and that of a ring bounds it.
    """
    links = wiring.links
    if links is None or links.speed is None or len(joined(wiring)) < world_size:
        return slot_payload(wiring)
    counts = sorted((links_of(path) for pair, path in wiring.path_of.items() if 0 in pair), reverse=True)
    switched = sum(counts) > links.of(0)
    return links.speed * (links.of(0) if switched else sum(counts[: world_size - 1]))


def joined(wiring: Wiring) -> set[int]:
    """GPU 0 and those that links connect it to, over others or not."""
    found = {0}
    for _ in range(wiring.gpus):
        found |= {gpu for pair, path in wiring.path_of.items() if links_of(path) and found & {*pair} for gpu in pair}
    return found


def slot_payload(wiring: Wiring) -> float:
    """Bytes per second in one direction of a GPU's slot; of the fastest that there is where it is left out."""
    slot = wiring.pcie_of(0)
    return PCIE_LANE[slot.generation] * slot.width if slot else FASTEST_SLOT


def links_of(path: str) -> int:
    return PairPath(a="", b="", path=path).links


def ceiling(wiring: Wiring, floor: FloorEntry) -> float:
    """The most that the wires allow, in bytes a second.

    A collective's busbw is at most what one GPU's wires carry: it is defined so (NVIDIA/nccl-tests doc/PERFORMANCE.md).
    With NVLS an NVSwitch adds up the arrays: a GPU sends S and receives S where a ring moves 2(n-1)/n S each way, so
    that busbw of all_reduce, and of no other collective, may reach 2(n-1)/n times that (NVIDIA/nccl issue 1374).
    """
    if floor.figure in ("host_to_device", "device_to_host"):
        return slot_payload(wiring)
    world_size = floor.world_size or 2
    carried = payload(wiring, world_size)
    if floor.figure == "all_reduce" and floor.condition == "NVLS":
        return carried * COLLECTIVES["all_reduce"].busbw_factor(world_size)
    return carried


def without_a_link(node: NodeTopology) -> NodeTopology:
    """The node with the first link of GPU 0 not even listed, and one link less on every path that ran over it."""
    first, remote = node.gpus[0], first_link(node).remote
    assert not isinstance(first.links, Unread)
    gpus = (replace(first, links=first.links[1:]), *node.gpus[1:])
    ends = {pair: {pair.a, pair.b} for pair in node.paths}
    lost = [pair for pair in node.paths if "GPU0" in ends[pair] and (remote == "NVSwitch" or remote in ends[pair])]
    return replace(node, gpus=gpus, paths=tuple(one_less(pair) if pair in lost else pair for pair in node.paths))


def first_link(node: NodeTopology) -> Link:
    links = node.gpus[0].links
    assert not isinstance(links, Unread)
    return links[0]


def one_less(pair: PairPath) -> PairPath:
    kind = pair.path.rstrip("0123456789")
    left = pair.links - 1
    return replace(pair, path=(f"{kind}{left}" if left else "SYS") if pair.links else pair.path)


@pytest.fixture
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty-eight files are read once, not once a test."""
    monkeypatch.setattr(store, "load_baseline", KNOWN.__getitem__)


def match(node: NodeTopology) -> Match:
    prints = fingerprint(node)
    return find_baseline([SHIPPED], sku=prints.sku, exact=prints.exact, facts=facts(node), expect=None)


def test_what_clouds_sell_is_there() -> None:
    assert {stated.topology.facts["gpu_model"] for stated in REFERENCES.values()} >= {
        *("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB", "Tesla V100-SXM3-32GB", "Tesla T4"),
        *("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe"),
        *("NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H100 PCIe", "NVIDIA H200", "NVIDIA B200", "NVIDIA GB200"),
        *("NVIDIA A10", "NVIDIA A10G", "NVIDIA L4", "NVIDIA L40S", "NVIDIA RTX A6000", "NVIDIA GeForce RTX 3090"),
        *("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090"),
        *("AMD Instinct MI250X", "AMD Instinct MI300X", "AMD Instinct MI355X"),
    }


@pytest.mark.parametrize("name", REFERENCES)
def test_is_named_as_such_a_node_is(name: str) -> None:
    stated = REFERENCES[name]
    assert stated.name == stated.topology.sku == name == sku(healthy(name))
    assert FILES[name].parent.name == stated.topology.facts["gpu_vendor"]


@pytest.mark.parametrize("name", REFERENCES)
def test_is_a_reference_and_states_only_facts_of_such_a_node(name: str) -> None:
    stated, actual = REFERENCES[name], facts(healthy(name))
    assert stated.recorded is None
    assert stated.topology.exact is None
    assert stated.topology.facts.items() <= actual.items()
    assert {"gpu_vendor", "gpu_model", "gpus"} <= stated.topology.facts.keys()
    assert stated.topology.facts["gpu_model"] == wiring_of(name).model


@pytest.mark.parametrize("name", REFERENCES)
def test_says_where_each_of_its_keys_comes_from(name: str) -> None:
    assert set(REFERENCES[name].sources) == wiring_of(name).model_fields_set - {"gpus"}


@pytest.mark.parametrize("name", REFERENCES)
def test_leaves_out_what_a_chassis_decides(name: str) -> None:
    stated = wiring_of(name).model_fields_set
    assert not stated & {"pci_addresses", "numa_nodes", "nics", "nic_paths", "persistence"}


@pytest.mark.parametrize("name", REFERENCES)
def test_says_why_the_slot_is_left_out(name: str) -> None:
    if wiring_of(name).pcie is None:
        assert any(
            note.startswith("PCIe is left out: ") or " PCIe is left out: " in note for note in REFERENCES[name].notes
        )


@pytest.mark.parametrize("name", LINKED)
def test_links_of_a_gpu_add_up_to_the_vendor_s_figure(name: str) -> None:
    """``450 GB/s a direction`` in its source is 18 links of 25 GB/s; without a speed, the figure is there."""
    links, source = wiring_of(name).links, REFERENCES[name].sources["links"]
    published = {float(figure) for figure in re.findall(r"([\d.]+) GB/s a direction", source)}
    assert published, source
    assert links is not None
    if links.speed is not None:
        counted = {links.of(gpu) * links.speed / 1e9 for gpu in range(wiring_of(name).gpus)}
        assert sorted(published) == pytest.approx(sorted(counted), rel=1e-4)


@pytest.mark.parametrize("name", [name for name in LINKED if wiring_of(name).pairs])
def test_links_of_a_gpu_are_those_of_its_pairs_or_go_to_a_switch(name: str) -> None:
    wiring = wiring_of(name)
    assert wiring.links is not None
    for gpu in range(wiring.gpus):
        own = [links_of(path) for pair, path in wiring.path_of.items() if gpu in pair]
        assert sum(own) == wiring.links.of(gpu) or set(own) == {wiring.links.of(gpu)}


@pytest.mark.parametrize("name", LINKED)
def test_a_fabric_state_is_that_of_an_nvswitch_since_hopper(name: str) -> None:
    wiring = wiring_of(name)
    assert wiring.links is not None
    switched = wiring.links.kind == "nvlink" and sum(map(links_of, wiring.path_of.values())) > sum(
        wiring.links.of(gpu) / 2 for gpu in range(wiring.gpus)
    )
    assert (wiring.fabric is not None) == (switched and (wiring.links.version or 0) >= NVLS_FROM)


@pytest.mark.parametrize("figure", FIGURES, ids=map(figure_id, FIGURES))
def test_a_figure_is_one_that_the_wires_can_carry(figure: tuple[str, FloorEntry]) -> None:
    name, floor = figure
    assert floor.value <= ceiling(wiring_of(name), floor)


@pytest.mark.parametrize("figure", FIGURES, ids=map(figure_id, FIGURES))
def test_a_figure_is_no_slip_of_a_unit(figure: tuple[str, FloorEntry]) -> None:
    name, floor = figure
    assert floor.value >= NO_SLIP * ceiling(wiring_of(name), floor.model_copy(update={"condition": None}))


@pytest.mark.parametrize("figure", FIGURES, ids=map(figure_id, FIGURES))
def test_a_figure_is_of_this_node(figure: tuple[str, FloorEntry]) -> None:
    """Not of two nodes, nor of a part of one size and the whole of another; a measured one, of a real world size."""
    name, floor = figure
    assert (floor.world_size is None) == (floor.figure in COPIES)
    assert 2 <= (floor.world_size or 2) <= wiring_of(name).gpus


@pytest.mark.parametrize("name", REFERENCES)
def test_a_figure_is_given_once(name: str) -> None:
    floors = REFERENCES[name].floors
    keys = {(floor.figure, floor.size, floor.world_size, floor.kind, floor.condition) for floor in floors}
    assert len(keys) == len(floors)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("h100-nvl-2x-nvlink", {"figure": "device_to_device", "value": "335 GB/s"}),
        ("h100-80gb-hbm3-8x-nv18", {"figure": "all_reduce", "world_size": 8, "value": "460 GB/s"}),
        ("h100-80gb-hbm3-8x-nv18", {"figure": "all_reduce", "world_size": 8, "value": "800 GB/s", "condition": "NVLS"}),
        ("h200-8x-nv18", {"figure": "broadcast", "world_size": 8, "value": "480 GB/s", "condition": "NVLS"}),
        ("a100-80gb-pcie-4x-nvbridge", {"figure": "all_reduce", "world_size": 4, "value": "193 GB/s"}),
        ("mi300x-8x", {"figure": "all_reduce", "world_size": 2, "value": "312 GB/s"}),
        ("v100-sxm2-32gb-8x-nvmesh", {"figure": "host_to_device", "value": "21 GB/s"}),
    ],
)
def test_the_ceiling_tells_a_figure_that_cannot_be(name: str, wrong: dict[str, object]) -> None:
    floor = FloorEntry.model_validate({"kind": "floor", "source": "nobody", **wrong})
    assert floor.value > ceiling(wiring_of(name), floor)


def test_a_figure_in_mb_that_should_be_in_gb_is_told() -> None:
    slipped = FloorEntry.model_validate({"figure": "device_to_device", "kind": "floor", "value": 335e6, "source": "x"})
    assert slipped.value < NO_SLIP * ceiling(wiring_of("h200-8x-nv18"), slipped)


@pytest.mark.usefixtures("read_once")
@pytest.mark.parametrize("name", REFERENCES)
def test_is_found_by_such_a_node(name: str) -> None:
    found = match(healthy(name))
    assert found.baseline is KNOWN[FILES[name]]
    assert found.difference is None


@pytest.mark.usefixtures("read_once")
@pytest.mark.parametrize("name", LINKED)
def test_is_found_by_such_a_node_that_lost_a_link(name: str) -> None:
    node = healthy(name)
    lost = without_a_link(node)
    assert fingerprint(lost).exact != fingerprint(node).exact
    found = match(lost)
    assert found.baseline is not None
    assert found.baseline.name == name
    if "nvlinks" in REFERENCES[name].topology.facts:
        assert found.difference is not None
        assert found.difference.startswith("nvlinks is NV")


def test_a_node_of_another_board_form_finds_another_reference() -> None:
    four, eight = (match(healthy(name)).baseline for name in ("h100-80gb-hbm3-4x-nv6", "h100-80gb-hbm3-8x-nv18"))
    bridged, switched = (
        match(healthy(name)).baseline for name in ("a100-80gb-pcie-2x-nvlink", "a100-sxm4-80gb-8x-nv12")
    )
    assert len({baseline.name for baseline in (four, eight, bridged, switched) if baseline}) == 4
