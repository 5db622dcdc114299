"""Record a baseline: measure every planned case several times over, and write the bounds that follow."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from gpuwire_checks import __version__
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.observed import observed_software, observed_wiring
from gpuwire_checks.baseline.record import summarise
from gpuwire_checks.baseline.schema import RecordedEntry
from gpuwire_checks.baseline.store import load_baselines, merge_new, save_baseline
from gpuwire_checks.errors import BaselineError, MeasurementError
from gpuwire_checks.harness.floors import refuse_below_floor
from gpuwire_checks.harness.folder import new_run_folder
from gpuwire_checks.harness.lock import NodeLock
from gpuwire_checks.harness.node import Node, deadlines, survey
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.harness.run_head import run_head
from gpuwire_checks.harness.showing import observed
from gpuwire_checks.harness.starting import local_ranks
from gpuwire_checks.harness.trial import Measures
from gpuwire_checks.judge.verdicts import judge_correctness
from gpuwire_checks.records import Case, Measurement
from gpuwire_checks.report.document import Result, RunDocument
from gpuwire_checks.topology.model import Unread
from gpuwire_checks.topology.wires import odd_one
from gpuwire_checks.units import format_value
from gpuwire_checks.wiring.rules import faults
from gpuwire_checks.world import choose_world


def measure_passes(
    cases: Sequence[Case], ranks: Measures, *, passes: int, show: Callable[[int, Case, Measurement], None]
) -> list[tuple[Measurement, ...]]:
    """All attempts at every case, one pass over the cases after the other.

    Passes keep the attempts at one case apart in time, so that their spread has in it what a node does within minutes;
    each pass has a process group of its own.

    Args:
        show: called with the pass (from 0), the case and its measurement as each comes.

    Raises:
        MeasurementError: a case could not be measured, or its result was wrong: such a node is no baseline.
    """
    attempts: dict[Case, list[Measurement]] = {case: [] for case in cases}
    for index in range(passes):
        for case in cases:
            measurement = ranks.measure(case, fresh=index > 0 and case is cases[0])
            if measurement.mismatches:
                raise MeasurementError(f"{case.id} is WRONG, nothing is recorded: {measurement.mismatches[0]}")
            if measurement.checked_ranks == 0:
                raise MeasurementError(f"{case.id}: no rank's result was checked, nothing is recorded")
            attempts[case].append(measurement)
            show(index, case, measurement)
    return [tuple(attempts[case]) for case in cases]


def save_recorded(
    node: Node,
    measured: Sequence[Sequence[Measurement]],
    *,
    software: Mapping[str, str],
    replace_bounds: bool = False,
    as_is: bool = False,
) -> Path:
    """Add recorded bounds to the site's baseline of this node; returns the file.

    Args:
        measured: the attempts at each case.
        software: versions as the ranks see them.
        replace_bounds: start anew instead of keeping the bounds that are there.
        as_is: record what looks broken too, or is slower than what is published.

    Raises:
        BaselineError: the file cannot be written, or is another wiring's, or a figure is below what is published; says
            what to do.
    """
    refuse_broken(node, as_is=as_is)
    there = node.match.baseline
    bounds = [(attempts[0].case, summarise(attempts)) for attempts in measured]
    if not as_is:
        refuse_below_floor(
            bounds,
            [known for known in load_baselines(node.settings.baselines) if known.sku == node.fingerprint.sku],
            topology=node.topology,
            environment=os.environ,
            command="gpuwire baseline record",
        )
    new = Baseline(
        name=node.fingerprint.sku,
        path=node.settings.site,
        sku=node.fingerprint.sku,
        exact=node.fingerprint.exact,
        facts=dict(node.facts),
        recorded=RecordedEntry(
            at=datetime.now(timezone.utc),
            gpuwire=__version__,
            tier=node.plan.tier,
            hosts=1,
            software=known_software(node, software),
        ),
        wiring=observed_wiring(node.topology),
        expected_software=observed_software(node.topology),
    )
    start = new if there is None or replace_bounds else _continued(there, new)
    return save_baseline(node.settings.site, merge_new(start, [entry for _, entry in bounds]))


def refuse_broken(node: Node, *, as_is: bool = False) -> None:
    """A broken node must not become the norm.

    Args:
        as_is: the user says that the node is meant to be so; only the site's own baseline still counts.

    Raises:
        BaselineError: the node is not wired as the site's baseline or a reference says, is not healthy, or has one GPU
            or pair that is unlike all others.
    """
    there = node.match.baseline
    if there is not None and not node.match.exact and there.path.is_relative_to(node.settings.site):
        difference = node.match.difference or "the same parts are joined differently"
        raise BaselineError(
            f"{there.path}: this node is not wired as it says: {difference}"
            "; a broken node must not become the norm: repair it, or move that file away and record anew"
        )
    if as_is:
        return
    held = node.held if node.held.expected else replace(node.held, expected=observed_wiring(node.topology))
    wrong = [fault.reason for fault in faults(held)]
    odd = odd_one(node.topology)
    if odd is not None:
        wrong.append(f"{odd} is joined by other links than all the others")
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise BaselineError(
            f"nothing is recorded: {wrong[0]}{more}; a broken node must not become the norm: repair it, or, where it is"
            " meant to be so, record it with: gpuwire baseline record --as-is"
        )


def _continued(there: Baseline, new: Baseline) -> Baseline:
    """The baseline that is there, with the date of the new one and the wiring that it did not state yet."""
    if there.recorded is None or new.recorded is None:
        return new
    recorded = there.recorded.model_copy(update={"at": new.recorded.at})
    return replace(
        there,
        recorded=recorded,
        wiring=there.wiring or new.wiring,
        expected_software=there.expected_software or new.expected_software,
    )


def known_software(node: Node, software: Mapping[str, str]) -> dict[str, str | None]:
    """Versions behind a figure: what was discovered on the node, and over it what the ranks saw."""
    found = node.topology.software
    discovered = {name: getattr(found, name) for name in ("kernel", "driver", "cuda", "nccl", "torch", "python")}
    versions = {name: value.value if isinstance(value, Unread) else value for name, value in discovered.items()}
    return {**versions, **{name: value for name, value in software.items() if name in versions}}


def record_baseline(
    settings: Settings,
    *,
    attempts: int | None,
    only_missing: bool,
    echo: Callable[[str], object],
    as_is: bool = False,
) -> Path | None:
    """``gpuwire baseline record``: measure the plan of this node and write its bounds; returns the file.

    Raises:
        GpuwireError: the node could not be measured, or the baseline not be written. What was measured is in the run
            folder; a bound is written only when all its attempts are there.
    """
    topology = observed(settings.source)
    world = choose_world(topology, device=settings.device, world_size=settings.world_size)
    node = survey(settings, topology=topology, world=world)
    refuse_broken(node, as_is=as_is)
    if settings.source is not None:
        return _record_wiring(node, settings.source, echo=echo, as_is=as_is)
    cases = [case for case in node.plan.cases if not (only_missing and _has_site_bound(node, case))]
    if not cases:
        echo(f"gpuwire: {node.where} has a bound for every planned case; nothing to record")
        return None
    passes = attempts or node.policy.attempts.record
    folder, lock = new_run_folder(settings.run_dir), NodeLock()
    lock.acquire(run=str(folder))
    ranks = local_ranks(topology, world, folder=folder)
    ranks.deadlines = deadlines(node.policy)
    try:
        seconds = passes * sum(case.predicted_seconds for case in cases)
        echo(f"gpuwire: recording {len(cases)} cases of {node.fingerprint.sku}, {passes} passes, about {seconds:.0f} s")
        document = RunDocument.start(
            folder,
            run_head(node, planned=passes * len(cases), predicted_seconds=seconds, labels={}, run_id=folder.name),
        )
        measured = measure_passes(cases, ranks, passes=passes, show=_keep(document, echo, total=len(cases)))
        path = save_recorded(node, measured, software=ranks.software, replace_bounds=not only_missing, as_is=as_is)
    finally:
        ranks.close()
        lock.release()
    echo(f"gpuwire: recorded {len(measured)} bounds in {path}; from now on this node is held to them")
    echo(f"gpuwire: every sample behind them is in {folder}")
    return path


def _record_wiring(node: Node, source: Path, *, echo: Callable[[str], object], as_is: bool) -> Path:
    """What a recorded node is wired like, and no bounds; those of a live node of the same wiring can be added."""
    if any(isinstance(gpu.model, Unread) for gpu in node.topology.gpus):
        raise BaselineError(
            f"{source}: the model of its GPUs is not told, so that no node would find this baseline; record from a "
            "snapshot, or from a folder with nvidia-smi -q -x beside it"
        )
    path = save_recorded(node, [], software={}, as_is=as_is)
    echo(f"gpuwire: recorded the wiring of {source} in {path}, and no bounds: nothing was measured")
    return path


def _has_site_bound(node: Node, case: Case) -> bool:
    """Whether the site's own baseline has a bound: a shipped one does not keep a site from recording."""
    baseline = node.match.baseline
    return (
        baseline is not None
        and baseline.path.is_relative_to(node.settings.site)
        and baseline.bound_for(case) is not None
    )


def _keep(
    document: RunDocument, echo: Callable[[str], object], *, total: int
) -> Callable[[int, Case, Measurement], None]:
    """Keep every measurement as it comes, and say a line after each pass."""
    done = 0

    def show(index: int, case: Case, measurement: Measurement) -> None:
        nonlocal done
        done += 1
        document.append(
            Result(
                nodeid=f"{case.id} pass {index + 1}",
                verdict=judge_correctness([measurement], where="recording"),
                bound=None,
                attempts=(measurement,),
                seconds=measurement.wall_seconds,
            )
        )
        if done % total == 0:
            echo(f"gpuwire: pass {index + 1} done; {case.id} at {format_value(measurement.value, case.metric.unit)}")

    return show
