"""Measured seconds as pytest-benchmark's rounds, through its public timer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any


class SampleClock:
    """A timer that stands still except for the seconds that ranks measured."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


def feed(benchmark: Any, clock: SampleClock, seconds: Sequence[float]) -> None:
    """Make each measured sample one round of a benchmark whose timer is ``clock``."""
    # cycle: --benchmark-cprofile and --benchmark-disable call the target once more, or only once.
    samples = cycle(seconds)
    benchmark.pedantic(lambda: clock.advance(next(samples)), rounds=len(seconds), iterations=1)
