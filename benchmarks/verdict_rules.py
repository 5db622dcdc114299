"""Chances of a failure under gpuwire's rule and under those that others use, on the same recorded baselines.

Given a baseline and what a night's attempts have in common, attempts are independent, and the chance is computed from
the distribution of the noise; only baselines are drawn. So a rate of one in a million is measured, not hoped for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from statistics import median

import numpy as np
from verdict_noise import Array, Noise

from gpuwire_checks.baseline.family import level_noise
from gpuwire_checks.baseline.schema import BoundEntry, CaseEntry, round_figure
from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.judge.limits import Limits, limits_of
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.records import BUSBW, Bound
from gpuwire_checks.statistics.robust import robust_spread
from gpuwire_checks.statistics.walk import Walk, failure_chance

TRUE = 100.0
"""GB/s that every simulated case is worth."""
FAMILY = 20
ROUNDS = 5
"""Rounds behind a mean of pytest-benchmark: its default for slow calls."""
DRAWN_MEANS = 200_000
CASES = [
    CaseEntry(collective=name, size=1 << 20, dtype=dtype, world_size=8, backend="nccl")
    for name, dtype in product([name for name in COLLECTIVES if name != "barrier"], ("float32", "float16", "bfloat16"))
][:FAMILY]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Cases that a baseline was recorded of, one of each an element.

    Attributes:
        limits: what the judge holds them to.
        middles, means: median and mean of the recorded figures, in GB/s.
        mean_times: mean of the recorded times, over the time of the true figure.
        families: as many cases in a row share a family, and are not independent of each other.
    """

    limits: Sequence[Limits]
    middles: Array
    means: Array
    mean_times: Array

    @cached_property
    def centres(self) -> Array:
        return -np.log(np.array([limits.centre for limits in self.limits]) / TRUE)

    @cached_property
    def widths(self) -> Array:
        return np.array([limits.width for limits in self.limits])

    @cached_property
    def screens(self) -> Array:
        return np.array([limits.screen for limits in self.limits])

    @cached_property
    def enforceable(self) -> Array:
        return np.array([limits.enforceable for limits in self.limits], dtype=float)


