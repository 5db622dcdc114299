"""A node drawn for a terminal: what hangs from what, and the links between GPUs as a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from gpuwire_checks.topology.model import Gpu, Nic, NodeTopology, Unread
from gpuwire_checks.topology.wires import nearest_nics, nic_paths

_WIDEST_MATRIX = 16
"""GPUs, up to which a matrix fits a terminal of 100 columns."""
_T = TypeVar("_T", Gpu, Nic)


def drawing(topology: NodeTopology) -> list[str]:
    """NUMA nodes with their GPUs and NICs, then the matrix of paths; nothing for a host without GPUs."""
    if not topology.gpus:
        return []
    return [*_tree(topology), "", *_matrix(topology), ""] if topology.paths else [*_tree(topology), ""]


def _tree(topology: NodeTopology) -> list[str]:
    lines: list[str] = []
    near = nic_paths(topology)
    for node in _numa_nodes(topology):
        gpus = [gpu for gpu in topology.gpus if gpu.numa_node == node]
        nics = [nic for nic in topology.nics if nic.numa_node == node and nic.kind != "virtual"]
        lines.append("NUMA node not known" if isinstance(node, Unread) else f"NUMA node {node}")
        leaves = [_gpu_words(gpu, topology.gpus, near.get(gpu.name, {})) for gpu in gpus]
        leaves += [_nic_words(nic, topology.nics) for nic in nics]
        lines += [f"{'└─' if leaf is leaves[-1] else '├─'} {leaf}" for leaf in leaves]
    return lines


def _numa_nodes(topology: NodeTopology) -> list[int | Unread]:
    devices: Iterable[Gpu | Nic] = (*topology.gpus, *(nic for nic in topology.nics if nic.kind != "virtual"))
    found = {device.numa_node for device in devices}
    known = sorted(node for node in found if not isinstance(node, Unread))
    return [*known, *(node for node in found if isinstance(node, Unread))]


def _gpu_words(gpu: Gpu, gpus: Sequence[Gpu], nics: dict[str, str]) -> str:
    parts = [gpu.name, *_told(gpu, gpus, _OF_GPUS)]
    nearest = nearest_nics(nics)
    if nearest is not None and nearest[0] != "SYS":
        parts.append(f"{nearest[0]} to {' '.join(nearest[1])}")
    return "  ".join(parts)


def _nic_words(nic: Nic, nics: Sequence[Nic]) -> str:
    of_nics: Mapping[str, Callable[[Nic], str | Unread]] = {"rate": _rate, "state": _state}
    return "  ".join([nic.name, nic.kind, *_told(nic, nics, of_nics)])


def _told(one: _T, others: Sequence[_T], values: Mapping[str, Callable[[_T], str | Unread]]) -> list[str]:
    """Values in words; of one that is not read the reason, but not where this source tells it of no part."""
    words: list[str] = []
    for what, value in values.items():
        found = value(one)
        if not isinstance(found, Unread):
            words += [found] if found else []
        elif found is not Unread.UNKNOWN or any(not isinstance(value(other), Unread) for other in others):
            words.append(f"{what} {found.value}")
    return words


def _pcie(gpu: Gpu) -> str | Unread:
    for value in (gpu.max_pcie_generation, gpu.pcie_width):
        if isinstance(value, Unread):
            return value
    return f"gen {gpu.max_pcie_generation} x{gpu.pcie_width}"


def _links(gpu: Gpu) -> str | Unread:
    """``17 of 18 links up``, and how many of the others cannot be read; nothing where there is no link."""
    if isinstance(gpu.links, Unread):
        return gpu.links
    if not gpu.links:
        return ""
    states = [link.up for link in gpu.links]
    unread = [f", {states.count(reason)} {reason.value}" for reason in Unread if reason in states]
    return f"{states.count(True)} of {len(states)} links up{''.join(unread)}"


def _rate(nic: Nic) -> str | Unread:
    if isinstance(nic.rate_bits, Unread):
        return "" if nic.up is False else nic.rate_bits
    return f"{nic.rate_bits / 1e9:g} Gbit/s"


def _state(nic: Nic) -> str | Unread:
    if isinstance(nic.up, Unread):
        return nic.up
    return "" if nic.up else "down"


_OF_GPUS: Mapping[str, Callable[[Gpu], str | Unread]] = {
    "model": lambda gpu: gpu.model,
    "PCI address": lambda gpu: gpu.pci_address,
    "PCIe": _pcie,
    "links": _links,
}


def _matrix(topology: NodeTopology) -> list[str]:
    names = [gpu.name for gpu in topology.gpus]
    if len(names) > _WIDEST_MATRIX or len(names) < 2:
        return []
    rows = [[a, *("X" if a == b else topology.path(a, b) or "?" for b in names)] for a in names]
    return _columns([["", *names], *rows])


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
