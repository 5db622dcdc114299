"""``gpuwire baseline accept``: figures of runs become what a node is held to, because somebody says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path

from gpuwire_checks.baseline.fleet import Fleet, merge_fleet
from gpuwire_checks.baseline.fleet_words import case_title, left_out_lines, refused_line, signed_percent
from gpuwire_checks.baseline.model import entry_for
from gpuwire_checks.baseline.schema import BoundEntry, ChangeEntry
from gpuwire_checks.baseline.store import save_baseline
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.harness.floors import refuse_below_floor
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.harness.run_figures import ENTERING, GivenRun, figures_of, read_runs
from gpuwire_checks.harness.site_baseline import references, site_baseline
from gpuwire_checks.policy import load_policy
from gpuwire_checks.records import Case, Outcome
from gpuwire_checks.report.document import Result
from gpuwire_checks.units import format_value

_WORSE = (Outcome.REGRESSED, Outcome.UNSTABLE)
"""Outcomes that are accepted only of a case that is named in full."""


def accept_runs(
    paths: Sequence[Path],
    settings: Settings,
    *,
    reason: str,
    patterns: Sequence[str],
    echo: Callable[[str], object],
    force: bool = False,
) -> Path:
    """Replace bounds of the site's baseline by what runs measured; returns the file.

    Args:
        reason: why the new figures are right; it is kept in the file.
        patterns: of the cases; without any, those that a run found IMPROVED.
        force: accept figures that are below what is published too.

    Raises:
        GpuwireError: no such case, a wrong result, a worse figure that was not named, or nothing to go by.
    """
    if not reason.strip():
        raise BaselineError("nothing is accepted without a reason: say what changed with --reason")
    runs = read_runs(paths)
    baseline = site_baseline(runs, settings)
    if baseline is None:
        raise BaselineError(
            f"{settings.site} has no baseline of {runs[0].sku} whose bounds could be replaced; record one with:"
            " gpuwire baseline record"
        )
    chosen = choose_cases(runs, patterns)
    figures, _ = figures_of(runs, load_policy(settings.baselines), enters=lambda result: _enters(result, chosen))
    fleet = merge_fleet(figures)
    for line in left_out_lines(fleet):
        echo(f"gpuwire: {line}")
    _refuse_untold(fleet, chosen)
    new = [(merged.case, merged.entry) for merged in fleet.cases if merged.entry is not None]
    if not force:
        head, known = runs[-1].file.run, references(runs, settings)
        command = "gpuwire baseline accept"
        refuse_below_floor(new, known, topology=head.topology, environment=head.environment, command=command)
    for case, entry in new:
        echo(f"gpuwire: {_replaced(case, entry_for(baseline.entries, case), entry, chosen[case])}")
    entries = {**{entry.key: entry for entry in baseline.entries}, **{entry.key: entry for _, entry in new}}
    keys = {entry.key for _, entry in new}
    change = ChangeEntry(
        at=datetime.now(timezone.utc).replace(microsecond=0),
        reason=reason.strip(),
        run=", ".join(run.file.run.run_id for run in runs),
        cases=tuple(str(entry.case) for _, entry in new),
    )
    # The last good runs were of the level before, which the new one would be held to still.
    rolling = tuple(entry for entry in baseline.rolling if entry.key not in keys)
    changes = (*baseline.changes, change)
    path = save_baseline(
        settings.site, replace(baseline, entries=tuple(entries.values()), rolling=rolling, changes=changes)
    )
    echo(f"gpuwire: accepted {len(new)} bounds in {path}; from now on such nodes are held to them")
    return path


def choose_cases(runs: Sequence[GivenRun], patterns: Sequence[str]) -> dict[Case, Outcome]:
    """The cases to accept, each with the worst that a run made of it.

    Raises:
        BaselineError: a pattern fits none, none is IMPROVED, a result is wrong, or one is worse and not named in full.
    """
    found: dict[Case, list[Outcome]] = {}
    for run in runs:
        for result in run.file.results:
            if result.verdict.case is not None:
                found.setdefault(result.verdict.case, []).append(result.verdict.outcome)
    for pattern in patterns:
        if not any(fnmatchcase(case.id, pattern) for case in found):
            raise BaselineError(f"no case of {_named(runs)} is {pattern!r}; its run.json has {len(found)} others")
    chosen = {
        case: outcomes
        for case, outcomes in found.items()
        if (any(fnmatchcase(case.id, pattern) for pattern in patterns) if patterns else Outcome.IMPROVED in outcomes)
    }
    if not chosen:
        raise BaselineError(f"no case of {_named(runs)} is IMPROVED: name the cases that are meant with --case")
    for case, outcomes in chosen.items():
        if Outcome.WRONG in outcomes:
            raise BaselineError(f"{case_title(case)} is WRONG: a wrong result is no baseline, however it was reached")
    worse = {case: bad for case, outcomes in chosen.items() if (bad := _worst(outcomes)) in _WORSE}
    unnamed = [case for case in worse if case.id not in patterns]
    if unnamed:
        more = f" (and {len(unnamed) - 1} more)" if len(unnamed) > 1 else ""
        raise BaselineError(
            f"nothing is accepted: {case_title(unnamed[0])} is {worse[unnamed[0]].value}{more}; a fault must not become"
            f" the norm: repair it, or name each such case in full: --case {unnamed[0].id}"
        )
    return {case: _worst(outcomes) for case, outcomes in chosen.items()}


def _worst(outcomes: Sequence[Outcome]) -> Outcome:
    """A fault before anything else, then what was found better."""
    order = (*_WORSE, Outcome.IMPROVED)
    return next((outcome for outcome in order if outcome in outcomes), outcomes[0])


def _enters(result: Result, chosen: Mapping[Case, Outcome]) -> bool:
    case = result.verdict.case
    return case in chosen and result.verdict.outcome in (*ENTERING, *_WORSE)


def _refuse_untold(fleet: Fleet, chosen: Mapping[Case, Outcome]) -> None:
    lines = [refused_line(refused) for refused in fleet.refused]
    told = {merged.case for merged in fleet.cases}
    lines += [
        f"{case_title(case)} was not measured: it is {what.value}" for case, what in chosen.items() if case not in told
    ]
    if lines:
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        raise BaselineError(f"nothing is accepted: {lines[0]}{more}; run it again, or name other cases with --case")


def _replaced(case: Case, old: BoundEntry | None, new: BoundEntry, outcome: Outcome) -> str:
    """The old bound and the new one."""
    centre = format_value(new.centre, new.unit)
    told = f"{new.attempts} attempts, spread {new.spread:.2%}"
    named = f"; it is {outcome.value}, and accepted because it was named" if outcome in _WORSE else ""
    if old is None:
        return f"{case_title(case)}: no bound -> {centre}, {told}{named}"
    change = signed_percent(new.centre / old.centre - 1)
    return f"{case_title(case)}: {format_value(old.centre, old.unit)} -> {centre} ({change}), {told}{named}"


def _named(runs: Sequence[GivenRun]) -> str:
    return str(runs[0].path) if len(runs) == 1 else f"these {len(runs)} runs"
