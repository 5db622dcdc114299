"""Bounds as a table: what each was recorded with, and what its limit is under the policy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuwire_checks.judge.columns import aligned
from gpuwire_checks.judge.explain import SEEN, Explanation
from gpuwire_checks.judge.explain_words import signed_change
from gpuwire_checks.statistics.pooling import Spread
from gpuwire_checks.units import format_value

_HEADING = (
    "case",
    "centre",
    "own spread",
    "used",
    "tail",
    "attempts/runs/nodes",
    "between",
    "limit",
    "figure",
    f"seen {SEEN:.0%}",
    "last runs",
)


def bound_table(abouts: Sequence[Explanation]) -> list[str]:
    """A heading, and a line a bound; ``-`` where there is nothing to say."""
    return aligned([_HEADING, *map(_cells, abouts)], left=1)


def _cells(about: Explanation) -> tuple[str, ...]:
    bound, limits, noise = about.bound, about.limits, about.noise
    unit, better = bound.metric.unit, bound.metric.better
    limit = signed_change(limits.width, better)
    return (
        f"{bound.metric.name} {about.case.id} on {about.case.backend}",
        format_value(bound.centre, unit),
        _spread(noise.own),
        f"{_spread(noise.used)}{' (own)' if noise.keeps_own else ''}",
        _tail(about),
        f"{bound.attempts}/{bound.runs}/{bound.nodes}",
        "-" if bound.between is None else log_percent(bound.between),
        limit if limits.enforceable else f"{limit}, too loose",
        f"{'>=' if better == 'higher' else '<='} {format_value(limits.worst, unit)}",
        signed_change(about.seen, better),
        "-" if bound.rolling is None else format_value(bound.rolling.centre, unit),
    )


def _tail(about: Explanation) -> str:
    if about.bound.tail is None:
        return "-"
    centre = f"{about.bound.tail.centre:.2f}"
    return centre if about.tail is None else f"{centre} (<= {about.tail.worst:.2f})"


def _spread(spread: Spread) -> str:
    return "-" if spread.degrees <= 0 else log_percent(spread.spread)


def log_percent(log_spread: float) -> str:
    """A spread of logarithms as the percentage that it is of the figure."""
    return f"{math.expm1(log_spread):.1%}"
