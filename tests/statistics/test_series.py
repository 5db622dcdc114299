"""Drift and what attempts close in time share: told where it is there, and not where it is not."""

from __future__ import annotations

import math
import random

import pytest

from gpuwire_checks.statistics.series import BLOCK, half_drift, shared_in_blocks


def normal(count: int, draw: random.Random) -> list[float]:
    return [draw.gauss(0, 1) for _ in range(count)]


def shared(night: float, *, seed: int, passes: int = 40, cases: int = 40) -> float:
    """What is found where blocks of five share so much."""
    draw = random.Random(seed)
    series = []
    for _ in range(cases):
        offsets = [night * draw.gauss(0, 1) for _ in range(passes // BLOCK)]
        series.append([offsets[index // BLOCK] + noise for index, noise in enumerate(normal(passes, draw))])
    found = shared_in_blocks(series)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(5))
def test_independent_attempts_share_little(seed: int) -> None:
    assert shared(0, seed=seed) < 0.35


@pytest.mark.parametrize("night", [0.6, 1.0, 2.0])
def test_what_blocks_share_is_found(night: float) -> None:
    found = [shared(night, seed=seed) for seed in range(5)]
    assert sum(found) / len(found) == pytest.approx(night, rel=0.2)


def test_it_does_not_depend_on_the_unit_and_needs_three_blocks_and_some_noise() -> None:
    draw = random.Random(3)
    series = [normal(40, draw) for _ in range(5)]
    scaled = [[7 * value for value in logs] for logs in series]
    assert shared_in_blocks(scaled) == pytest.approx(shared_in_blocks(series))
    assert shared_in_blocks([logs[: 3 * BLOCK - 1] for logs in series]) is None
    assert shared_in_blocks([[0.0] * 40]) is None
    assert shared_in_blocks([]) is None


def test_a_drift_is_many_errors_and_noise_few() -> None:
    draw = random.Random(5)
    errors = [half_drift(normal(40, draw))[1] for _ in range(500)]
    assert max(abs(error) for error in errors) < 4.5
    assert sum(error**2 for error in errors) / len(errors) == pytest.approx(1, abs=0.25)
    drift, error = half_drift([0.05 * index + noise for index, noise in enumerate(normal(40, draw))])
    assert drift == pytest.approx(1.0, abs=0.8)
    step = [0.0] * 20 + [3.0] * 20
    drift, error = half_drift([at + noise for at, noise in zip(step, normal(40, draw), strict=True)])
    assert drift == pytest.approx(3, abs=0.8)
    assert error > 4.5


def test_figures_without_noise() -> None:
    assert half_drift([1.0] * 10) == (0.0, 0.0)
    assert half_drift([1.0] * 5 + [2.0] * 5) == (1.0, math.inf)
    assert half_drift([2.0] * 5 + [1.0] * 5) == (-1.0, -math.inf)
