"""``gpuwire baseline merge``: one baseline from the runs of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from gpuwire_checks.baseline.comparing import compare
from gpuwire_checks.baseline.counting import grown, too_far
from gpuwire_checks.baseline.fleet import Fleet, merge_fleet
from gpuwire_checks.baseline.fleet_words import case_title, left_out_lines, refused_line, signed_percent
from gpuwire_checks.baseline.groups import Figures
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BoundEntry, ChangeEntry
from gpuwire_checks.baseline.store import save_baseline
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.harness.baseline_words import comparison_lines
from gpuwire_checks.harness.floors import refuse_below_floor
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.harness.run_figures import ENTERING, GivenRun, figures_of, left_out_line, read_runs
from gpuwire_checks.harness.site_baseline import (
    new_baseline,
    references,
    site_baseline,
    software_lines,
    sound_runs,
    with_hosts,
)
from gpuwire_checks.policy import load_policy
from gpuwire_checks.units import format_value

Echo = Callable[[str], object]
_RUNS_BETWEEN = ", "


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What merging makes of a baseline: its bounds, how many are new, how many grew, and why others did not."""

    entries: tuple[BoundEntry, ...]
    new: int
    grown: int
    refused: tuple[str, ...]


def merge_runs(
    paths: Sequence[Path],
    settings: Settings,
    *,
    to: str | None,
    echo: Echo,
    leave_out: bool = False,
    dry_run: bool = False,
    force: bool = False,
) -> Path | None:
    """Merge runs into the site's baseline of their nodes; returns the file, None where none was written.

    Args:
        to: the baseline that is meant, where the nodes' SKU does not say it.
        leave_out: leave out cases on which there is no agreement, instead of refusing all.
        dry_run: say what would be, and write nothing.
        force: merge figures that are below what is published too.

    Raises:
        GpuwireError: runs that do not belong together, nodes that do not agree, or a file that cannot be written.
    """
    given = read_runs(paths)
    target = site_baseline(given, settings, to=to)
    known = references(given, settings)
    runs, broken = sound_runs(given, [target, *known] if target else known)
    if not runs:
        raise BaselineError(f"nothing is merged: {broken[0]}")
    _refuse_merged(runs, target)
    figures, left = figures_of(runs, load_policy(settings.baselines), enters=lambda r: r.verdict.outcome in ENTERING)
    if not figures:
        raise BaselineError("nothing is merged: no run has a figure that may enter a baseline")
    fleet = merge_fleet(figures)
    _say(echo, [*broken, *software_lines(runs), *left_out_lines(fleet), *([left_out_line(left)] if left else [])])
    result = grow(target.entries if target else (), fleet, figures)
    refused = [*map(refused_line, fleet.refused), *result.refused]
    _refuse(refused, leave_out=leave_out, echo=echo)
    if not force:
        bounds = [(merged.case, merged.entry) for merged in fleet.cases if merged.entry is not None]
        last = runs[-1].file.run
        command = "gpuwire baseline merge"
        refuse_below_floor(bounds, known, topology=last.topology, environment=last.environment, command=command)
    if not result.new + result.grown:
        raise BaselineError("nothing is merged: no case of these runs stands")
    nodes = len(fleet.nodes)
    start = target or new_baseline(runs, settings, hosts=nodes)
    after = replace(with_hosts(target, more=nodes) if target else start, entries=result.entries)
    after = _with_change(after, runs, result, fleet.entries)
    what = f"{result.new} new bounds and {result.grown} grown by counts, of {nodes} nodes"
    if dry_run:
        for line in comparison_lines(compare(start, after), start, after):
            echo(line)
        echo(f"gpuwire: would merge {len(runs)} runs: {what}; nothing is written")
        return None
    path = save_baseline(settings.site, after)
    echo(f"gpuwire: merged {len(runs)} runs into {path}: {what}")
    return path


def grow(bounds: Sequence[BoundEntry], fleet: Fleet, figures: Sequence[Figures]) -> Grown:
    """A baseline's bounds with those of a fleet: added, or grown where they are of one level; never overwritten."""
    entries = {entry.key: entry for entry in bounds}
    given = {one.case: one for one in figures}
    new, more, refused = 0, 0, []
    for merged in fleet.cases:
        if merged.entry is None:
            continue
        old, of_case = entries.get(merged.entry.key), given[merged.case]
        if old is None:
            entries[merged.entry.key] = merged.entry
            new += 1
            continue
        apart = too_far(old, merged.entry, allowed=of_case.allowed, night=of_case.night)
        if apart is None:
            entries[old.key] = grown(old, merged.entry)
            more += 1
        else:
            change = signed_percent(merged.entry.centre / old.centre - 1)
            refused.append(
                f"{case_title(merged.case)}: {format_value(merged.entry.centre, old.unit)} is {change} from the"
                f" {format_value(old.centre, old.unit)} that the baseline has: two levels, and none between them; find"
                " out which is right, then accept it with: gpuwire baseline accept"
            )
    return Grown(entries=tuple(entries.values()), new=new, grown=more, refused=tuple(refused))


def _refuse_merged(runs: Sequence[GivenRun], target: Baseline | None) -> None:
    """A run counts once: merging it again would make its figures look better known than they are."""
    changes = target.changes if target else ()
    merged = {run: change for change in changes for run in change.run.split(_RUNS_BETWEEN)}
    for run in runs:
        change = merged.get(run.file.run.run_id)
        if change is not None and target is not None:
            raise BaselineError(
                f"{run.path} is in {target.path} already, since {change.at:%Y-%m-%d} ({change.reason}); leave it out"
            )


def _refuse(refused: Sequence[str], *, leave_out: bool, echo: Echo) -> None:
    if leave_out:
        _say(echo, [f"left out: {line}" for line in refused])
    elif refused:
        _say(echo, refused[1:])
        more = f" (and {len(refused) - 1} more, above)" if len(refused) > 1 else ""
        raise BaselineError(
            f"nothing is merged: {refused[0]}{more}; give other runs, or merge what stands with --leave-out"
        )


def _with_change(baseline: Baseline, runs: Sequence[GivenRun], result: Grown, merged: Sequence[BoundEntry]) -> Baseline:
    """The trail: which runs are behind it."""
    change = ChangeEntry(
        at=datetime.now(timezone.utc).replace(microsecond=0),
        reason=f"merged by counts: {result.new} new, {result.grown} grown",
        run=_RUNS_BETWEEN.join(run.file.run.run_id for run in runs),
        cases=tuple(str(entry.case) for entry in merged),
    )
    return replace(baseline, changes=(*baseline.changes, change))


def _say(echo: Echo, lines: Sequence[str]) -> None:
    for line in lines:
        echo(f"gpuwire: {line}")
