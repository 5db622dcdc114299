"""Several recorded outputs of one node, put together: each value from the first that knows it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from gpuwire_checks.topology.model import Doubt, Gpu, GpuState, Nic, NodeTopology, Pcie, Software, Unread

_T = TypeVar("_T", Gpu, Nic, GpuState, Pcie, Software)
_OF_AN_INSTANT = frozenset(
    {"pcie_generation", "throttled", "temperature_c", "temperature_margin_c", "performance_state"}
)
"""What differs between two looks at a healthy node."""


def merge(nodes: Sequence[NodeTopology], *, source: str) -> NodeTopology:
    """One node out of what several outputs say of it. Where two contradict each other, the first counts, in doubt.

    GPUs are matched by PCI address where both outputs have it, else by number; NICs by name.
    """
    doubts: list[Doubt] = [doubt for node in nodes for doubt in _located(node)]
    first = nodes[0]
    return NodeTopology(
        source=source,
        hostname=_first(node.hostname for node in nodes),
        cpu=_first(node.cpu for node in nodes),
        memory_bytes=_first(node.memory_bytes for node in nodes),
        numa=next((node.numa for node in nodes if node.numa), ()),
        virtualised=_first(node.virtualised for node in nodes),
        nics=tuple(_merged_parts([node.nics for node in nodes], lambda nic: nic.name, doubts)),
        gpus=tuple(sorted(_merged_parts(_numbered(nodes), lambda gpu: gpu.index, doubts), key=lambda gpu: gpu.index)),
        paths=tuple(_by_key((p for node in nodes for p in node.paths), lambda p: frozenset((p.a, p.b)), doubts)),
        software=_merged("software", [node.software for node in nodes], doubts),
        peers=tuple(_by_key((p for n in nodes for p in n.peers), lambda p: (p.a, p.b, p.capability), doubts)),
        pci=tuple(_by_key((d for n in nodes for d in n.pci), lambda d: d.address, [])),
        counters=tuple(_by_key((c for n in nodes for c in n.counters), lambda c: (c.part, c.name), [])),
        doubts=tuple(doubts) if len(nodes) > 1 else first.doubts,
    )


def _located(node: NodeTopology) -> Iterable[Doubt]:
    """Doubts of a file with its name: line numbers alone no longer tell."""
    for doubt in node.doubts:
        at = f"{node.source}:{doubt.line}" if doubt.line else node.source
        yield Doubt(line=None, text=f"{at}: {doubt.text}")


def _numbered(nodes: Sequence[NodeTopology]) -> list[tuple[Gpu, ...]]:
    """The GPUs of each output under the numbers that the first output with their PCI address gives them."""
    number: dict[str, int] = {}
    for node in nodes:
        for gpu in node.gpus:
            if not isinstance(gpu.pci_address, Unread):
                number.setdefault(gpu.pci_address, gpu.index)
    return [tuple(replace(g, index=number.get(str(g.pci_address), g.index)) for g in node.gpus) for node in nodes]


def _merged_parts(groups: Sequence[Sequence[_T]], key: Any, doubts: list[Doubt]) -> list[_T]:
    found: dict[Hashable, list[_T]] = {}
    for group in groups:
        for part in group:
            found.setdefault(key(part), []).append(part)
    return [_merged(getattr(parts[0], "name", ""), parts, doubts) for parts in found.values()]


def _merged(name: str, parts: Sequence[_T], doubts: list[Doubt]) -> _T:
    """A noun whose every field comes from the first that knows it."""
    values: dict[str, Any] = {}
    for field in fields(parts[0]):
        every = [getattr(part, field.name) for part in parts]
        if isinstance(every[0], (GpuState, Pcie)):
            values[field.name] = _merged(name, every, doubts)
            continue
        # A NIC's kind is the plain word "unknown", which equals Unread.UNKNOWN.
        known = [value for value in every if not isinstance(value, Unread) and value not in (None, Unread.UNKNOWN)]
        values[field.name] = known[0] if known else every[0]
        other = next((value for value in known if value != known[0]), None)
        if other is not None and field.name not in _OF_AN_INSTANT and field.name not in ("index", "kind"):
            doubts.append(
                Doubt(line=None, text=f"{name}: {field.name} is {known[0]} in one file and {other} in another")
            )
    return replace(parts[0], **values)


def _by_key(items: Iterable[Any], key: Any, doubts: list[Doubt]) -> list[Any]:
    found: dict[Hashable, Any] = {}
    for item in items:
        there = found.setdefault(key(item), item)
        if there != item:
            doubts.append(Doubt(line=None, text=f"{there} in one file, {item} in another"))
    return list(found.values())


def _first(values: Iterable[Any]) -> Any:
    """The first that was read, else the first reason why not."""
    every = list(values)
    return next((value for value in every if not isinstance(value, Unread)), every[0])
