"""Traces of attempts for tests: drawn figures, at as many cases as asked for."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from gloo import case

from gpuwire_checks.judge.trace import Trace, TracedAttempt, TracedCase
from gpuwire_checks.records import Case

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
COLLECTIVES = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast", "reduce", "gather")
Fall = Callable[[random.Random, int, int], float]
"""From the pass and the case's number to how far its attempt is to the bad side, as a logarithm, beside the noise."""


def quiet(draw: random.Random, index: int, number: int) -> float:
    return 0.0


def trace(
    *, passes: int = 40, noise: float = 0.02, fall: Fall = quiet, tails: float | None = None, seed: int = 1
) -> Trace:
    """Six rates and six latencies of normal noise, and what ``fall`` adds to it; ``tails`` is the noise of theirs."""
    draw = random.Random(seed)
    cases = [case(name, size_bytes=size, world_size=2) for size in (1 << 20, 8 << 10) for name in COLLECTIVES]
    figures: dict[Case, list[TracedAttempt]] = {one: [] for one in cases}
    for index in range(passes):
        for number, one in enumerate(cases):
            bad = draw.gauss(0, noise) + fall(draw, index, number)
            factor = math.exp(-bad if one.metric.better == "higher" else bad)
            at = START + timedelta(seconds=5 * index + 0.1 * number)
            tail = None if tails is None else 1.5 * math.exp(abs(draw.gauss(0, tails)))
            figures[one].append(TracedAttempt(at=at.isoformat(), value=100.0 * factor, tail=tail))
    return Trace(
        host_kind="Test CPU / 2 cores / bare metal",
        recorded_at=START.isoformat(),
        gpuwire="0.1.0",
        sku="cpu-test-2c",
        software={"torch": "2.13.0", "nccl": None},
        cases=tuple(traced_case(one, attempts) for one, attempts in figures.items()),
    )


def traced_case(of: Case, attempts: list[TracedAttempt]) -> TracedCase:
    return TracedCase(
        case=of.id,
        metric=of.metric.name,
        unit=of.metric.unit,
        better=of.metric.better,
        family="tests",
        of=of,
        attempts=tuple(attempts),
    )