@lru_cache(maxsize=64)
def record(noise: Noise, rule: Rule, *, families: int, attempts: int, seed: int) -> Recorded:
    """Baselines of so many families of 20 cases, by the product's own functions."""
    falls = noise.draw(np.random.default_rng([seed, attempts]), families * FAMILY, attempts)
    values = TRUE * np.exp(-falls)
    limits: list[Limits] = []
    for start in range(0, len(values), FAMILY):
        entries = [_entry(index, list(row)) for index, row in enumerate(values[start : start + FAMILY].tolist())]
        limits += [limits_of(_bound(entry, entries), rule) for entry in entries]
    return Recorded(
        limits=limits,
        middles=np.median(values, axis=1),
        means=values.mean(axis=1),
        mean_times=np.exp(falls).mean(axis=1),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What a rule makes of each case on one night: its chance to fail, and the attempts it takes.

    Attributes:
        finest: smallest chance that can be told; 0 where it is computed.
    """

    failing: Array
    attempts: Array
    finest: float = 0.0


def ours(noise: Noise, recorded: Recorded, rule: Rule, *, drop: float = 0.0, present: float = 1.0) -> Night:
    """The product's rule.

    Args:
        drop: share of the figure that a fault takes.
        present: share of attempts in which it does.
    """
    offsets, weights = noise.offsets()
    outside = _beyond(noise, recorded.centres + recorded.widths, offsets, drop=drop, present=present)
    suspicious = _beyond(noise, recorded.centres + recorded.screens, offsets, drop=drop, present=present)
    # Before a pass there are ``first`` attempts, and each of them may begin the walk.
    begins = sum((1 - suspicious) ** before for before in range(rule.first))
    failing = failure_chance(outside, suspicious, rule.walk) * begins
    attempts = _walk_attempts(outside, suspicious, rule.walk) * begins + rule.first * (1 - suspicious) ** rule.first
    attempts = attempts + sum(before * suspicious * (1 - suspicious) ** before for before in range(rule.first))
    # A first figure beyond the good side is looked at again too, and each of those attempts may begin the walk. The
    # shortest such look is counted; the check by standing() in verdicts.py would show what that leaves out.
    good = 1 - _beyond(noise, recorded.centres - recorded.widths, offsets, drop=drop, present=present)
    later = good * sum((1 - suspicious) ** before for before in range(rule.clear + 1))
    failing = failing + later * failure_chance(outside, suspicious, rule.walk)
    attempts = attempts + _walk_attempts(good, good, rule.walk) - good
    return Night(failing=weights @ failing, attempts=weights @ attempts)


def others(noise: Noise, recorded: Recorded, *, drop: float = 0.0, present: float = 1.0) -> Mapping[str, Night]:
    """The rules that others use, under their names."""
    offsets, weights = noise.offsets()
    single = {
        "5 % below": -np.log(0.95 * recorded.middles / TRUE),
        "10 % below": -np.log(0.90 * recorded.middles / TRUE),
        "(v-b)/b < -5 %": -np.log(0.95 * recorded.means / TRUE),
        "0.95 x expected": np.full(len(recorded.middles), -np.log(0.95)),
    }
    chances = {name: _beyond(noise, limit, offsets, drop=drop, present=present) for name, limit in single.items()}
    once = np.ones(len(recorded.middles))
    nights = {name: Night(failing=weights @ chance, attempts=once) for name, chance in chances.items()}
    retried = chances["5 % below"]
    nights["5 %, any of 3"] = Night(failing=weights @ retried**3, attempts=weights @ (1 + retried + retried**2))
    means = _mean_times(noise, drop=drop, present=present) if present < 1 else _mean_times(noise) / (1 - drop)
    slower = [
        1 - np.searchsorted(means, 1.05 * recorded.mean_times / np.exp(offset)) / len(means) for offset in offsets
    ]
    nights["mean:5 %"] = Night(failing=weights @ np.array(slower), attempts=ROUNDS * once, finest=3 / len(means))
    return nights


def _beyond(noise: Noise, limits: Array, offsets: Array, *, drop: float, present: float) -> Array:
    """Chance of an attempt to be beyond each limit, [offset, case]."""
    away = limits[None, :] - offsets[:, None]
    faulty = noise.beyond(away + np.log1p(-drop))
    return faulty if present == 1 else present * faulty + (1 - present) * noise.beyond(away)


@lru_cache(maxsize=32)
def _mean_times(noise: Noise, *, drop: float = 0.0, present: float = 1.0) -> Array:
    """Means of the times of ``ROUNDS`` attempts, over the time of the true figure, the smallest first."""
    chance = np.random.default_rng(5)
    times = np.exp(replace(noise, nights=0.0).draw(chance, DRAWN_MEANS, ROUNDS))
    slowed = chance.random(times.shape) < present
    return np.sort(np.where(slowed, times / (1 - drop), times).mean(axis=1))


def _walk_attempts(outside: Array, suspicious: Array, walk: Walk) -> Array:
    """Attempts that walks take, times the chance that there is one."""
    heights = {1: outside, -1: suspicious - outside}
    attempts: Array = suspicious.copy()
    for _ in range(walk.most - 1):
        heights = {height: odds for height, odds in heights.items() if -walk.clear < height < walk.lead}
        attempts = attempts + sum(heights.values())
        reached: dict[int, Array] = {}
        for height, odds in heights.items():
            for step, share in ((1, outside), (-1, 1 - outside)):
                reached[height + step] = reached.get(height + step, 0) + odds * share
        heights = reached
    return attempts


def _entry(index: int, values: list[float]) -> BoundEntry:
    """As ``baseline.record.summarise`` makes it of measurements."""
    return BoundEntry(
        metric=BUSBW.name,
        case=CASES[index],
        unit=BUSBW.unit,
        better=BUSBW.better,
        centre=round_figure(median(values)),
        spread=round_figure(robust_spread(values), 3),
        attempts=len(values),
        nodes=1,
    )


def _bound(entry: BoundEntry, family: Sequence[BoundEntry]) -> Bound:
    noise = level_noise(entry, family).used
    return Bound(
        metric=BUSBW,
        centre=entry.centre,
        spread=noise.spread,
        degrees=noise.degrees,
        attempts=entry.attempts,
        nodes=entry.nodes,
        where="simulated",
    )
