"""A node drawn for a terminal: what hangs from what, and the links between GPUs as a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwire_checks.topology.model import Gpu, Nic, NodeTopology, Unread
from gpuwire_checks.topology.wires import nearest_nics, nic_paths

_WIDEST_MATRIX = 16
"""GPUs, up to which a matrix fits a terminal of 100 columns."""


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
        leaves = [*(_gpu_words(gpu, near.get(gpu.name, {})) for gpu in gpus), *map(_nic_words, nics)]
        lines += [f"{'└─' if leaf is leaves[-1] else '├─'} {leaf}" for leaf in leaves]
    return lines


def _numa_nodes(topology: NodeTopology) -> list[int | Unread]:
    devices: Iterable[Gpu | Nic] = (*topology.gpus, *(nic for nic in topology.nics if nic.kind != "virtual"))
    found = {device.numa_node for device in devices}
    known = sorted(node for node in found if not isinstance(node, Unread))
    return [*known, *(node for node in found if isinstance(node, Unread))]


def _gpu_words(gpu: Gpu, nics: dict[str, str]) -> str:
    parts = [gpu.name]
    parts += [str(value) for value in (gpu.model, gpu.pci_address) if not isinstance(value, Unread)]
    if isinstance(gpu.max_pcie_generation, int) and isinstance(gpu.pcie_width, int):
        parts.append(f"gen {gpu.max_pcie_generation} x{gpu.pcie_width}")
    if not isinstance(gpu.links, Unread) and gpu.links:
        parts.append(f"{sum(link.up is True for link in gpu.links)} of {len(gpu.links)} links up")
    nearest = nearest_nics(nics)
    if nearest is not None and nearest[0] != "SYS":
        parts.append(f"{nearest[0]} to {' '.join(nearest[1])}")
    return "  ".join(parts)


def _nic_words(nic: Nic) -> str:
    parts = [nic.name, nic.kind]
    if not isinstance(nic.rate_bits, Unread):
        parts.append(f"{nic.rate_bits / 1e9:g} Gbit/s")
    if nic.up is False:
        parts.append("down")
    return "  ".join(parts)


def _matrix(topology: NodeTopology) -> list[str]:
    names = [gpu.name for gpu in topology.gpus]
    if len(names) > _WIDEST_MATRIX or len(names) < 2:
        return []
    rows = [[a, *("X" if a == b else topology.path(a, b) or "?" for b in names)] for a in names]
    return _columns([["", *names], *rows])


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
