"""What every rule makes of one kind of noise: false failures, what is seen of faults, and the attempts it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from verdict_drawn import drawn
from verdict_noise import Array, Noise, Shape
from verdict_rules import FAMILY, Night, others, ours, record

from gpuwire_checks.judge.rule import Rule

DROPS = (0.03, 0.05, 0.10, 0.25, 0.50)
PRESENT = 0.7
"""Share of attempts in which a fault that comes and goes is there."""
OF_INTERMITTENT = 0.10
OURS = "gpuwire"
RULES = (OURS, "5 % below", "10 % below", "5 %, any of 3", "(v-b)/b < -5 %", "0.95 x expected", "mean:5 %")
FAMILIES, FAMILIES_OF_NIGHTS = 100, 250
"""Of 20 cases: baselines that are drawn, more of them where a rare one decides."""
DRAWN_FAMILIES, DRAWN_NIGHTS, DRAWN_FAULTY = 100, 250, 1

NORMAL = tuple(Noise(name=f"normal, {sigma:.1%}", shape="normal", sigma=sigma) for sigma in (0.005, 0.01, 0.02, 0.05))
_OTHER_SHAPES: tuple[tuple[str, Shape, float, float], ...] = (
    ("Student's t, 3 degrees", "heavy tails", 0.0, 0.0),
    ("5 % slowed by 10-50 %", "spoiled", 0.0, 0.0),
    ("two modes, half each", "two modes", 0.0, 0.0),
    ("slow mode, one in 5", "slow mode", 0.0, 0.0),
    ("nights apart by 0.4", "normal", 0.4, 0.0),
    ("nights and random walk", "normal", 0.4, 0.1),
)
OTHER = tuple(
    Noise(name=f"{name}, {sigma:.1%}", shape=shape, sigma=sigma, nights=nights, step=step)
    for name, shape, nights, step in _OTHER_SHAPES
    for sigma in (0.01, 0.02)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """Of one decision on a healthy case: chance of a failure, its standard error, attempts.

    Attributes:
        at_most: 95 % upper limit of the chance.
        finest: smallest chance that can be told; 0 where it is computed and not counted.
    """

    chance: float
    error: float
    at_most: float
    attempts: float
    finest: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Every rule on one kind of noise, with baselines of so many attempts.

    Attributes:
        seen: share of faults seen, by drop and rule.
        intermittent: the same of a fault of 10 % in 70 % of attempts.
        attempts: of this judge at a fault of each drop.
        enforceable: share of cases whose limit is tight enough to be enforced.
    """

    noise: Noise
    recorded: int
    healthy: Mapping[str, Healthy]
    seen: Mapping[float, Mapping[str, float]]
    intermittent: Mapping[str, float]
    attempts: Mapping[float, float]
    enforceable: float


def studies(rule: Rule, *, recorded: Sequence[int]) -> Mapping[int, list[Study]]:
    """Every kind of noise, with baselines of so many attempts; on two cores."""
    noises = (*NORMAL, *OTHER)
    with ProcessPoolExecutor(max_workers=2) as pool:
        running = {count: [pool.submit(study, noise, rule, recorded=count) for noise in noises] for count in recorded}
        return {count: [one.result() for one in of_count] for count, of_count in running.items()}


def study(noise: Noise, rule: Rule, *, recorded: int) -> Study:
    """Every rule on one kind of noise."""
    return _drawn_study(noise, rule, recorded=recorded) if noise.step else _exact_study(noise, rule, recorded=recorded)


