"""Results and run documents for tests of the report: every field can be named, most need not be."""

from __future__ import annotations

from collections.abc import Mapping

from topologies import cpu_node

from gpuwire_checks.records import BUSBW, LATENCY, Bound, Case, Measurement, Outcome, SizeClass, Verdict
from gpuwire_checks.report.document import BaselineHead, Ending, Result, RunHead
from gpuwire_checks.topology.model import NodeTopology

MIB = 1 << 20
BASELINE = BaselineHead(
    name="h100-sxm-8x", path="/site/h100-sxm-8x.yaml", recorded_at="2026-01-01T00:00:00+00:00", exact=True
)


def case(collective: str = "all_reduce", size_bytes: int = MIB, *, world_size: int = 2) -> Case:
    return Case(
        collective=collective,
        size_bytes=size_bytes,
        dtype="float32",
        world_size=world_size,
        size_class=SizeClass.BUCKET if size_bytes > 64 << 10 else SizeClass.LATENCY,
        backend="gloo",
        device="cpu",
    )


def measured(*, samples: int = 4, seconds: float = 0.0012345678901234) -> Measurement:
    """An attempt of two ranks; no two of its samples are the same, as in life."""
    ranks = tuple(tuple(seconds * (1 + 1e-7 * (i + rank)) for i in range(samples)) for rank in range(2))
    return Measurement(
        case=case(),
        moved_bytes=MIB,
        pipelined=ranks,
        per_call=ranks,
        arrival_lag=ranks,
        mismatches=(),
        checked_ranks=2,
        calls_seconds=0.1,
        wall_seconds=0.2,
        started_at="2026-01-01T00:00:00.000+00:00",
        conditions={"clock": "monotonic"},
    )


def verdict(
    outcome: Outcome = Outcome.PASS,
    *,
    of: Case | None = None,
    value: float | None = 2.0,
    centre: float | None = 2.0,
    effect: float = 0.25,
    reason: str = "",
    slowest_rank: int | None = None,
    attempts: int = 1,
) -> Verdict:
    """A verdict whose bound accepts ``effect`` to either side of ``centre``."""
    of = of or case()
    return Verdict(
        outcome=outcome,
        case=of,
        name=of.id,
        metric=of.metric.name,
        unit=of.metric.unit,
        value=value,
        centre=centre,
        accepted=None if centre is None else (centre * (1 - effect), centre / (1 - effect)),
        attempts=() if value is None else (value,) * attempts,
        slowest_rank=slowest_rank,
        reason=reason or f"because of {outcome.value}",
    )


def latency(value: float, *, centre: float, outcome: Outcome = Outcome.PASS) -> Verdict:
    """A verdict in microseconds, where lower is better; it accepts a quarter less, and a third more."""
    return verdict(outcome, of=case(size_bytes=8 << 10), value=value, centre=centre)


def nothing_measured(outcome: Outcome, *, reason: str = "", of: Case | None = None) -> Verdict:
    return verdict(outcome, of=of, value=None, centre=None, reason=reason)


def hardware(outcome: Outcome, name: str, reason: str) -> Verdict:
    """A verdict on wiring: it has no case and no figure."""
    return Verdict(outcome=outcome, case=None, name=name, metric="wiring", unit="", reason=reason)


def result(of: Verdict | None = None, *, attempts: tuple[Measurement, ...] = (), nodeid: str = "") -> Result:
    of = of or verdict()
    bound = None
    if of.centre is not None:
        metric = LATENCY if of.metric == "latency" else BUSBW
        bound = Bound(
            metric=metric, centre=of.centre, spread=0.02, degrees=20.0, attempts=5, nodes=1, where="h100-sxm-8x.yaml:9"
        )
    nodeid = nodeid or f"suites/test_collectives.py::test_collective[{of.name}]"
    return Result(nodeid=nodeid, verdict=of, bound=bound, attempts=attempts, seconds=0.5)


def head(
    *,
    topology: NodeTopology | None = None,
    baseline: BaselineHead | None = BASELINE,
    environment: Mapping[str, str] | None = None,
    command: tuple[str, ...] = ("gpuwire", "run"),
) -> RunHead:
    return RunHead(
        gpuwire="0.1.0",
        run_id="20260101-000000-node-17",
        started_at="2026-01-01T00:00:00.000+00:00",
        command=command,
        options={"tier": "nightly"},
        host="node-17",
        topology=topology or cpu_node(),
        fingerprint={"sku": "h100-sxm-8x", "exact": "0123456789ab"},
        baseline=baseline,
        planned=2,
        predicted_seconds=1.5,
        environment=environment or {},
    )


ENDING = Ending(
    finished_at="2026-01-01T00:01:00.000+00:00", exit_status=1, counts={"PASS": 1, "REGRESSED": 1}, seconds=60.0
)
