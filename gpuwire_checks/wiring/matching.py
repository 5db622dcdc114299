"""Which GPU here is which GPU of the baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuwire_checks.baseline.observed import gpu_pair_paths
from gpuwire_checks.baseline.wiring import GpuPair, Wiring
from gpuwire_checks.topology.model import Gpu, NodeTopology, Unread

if TYPE_CHECKING:
    import networkx as nx

_MOST_MATCHED = 16
"""GPUs, up to which another order of the same wiring is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """The baseline's GPU numbers and the GPUs here.

    Attributes:
        here: the GPU that stands for each number that is here.
        gone: the numbers that are not.
        named: whether ``gone`` is known by address or wiring; otherwise only how many are gone is known.
        extra: GPUs here that the baseline does not have.
    """

    here: Mapping[int, Gpu]
    gone: tuple[int, ...]
    named: bool
    extra: tuple[Gpu, ...]


def match_gpus(expected: Wiring, topology: NodeTopology) -> Matching:
    """By PCI address where the baseline's addresses are this node's; by number where the wiring fits; by the wiring."""
    by_address = _by_address(expected, topology)
    if by_address is not None:
        return _matching(expected, topology, by_address, named=True)
    in_order = dict(enumerate(topology.gpus[: expected.gpus]))
    if not _misfits(expected, topology, in_order):
        return _matching(expected, topology, in_order, named=len(in_order) == expected.gpus)
    by_wiring = _by_wiring(expected, topology)
    if by_wiring is not None:
        return _matching(expected, topology, by_wiring, named=True)
    return _matching(expected, topology, in_order, named=len(in_order) == expected.gpus)


def _matching(expected: Wiring, topology: NodeTopology, here: Mapping[int, Gpu], *, named: bool) -> Matching:
    taken = {gpu.index for gpu in here.values()}
    return Matching(
        here=here,
        gone=tuple(number for number in range(expected.gpus) if number not in here),
        named=named,
        extra=tuple(gpu for gpu in topology.gpus if gpu.index not in taken),
    )


def _by_address(expected: Wiring, topology: NodeTopology) -> dict[int, Gpu] | None:
    """None where fewer than half the addresses are here, as in another model of server, or where boards share one.

    GPUs that do not tell their address stand for the numbers that are left, where they are as many.
    """
    addresses = {gpu.pci_address: gpu for gpu in topology.gpus if not isinstance(gpu.pci_address, Unread)}
    silent = [gpu for gpu in topology.gpus if isinstance(gpu.pci_address, Unread)]
    if len(addresses) + len(silent) < len(topology.gpus):
        return None
    known = expected.pci_addresses or ()
    found = {number: addresses[address] for number, address in enumerate(known) if address in addresses}
    if not found or 2 * len(found) < expected.gpus:
        return None
    left = [number for number in range(expected.gpus) if number not in found]
    return found | (dict(zip(left, silent, strict=True)) if len(left) == len(silent) else {})


def _misfits(expected: Wiring, topology: NodeTopology, here: Mapping[int, Gpu]) -> bool:
    """Whether a pair's path is not the baseline's when GPUs stand for these numbers."""
    actual, number = gpu_pair_paths(topology), {gpu.index: at for at, gpu in here.items()}
    return any(
        path != expected.path_of.get(_ordered(number[a], number[b]), path)
        for (a, b), path in actual.items()
        if a in number and b in number
    )


def _by_wiring(expected: Wiring, topology: NodeTopology) -> dict[int, Gpu] | None:
    """An order of the GPUs here in which every pair has the baseline's path; None when there is none.

    Only where the paths here are among the baseline's, each as often or less: a fault is no other order. A pair that
    the baseline leaves out may have any path that it does not state of others.
    """
    wanted = Counter(expected.path_of.values())
    is_whole = len(expected.path_of) == expected.gpus * (expected.gpus - 1) // 2
    actual = {pair: path for pair, path in gpu_pair_paths(topology).items() if is_whole or path in wanted}
    if len(topology.gpus) > min(expected.gpus, _MOST_MATCHED) or Counter(actual.values()) - wanted:
        return None
    if is_whole and len(wanted) < 2:
        return None
    import networkx as nx  # noqa: PLC0415 - 0.2 s that other nodes need not wait for

    matcher = nx.algorithms.isomorphism.GraphMatcher(
        _graph(range(expected.gpus), expected.path_of),
        _graph([gpu.index for gpu in topology.gpus], actual),
        edge_match=lambda a, b: a["path"] == b["path"],
    )
    order: Mapping[int, int] | None = next(matcher.subgraph_isomorphisms_iter(), None)
    if order is None:
        return None
    by_index = {gpu.index: gpu for gpu in topology.gpus}
    return {number: by_index[index] for number, index in order.items()}


def _graph(numbers: Iterable[int], paths: Mapping[GpuPair, str]) -> nx.Graph[int]:
    import networkx as nx  # noqa: PLC0415

    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(numbers)
    graph.add_edges_from((a, b, {"path": path}) for (a, b), path in paths.items())
    return graph


def _ordered(a: int, b: int) -> GpuPair:
    return (a, b) if a < b else (b, a)