def _exact_study(noise: Noise, rule: Rule, *, recorded: int) -> Study:
    families = FAMILIES_OF_NIGHTS if noise.nights else FAMILIES
    baseline = record(noise, rule, families=families, attempts=recorded, seed=1)

    def every(drop: float = 0.0, present: float = 1.0) -> Mapping[str, Night]:
        mine = ours(noise, baseline, rule, drop=drop, present=present)
        return {OURS: mine, **others(noise, baseline, drop=drop, present=present)}

    by_drop = {drop: every(drop) for drop in DROPS}
    return Study(
        noise=noise,
        recorded=recorded,
        healthy={name: _healthy(night) for name, night in every().items()},
        seen={drop: _means(nights) for drop, nights in by_drop.items()},
        intermittent=_means(every(OF_INTERMITTENT, PRESENT)),
        attempts={drop: float(nights[OURS].attempts.mean()) for drop, nights in by_drop.items()},
        enforceable=float(baseline.enforceable.mean()),
    )


def _drawn_study(noise: Noise, rule: Rule, *, recorded: int) -> Study:
    baseline = record(noise, rule, families=DRAWN_FAMILIES, attempts=recorded, seed=1)
    healthy = drawn(noise, baseline, rule, nights=DRAWN_NIGHTS)
    by_drop = {drop: drawn(noise, baseline, rule, nights=DRAWN_FAULTY, drop=drop) for drop in DROPS}
    flaky = drawn(noise, baseline, rule, nights=DRAWN_FAULTY, drop=OF_INTERMITTENT, present=PRESENT)
    return Study(
        noise=noise,
        recorded=recorded,
        healthy={
            name: Healthy(
                chance=count.rate,
                error=(count.rate / count.nights) ** 0.5,
                at_most=count.at_most,
                attempts=count.attempts / count.nights,
                finest=1 / count.nights,
            )
            for name, count in healthy.items()
        },
        seen={drop: {name: count.rate for name, count in counts.items()} for drop, counts in by_drop.items()},
        intermittent={name: count.rate for name, count in flaky.items()},
        attempts={drop: counts[OURS].attempts / counts[OURS].nights for drop, counts in by_drop.items()},
        enforceable=float(baseline.enforceable.mean()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaky:
    """A fault in 70 % of attempts: how often a night sees it that has it in so many cases, and a week in one case.

    Attributes:
        by_first: one case alone, by attempts before a pass: chance to be seen, attempts of a healthy case.
    """

    by_cases: Mapping[int, float]
    week: float
    by_first: Mapping[int, tuple[float, float]]


def flaky(noise: Noise, rule: Rule, *, recorded: int, cases: tuple[int, ...] = (1, 2, 3, 5, FAMILY)) -> Flaky:
    by_first = {}
    for first in (1, 2, 3):
        patient = replace(rule, first=first)
        baseline = record(noise, patient, families=FAMILIES, attempts=recorded, seed=1)
        seen = ours(noise, baseline, patient, drop=OF_INTERMITTENT, present=PRESENT).failing
        by_first[first] = (float(seen.mean()), float(ours(noise, baseline, patient).attempts.mean()))
        if first == rule.first:
            alone = seen
    return Flaky(
        by_cases={count: _together(alone, count) for count in cases},
        week=float((1 - (1 - alone) ** 7).mean()),
        by_first=by_first,
    )


def _together(seen: Array, count: int) -> float:
    """Chance that at least one of so many cases of a family is seen."""
    groups = seen.reshape(-1, FAMILY)[:, : FAMILY // count * count].reshape(-1, count)
    return float((1 - np.prod(1 - groups, axis=1)).mean())


def _healthy(night: Night) -> Healthy:
    # Cases of a family share their spread's prior: families are what is independent.
    by_family = night.failing.reshape(-1, FAMILY).mean(axis=1)
    chance, error = float(by_family.mean()), float(by_family.std(ddof=1) / len(by_family) ** 0.5)
    return Healthy(
        chance=chance,
        error=error,
        at_most=max(chance + 1.645 * error, night.finest),
        attempts=float(night.attempts.mean()),
        finest=night.finest,
    )


def _means(nights: Mapping[str, Night]) -> Mapping[str, float]:
    return {name: float(night.failing.mean()) for name, night in nights.items()}
