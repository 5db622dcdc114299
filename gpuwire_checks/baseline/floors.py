"""Which published figure a case can be held to, where nothing was recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.records import LATENCY, Case
from gpuwire_checks.units import format_size, format_value

ONE_MACHINE = 0.8
"""Share of a figure that somebody measured on one machine, from which on another machine of its kind is taken for good.

Nobody says how that machine was set up; acceptance thresholds that sites set by hand are 0.9 to 0.97 of what such nodes
reach (H200: 431 of 480 GB/s; A100: 228 of 235, Azure/azurehpc-health-checks).
"""
_PEAK_BYTES = 1 << 30
"""From which size on a figure without a size is taken to hold: what saturates the wire of a GPU node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFloor:
    """A published figure as a limit of a case's busbw.

    Attributes:
        value: GB/s, 1e9 bytes a second; the figure itself, or a share of one that was measured on one machine.
        entry: the figure.
        words: what it is and who says so, to follow ``below`` or ``held to``.
    """

    value: float
    entry: FloorEntry
    words: str


def floor_for(
    floors: Iterable[FloorEntry], *, collective: str, size_bytes: int, world_size: int, nvls: bool | None
) -> AppliedFloor | None:
    """The strictest published figure that certainly holds for a collective between GPUs; None without one.

    Busbw grows with the size, so a figure holds from its own size on; one without a size from 1 GiB on.

    Args:
        nvls: whether NCCL reduces in the switch by default there (``topology.nvls``); None where that is not known. A
            figure that was taken with it needs it; one taken without it is a floor of both, as NCCL takes the faster.
    """
    holding = [
        _applied(floor)
        for floor in floors
        if floor.figure == collective
        and floor.figure in COLLECTIVES
        and floor.world_size == world_size
        and (floor.size or _PEAK_BYTES) <= size_bytes
        and _condition_holds(floor.condition, nvls)
    ]
    return max(holding, key=lambda floor: floor.value, default=None)


def floor_of_case(floors: Iterable[FloorEntry], case: Case, *, nvls: bool | None) -> AppliedFloor | None:
    """``floor_for`` a planned case; None for a latency, and on a CPU, whose sockets nobody published a figure of."""
    if case.device == "cpu" or case.metric is LATENCY:
        return None
    return floor_for(
        floors, collective=case.collective, size_bytes=case.size_bytes, world_size=case.world_size, nvls=nvls
    )


def _condition_holds(condition: str | None, nvls: bool | None) -> bool:
    """Any other condition (``best of 1 to 8 GiB``, ``A100 PCIe of untold memory size``) cannot be checked."""
    return condition in (None, "NVLS off") or (condition == "NVLS" and nvls is True)


def _applied(floor: FloorEntry) -> AppliedFloor:
    published = floor.value / 1e9
    size = f" at {format_size(floor.size)}" if floor.size else ""
    under = f", {floor.condition}" if floor.condition else ""
    what = f"{floor.figure}{size} on {floor.world_size} ranks{under}"
    figure = format_value(published, "GB/s")
    if floor.kind == "floor":
        return AppliedFloor(
            value=published, entry=floor, words=f"the published floor of {figure} ({what}; {floor.source})"
        )
    value = ONE_MACHINE * published
    words = (
        f"{format_value(value, 'GB/s')}, {ONE_MACHINE:.0%} of the {figure} that were measured on one machine"
        f" ({what}; {floor.source})"
    )
    return AppliedFloor(value=value, entry=floor, words=words)
