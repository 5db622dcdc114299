"""``gpuwire baseline roll``: the bounds of the last good runs, beside those that were recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from gpuwire_checks.baseline.counting import WINDOW, rolled
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BoundEntry, CaseKey, case_key
from gpuwire_checks.baseline.store import save_baseline
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.harness.run_figures import GivenRun, is_right, read_runs
from gpuwire_checks.harness.site_baseline import site_baseline
from gpuwire_checks.records import METRICS, Outcome
from gpuwire_checks.report.document import Result
from gpuwire_checks.report.status import ExitStatus

_GOOD = (Outcome.PASS, Outcome.IMPROVED)


def roll_runs(paths: Sequence[Path], settings: Settings, *, echo: Callable[[str], object]) -> Path:
    """Move the rolling bounds of the site's baseline on by some good runs; what was recorded stays as it is.

    Raises:
        GpuwireError: a run that was not good from end to end, or there is no baseline, or nothing in it to move.
    """
    runs = read_runs(paths)
    for run in runs:
        _refuse_bad(run)
    baseline = site_baseline(runs, settings)
    if baseline is None:
        raise BaselineError(
            f"{settings.site} has no baseline of {runs[0].sku} beside which last good runs could be kept; record one"
            " with: gpuwire baseline record"
        )
    moved = roll(baseline, [run.file.results for run in runs])
    if not moved:
        raise BaselineError(f"{baseline.path} has no bound of a case that {runs[0].path} has a good figure of")
    rolling = {**{entry.key: entry for entry in baseline.rolling}, **moved}
    path = save_baseline(settings.site, replace(baseline, rolling=tuple(rolling.values())))
    echo(
        f"gpuwire: the last good runs of {len(moved)} cases in {path} go up to {runs[-1].file.run.run_id}"
        f" ({WINDOW} attempts at most); what was recorded is as it was"
    )
    return path


def roll(baseline: Baseline, runs: Iterable[Sequence[Result]]) -> dict[CaseKey, BoundEntry]:
    """The rolling bounds that move, after the results of good runs in the order of time."""
    bounds = {entry.key: entry for entry in baseline.entries}
    rolling = {entry.key: entry for entry in baseline.rolling}
    moved: dict[CaseKey, None] = {}
    for results in runs:
        for key, values in _good_values(results).items():
            if key in bounds:
                rolling[key] = rolled(bounds[key], rolling.get(key), values)
                moved[key] = None
    return {key: rolling[key] for key in moved}


def _good_values(results: Iterable[Result]) -> dict[CaseKey, list[float]]:
    """Figures of good results; of a suspicion that was cleared, not the attempts that raised it."""
    found: dict[CaseKey, list[float]] = {}
    for result in results:
        case = result.verdict.case
        if case is None or result.verdict.outcome not in _GOOD:
            continue
        values = [attempt.value for attempt in result.attempts if is_right(attempt) and _inside(attempt.value, result)]
        if values:
            found.setdefault(case_key(case), []).extend(values)
    return found


def _inside(value: float, result: Result) -> bool:
    """Whether a figure is within its limit on the bad side."""
    if result.verdict.accepted is None:
        return True
    low, high = result.verdict.accepted
    if METRICS[result.verdict.metric].better == "higher":
        return value >= low
    return high is None or value <= high


def _refuse_bad(run: GivenRun) -> None:
    ending = run.file.ending
    if ending is None:
        raise BaselineError(f"{run.path} has no end, it was killed: only good runs are followed; leave it out")
    if ending.exit_status != ExitStatus.GOOD:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in ending.counts.items() if outcome not in _PLAIN)
        raise BaselineError(
            f"{run.path} ended with exit status {ending.exit_status} ({counts or 'a failed test'}): only good runs are"
            " followed; leave it out"
        )


_PLAIN = tuple(outcome.value for outcome in _GOOD)
