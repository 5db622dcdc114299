"""The numbers behind a limit, against values that are known."""

from __future__ import annotations

import math
import random
from statistics import stdev

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuwire_checks.statistics import half_width, moderated, robust_spread, upper_quantile

figures = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=1, max_size=20)


def of_logs(*logs: float) -> list[float]:
    return [math.exp(log) for log in logs]


# The spread of attempts


def test_one_figure_has_no_spread_of_its_own() -> None:
    assert robust_spread([3.0]) == 0.0


def test_figures_that_agree_have_no_spread() -> None:
    assert robust_spread([3.0] * 6) == 0.0


@pytest.mark.parametrize("logs", [(0.0, 0.1), (0.0, 0.1, 0.3)])
def test_two_or_three_figures_have_their_plain_standard_deviation(logs: tuple[float, ...]) -> None:
    assert robust_spread(of_logs(*logs)) == pytest.approx(stdev(logs))


def test_from_four_figures_on_it_is_the_scaled_median_deviation() -> None:
    assert robust_spread(of_logs(-0.2, -0.1, 0.0, 0.1, 0.2)) == pytest.approx(1.4826 * 0.1)


def test_an_outlier_counts_for_half_of_what_it_does_to_the_plain_one() -> None:
    logs = (-0.01, 0.0, 0.0, 0.01, 1.0)
    assert robust_spread(of_logs(*logs)) == pytest.approx(stdev(logs) / 2)


def test_a_median_deviation_that_is_zero_by_chance_is_not_believed() -> None:
    logs = (0.0, 0.0, 0.0, 0.1, -0.1)
    assert robust_spread(of_logs(*logs)) == pytest.approx(stdev(logs) / 2)


def test_the_spread_of_many_normal_figures_is_their_standard_deviation() -> None:
    noise = random.Random(7)
    assert robust_spread([noise.lognormvariate(1, 0.05) for _ in range(5000)]) == pytest.approx(0.05, rel=0.05)


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


# A spread with its family's behind it


def test_variances_are_pooled_by_their_degrees_of_freedom() -> None:
    spread, degrees = moderated(0.01, own_degrees=4, family=0.02, family_degrees=36)
    assert spread == pytest.approx(math.sqrt((4 * 0.01**2 + 36 * 0.02**2) / 40))
    assert degrees == 40


def test_a_spread_without_a_family_is_its_own() -> None:
    assert moderated(0.03, own_degrees=4, family=0.0, family_degrees=0) == pytest.approx((0.03, 4))


def test_a_spread_of_one_attempt_is_its_familys() -> None:
    spread, degrees = moderated(0.0, own_degrees=0, family=0.02, family_degrees=8)
    assert [spread, degrees] == pytest.approx([0.02, 8])


def test_nothing_known_has_no_degrees_of_freedom() -> None:
    assert moderated(0.0, own_degrees=0, family=0.0, family_degrees=0) == (0.0, 0.0)


def test_a_spread_that_clearly_exceeds_its_familys_is_kept() -> None:
    assert moderated(0.05, own_degrees=4, family=0.02, family_degrees=36) == (0.05, 4)
    spread, degrees = moderated(0.04, own_degrees=4, family=0.02, family_degrees=36)
    assert (spread < 0.03, degrees) == (True, 40)


@example(own=7e-161, own_degrees=1, family=6e-161, family_degrees=9)
@given(st.floats(0, 2), st.integers(0, 50), st.floats(0, 2), st.integers(0, 500))
def test_pooling_never_takes_from_an_unsteady_spread_nor_adds_beyond_both(
    own: float, own_degrees: int, family: float, family_degrees: int
) -> None:
    spread, degrees = moderated(own, own_degrees=own_degrees, family=family, family_degrees=family_degrees)
    assert spread <= max(own, family) * (1 + 1e-9)
    assert 0 <= degrees <= own_degrees + family_degrees
    if own_degrees and own > 2 * family:
        assert spread == own


# Quantiles, against printed tables


