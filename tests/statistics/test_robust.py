"""Centre and spread of a few figures, against values that are known."""

from __future__ import annotations

import math
import random
from statistics import fmean, median, stdev, variance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwire_checks.statistics.robust import centre_error, robust_spread, spread_degrees

figures = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=1, max_size=20)


def of_logs(*logs: float) -> list[float]:
    return [math.exp(log) for log in logs]


def normal(noise: random.Random, count: int, spread: float) -> list[float]:
    return [noise.lognormvariate(1, spread) for _ in range(count)]


def test_one_figure_has_no_spread_of_its_own() -> None:
    assert robust_spread([3.0]) == 0.0


def test_figures_that_agree_have_no_spread() -> None:
    assert robust_spread([3.0] * 6) == 0.0


def test_it_is_the_scaled_median_of_all_differences() -> None:
    # Differences of 0.1 (4), 0.2 (3), 0.3 (2) and 0.4 (1): their median is 0.2.
    expected = 1.0483 * 0.2 / math.sqrt(1 + 1.6 / 4)
    assert robust_spread(of_logs(-0.2, -0.1, 0.0, 0.1, 0.2)) == pytest.approx(expected)


@pytest.mark.parametrize("count", [6, 10, 20])
def test_a_wild_figure_hardly_counts(count: int) -> None:
    sound = [0.01 * index / count for index in range(count - 1)]
    tame, wild = robust_spread(of_logs(*sound, 0.01)), robust_spread(of_logs(*sound, 3.0))
    assert tame <= wild < 2 * tame
    assert stdev([*sound, 3.0]) > 100 * wild


def test_the_spread_of_many_normal_figures_is_their_standard_deviation() -> None:
    assert robust_spread(normal(random.Random(7), 1500, 0.05)) == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize("count", [4, 5, 6, 8, 10, 20])
def test_the_mean_of_its_square_is_the_variance(count: int) -> None:
    noise = random.Random(count)
    squares = [robust_spread(normal(noise, count, 0.05)) ** 2 for _ in range(6000)]
    assert fmean(squares) == pytest.approx(0.05**2, rel=0.10)


@pytest.mark.parametrize("count", [4, 5, 10, 20])
def test_its_degrees_are_what_its_own_variation_amounts_to(count: int) -> None:
    """A variance with so many degrees of freedom has a logarithm that varies by about 2 / degrees."""
    noise = random.Random(count)
    logs = [2 * math.log(robust_spread(normal(noise, count, 0.05))) for _ in range(6000)]
    from scipy.special import polygamma

    assert variance(logs) == pytest.approx(float(polygamma(1, spread_degrees(count) / 2)), rel=0.25)


@pytest.mark.parametrize("count", [5, 20])
def test_the_centre_error_is_that_of_a_median(count: int) -> None:
    noise = random.Random(count)
    errors = [median(noise.gauss(0, 1) for _ in range(count)) for _ in range(8000)]
    assert stdev(errors) == pytest.approx(centre_error(count), rel=0.06)


@given(figures, st.floats(min_value=1e-2, max_value=1e2))
def test_the_unit_of_the_figures_does_not_matter(values: list[float], factor: float) -> None:
    assert robust_spread([value * factor for value in values]) == pytest.approx(robust_spread(values), abs=1e-9)


@given(figures)
def test_a_rate_is_spread_as_its_time_is(values: list[float]) -> None:
    assert robust_spread([1 / value for value in values]) == pytest.approx(robust_spread(values), abs=1e-9)


@pytest.mark.parametrize("values", [[], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan], [1.0, math.inf]])
def test_a_spread_of_nothing_or_of_what_is_no_figure_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="a spread needs positive figures, not "):
        robust_spread(values)
