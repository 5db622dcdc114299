"""The spread within samples whose centres differ."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from gpuwire_checks.statistics.robust import pooled_spread, robust_spread


def test_of_one_sample_it_is_that_sample_s() -> None:
    values = [100.0, 101.0, 99.0, 100.5]
    assert pooled_spread([values]) == robust_spread(values)


def test_centres_that_differ_do_not_matter() -> None:
    assert pooled_spread([[1.0, 1.01], [50.0, 50.5], [3.0, 3.03]]) == pytest.approx(pooled_spread([[1.0, 1.01]] * 3))


def test_one_wild_sample_of_six_does_not_make_it() -> None:
    steady = [[100.0, 101.0, 99.0]] * 5
    assert pooled_spread([*steady, [10.0, 100.0, 1000.0]]) < 2 * pooled_spread(steady)


@pytest.mark.parametrize(("samples", "size"), [(1, 5), (6, 5), (30, 2), (10, 3)])
def test_its_square_has_the_mean_of_the_variance(samples: int, size: int) -> None:
    chance = random.Random(0)
    drawn = [
        [[math.exp(chance.gauss(sample, 0.01)) for _ in range(size)] for sample in range(samples)] for _ in range(1500)
    ]
    assert fmean(pooled_spread(some) ** 2 for some in drawn) == pytest.approx(0.01**2, rel=0.06)


def test_samples_of_one_value_tell_none() -> None:
    with pytest.raises(ValueError, match="needs one of two values or more"):
        pooled_spread([[1.0], [2.0], []])
