"""A node as a labelled graph, and a hash of it that no renumbering changes."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from operator import add

from gpuwire_checks.topology.model import Gpu, Link, Nic, NodeTopology, Unread

_FORMAT = "gpuwire-graph-3"
"""Part of every hash: a change of what is hashed changes it, so that an old hash cannot match by chance."""
_Vertex = tuple[str, str | int]
_Label = tuple[str, ...]


def graph_hash(topology: NodeTopology) -> str:
    """64 hex digits over processors, GPUs and their links, NICs, NUMA nodes and the paths between them.

    Left out is what differs between boots of one node: names, numbers, versions, states, counters, the generation that
    a PCIe link has now, the memory total, interfaces without a device, NUMA nodes without CPUs (the memory of a Grace
    GPU comes and goes with its driver).
    """
    vertices, relations = _vertices(topology), _relations(topology)
    labels, paths = _without_twins(
        list(vertices.values()), [[relations.get(frozenset((a, b)), "") for b in vertices] for a in vertices]
    )
    named = repr((_FORMAT, _host(topology))).encode()
    return sha256(named + b"".join(_canonical(_told_apart(labels, paths), paths))).hexdigest()


def _without_twins(labels: Sequence[_Label], paths: Sequence[Sequence[str]]) -> tuple[list[_Label], list[list[str]]]:
    """One vertex for all that are alike and joined alike to every other, with their number in its label.

    Such are the many functions that one NIC may show; time grows with the third power of the vertices.
    """
    alike: dict[tuple[_Label, tuple[str, ...]], list[int]] = {}
    for at, (label, row) in enumerate(zip(labels, paths, strict=True)):
        alike.setdefault((label, tuple(row)), []).append(at)
    kept = [group[0] for group in alike.values()]
    named = [(*labels[group[0]], f"x{len(group)}") for group in alike.values()]
    return named, [[paths[a][b] for b in kept] for a in kept]


def _host(topology: NodeTopology) -> _Label:
    cpu = topology.cpu
    host: tuple[object, ...] = (cpu,) if isinstance(cpu, Unread) else (cpu.model, cpu.sockets, cpu.cores)
    return _label("host", topology.virtualised, *host)


def _vertices(topology: NodeTopology) -> dict[_Vertex, _Label]:
    vertices: dict[_Vertex, _Label] = {}
    for gpu in topology.gpus:
        width = gpu.max_pcie_width if isinstance(gpu.pcie_width, Unread) else gpu.pcie_width
        form = (gpu.model, gpu.max_pcie_generation, width)
        vertices["device", gpu.name] = _label("gpu", gpu.vendor, *form, _links(gpu))
    for nic in _physical(topology):
        pcie = nic.pcie
        width = pcie.max_width if isinstance(pcie.width, Unread) else pcie.width
        vertices["device", nic.name] = _label("nic", nic.kind, nic.rate_bits, nic.up, pcie.max_generation, width)
    for device in _devices(topology):
        if not isinstance(device.numa_node, Unread):
            vertices["numa", device.numa_node] = _label("numa")
    for node in topology.numa:
        if node.cpus:
            vertices["numa", node.number] = _label("numa")
    return vertices


def _relations(topology: NodeTopology) -> dict[frozenset[_Vertex], str]:
    relations: dict[frozenset[_Vertex], str] = {}
    wires = _wires(topology)
    for pair in topology.paths:
        between: frozenset[_Vertex] = frozenset({("device", pair.a), ("device", pair.b)})
        relations[between] = " ".join([pair.path, *wires.pop(between, ())])
    for between, ends in wires.items():
        relations[between] = " ".join(ends)
    for device in _devices(topology):
        if not isinstance(device.numa_node, Unread):
            relations[frozenset({("device", device.name), ("numa", device.numa_node)})] = "in"
    return relations


def _links(gpu: Gpu) -> str | Unread:
    """Links with their number by what they are; of one that is down, no more than that."""
    return gpu.links if isinstance(gpu.links, Unread) else _counted(gpu.links)


def _wires(topology: NodeTopology) -> dict[frozenset[_Vertex], list[str]]:
    """What the links say that join two GPUs, seen from both ends."""
    names = {gpu.name for gpu in topology.gpus}
    wires: dict[frozenset[_Vertex], list[str]] = {}
    for gpu in topology.gpus:
        links: dict[str, list[Link]] = {}
        for link in () if isinstance(gpu.links, Unread) else gpu.links:
            if link.up is True and link.remote in names - {gpu.name}:
                links.setdefault(str(link.remote), []).append(link)
        for remote, found in links.items():
            wires.setdefault(frozenset({("device", gpu.name), ("device", remote)}), []).append(_counted(found))
    return {between: sorted(ends) for between, ends in wires.items()}


def _counted(links: Sequence[Link]) -> str:
    counts = Counter(map(_link, links))
    return str(sorted(counts.items()))


def _link(link: Link) -> _Label:
    if link.up is not True:
        return _label(link.kind, link.up)
    remote = link.remote
    end = "GPU" if not isinstance(remote, Unread) and remote.startswith("GPU") else remote
    known = end if end in ("GPU", "NVSwitch", "CPU") or isinstance(end, Unread) else "other"
    return _label(link.kind, link.up, *_speed(link), known)


def _speed(link: Link) -> tuple[str | Unread, int | Unread]:
    """In GB/s with three digits: drivers differ in the fourth."""
    speed = link.speed_bytes
    return speed if isinstance(speed, Unread) else f"{speed / 1e9:.3g}", link.version


def _physical(topology: NodeTopology) -> tuple[Nic, ...]:
    return tuple(nic for nic in topology.nics if nic.kind != "virtual")


def _devices(topology: NodeTopology) -> tuple[Gpu | Nic, ...]:
    return (*topology.gpus, *_physical(topology))


def _label(*parts: object) -> _Label:
    """Parts as words; the three ways of not being read are one, as they depend on who reads."""
    return tuple("?" if isinstance(part, Unread) else str(part) for part in parts)


def _told_apart(labels: Sequence[_Label], paths: Sequence[Sequence[str]]) -> list[bytes]:
    """The name of each vertex by what it is and what it is joined to, at any number of steps.

    One-dimensional Weisfeiler-Leman: cheap, and where no two vertices are alike it tells the whole graph.
    """
    names = [sha256(repr(label).encode()).digest() for label in labels]
    while True:
        seen = [sorted(zip(row, names, strict=True)) for row in paths]
        finer = [sha256(repr(pair).encode()).digest() for pair in zip(names, seen, strict=True)]
        if len(set(finer)) == len(set(names)):
            return names
        names = finer


def _canonical(names: Sequence[bytes], paths: Sequence[Sequence[str]]) -> Iterator[bytes]:
    """What every pair of vertices sees, round by round, in an order that does not depend on the numbering.

    Two-dimensional Weisfeiler-Leman. The one-dimensional form (networkx.weisfeiler_lehman_graph_hash) cannot tell two
    crossed cables of a V100 cube mesh from straight ones, since each GPU keeps the number of its wires; pairs can.

    Source: Cai, Fuerer, Immerman, "An optimal lower bound on the number of variables for graph identification" (1992).
    """
    cells = [
        [sha256(repr((names[a], names[b], path, a == b)).encode()).digest() for b, path in enumerate(row)]
        for a, row in enumerate(paths)
    ]
    different = 0
    while True:
        colours, seen = _ranked(cells)
        yield b"".join(cell + number.to_bytes(8, "little") for cell, number in seen)
        if len(seen) in (different, len(names) ** 2):
            return
        different, cells = len(seen), _refined(colours)


def _refined(colours: Sequence[Sequence[int]]) -> list[list[bytes]]:
    """Each pair's colour, and the colours of the two steps that lead from one to the other over each third vertex."""
    # Two colours in one number, and no generator: this is where the time goes.
    size = len(colours) ** 2
    first = [[size * colour for colour in row] for row in colours]
    second = list(zip(*colours, strict=True))
    return [
        [_bytes([colour, *sorted(map(add, steps, column))]) for colour, column in zip(row, second, strict=True)]
        for row, steps in zip(colours, first, strict=True)
    ]


def _bytes(numbers: list[int]) -> bytes:
    words = array("Q", numbers)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def _ranked(cells: Sequence[Sequence[bytes]]) -> tuple[list[list[int]], list[tuple[bytes, int]]]:
    """Cells as their rank among the different ones, and those with their number."""
    seen = sorted(Counter(cell for row in cells for cell in row).items())
    ranks = {cell: rank for rank, (cell, _) in enumerate(seen)}
    return [[ranks[cell] for cell in row] for row in cells], seen
