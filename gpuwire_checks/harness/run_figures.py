"""Figures of recorded runs, for baselines: which runs belong together, and which of their results may enter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gpuwire_checks.baseline.groups import Figures, Group
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.policy import Policy
from gpuwire_checks.records import Case, Measurement, Outcome
from gpuwire_checks.report.document import Result, RunFile
from gpuwire_checks.report.reading import read_run
from gpuwire_checks.tolerance import as_logarithm
from gpuwire_checks.topology.fingerprint import facts, first_difference

_TIER = "nightly"
"""The tier of a run that was given none."""
ENTERING = (Outcome.PASS, Outcome.IMPROVED, Outcome.NO_BASELINE)
"""Results whose figures may become a baseline: measured, right, and not worse than what is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRun:
    """A run that was named on the command line."""

    path: Path
    file: RunFile

    @property
    def sku(self) -> str:
        return self.file.run.fingerprint["sku"]

    @property
    def exact(self) -> str:
        return self.file.run.fingerprint["exact"]

    @property
    def started_at(self) -> datetime:
        return datetime.fromisoformat(self.file.run.started_at)


def read_runs(paths: Sequence[Path]) -> tuple[GivenRun, ...]:
    """Runs of nodes wired alike, by the same tier, in the order of time.

    Raises:
        GpuwireError: one cannot be read, is given twice, was made with a fault on purpose, or is of another wiring or
            tier; says which and what to do.
    """
    runs = [GivenRun(path=path, file=read_run(path)) for path in paths]
    seen: dict[str, Path] = {}
    for run in runs:
        _refuse_odd(run, runs[0])
        first = seen.setdefault(run.file.run.run_id, run.path)
        if first is not run.path:
            raise BaselineError(f"{run.path} is run {run.file.run.run_id}, as is {first}; give each run once")
    return tuple(sorted(runs, key=lambda run: (run.started_at, run.file.run.run_id)))


def _refuse_odd(run: GivenRun, first: GivenRun) -> None:
    head = run.file.run
    if head.fault is not None:
        raise BaselineError(f"{run.path} was made with a fault on purpose ({head.fault}): it is no baseline")
    try:
        at = run.started_at
    except ValueError as error:
        raise BaselineError(f"{run.path}: {head.started_at!r} is no time; give a run as gpuwire wrote it") from error
    if at.tzinfo is None:
        raise BaselineError(f"{run.path}: {head.started_at!r} has no time zone; give a run as gpuwire wrote it")
    if (run.sku, run.exact) != (first.sku, first.exact):
        difference = first_difference(facts(first.file.run.topology), facts(head.topology))
        words = difference.replace("the baseline", "the first run") if difference else "its parts are joined otherwise"
        raise BaselineError(
            f"{run.path} is of {run.sku} ({run.exact}) and {first.path} of {first.sku} ({first.exact}): {words}; give"
            " runs of nodes that are wired alike"
        )
    tier, first_tier = _tier(run), _tier(first)
    if tier != first_tier:
        raise BaselineError(
            f"{run.path} is of tier {tier} and {first.path} of tier {first_tier}: their cases differ in size, and in"
            " the time that each takes; give runs of one tier"
        )


def _tier(run: GivenRun) -> str:
    return run.file.run.options.get("tier", _TIER)


def tier_of(runs: Sequence[GivenRun]) -> str:
    return _tier(runs[0])


def figures_of(
    runs: Sequence[GivenRun], policy: Policy, *, enters: Callable[[Result], bool]
) -> tuple[list[Figures], Counter[str]]:
    """The figures of each case over all runs, and how many results were left out, by their outcome.

    Args:
        enters: whether the attempts of a result may; a wrong result never does.
    """
    groups: dict[Case, list[Group]] = {}
    left: Counter[str] = Counter()
    for run in runs:
        attempts: dict[Case, list[Measurement]] = {}
        for result in run.file.results:
            case = result.verdict.case
            if case is None:
                continue
            if result.attempts and enters(result) and all(map(is_right, result.attempts)):
                attempts.setdefault(case, []).extend(result.attempts)
            else:
                left[result.verdict.outcome.value] += 1
        for case, some in attempts.items():
            groups.setdefault(case, []).append(_group(run, some))
    return [_figures(case, some, policy, runs[0].sku) for case, some in groups.items()], left


def is_right(attempt: Measurement) -> bool:
    return not attempt.mismatches and attempt.checked_ranks > 0


def left_out_line(left: Counter[str]) -> str:
    """``left out 12 results: 10 REGRESSED, 2 ERROR``."""
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(left.items()))
    return f"left out {left.total()} results: {words}"


def _group(run: GivenRun, attempts: Sequence[Measurement]) -> Group:
    tails = [tail for attempt in attempts if (tail := attempt.tail) is not None]
    return Group(
        host=run.file.run.host,
        run=run.file.run.run_id,
        started_at=run.started_at,
        values=tuple(attempt.value for attempt in attempts),
        tails=tuple(tails) if len(tails) == len(attempts) else (),
    )


def _figures(case: Case, groups: Sequence[Group], policy: Policy, sku: str) -> Figures:
    tolerance = policy.tolerance(case, sku=sku)
    return Figures(
        case=case,
        groups=tuple(groups),
        allowed=as_logarithm(tolerance.min_effect, case.metric.better),
        night=policy.noise.night,
    )
