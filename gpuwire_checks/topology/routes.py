"""How devices reach each other: path classes that the PCI bus shows, a node as a graph, and routes of named parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from gpuwire_checks.topology.link_rates import pcie_bytes
from gpuwire_checks.topology.model import Gpu, Link, Nic, NodeTopology, PairPath, PciDevice, Pcie, Unread
from gpuwire_checks.topology.pci_paths import bridges_above
from gpuwire_checks.topology.wires import gpu_pairs, is_switched, links_per_gpu

if TYPE_CHECKING:
    from networkx import Graph

_SWITCH = "NVSwitch"
_ENDS = ("gpu", "nic")
_COSTS = {"nvlink": 1, "xgmi": 1, "pcie": 100, "host": 10_000}
"""No way over links is so long that it costs more than one over PCIe, nor one over PCIe more than one over the host."""
_GROUPS = {
    "PIX": ("switch", "switch"),
    "PXB": ("switch", "switches"),
    "PHB": ("root", "host bridge"),
    "NODE": ("root", "host bridges"),
}
"""Kind and name of what joins devices of a path class, where neither PCI address nor NUMA node tells."""


def node_graph(topology: NodeTopology) -> Graph[str]:
    """Every part of a node by its name, and what joins two of them.

    A part has a ``kind``: ``gpu``, ``nic``, ``nvswitch``, ``switch`` (a bridge on the PCI bus), ``root``, ``numa``,
    ``socket`` or ``interconnect`` (of sockets). Switches and roots without an address stand for those that path classes
    show; all NVSwitches are one part, as no driver tells which link ends in which. An edge has a ``kind``: ``nvlink``,
    ``xgmi``, ``pcie`` or ``host``; ``links``, where they are counted; ``speed``, bytes per second in one direction,
    where it is known.
    """
    import networkx  # noqa: PLC0415 - it takes longer than the rest of a start

    graph: Graph[str] = networkx.Graph()
    devices: dict[str, Gpu | Nic] = {gpu.name: gpu for gpu in topology.gpus}
    devices |= {nic.name: nic for nic in topology.nics if nic.kind != "virtual"}
    for name, device in devices.items():
        graph.add_node(name, kind="gpu" if isinstance(device, Gpu) else "nic")
    _add_links(graph, topology)
    placed = _add_bus(graph, topology, devices)
    _add_groups(graph, topology, {name: device for name, device in devices.items() if name not in placed})
    _add_sockets(graph, topology)
    return graph


def route(topology: NodeTopology, a: str, b: str, *, graph: Graph[str] | None = None) -> tuple[str, ...]:
    """The parts from one device to another over the best wires: links, then links over NVSwitches, then PCIe.

    ``("GPU0", "switch 0000:17:00.0", "mlx5_0")``; empty where no way is known. It leads through no other device.

    Args:
        graph: the node's, to be given by who asks for more than one route.
    """
    import networkx  # noqa: PLC0415

    graph = node_graph(topology) if graph is None else graph
    others = [name for name, part in graph.nodes(data=True) if part["kind"] in _ENDS and name not in (a, b)]
    try:
        found = networkx.shortest_path(networkx.restricted_view(graph, others, []), a, b, weight=_cost)
    except (networkx.NetworkXNoPath, networkx.NodeNotFound):
        return ()
    return tuple(found)


def _cost(_a: str, _b: str, edge: Mapping[str, Any]) -> int:
    return _COSTS[edge["kind"]]


def _add_links(graph: Graph[str], topology: NodeTopology) -> None:
    """NVLinks and xGMI: those that GPUs tell of, else those that the paths of pairs show."""
    names = {gpu.name for gpu in topology.gpus}
    for gpu in topology.gpus:
        for remote, links in _up(gpu).items():
            if remote == _SWITCH:
                graph.add_node(_SWITCH, kind="nvswitch")
            if remote in names or remote == _SWITCH:
                _join_by_links(graph, gpu.name, remote, links)
    shown, switched = links_per_gpu(topology), is_switched(topology)
    for pair in gpu_pairs(topology):
        through = [name for name in (pair.a, pair.b) if graph.has_edge(name, _SWITCH)]
        if pair.links and (switched or through):
            graph.add_node(_SWITCH, kind="nvswitch")
            for name in (pair.a, pair.b):
                if name not in through:
                    graph.add_edge(name, _SWITCH, kind="nvlink", links=shown[name])
        elif pair.links and not graph.has_edge(pair.a, pair.b):
            kind = "xgmi" if pair.path.startswith("XGMI") else "nvlink"
            graph.add_edge(pair.a, pair.b, kind=kind, links=pair.links)


def _up(gpu: Gpu) -> dict[str, list[Link]]:
    ends: dict[str, list[Link]] = {}
    for link in () if isinstance(gpu.links, Unread) else gpu.links:
        if link.up is True and not isinstance(link.remote, Unread):
            ends.setdefault(link.remote, []).append(link)
    return ends


def _join_by_links(graph: Graph[str], a: str, b: str, links: Sequence[Link]) -> None:
    """Of links counted from both ends the fewer: those carry both ways."""
    if graph.has_edge(a, b) and graph.edges[a, b]["links"] <= len(links):
        return
    speeds = [link.speed_bytes for link in links if not isinstance(link.speed_bytes, Unread)]
    speed = {"speed": sum(speeds)} if len(speeds) == len(links) else {}
    graph.add_edge(a, b, kind=links[0].kind, links=len(links), **speed)


def _add_bus(graph: Graph[str], topology: NodeTopology, devices: Mapping[str, Gpu | Nic]) -> set[str]:
    """Bridges and root complexes; returns the devices that hang from them."""
    by_address = {device.address: device for device in topology.pci if not isinstance(device.address, Unread)}
    ends = {name: by_address[at] for name, part in devices.items() if (at := part.pci_address) in by_address}
    for device in topology.pci:
        if device.kind == "nvswitch":
            graph.add_node(f"{_SWITCH} {device.address}", kind="nvswitch")
            ends[f"{_SWITCH} {device.address}"] = device
    numa: dict[str, set[int]] = {}
    placed: set[str] = set()
    for name, device in ends.items():
        if (top := _climb(graph, by_address, name, device)) == name:
            continue
        placed.add(name)
        near = {device.numa_node, devices[name].numa_node if name in devices else Unread.UNKNOWN}
        numa.setdefault(top, set()).update(node for node in near if not isinstance(node, Unread))
    for top, nodes in numa.items():
        if len(nodes) == 1:
            _add_numa(graph, top, *nodes)
    return placed


def _climb(graph: Graph[str], by_address: Mapping[str, PciDevice], name: str, device: PciDevice) -> str:
    """Join a device with all known bridges above it and its root complex; returns the last of these."""
    bridges, whole = bridges_above(by_address, device)
    below, link = name, _speed(device.pcie)
    for depth, address in zip(range(len(bridges), 0, -1), bridges, strict=True):
        above = f"switch {address}"
        graph.add_node(above, kind="switch")
        graph.add_edge(below, above, kind="pcie", **link)
        # Under its root port, every second bridge is the upstream port of a switch, and has a wire above it.
        wired = whole and depth % 2 == 0 and address in by_address
        below, link = above, _speed(by_address[address].pcie) if wired else {}
    if not whole or isinstance(device.root, Unread):
        return below
    graph.add_node(f"root {device.root}", kind="root")
    graph.add_edge(below, f"root {device.root}", kind="pcie", **link)
    return f"root {device.root}"


def _speed(pcie: Pcie) -> dict[str, float]:
    speed = pcie_bytes(pcie)
    return {} if speed is None else {"speed": speed}


def _pcie(device: Gpu | Nic) -> Pcie:
    if isinstance(device, Nic):
        return device.pcie
    return Pcie(width=device.pcie_width, max_generation=device.max_pcie_generation, max_width=device.max_pcie_width)


def _add_groups(graph: Graph[str], topology: NodeTopology, devices: Mapping[str, Gpu | Nic]) -> None:
    """What the path classes of devices without a known place on the bus show of it."""
    pairs = [pair for pair in topology.paths if pair.a in devices and pair.b in devices]
    numa = _numa_of(devices, pairs)
    top = {name: name for name in devices}
    for level, (path, (kind, word)) in enumerate(_GROUPS.items(), 1):
        near = [pair for pair in pairs if pair.path in [*_GROUPS][:level]]
        if path == "NODE":
            near = [pair for pair in near if pair.a not in numa]
        for group in _joined(((pair.a, pair.b) for pair in near), devices):
            below = list(dict.fromkeys(top[name] for name in group))
            if len(below) > 1:
                above = f"{word} above {group[0]}"
                graph.add_node(above, kind=kind)
                for part in below:
                    link = _speed(_pcie(devices[part])) if part in devices else {}
                    graph.add_edge(part, above, kind="pcie", **link)
                top.update(dict.fromkeys(group, above))
    for name, number in numa.items():
        _add_numa(graph, top[name], number)
        top[name] = f"NUMA {number}"
    _add_interconnect(graph, [(top[p.a], top[p.b]) for p in pairs if p.path == "SYS" and {p.a, p.b} - numa.keys()])


def _numa_of(devices: Mapping[str, Gpu | Nic], pairs: Sequence[PairPath]) -> dict[str, int]:
    """The NUMA node of each device that tells it, or is nearer than SYS to one that does."""
    known = {name: part.numa_node for name, part in devices.items() if not isinstance(part.numa_node, Unread)}
    told = dict(known)
    for pair in pairs:
        for name, other in ((pair.a, pair.b), (pair.b, pair.a)):
            if pair.path in _GROUPS and other in known and name not in known:
                told[name] = known[other]
    return told


def _add_interconnect(graph: Graph[str], pairs: Sequence[tuple[str, str]]) -> None:
    """What joins NUMA nodes, where a device does not tell which is its own."""
    if pairs:
        graph.add_node("interconnect", kind="interconnect")
        graph.add_edges_from(((part, "interconnect") for pair in pairs for part in pair), kind="host")


def _joined(pairs: Iterable[tuple[str, str]], order: Iterable[str]) -> Iterator[list[str]]:
    """Groups of names that pairs connect, each in the order given."""
    import networkx  # noqa: PLC0415

    near: Graph[str] = networkx.Graph(list(pairs))
    for group in networkx.connected_components(near):
        yield [name for name in order if name in group]


def _add_numa(graph: Graph[str], part: str, node: int) -> None:
    graph.add_node(f"NUMA {node}", kind="numa", number=node)
    graph.add_edge(part, f"NUMA {node}", kind="host")


def _add_sockets(graph: Graph[str], topology: NodeTopology) -> None:
    """The sockets of NUMA nodes, where all are known, and each joined with each; else so the NUMA nodes."""
    nodes: dict[str, int] = {name: part["number"] for name, part in graph.nodes(data=True) if part["kind"] == "numa"}
    sockets = _socket_of(topology)
    tops = list(nodes)
    if sockets.keys() >= set(nodes.values()):
        tops = list(dict.fromkeys(f"socket {sockets[number]}" for number in nodes.values()))
        graph.add_nodes_from(tops, kind="socket")
        graph.add_edges_from(((name, f"socket {sockets[at]}") for name, at in nodes.items()), kind="host")
    graph.add_edges_from(combinations(tops, 2), kind="host")


def _socket_of(topology: NodeTopology) -> dict[int, int]:
    """The socket of each NUMA node; where they are as many, each node is one."""
    with_cpus = [node.number for node in topology.numa if node.cpus]
    known = {node.number: node.socket for node in topology.numa if not isinstance(node.socket, Unread)}
    cpu = topology.cpu
    if known or isinstance(cpu, Unread) or cpu.sockets not in (1, len(with_cpus)):
        return known
    return {number: 0 if cpu.sockets == 1 else at for at, number in enumerate(with_cpus)}
