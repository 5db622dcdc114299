"""Dips over sizes: a larger message that is slower per byte than a smaller one, which no case shows by itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuwire_checks.records import BUSBW, Bound, Case, Verdict
from gpuwire_checks.units import format_size, format_value

_SMALLEST = -math.log1p(-0.05)
"""A dip of 5 % is worth a look, as a logarithm."""
_NOISE = 4.0
"""Spreads of the two figures together that noise alone may set them apart: some 100 of such pairs are in a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dip:
    """A larger size that is slower per byte than a smaller one.

    Attributes:
        smaller, larger: the two, with their figures in GB/s.
        fall: of the larger one's busbw against the smaller one's, as a logarithm.
        recorded: the same of the centres of their bounds, negative for a rise; None where one has no bound.
    """

    smaller: tuple[Case, float]
    larger: tuple[Case, float]
    fall: float
    recorded: float | None

    @property
    def beyond(self) -> float:
        """How much of the fall its baseline does not have."""
        return self.fall - max(0.0, self.recorded or 0.0)

    @property
    def words(self) -> str:
        """``all_reduce float32 on 8 ranks dips at 64MiB: ...``."""
        (small, usual), (large, figure) = self.smaller, self.larger
        before = "nothing is recorded of it"
        if self.recorded is not None:
            fell = f"it was {-math.expm1(-self.recorded):.0%} slower" if self.recorded > 0 else "it was no slower"
            before = f"{fell} when recorded"
        return (
            f"{large.collective} {large.dtype} on {large.world_size} ranks dips at {format_size(large.size_bytes)}:"
            f" {format_value(figure, BUSBW.unit)} is {-math.expm1(-self.fall):.0%} less than the"
            f" {format_value(usual, BUSBW.unit)} at {format_size(small.size_bytes)}; {before}"
        )


def find_dips(judged: Iterable[tuple[Verdict, Bound | None]]) -> list[Dip]:
    """The dips of a run, the worst first: one at most for each case, against the size that shows it best.

    A pair of sizes is held to their bounds, where both have one: a dip that was recorded too is how the node is. Else
    5 % are a dip between devices; sockets on a CPU dip by nature where a message no longer fits a cache. A case that
    is a fault already is told as one.
    """
    series: dict[tuple[str, str | None, int, str], list[tuple[Case, Verdict, Bound | None]]] = defaultdict(list)
    for verdict, bound in judged:
        case = verdict.case
        if case is None or verdict.value is None or case.metric is not BUSBW or verdict.is_fault:
            continue
        series[case.collective, case.dtype, case.world_size, case.backend].append((case, verdict, bound))
    dips = [dip for points in series.values() for dip in _of_one(points)]
    return sorted(dips, key=lambda dip: (-dip.beyond, dip.larger[0].id))


def _of_one(points: Sequence[tuple[Case, Verdict, Bound | None]]) -> Iterable[Dip]:
    ordered = sorted(points, key=lambda point: point[0].size_bytes)
    for index, larger in enumerate(ordered):
        found = [dip for smaller in ordered[:index] if (dip := _between(smaller, larger)) is not None]
        if found:
            yield max(found, key=lambda dip: dip.beyond)


def _between(smaller: tuple[Case, Verdict, Bound | None], larger: tuple[Case, Verdict, Bound | None]) -> Dip | None:
    (small, small_verdict, small_bound), (large, large_verdict, large_bound) = smaller, larger
    assert small_verdict.value is not None
    assert large_verdict.value is not None
    recorded, noise = None, 0.0
    if small_bound is not None and large_bound is not None:
        recorded = math.log(small_bound.centre / large_bound.centre)
        noise = _NOISE * math.hypot(small_bound.spread, large_bound.spread)
    elif large.device == "cpu":
        return None
    dip = Dip(
        smaller=(small, small_verdict.value),
        larger=(large, large_verdict.value),
        fall=math.log(small_verdict.value / large_verdict.value),
        recorded=recorded,
    )
    return dip if dip.beyond > max(_SMALLEST, noise) else None
