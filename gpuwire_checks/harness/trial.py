"""A case from first attempt to verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from gpuwire_checks.errors import MeasurementError
from gpuwire_checks.judge.control import Control, control_words
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.verdicts import Judgement, judge, judge_correctness
from gpuwire_checks.records import Bound, Case, Measurement, Outcome, SeenDevice, Verdict


class Measures(Protocol):
    """Something that measures cases: ranks on this node, or whatever a site's hook gives."""

    @property
    def software(self) -> Mapping[str, str]:
        """Versions as the ranks see them, once they are ready."""
        ...

    @property
    def devices(self) -> tuple[SeenDevice, ...] | None:
        """The accelerators that the framework sees, by their number there; None as long as nobody looked."""
        ...

    def start(self) -> None:
        """Begin to get ready, without waiting."""

    def wait_ready(self) -> None:
        """Wait until cases can be measured; raises MeasurementError when they cannot."""

    def measure(self, case: Case, *, fresh: bool = False) -> Measurement:
        """One attempt at a case; ``fresh`` makes it independent of the last. Raises MeasurementError."""

    def close(self) -> None:
        """End what was started."""


class NoRanks:
    """Stands in where a recorded node is judged: nothing is measured there."""

    software: Mapping[str, str] = MappingProxyType({})
    devices: tuple[SeenDevice, ...] | None = None

    def start(self) -> None:
        """Nothing to start."""

    def wait_ready(self) -> None:
        raise MeasurementError("the node is read from a file; nothing can be measured on it")

    def measure(self, case: Case, *, fresh: bool = False) -> Measurement:  # noqa: ARG002 - the protocol's
        raise MeasurementError(f"the node is read from a file; {case.id} cannot be measured on it")

    def close(self) -> None:
        """Nothing to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A judged case: what tests hold their expectations to."""

    case: Case | None
    verdict: Verdict
    bound: Bound | None = None
    attempts: tuple[Measurement, ...] = ()
    control: tuple[Measurement, ...] = ()


Settle = Callable[[Judgement, Sequence[Measurement]], Judgement]
"""May settle a judgement by what other cases have shown."""


def run_trial(
    case: Case,
    ranks: Measures,
    *,
    bound: Bound | None,
    rule: Rule,
    pause_seconds: float,
    where: str,
    control: Control | None = None,
    settle: Settle = lambda judgement, _: judgement,
    too_late: Callable[[], str | None] = lambda: None,
) -> Trial:
    """Measure until the judge has settled. A case that could not be measured is an ERROR that keeps its attempts.

    Args:
        pause_seconds: between attempts.
        where: the baseline that was looked in, for the message when it has no bound.
        control: a case that passed in this run, measured again beside each further attempt.
        too_late: says why there is no time for another attempt, None while there is. A suspicion that is not settled
            then is NOT RUN: neither a fault nor a pass.
    """
    attempts: list[Measurement] = []
    beside: list[Measurement] = []
    while True:
        try:
            attempts.append(ranks.measure(case, fresh=bool(attempts)))
        except MeasurementError as error:
            failed = unmeasured(case, Outcome.ERROR, str(error), attempts=tuple(attempts), bound=bound)
            return replace(failed, control=tuple(beside))
        judgement = settle(judge(attempts, bound, rule, where=where), attempts)
        if judgement.settled:
            break
        late = too_late()
        if late is not None:
            reason = f"a suspicion that was not settled: {judgement.verdict.reason}; {late}"
            ended = unmeasured(case, Outcome.NOT_RUN, reason, attempts=tuple(attempts), bound=bound)
            return replace(ended, control=tuple(beside))
        if control is not None and len(attempts) > 1:
            beside += _measure_control(ranks, control)
        time.sleep(pause_seconds)
    verdict = judgement.verdict
    if control is not None and verdict.outcome.is_fault and beside:
        verdict = replace(verdict, reason=f"{verdict.reason}; {control_words(control, beside)}")
    return Trial(case=case, verdict=verdict, bound=bound, attempts=tuple(attempts), control=tuple(beside))


def _measure_control(ranks: Measures, control: Control) -> list[Measurement]:
    """One attempt at the control, in the process group of the suspect; none where it cannot be measured."""
    try:
        return [ranks.measure(control.case, fresh=False)]
    except MeasurementError:
        # The ranks are started anew for the suspect's next attempt, which will tell by itself what is wrong.
        return []


def record_trial(case: Case, ranks: Measures, *, attempts: int, where: str) -> Trial:
    """Measure a case that has no bound as often as recording one takes; ERROR as in ``run_trial``."""
    measured: list[Measurement] = []
    for index in range(attempts):
        try:
            measured.append(ranks.measure(case, fresh=index > 0))
        except MeasurementError as error:
            return unmeasured(case, Outcome.ERROR, str(error), attempts=tuple(measured))
    verdict = judge_correctness(measured, where=where)
    return Trial(case=case, verdict=verdict, attempts=tuple(measured))


def unmeasured(
    case: Case,
    outcome: Outcome,
    reason: str,
    *,
    attempts: tuple[Measurement, ...] = (),
    bound: Bound | None = None,
) -> Trial:
    """The trial of a case that came to no figure: ERROR or NOT RUN, and why."""
    metric = case.metric
    verdict = Verdict(
        outcome=outcome,
        case=case,
        name=case.id,
        metric=metric.name,
        unit=metric.unit,
        attempts=tuple(attempt.value for attempt in attempts),
        reason=reason,
    )
    return Trial(case=case, verdict=verdict, bound=bound, attempts=attempts)


def not_reached(name: str) -> Trial:
    """The trial of a planned test that the session ended before."""
    return Trial(
        case=None,
        verdict=Verdict(
            outcome=Outcome.NOT_RUN,
            case=None,
            name=name.partition("[")[2].rstrip("]") or name,
            metric="",
            unit="",
            reason="the session ended before it",
        ),
    )
