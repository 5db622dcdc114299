"""``gpuwire aa``: measure the same cases over and over, and say how well this node repeats itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpuwire_checks import __version__
from gpuwire_checks.errors import MeasurementError
from gpuwire_checks.harness.cases import named_cases
from gpuwire_checks.harness.folder import new_run_folder
from gpuwire_checks.harness.lock import NodeLock
from gpuwire_checks.harness.node import Node, deadlines, survey
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.harness.recording import known_software, measure_passes
from gpuwire_checks.harness.run_head import run_head
from gpuwire_checks.harness.showing import observed
from gpuwire_checks.harness.starting import local_ranks
from gpuwire_checks.harness.trial import Measures
from gpuwire_checks.judge.repeatability import analyse
from gpuwire_checks.judge.repeatability_words import repeatability_lines
from gpuwire_checks.judge.rule import make_rule
from gpuwire_checks.judge.trace import Trace
from gpuwire_checks.judge.verdicts import judge_correctness
from gpuwire_checks.policy import Policy, load_policy
from gpuwire_checks.records import Case, Measurement
from gpuwire_checks.report.document import Result, RunDocument
from gpuwire_checks.report.status import ExitStatus
from gpuwire_checks.report.trace import make_trace, read_trace, write_trace
from gpuwire_checks.units import format_seconds
from gpuwire_checks.world import choose_world

Echo = Callable[[str], object]


def repeat(settings: Settings, *, passes: int, patterns: Sequence[str], output: Path | None, echo: Echo) -> int:
    """Measure the plan's cases so many times over and print how well they repeat; returns the exit status.

    Args:
        patterns: names or patterns of cases; none of them means all.
        output: where the trace goes; None keeps it in the run folder alone.

    Raises:
        GpuwireError: no such case, another run on this node, or a file that cannot be written.
    """
    topology = observed(None)
    world = choose_world(topology, device=settings.device, world_size=settings.world_size)
    node = survey(settings, topology=topology, world=world)
    cases = named_cases(node.plan, patterns) if patterns else node.plan.cases
    folder, lock = new_run_folder(settings.run_dir), NodeLock()
    lock.acquire(run=str(folder))
    ranks = local_ranks(topology, world, folder=folder)
    ranks.deadlines = deadlines(node.policy)
    try:
        measured, trouble = _measure(node, cases, ranks, passes=passes, folder=folder, echo=echo)
        trace = make_trace(
            measured,
            topology=topology,
            gpuwire=__version__,
            sku=node.fingerprint.sku,
            software=known_software(node, ranks.software),
        )
    finally:
        ranks.close()
        lock.release()
    if trouble is not None:
        echo(f"gpuwire: measuring ended early: {trouble}")
    if trace is None:
        echo(f"gpuwire: nothing was measured twice, so nothing can be said; what the ranks said is in {folder}")
        return ExitStatus.NOT_MEASURED
    if output is not None:
        write_trace(output, trace)
    _show(trace, node.policy, echo=echo)
    echo(f"gpuwire: every sample is in {folder}; print this again with: gpuwire aa --from {output or folder}")
    return ExitStatus.GOOD if trouble is None else ExitStatus.NOT_MEASURED


def show_again(path: Path, settings: Settings, *, echo: Echo) -> int:
    """Print the analysis of a recorded trace, by the policy of today.

    Raises:
        GpuwireError: no trace, or a policy that cannot be read.
    """
    trace = read_trace(path)
    versions = ", ".join(f"{name} {version}" for name, version in trace.software.items() if version)
    echo(f"gpuwire: recorded {trace.recorded_at} on {trace.host_kind} ({trace.sku}; {versions})")
    _show(trace, load_policy(settings.baselines), echo=echo)
    return ExitStatus.GOOD


def _show(trace: Trace, policy: Policy, *, echo: Echo) -> None:
    decisions = len(trace.cases) + sum(bool(case.tails) for case in trace.cases)
    rules = {
        case.case: make_rule(policy, policy.tolerance(case.of, sku=trace.sku), decisions=decisions)
        for case in trace.cases
    }
    for line in repeatability_lines(analyse(trace, rules, record=policy.attempts.record_in_run), policy):
        echo(line)


def _measure(
    node: Node, cases: Sequence[Case], ranks: Measures, *, passes: int, folder: Path, echo: Echo
) -> tuple[Mapping[Case, Sequence[Measurement]], MeasurementError | None]:
    """Every attempt that was made, and what ended them early."""
    seconds = passes * sum(case.predicted_seconds for case in cases)
    echo(
        f"gpuwire: measuring {len(cases)} cases of {node.fingerprint.sku} against themselves, {passes} passes, about"
        f" {format_seconds(seconds)}"
    )
    head = run_head(node, planned=passes * len(cases), predicted_seconds=seconds, labels={}, run_id=folder.name)
    document = RunDocument.start(folder, head)
    measured: dict[Case, list[Measurement]] = {case: [] for case in cases}
    began = time.monotonic()

    def show(index: int, case: Case, measurement: Measurement) -> None:
        measured[case].append(measurement)
        document.append(_result(index, case, measurement))
        if case is cases[-1]:
            took = time.monotonic() - began
            left = took / (index + 1) * (passes - index - 1)
            rest = f", about {format_seconds(left)} left" if left else ""
            echo(f"gpuwire: pass {index + 1} of {passes} done after {format_seconds(took)}{rest}")

    try:
        measure_passes(cases, ranks, passes=passes, show=show)
    except MeasurementError as problem:
        return measured, problem
    return measured, None


def _result(index: int, case: Case, measurement: Measurement) -> Result:
    return Result(
        nodeid=f"{case.id} pass {index + 1}",
        verdict=judge_correctness([measurement], where="A/A"),
        bound=None,
        attempts=(measurement,),
        seconds=measurement.wall_seconds,
    )