@pytest.mark.parametrize(
    ("level", "degrees", "quantile"),
    [
        (1e-3, math.inf, 3.0902),
        (0.025, math.inf, 1.9600),
        (7.14e-6, math.inf, 4.3395),
        (0.5, math.inf, 0.0),
        (0.025, 1, 12.7062),
        (0.05, 4, 2.1318),
        (0.001, 4, 7.1732),
        (0.001, 30, 3.3852),
    ],
)
def test_a_quantile_is_the_one_of_the_tables(level: float, degrees: float, quantile: float) -> None:
    assert upper_quantile(level, degrees) == pytest.approx(quantile, abs=2e-4)


@pytest.mark.parametrize(("attempts", "about"), [(5, 25.39), (10, 8.448), (20, 5.783)])
def test_few_attempts_pay_for_not_knowing_their_own_spread(attempts: int, about: float) -> None:
    assert upper_quantile(1 / 140_000, attempts - 1) == pytest.approx(about, rel=1e-3)


@given(st.floats(1e-9, 0.05))
def test_a_quantile_leaves_its_level_above_it(level: float) -> None:
    # At 4 degrees of freedom the distribution has a closed form.
    t = upper_quantile(level, 4)
    s = t / math.sqrt(4 + t**2)
    assert 0.5 - 0.75 * (s - s**3 / 3) == pytest.approx(level, rel=1e-4, abs=1e-14)


@given(st.floats(1e-9, 0.05), st.integers(1, 1000))
def test_a_quantile_falls_with_the_degrees_towards_the_normal_one(level: float, degrees: int) -> None:
    assert upper_quantile(level, degrees) > upper_quantile(level, degrees + 1) > upper_quantile(level, math.inf)


def test_fractions_of_a_degree_have_a_quantile_between() -> None:
    assert upper_quantile(0.001, 5) < upper_quantile(0.001, 4.5) < upper_quantile(0.001, 4)


# How far a figure may be from its centre


def test_noise_widens_what_is_accepted_and_the_smallest_effect_is_the_floor() -> None:
    noisy = half_width(min_effect=0.05, level=0.001, spread=0.1, degrees=4, attempts=5)
    assert noisy == pytest.approx(7.1732 * 0.1 * math.sqrt(1.2), rel=1e-4)
    assert half_width(min_effect=0.05, level=0.001, spread=0.001, degrees=4, attempts=5) == 0.05


def test_a_spread_that_nothing_is_known_of_leaves_the_smallest_effect() -> None:
    assert half_width(min_effect=0.05, level=0.001, spread=0.0, degrees=0, attempts=1) == 0.05


def test_more_attempts_behind_the_centre_narrow_what_is_accepted() -> None:
    widths = [half_width(min_effect=0.0, level=0.001, spread=0.1, degrees=20, attempts=n) for n in (2, 5, 20, 1000)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == pytest.approx(upper_quantile(0.001, 20) * 0.1, rel=1e-3)


def test_what_is_accepted_is_never_wider_than_a_factor_of_a_thousand() -> None:
    """Two recorded attempts that differ by 15 %, and 50 decisions a night: the quantile is 11,000."""
    widest = half_width(min_effect=0.1, level=2.8e-5, spread=0.1, degrees=1, attempts=2)
    assert widest == pytest.approx(math.log(1000))


def test_false_alarms_are_as_rare_as_asked_for() -> None:
    """The whole rule on healthy nodes: centre and spread from 5 attempts, then one figure more."""
    noise, level, rounds, alarms = random.Random(11), 0.02, 20_000, 0
    for _ in range(rounds):
        recorded = [noise.gauss(0, 0.03) for _ in range(5)]
        centre, spread = sum(recorded) / 5, stdev(recorded)
        width = half_width(min_effect=0.0, level=level, spread=spread, degrees=4, attempts=5)
        alarms += noise.gauss(0, 0.03) < centre - width
    assert alarms / rounds == pytest.approx(level, rel=0.2)


@given(st.floats(1e-7, 0.05), st.floats(0, 1), st.integers(1, 100))
def test_a_stricter_level_never_narrows(level: float, spread: float, degrees: int) -> None:
    strict = half_width(min_effect=0.01, level=level / 10, spread=spread, degrees=degrees, attempts=5)
    assert strict >= half_width(min_effect=0.01, level=level, spread=spread, degrees=degrees, attempts=5) >= 0.01
