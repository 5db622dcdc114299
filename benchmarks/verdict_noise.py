"""Noise of simulated nodes. A fall is how far an attempt is to the bad side of the true figure, as a logarithm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtrit

from gpuwire_checks.statistics.robust import spread_of_logs

Array = NDArray[np.float64]
Shape = Literal["normal", "heavy tails", "spoiled", "two modes", "slow mode"]

SPOILED_SHARE = 0.05
SLOWED = -np.log1p(-np.linspace(0.11, 0.49, 20))
"""Falls of spoiled attempts: they are slowed by 10 to 50 %."""
APART = 3.0
SLOW_SHARES = {"two modes": 0.5, "slow mode": 0.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What a healthy node does to figures.

    Attributes:
        sigma: spread between attempts of one night, of the natural logarithm.
        nights: standard deviation of what the attempts of one night have in common, in spreads.
        step: standard deviation of the random walk's step between two attempts, in spreads.
    """

    name: str
    shape: Shape
    sigma: float
    nights: float = 0.0
    step: float = 0.0

    def draw(self, chance: np.random.Generator, count: int, attempts: int) -> Array:
        """Falls of some nights' attempts, [count, attempts]."""
        size = (count, attempts)
        falls = self.sigma * self._unit(chance, size)
        if self.shape == "spoiled":
            falls += np.where(chance.random(size) < SPOILED_SHARE, -np.log1p(-chance.uniform(0.1, 0.5, size)), 0.0)
        if self.nights:
            falls += self.nights * self.sigma * chance.standard_normal((count, 1))
        if self.step:
            falls += np.cumsum(self.step * self.sigma * chance.standard_normal(size), axis=1)
        return falls

    def beyond(self, fall: Array) -> Array:
        """Chance that an attempt falls farther, on a night like the true figure's."""
        at = fall / self.sigma
        if self.shape == "heavy tails":
            return stdtr(3, -at * _t3_spread())  # type: ignore[no-any-return]
        if self.shape == "spoiled":
            slowed = ndtr((SLOWED[:, None] - fall.ravel()) / self.sigma).mean(axis=0).reshape(fall.shape)
            return (1 - SPOILED_SHARE) * ndtr(-at) + SPOILED_SHARE * slowed  # type: ignore[no-any-return]
        if self.shape in SLOW_SHARES:
            slow = SLOW_SHARES[self.shape]
            return (1 - slow) * ndtr(-at) + slow * ndtr(APART - at)  # type: ignore[no-any-return]
        return ndtr(-at)  # type: ignore[no-any-return]

    def offsets(self) -> tuple[Array, Array]:
        """What a night may add to all falls, and how likely each is."""
        if not self.nights:
            return np.zeros(1), np.ones(1)
        at = np.linspace(-6, 6, 41)
        weights = np.exp(-at * at / 2)
        return self.nights * self.sigma * at, weights / weights.sum()

    def _unit(self, chance: np.random.Generator, size: tuple[int, int]) -> Array:
        if self.shape == "heavy tails":
            return chance.standard_t(3, size) / _t3_spread()
        unit = chance.standard_normal(size)
        if self.shape in SLOW_SHARES:
            unit += APART * (chance.random(size) < SLOW_SHARES[self.shape])
        return unit


@lru_cache(maxsize=1)
def _t3_spread() -> float:
    """Robust spread of Student's t with 3 degrees of freedom."""
    quantiles = stdtrit(3, (np.arange(1000) + 0.5) / 1000)
    return spread_of_logs(list(quantiles))
