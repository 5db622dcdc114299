"""The verdict where nothing was recorded, and somebody published what such a node reaches: it is held to that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from gpuwire_checks.baseline.floors import AppliedFloor
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.slowest import slowest_rank
from gpuwire_checks.judge.verdicts import Judgement, judge_correctness
from gpuwire_checks.judge.words import worst
from gpuwire_checks.records import Measurement, Outcome
from gpuwire_checks.statistics.walk import walk_end
from gpuwire_checks.units import format_value

_OUTCOMES = {"cleared": Outcome.PASS, "failed": Outcome.REGRESSED, "disagree": Outcome.UNSTABLE}


def judge_reference(attempts: Sequence[Measurement], floor: AppliedFloor, rule: Rule, *, where: str) -> Judgement:
    """The verdict of a case without a bound, by a published floor.

    A first figure that reaches the floor passes. One below it is a suspicion, which attempts decide as they do with a
    bound (``statistics.walk``). A wrong result stays one, whatever its speed.

    Args:
        attempts: in the order they were made, at least one.
        where: the baseline that was looked in.
    """
    without = judge_correctness(attempts, where=where)
    if without.outcome is not Outcome.NO_BASELINE:
        return Judgement(verdict=without, settled=True)
    below = [attempt.value < floor.value for attempt in attempts]
    end = walk_end(below[below.index(True) :], rule.walk) if any(below) else "cleared"
    if end is None and len(attempts) >= rule.most:
        end = "disagree"
    outcome = Outcome.UNSTABLE if end is None else _OUTCOMES[end]
    verdict = replace(
        without,
        outcome=outcome,
        accepted=(floor.value, None),
        reason=_reason(outcome, attempts, floor),
        warned=outcome is Outcome.UNSTABLE and rule.warns_unstable,
    )
    return Judgement(verdict=verdict, settled=end is not None and len(attempts) >= rule.first)


def _reason(outcome: Outcome, attempts: Sequence[Measurement], floor: AppliedFloor) -> str:
    """The figure, what it is held to for want of a bound, and for a fault who is slowest."""
    values = [attempt.value for attempt in attempts]
    figure = f"busbw {format_value(median(values), 'GB/s')}"
    if outcome is Outcome.PASS:
        return f"{figure}; held to {floor.words}: nothing was recorded here"
    below = sum(value < floor.value for value in values)
    side = "is below" if median(values) < floor.value else "is not always above"
    undecided = ": neither side led within the attempts allowed" if outcome is Outcome.UNSTABLE else ""
    slow = slowest_rank(worst(attempts))
    blame = f"; slowest is rank {slow[0]}: it {slow[1]}" if slow is not None else ""
    return (
        f"{figure} {side} {floor.words}; {below} of {len(values)} attempts below{undecided}{blame};"
        " nothing was recorded here, so it is held to what is published"
    )
