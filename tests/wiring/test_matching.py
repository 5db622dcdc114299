"""Which GPU here stands for which GPU of the baseline."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from faulty import with_gpu
from topologies import gpu_node
from wired import hgx_node

from gpuwire_checks.baseline.observed import observed_wiring
from gpuwire_checks.baseline.wiring import Wiring
from gpuwire_checks.topology.model import NodeTopology, PairPath, Unread
from gpuwire_checks.wiring.matching import match_gpus

CUBE_MESH = {
    "NV2": "0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7",
    "NV1": "0-1 0-2 1-3 2-6 3-7 4-5 4-6 5-7",
    "SYS": "rest",
}


def without(node: NodeTopology, *indices: int) -> NodeTopology:
    """The node after these GPUs fell off, the others numbered anew as a driver does."""
    left = [gpu for gpu in node.gpus if gpu.index not in indices]
    number = {gpu.name: at for at, gpu in enumerate(left)}
    return replace(
        node,
        gpus=tuple(replace(gpu, index=number[gpu.name]) for gpu in left),
        paths=tuple(
            replace(pair, a=f"GPU{number[pair.a]}", b=f"GPU{number[pair.b]}")
            for pair in node.paths
            if pair.a in number and pair.b in number
        ),
    )


def wired(wiring: Wiring, order: tuple[int, ...] | None = None) -> NodeTopology:
    """A node wired so, its GPUs in another order, and without PCI addresses."""
    order = order or tuple(range(wiring.gpus))
    node = gpu_node(gpus=wiring.gpus)
    paths = []
    for a, b in combinations(range(wiring.gpus), 2):
        first, second = sorted((order[a], order[b]))
        paths.append(PairPath(a=f"GPU{a}", b=f"GPU{b}", path=wiring.path_of[first, second]))
    gpus = tuple(replace(gpu, pci_address=Unread.UNKNOWN) for gpu in node.gpus)
    return replace(node, gpus=gpus, paths=tuple(paths))


def numbers(wiring: Wiring, node: NodeTopology) -> dict[int, int]:
    return {number: gpu.index for number, gpu in match_gpus(wiring, node).here.items()}


def test_a_node_that_is_whole_is_matched_by_number() -> None:
    node = gpu_node()
    matching = match_gpus(observed_wiring(node), node)
    assert {number: gpu.index for number, gpu in matching.here.items()} == {n: n for n in range(8)}
    assert (matching.gone, matching.extra, matching.named) == ((), (), True)


def test_a_gpu_that_is_gone_is_named_by_its_address_and_not_by_the_last_number() -> None:
    node = gpu_node()
    matching = match_gpus(observed_wiring(node), without(node, 2))
    assert (matching.gone, matching.named) == ((2,), True)
    assert matching.here[3].index == 2
    assert matching.here[3].pci_address == "0000:04:00.0"


def test_without_addresses_only_the_number_of_gpus_that_are_gone_is_known() -> None:
    node = gpu_node()
    wiring = observed_wiring(node).model_copy(update={"pci_addresses": None})
    matching = match_gpus(wiring, without(node, 2))
    assert (len(matching.gone), matching.named) == (1, False)


def test_addresses_of_another_server_model_name_nothing() -> None:
    node = gpu_node()
    moved = replace(
        node, gpus=tuple(replace(gpu, pci_address=f"0000:{0xA0 + gpu.index:02x}:00.0") for gpu in node.gpus)
    )
    matching = match_gpus(observed_wiring(node), moved)
    assert (matching.gone, len(matching.here)) == ((), 8)


def test_gpus_in_another_order_are_matched_by_their_wires() -> None:
    wiring = Wiring(gpus=8, pairs=CUBE_MESH)
    order = (5, 2, 7, 0, 4, 6, 1, 3)
    found = match_gpus(wiring, wired(wiring, order))
    node = wired(wiring, order)
    for a, b in combinations(range(8), 2):
        here = node.path(found.here[a].name, found.here[b].name)
        assert here == wiring.path_of[a, b]


def test_crossed_bridges_are_another_order_of_the_same_wiring() -> None:
    """A reference of bridges says nothing of the other pairs, which depend on the slots."""
    node = wired(Wiring(gpus=4, pairs={"NV4": "0-2 1-3", "PHB": "0-1 2-3", "NODE": "rest"}))
    matching = match_gpus(Wiring(gpus=4, pairs={"NV4": "0-1 2-3"}), node)
    joined = [{matching.here[a].index, matching.here[b].index} for a, b in ((0, 1), (2, 3))]
    assert sorted(map(sorted, joined)) == [[0, 2], [1, 3]]


def test_a_gpu_that_is_gone_is_found_by_the_wires_of_the_others() -> None:
    wiring = Wiring(gpus=4, pairs={"NV4": "0-1", "NV2": "2-3", "SYS": "rest"})
    matching = match_gpus(wiring, without(wired(wiring), 0))
    assert matching.named
    assert matching.gone in ((0,), (1,))
    assert matching.here[2].index in (1, 2)


def test_a_lost_link_does_not_renumber_a_node() -> None:
    wiring = Wiring(gpus=8, pairs=CUBE_MESH)
    node = wired(wiring)
    lost = tuple(replace(pair, path="NV1") if (pair.a, pair.b) == ("GPU0", "GPU3") else pair for pair in node.paths)
    assert numbers(wiring, replace(node, paths=lost)) == {n: n for n in range(8)}


def test_a_gpu_more_than_the_baseline_has_is_extra() -> None:
    wiring = observed_wiring(without(gpu_node(), 7))
    matching = match_gpus(wiring, gpu_node())
    assert [gpu.index for gpu in matching.extra] == [7]


def test_sixteen_gpus_alike_with_one_odd_pair_are_matched_at_once() -> None:
    """The search for another order must not go through all of them."""
    wiring = Wiring(gpus=16, pairs={"NV18": "all"})
    node = wired(wiring)
    paths = (replace(node.paths[0], path="NV17"), *node.paths[1:])
    assert numbers(wiring, replace(node, paths=paths)) == {n: n for n in range(16)}


def test_a_gpu_that_does_not_tell_its_address_is_the_one_left_and_no_other() -> None:
    node, wiring = hgx_node(), observed_wiring(hgx_node())
    silent = with_gpu(3, pci_address=Unread.NO_PERMISSION)(node)
    assert numbers(wiring, silent) == {n: n for n in range(8)}
    two = with_gpu(5, pci_address=Unread.UNKNOWN)(silent)
    assert numbers(wiring, two) == {n: n for n in range(8)}


def test_parts_of_one_board_are_told_by_their_numbers() -> None:
    """In AMD's CPX mode eight GPUs have one PCI address."""
    node = hgx_node()
    parts = replace(node, gpus=tuple(replace(gpu, pci_address="0000:0c:00.0") for gpu in node.gpus))
    wiring = observed_wiring(parts)
    assert numbers(wiring, parts) == {n: n for n in range(8)}
    assert match_gpus(wiring, parts).extra == ()
