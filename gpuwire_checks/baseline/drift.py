"""Figures that move steadily with time: there is no level to record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from gpuwire_checks.statistics.robust import spread_of_logs

_FEWEST = 5
"""Runs from which on a trend is told from noise: fewer than five are in order by chance once in a dozen cases."""
_BY_CHANCE = 0.02
"""How seldom runs in no order look ordered by as much as counts as steady (Mann 1945, Kendall's tau against time)."""
_SPREADS = 4.0
"""Standard errors of a trend's change by which it is beyond noise that is known."""
_LEVEL = 1e-3
"""The same, where the noise is taken from the few points themselves, as a chance: Student's t."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A trend: the change from the first to the last run as a logarithm, and how many runs it is over."""

    change: float
    runs: int
    first: datetime
    last: datetime


def drift_of(points: Sequence[tuple[datetime, float]], *, error: float, allowed: float) -> Drift | None:
    """The trend in logarithms of figures over time; None where there is none worth a word.

    Theil and Sen's line, the median of the slopes between any two points: a run that went wrong does not make it.

    Args:
        error: standard error of one point; where points scatter about the line by more, that counts.
        allowed: smallest change that counts, as a logarithm.
    """
    if len(points) < _FEWEST or len({at for at, _ in points}) < _FEWEST or len({figure for _, figure in points}) < 2:
        return None
    from scipy.stats import kendalltau, t, theilslopes  # noqa: PLC0415 - a second that only a fleet's merge pays for

    ordered = sorted(points)
    first, last = ordered[0][0], ordered[-1][0]
    whole = (last - first).total_seconds()
    at = [(when - first).total_seconds() / whole for when, _ in ordered]
    figures = [figure for _, figure in ordered]
    if not kendalltau(at, figures).pvalue <= _BY_CHANCE:
        return None
    line = theilslopes(figures, at)
    change, start = float(line[0]), float(line[1])
    scatter = spread_of_logs([figure - start - change * x for x, figure in zip(at, figures, strict=True)])
    middle = fmean(at)
    noise = max(_SPREADS * error, float(t.isf(_LEVEL, len(at) - 2)) * scatter)
    if abs(change) <= max(allowed, noise / math.sqrt(sum((x - middle) ** 2 for x in at))):
        return None
    return Drift(change=change, runs=len(points), first=first, last=last)
