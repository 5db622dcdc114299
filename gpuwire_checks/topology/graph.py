"""A node as a labelled graph, and a hash of it that no renumbering changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256

from gpuwire_checks.topology.model import Gpu, Nic, NodeTopology, Unread

_FORMAT = "gpuwire-graph-1"
"""Part of every hash: a change of what is hashed changes it, so that an old hash cannot match by chance."""
_Vertex = tuple[str, str | int]
_Label = tuple[str, ...]


def graph_hash(topology: NodeTopology) -> str:
    """64 hex digits over processors, GPUs, NICs, NUMA nodes and the paths between them.

    Left out is what differs between boots of one node: names, numbers, versions, the memory total, interfaces without
    a device, NUMA nodes without CPUs (the memory of a Grace GPU comes and goes with its driver).
    """
    vertices, relations = _vertices(topology), _relations(topology)
    order = list(vertices)
    between = [[(vertices[a], vertices[b], relations.get(frozenset((a, b)), "")) for b in order] for a in order]
    return sha256(repr((_FORMAT, _host(topology), _canonical(between))).encode()).hexdigest()


def _host(topology: NodeTopology) -> _Label:
    cpu = topology.cpu
    host: tuple[object, ...] = (cpu,) if isinstance(cpu, Unread) else (cpu.model, cpu.sockets, cpu.cores)
    return _label("host", topology.virtualised, *host)


def _vertices(topology: NodeTopology) -> dict[_Vertex, _Label]:
    vertices: dict[_Vertex, _Label] = {}
    for gpu in topology.gpus:
        form = (gpu.model, gpu.max_pcie_generation, gpu.max_pcie_width)
        vertices["device", gpu.name] = _label("gpu", gpu.vendor, *form)
    for nic in _physical(topology):
        vertices["device", nic.name] = _label("nic", nic.kind, nic.rate_bits, nic.up)
    for device in _devices(topology):
        if not isinstance(device.numa_node, Unread):
            vertices["numa", device.numa_node] = _label("numa")
    for node in topology.numa:
        if node.cpus:
            vertices["numa", node.number] = _label("numa")
    return vertices


def _relations(topology: NodeTopology) -> dict[frozenset[_Vertex], str]:
    relations: dict[frozenset[_Vertex], str] = {}
    for pair in topology.paths:
        relations[frozenset({("device", pair.a), ("device", pair.b)})] = pair.path
    for device in _devices(topology):
        if not isinstance(device.numa_node, Unread):
            relations[frozenset({("device", device.name), ("numa", device.numa_node)})] = "in"
    return relations


def _physical(topology: NodeTopology) -> tuple[Nic, ...]:
    return tuple(nic for nic in topology.nics if nic.kind != "virtual")


def _devices(topology: NodeTopology) -> tuple[Gpu | Nic, ...]:
    return (*topology.gpus, *_physical(topology))


def _label(*parts: object) -> _Label:
    """Parts as words; the three ways of not being read are one, as they depend on who reads."""
    return tuple("?" if isinstance(part, Unread) else str(part) for part in parts)


def _canonical(between: Sequence[Sequence[object]]) -> list[list[tuple[str, int]]]:
    """What every pair of vertices sees, round by round, in an order that does not depend on the numbering.

    Two-dimensional Weisfeiler-Leman. The one-dimensional form (networkx.weisfeiler_lehman_graph_hash) cannot tell two
    crossed cables of a V100 cube mesh from straight ones, since each GPU keeps the number of its wires; pairs can.

    Source: Cai, Fuerer, Immerman, "An optimal lower bound on the number of variables for graph identification" (1992).
    """
    colours, seen = _ranked([[repr(cell) for cell in row] for row in between])
    rounds = [seen]
    while len(rounds) == 1 or len(rounds[-1]) > len(rounds[-2]):
        colours, seen = _ranked(_refined(colours))
        rounds.append(seen)
    return rounds


def _refined(colours: Sequence[Sequence[int]]) -> list[list[str]]:
    """Each pair's colour, and the colours of the two steps that lead from one to the other over each third vertex."""
    size = len(colours)
    columns = [[row[v] for row in colours] for v in range(size)]
    return [
        [
            f"{colours[u][v]}:{sorted(size * size * a + b for a, b in zip(colours[u], columns[v], strict=True))}"
            for v in range(size)
        ]
        for u in range(size)
    ]


def _ranked(cells: Sequence[Sequence[str]]) -> tuple[list[list[int]], list[tuple[str, int]]]:
    """Cells as their rank among the different ones, and those with their number."""
    seen = sorted(Counter(cell for row in cells for cell in row).items())
    ranks: Mapping[str, int] = {cell: rank for rank, (cell, _) in enumerate(seen)}
    return [[ranks[cell] for cell in row] for row in cells], seen
