"""From attempts and a bound to a verdict. One pure function: the same input gives the same verdict, to the byte."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gpuwire_checks.records import Bound, Case, Measurement, Outcome, Verdict, slowest_of_ranks
from gpuwire_checks.statistics import half_width
from gpuwire_checks.units import format_seconds, format_value

# A rank is named only where it stands out: the skew of a barrier alone reaches a tenth of a short call.
_LATE = 0.25
_LONGER = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How strict a verdict is.

    Attributes:
        min_effect: smallest change worth a failure, as a fraction of the centre.
        level: chance of a false failure that this decision may have.
        max_attempts: after which a suspicion is decided.
    """

    min_effect: float
    level: float
    max_attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, and whether it stands: until it has settled, measure again and ask again with all attempts."""

    verdict: Verdict
    settled: bool


def judge(attempts: Sequence[Measurement], bound: Bound | None, rule: Rule, *, where: str) -> Judgement:
    """The verdict on one case.

    A figure inside its bound passes at once. Outside it is a suspicion, and settled by the median of all attempts once
    there are ``rule.max_attempts`` of them, or once the rest could not turn the majority.

    Args:
        attempts: in the order they were made, at least one.
        where: the baseline that was looked in, for the message when it has no bound.
    """
    case = attempts[0].case
    values = tuple(attempt.value for attempt in attempts)
    wrong = _wrong(attempts)
    if wrong is not None:
        outcome, reason = wrong
        return Judgement(verdict=_verdict(outcome, reason, attempts), settled=True)
    if bound is None:
        reason = f"no bound for {case_words(case)} ({where}); record one with: gpuwire baseline record"
        return Judgement(verdict=_verdict(Outcome.NO_BASELINE, reason, attempts), settled=True)
    accepted = accepted_range(bound, rule)
    outcome = _side(median(values), accepted, better=bound.metric.better)
    settled = _has_settled([_side(value, accepted, better=bound.metric.better) for value in values], rule)
    reason = _reason(outcome, bound, accepted, attempts)
    verdict = _verdict(outcome, reason, attempts, centre=bound.centre, accepted=accepted)
    return Judgement(verdict=verdict, settled=settled)


def accepted_range(bound: Bound, rule: Rule) -> tuple[float, float]:
    """Lowest and highest figure accepted, in the metric's unit: the centre over and times one factor."""
    smallest = (
        -math.log1p(-rule.min_effect)
        if rule.min_effect < 1 and bound.metric.better == "higher"
        else math.log1p(rule.min_effect)
    )
    width = half_width(
        min_effect=smallest,
        level=rule.level,
        spread=bound.spread,
        degrees=bound.degrees,
        attempts=bound.attempts,
    )
    return bound.centre * math.exp(-width), bound.centre * math.exp(width)


def slowest_rank(measurement: Measurement) -> tuple[int, str] | None:
    """The rank that held the others up, and what shows it; None when no rank stands out.

    In a collective all ranks wait for the slowest, so their own seconds hardly differ: who enters last tells more.
    """
    lags = [median(lag) for lag in measurement.arrival_lag]
    call = median(slowest_of_ranks(measurement.per_call))
    last = max(range(len(lags)), key=lags.__getitem__)
    others = max((lag for rank, lag in enumerate(lags) if rank != last), default=0.0)
    if lags[last] - others > _LATE * call:
        return last, f"enters {format_seconds(lags[last])} after the first"
    seconds = [median(calls) for calls in measurement.per_call]
    longest = max(range(len(seconds)), key=seconds.__getitem__)
    rest = median([second for rank, second in enumerate(seconds) if rank != longest])
    if seconds[longest] > (1 + _LONGER) * rest:
        return longest, f"takes {seconds[longest] / rest - 1:.0%} longer than the others"
    return None


def _worst(attempts: Sequence[Measurement]) -> Measurement:
    return max(attempts, key=lambda attempt: attempt.seconds)


def case_words(case: Case) -> str:
    """A case as a message names it: ``busbw all_reduce-64MiB-bfloat16-ws8 on nccl``."""
    return f"{case.metric.name} {case.id} on {case.backend}"


def _wrong(attempts: Sequence[Measurement]) -> tuple[Outcome, str] | None:
    for attempt in attempts:
        if attempt.mismatches:
            more = len(attempt.mismatches) - 1
            others = f", and {more} more {'rank is' if more == 1 else 'ranks are'} wrong" if more else ""
            return Outcome.WRONG, f"{attempt.mismatches[0]}{others}"
    if any(attempt.checked_ranks == 0 for attempt in attempts):
        return Outcome.ERROR, "no rank's result was checked, so its speed says nothing"
    return None


def _side(value: float, accepted: tuple[float, float], *, better: str) -> Outcome:
    low, high = accepted
    if low <= value <= high:
        return Outcome.PASS
    good = value > high if better == "higher" else value < low
    return Outcome.IMPROVED if good else Outcome.REGRESSED


def _has_settled(sides: Sequence[Outcome], rule: Rule) -> bool:
    if sides[0] is Outcome.PASS or len(sides) >= rule.max_attempts:
        return True
    left = rule.max_attempts - len(sides)
    # The median cannot leave the side that more than half of all possible attempts are on.
    return any(2 * sides.count(side) > len(sides) + left for side in set(sides))


def _reason(outcome: Outcome, bound: Bound, accepted: tuple[float, float], attempts: Sequence[Measurement]) -> str:
    values = [attempt.value for attempt in attempts]
    unit, value = bound.metric.unit, median(values)
    side = "below" if value < bound.centre else "above"
    low, high = accepted
    text = (
        f"{bound.metric.name} {format_value(value, unit)} is {abs(value / bound.centre - 1):.1%} {side} the baseline's"
        f" {format_value(bound.centre, unit)}; accepted {format_value(low, unit)} to {format_value(high, unit)}"
    )
    outside = sum(not low <= v <= high for v in values)
    if outside:
        text += f"; {outside} of {len(values)} attempts outside"
    if outcome is not Outcome.REGRESSED:
        return text
    slow = slowest_rank(_worst(attempts))
    blame = f"; slowest is rank {slow[0]}: it {slow[1]}" if slow is not None else ""
    return f"{text}{blame} ({bound.where})"


def _verdict(
    outcome: Outcome,
    reason: str,
    attempts: Sequence[Measurement],
    *,
    centre: float | None = None,
    accepted: tuple[float, float] | None = None,
) -> Verdict:
    case = attempts[0].case
    values = tuple(attempt.value for attempt in attempts)
    slow = slowest_rank(_worst(attempts))
    return Verdict(
        outcome=outcome,
        case=case,
        name=case.id,
        metric=case.metric.name,
        unit=case.metric.unit,
        value=median(values),
        centre=centre,
        accepted=accepted,
        attempts=values,
        slowest_rank=slow[0] if slow else None,
        reason=reason,
    )
