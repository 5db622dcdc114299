"""Run folders as a recording or an ordinary run leaves them, with figures that are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from fakes import measurement
from fleets import START
from report_builders import ENDING, hardware, head
from topologies import cpu_node

from gpuwire_checks.records import Case, Mismatch, Outcome, SizeClass, Verdict
from gpuwire_checks.report.document import Result, RunDocument
from gpuwire_checks.topology.fingerprint import fingerprint
from gpuwire_checks.topology.model import NodeTopology

WRONG = Mismatch(rank=1, index=0, expected="1.0", got="2.0", count=1, total=4)


def cpu_case(collective: str = "all_reduce", size_bytes: int = 1 << 20) -> Case:
    return Case(
        collective=collective,
        size_bytes=size_bytes,
        dtype="float32",
        world_size=2,
        size_class=SizeClass.BUCKET,
        backend="gloo",
        device="cpu",
    )


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The attempts at one case, and what was made of them."""

    values: Sequence[float]
    outcome: Outcome = Outcome.NO_BASELINE
    accepted: tuple[float, float | None] | None = None
    wrong: bool = False


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a run folder says; everything can be named, most need not be."""

    host: str = "node-1"
    day: int = 0
    topology: NodeTopology = field(default_factory=cpu_node)
    options: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    fault: str | None = None
    missing: str | None = None
    exit_status: int = 0
    finished: bool = True


def put_run(parent: Path, figures: Mapping[Case, Figures | Sequence[float]], made: Made | None = None) -> Path:
    """Write a run folder; returns it."""
    made = made or Made()
    run_id = f"day{made.day:02d}-{made.host}"
    known = fingerprint(made.topology)
    document = RunDocument.start(
        parent / run_id,
        replace(
            head(topology=made.topology, environment=made.environment),
            run_id=run_id,
            host=made.host,
            started_at=(START + timedelta(days=made.day)).isoformat(timespec="milliseconds"),
            fingerprint={"sku": known.sku, "exact": known.exact},
            options=dict(made.options),
            fault=made.fault,
        ),
    )
    if made.missing is not None:
        verdict = hardware(Outcome.MISSING, "GPU0 links", made.missing)
        document.append(Result(nodeid="wiring", verdict=verdict, bound=None, attempts=(), seconds=0.1))
    for case, given in figures.items():
        document.append(_result(case, given if isinstance(given, Figures) else Figures(values=given)))
    if made.finished:
        counts = {"REGRESSED": 1} if made.exit_status else {"PASS": 1}
        document.finish(replace(ENDING, exit_status=made.exit_status, counts=counts))
    return parent / run_id


def _result(case: Case, figures: Figures) -> Result:
    wrong = (WRONG,) if figures.wrong else ()
    attempts = tuple(measurement(case, value, wrong) for value in figures.values)
    verdict = Verdict(
        outcome=figures.outcome,
        case=case,
        name=case.id,
        metric=case.metric.name,
        unit=case.metric.unit,
        accepted=figures.accepted,
        attempts=tuple(figures.values),
        reason="made up",
    )
    return Result(nodeid=f"suite[{case.id}]", verdict=verdict, bound=None, attempts=attempts, seconds=0.1)
