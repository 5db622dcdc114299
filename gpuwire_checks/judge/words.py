"""What a verdict says: the figure, the limit, how often, and what was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from gpuwire_checks.judge.limits import Limits
from gpuwire_checks.judge.slowest import slowest_rank
from gpuwire_checks.judge.standing import Standing, falls_of
from gpuwire_checks.records import TAIL, Bound, Case, Measurement
from gpuwire_checks.units import format_value

_ROLLING = "the last good runs'"


def case_words(case: Case) -> str:
    """A case as a message names it: ``busbw all_reduce-64MiB-bfloat16-ws8 on nccl``."""
    return f"{case.metric.name} {case.id} on {case.backend}"


def no_bound(case: Case, where: str) -> str:
    return f"no bound for {case_words(case)} ({where}); record one with: gpuwire baseline record"


def level_reason(level: Standing, bound: Bound, limits: Limits, attempts: Sequence[Measurement]) -> str:
    """The figure against its limits, and for a fault who is slowest and where the bound stands."""
    values = [attempt.value for attempt in attempts]
    text = f"{_figure(values, bound)}; accepted {_accepted(bound, limits)}"
    low, high = limits.accepted
    outside = sum(not low <= value <= high for value in values)
    if outside:
        text += f"; {outside} of {len(values)} attempts outside"
    if level is Standing.COMES_AND_GOES:
        text += f": it comes and goes, {len(values) - outside} of {len(values)} passed"
    if level is Standing.UNDECIDED:
        text += ": neither side led within the attempts allowed"
    if level in (Standing.INSIDE, Standing.OPEN, Standing.BETTER):
        return text
    slow = slowest_rank(worst(attempts))
    blame = f"; slowest is rank {slow[0]}: it {slow[1]}" if slow is not None else ""
    return f"{text}{blame} ({bound.where})"


def rolling_reason(bound: Bound, limits: Limits, attempts: Sequence[Measurement]) -> str:
    """The figure against the last good runs; against the recorded bound it is inside."""
    assert bound.rolling is not None
    values = [attempt.value for attempt in attempts]
    outside = falls_of(values, limits).outside
    return (
        f"{_figure(values, bound.rolling, of=_ROLLING)}; accepted {_accepted(bound.rolling, limits)};"
        f" {outside} of {len(values)} attempts outside. The recorded {format_value(bound.centre, bound.metric.unit)}"
        f" would still accept it ({bound.where})"
    )


def tail_reason(bound: Bound, limits: Limits, attempts: Sequence[Measurement]) -> str:
    """The spread within attempts against its limit; the level itself is inside."""
    assert bound.tail is not None
    tails = [tail for attempt in attempts if (tail := attempt.tail) is not None]
    outside = falls_of(tails, limits).outside
    return (
        f"single calls spread too far: {TAIL.unit} is {median(tails):.2f}, and {bound.tail.centre:.2f} when recorded;"
        f" accepted up to {limits.worst:.2f}; {outside} of {len(tails)} attempts outside, while their median is inside"
        f" its limit ({bound.where})"
    )


def loose_reason(bound: Bound, limits: Limits, attempts: Sequence[Measurement]) -> str:
    """A limit that noise makes too loose to enforce, and what could have been seen."""
    values = [attempt.value for attempt in attempts]
    return (
        f"{_figure(values, bound)}, but its noise is too wide to hold it to that: it varies by"
        f" {math.expm1(limits.spread):.1%} between attempts, so that only {_change(limits.width, bound)} would be seen,"
        f" and {_change(limits.max_slack, bound)} is the most that the policy calls a limit; record it with more"
        f" attempts or find what disturbs it ({bound.where})"
    )


def worst(attempts: Sequence[Measurement]) -> Measurement:
    """The slowest attempt."""
    return max(attempts, key=lambda attempt: attempt.seconds)


def change_words(width: float, better: str) -> str:
    """A distance to the bad side: ``a drop of 5.1%``, ``a rise of 20%``; beyond a factor of ten the factor."""
    if better == "higher":
        return f"a drop of {-math.expm1(-width):.1%}"
    if width > math.log(10):
        return f"a rise by a factor of {math.exp(width):.0f}"
    return f"a rise of {math.expm1(width):.1%}"


def _change(width: float, bound: Bound) -> str:
    return change_words(width, bound.metric.better)


def _figure(values: Sequence[float], bound: Bound, *, of: str = "the baseline's") -> str:
    unit, value = bound.metric.unit, median(values)
    side = "below" if value < bound.centre else "above"
    return (
        f"{bound.metric.name} {format_value(value, unit)} is {abs(value / bound.centre - 1):.1%} {side} {of}"
        f" {format_value(bound.centre, unit)}"
    )


def _accepted(bound: Bound, limits: Limits) -> str:
    low, high = limits.accepted
    return f"{format_value(low, bound.metric.unit)} to {format_value(high, bound.metric.unit)}"
