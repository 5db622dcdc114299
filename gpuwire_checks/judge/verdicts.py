"""From attempts and a bound to a verdict. One pure function: the same input gives the same verdict, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from gpuwire_checks.judge import words
from gpuwire_checks.judge.limits import limits_of, tail_limits_of
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.slowest import slowest_rank
from gpuwire_checks.judge.standing import Standing, standing
from gpuwire_checks.records import Bound, Measurement, Outcome, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict, and whether it stands: until it has settled, measure again and ask again with all attempts."""

    verdict: Verdict
    settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gate:
    """A limit beside the level: where the attempts stand to it, and what it makes of a case that fails it."""

    standing: Standing
    outcome: Outcome
    reason: Callable[[], str]


_FAILED = (Standing.WORSE, Standing.COMES_AND_GOES)
_OUTCOMES = {
    Standing.INSIDE: Outcome.PASS,
    Standing.OPEN: Outcome.UNSTABLE,
    Standing.BETTER: Outcome.IMPROVED,
    Standing.WORSE: Outcome.REGRESSED,
    Standing.COMES_AND_GOES: Outcome.UNSTABLE,
    Standing.UNDECIDED: Outcome.UNSTABLE,
}


def judge_correctness(attempts: Sequence[Measurement], *, where: str) -> Verdict:
    """The verdict where there is nothing to compare figures with: WRONG, ERROR or NO BASELINE.

    Args:
        where: the baseline that was looked in.
    """
    outcome, reason = _wrong(attempts) or (Outcome.NO_BASELINE, words.no_bound(attempts[0].case, where))
    return _verdict(outcome, reason, attempts)


def judge(attempts: Sequence[Measurement], bound: Bound | None, rule: Rule, *, where: str) -> Judgement:
    """The verdict on one case.

    A first figure within the screen passes at once. Beyond it is a suspicion: attempts vote until those outside the
    limit or those inside lead by enough (``statistics.walk``). The spread within attempts and the last good runs have
    limits of their own, by the same rule.

    Args:
        attempts: in the order they were made, at least one.
        where: the baseline that was looked in, for the message when it has no bound.
    """
    if bound is None or _wrong(attempts) is not None:
        return Judgement(verdict=judge_correctness(attempts, where=where), settled=True)
    limits = limits_of(bound, rule)
    level = standing([attempt.value for attempt in attempts], limits, rule)
    beside = _beside(attempts, bound, rule)
    # A level that has failed needs no word on what is beside it.
    settled = level in _FAILED or Standing.OPEN not in (level, *(gate.standing for gate in beside))
    return Judgement(verdict=_judged(level, beside, attempts, bound=bound, rule=rule), settled=settled)


def accepted_range(bound: Bound, rule: Rule) -> tuple[float, float]:
    """Lowest and highest figure accepted, in the metric's unit: the centre over and times one factor."""
    return limits_of(bound, rule).accepted


def _judged(
    level: Standing,
    beside: Sequence[_Gate],
    attempts: Sequence[Measurement],
    *,
    bound: Bound,
    rule: Rule,
) -> Verdict:
    limits = limits_of(bound, rule)
    outcome, warned = _OUTCOMES[level], level is Standing.UNDECIDED and rule.warns_unstable
    reason = words.level_reason(level, bound, limits, attempts)
    failed = next((gate for gate in beside if gate.standing in (*_FAILED, Standing.UNDECIDED)), None)
    if not outcome.is_fault and failed is not None:
        outcome, reason = failed.outcome, failed.reason()
        warned = rule.warns_unstable and outcome is Outcome.UNSTABLE
    if not outcome.is_fault and not limits.enforceable:
        outcome, warned = Outcome.UNSTABLE, rule.warns_unstable
        reason = words.loose_reason(bound, limits, attempts)
    return _verdict(outcome, reason, attempts, centre=bound.centre, accepted=limits.accepted, warned=warned)


def _beside(attempts: Sequence[Measurement], bound: Bound, rule: Rule) -> list[_Gate]:
    """Where the attempts stand to the last good runs, and their spread within to its own limit."""
    gates: list[_Gate] = []
    if bound.rolling is not None:
        rolling = limits_of(bound.rolling, rule)
        found = standing([attempt.value for attempt in attempts], rolling, rule)
        outcome = Outcome.REGRESSED if found is Standing.WORSE else Outcome.UNSTABLE
        gates.append(
            _Gate(standing=found, outcome=outcome, reason=partial(words.rolling_reason, bound, rolling, attempts))
        )
    spread = tail_limits_of(bound, rule)
    tails = [tail for attempt in attempts if (tail := attempt.tail) is not None]
    if spread is not None and len(tails) == len(attempts):
        found = standing(tails, spread, rule)
        reason = partial(words.tail_reason, bound, spread, attempts)
        gates.append(_Gate(standing=found, outcome=Outcome.UNSTABLE, reason=reason))
    return gates


def _wrong(attempts: Sequence[Measurement]) -> tuple[Outcome, str] | None:
    for attempt in attempts:
        if attempt.mismatches:
            more = len(attempt.mismatches) - 1
            others = f", and {more} more {'rank is' if more == 1 else 'ranks are'} wrong" if more else ""
            return Outcome.WRONG, f"{attempt.mismatches[0]}{others}"
    if any(attempt.checked_ranks == 0 for attempt in attempts):
        return Outcome.ERROR, "no rank's result was checked, so its speed says nothing"
    return None


def _verdict(
    outcome: Outcome,
    reason: str,
    attempts: Sequence[Measurement],
    *,
    centre: float | None = None,
    accepted: tuple[float, float] | None = None,
    warned: bool = False,
) -> Verdict:
    case = attempts[0].case
    values = tuple(attempt.value for attempt in attempts)
    slow = slowest_rank(words.worst(attempts))
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
        warned=warned,
    )
