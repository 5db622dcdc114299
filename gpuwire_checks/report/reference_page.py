"""docs/baselines.md: what each shipped reference states, the figures published for it, and where both come from."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.baseline.store import load_baselines
from gpuwire_checks.baseline.wiring import ExpectedFabric, ExpectedLinks, Wiring
from gpuwire_checks.shipped import shipped_baselines
from gpuwire_checks.units import format_rate, format_size

_LEFT_OUT = "-"
_LINKS = {"nvlink": "NVLink", "xgmi": "xGMI"}
_HEAD = """# Baselines shipped: references

<!-- Written by: python -m gpuwire_checks.report.reference_page > docs/baselines.md -->

A reference states what is true of every node of a SKU. It is what a node is held to before its site has recorded one,
and what pasted output is compared with. What a chassis or a cloud decides is left out (`-`): NUMA nodes, NICs, PCI
addresses, persistence, and often the PCIe slot. A reference has no bounds. Its figures are what others published, each
with its source: `measured` on one machine, or a `floor` that somebody set by hand. A figure that the wires cannot carry
is not among them, and a note says so.

Speeds are payload in one direction, 1 GB = 1e9 bytes. A figure of a collective is busbw, of a copy one direction.
"""
_OVERVIEW = ("SKU", "GPUs", "Links of a GPU", "Pairs", "Peer access", "PCIe", "ECC", "Fabric")
_FIGURES = ("Figure", "Size", "World size", "GB/s", "Kind", "Condition", "Source")


def load_references(directory: Path) -> list[Baseline]:
    """Every baseline of a directory that nobody recorded, by file name.

    Raises:
        BaselineError: a file that cannot be read.
    """
    return [baseline for baseline in load_baselines([directory]) if baseline.recorded is None]


def reference_page(references: Sequence[Baseline]) -> list[str]:
    """The lines of the page, in Markdown: a table of all references, then each with its notes, figures and sources."""
    lines = [*_HEAD.splitlines(), "", *_table(_OVERVIEW, map(_overview, references))]
    for reference in references:
        lines += _section(reference)
    return lines


def _overview(reference: Baseline) -> Sequence[str]:
    wiring = reference.wiring or Wiring(gpus=0)
    pcie = wiring.pcie_of(0)
    return (
        f"[{reference.name}](#{reference.name})",
        f"{wiring.gpus} x {wiring.model or _LEFT_OUT}",
        _links(wiring.links),
        _pairs(wiring.pairs),
        _pairs(wiring.peers),
        f"gen {pcie.generation} x{pcie.width}" if pcie else _LEFT_OUT,
        wiring.ecc or _LEFT_OUT,
        _fabric(wiring.fabric),
    )


def _links(links: ExpectedLinks | None) -> str:
    """``18 x 25 GB/s = 450 GB/s NVLink 4``; the count alone where the speed is left out."""
    if links is None:
        return _LEFT_OUT
    counts = (links.per_gpu,) if isinstance(links.per_gpu, int) else tuple(dict.fromkeys(links.per_gpu))
    each = [
        f"{count}" if links.speed is None else f"{count} x {_rate(links.speed)} = {_rate(count * links.speed)}"
        for count in counts
    ]
    return " ".join([" or ".join(each), _LINKS[links.kind], *([str(links.version)] if links.version else [])])


def _fabric(fabric: ExpectedFabric | None) -> str:
    if fabric is None:
        return _LEFT_OUT
    return ", ".join((fabric.state, fabric.status, *(("a rack's cluster",) if fabric.cluster else ())))


def _pairs(table: Mapping[str, str]) -> str:
    return "; ".join(f"{value} {pairs}" for value, pairs in table.items()) or _LEFT_OUT


def _section(reference: Baseline) -> list[str]:
    lines = ["", f"## {reference.name}", "", f"`baselines/{reference.path.parent.name}/{reference.path.name}`"]
    if reference.notes:
        lines += ["", *(f"* {note}" for note in reference.notes)]
    if reference.floors:
        lines += ["", *_table(_FIGURES, map(_figure, reference.floors))]
    return [*lines, "", "Sources:", "", *(f"* {key}: {source}" for key, source in reference.sources.items())]


def _figure(floor: FloorEntry) -> Sequence[str]:
    return (
        floor.figure,
        _LEFT_OUT if floor.size is None else format_size(floor.size),
        _LEFT_OUT if floor.world_size is None else str(floor.world_size),
        f"{floor.value / 1e9:g}",
        floor.kind,
        floor.condition or _LEFT_OUT,
        floor.source,
    )


def _rate(bytes_per_second: float) -> str:
    return format_rate(bytes_per_second, "GB/s")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; a bar in a cell would end it, and is escaped."""
    cells = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)]


if __name__ == "__main__":
    sys.stdout.write("\n".join(reference_page(load_references(shipped_baselines()))) + "\n")
