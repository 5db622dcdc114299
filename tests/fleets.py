"""Figures of a fleet, made up: nodes, their runs, the noise between attempts, and what is wrong with some."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone

from gpuwire_checks.baseline.groups import Figures, Group
from gpuwire_checks.records import Case, SizeClass

START = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
CENTRE = 100.0
NIGHT = 0.4


def fleet_case(collective: str = "all_reduce", size_bytes: int = 1 << 30) -> Case:
    latency = size_bytes <= 64 << 10
    return Case(
        collective=collective,
        size_bytes=size_bytes,
        dtype=None if collective == "barrier" else "float32",
        world_size=8,
        size_class=SizeClass.LATENCY if latency else SizeClass.PEAK,
        backend="nccl",
        device="cuda",
    )


def fleet(
    nodes: int = 6,
    *,
    case: Case | None = None,
    runs: int = 1,
    attempts: int = 5,
    noise: float = 0.01,
    between: float = 0.0,
    factors: Mapping[int, float] | None = None,
    drift: float = 0.0,
    allowed: float = 0.03,
    seed: int = 0,
) -> Figures:
    """The figures of one case. Nodes are recorded a day apart, and run by run.

    Args:
        noise: standard deviation between attempts, as a logarithm.
        between: the same between nodes.
        factors: by which the figures of a node are off.
        drift: change of every figure from one run, of whatever node, to the next.
    """
    chance = random.Random(seed)
    offsets = [chance.gauss(0, between) for _ in range(nodes)]
    groups = []
    for number in range(nodes * runs):
        node = number % nodes
        night = chance.gauss(0, NIGHT * noise)
        level = CENTRE * (factors or {}).get(node, 1.0) * (1 + drift) ** number
        values = tuple(level * math.exp(offsets[node] + night + chance.gauss(0, noise)) for _ in range(attempts))
        groups.append(group(f"node-{node + 1}", values, run=f"run-{number:02d}-node-{node + 1}", day=number))
    return Figures(case=case or fleet_case(), groups=tuple(groups), allowed=-math.log1p(-allowed), night=NIGHT)


def group(host: str, values: Sequence[float], *, run: str = "", day: int = 0, tails: Sequence[float] = ()) -> Group:
    return Group(
        host=host,
        run=run or f"run-{day}-{host}",
        started_at=START + timedelta(days=day),
        values=tuple(values),
        tails=tuple(tails),
    )


def scaled(figures: Figures, factor: float) -> Figures:
    """The same in another unit."""
    groups = tuple(
        Group(
            host=g.host, run=g.run, started_at=g.started_at, values=tuple(v * factor for v in g.values), tails=g.tails
        )
        for g in figures.groups
    )
    return Figures(case=figures.case, groups=groups, allowed=figures.allowed, night=figures.night)
