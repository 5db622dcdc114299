"""The limit against the promise: how often the whole procedure fails healthy cases that are drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from gpuwire_checks.statistics.level import Uncertainty, least_lead, multiplier, screen
from gpuwire_checks.statistics.walk import Walk, failure_chance

Array = NDArray[np.float64]
WALK = Walk(lead=4, clear=3, most=20)
KNOWN = Uncertainty(degrees=5000, shared=0.0, shared_degrees=math.inf, disturbed=0.0)
UNSURE = Uncertainty(degrees=12, shared=0.5, shared_degrees=math.inf, disturbed=0.05)
SEVERAL = [
    UNSURE,
    replace(UNSURE, degrees=3.2, disturbed=0.0),
    replace(UNSURE, degrees=60, shared=1.2, shared_degrees=4.0),
]


def draw_nights(uncertainty: Uncertainty, count: int, seed: int) -> tuple[Array, Array]:
    """Estimated spreads over true ones, and what a night's attempts share, in true spreads."""
    noise = np.random.default_rng(seed)
    spreads = np.sqrt(noise.chisquare(uncertainty.degrees, count) / uncertainty.degrees)
    if math.isinf(uncertainty.shared_degrees):
        return spreads, uncertainty.shared * noise.standard_normal(count)
    return spreads, uncertainty.shared * noise.standard_t(uncertainty.shared_degrees, count)


def draw_failures(limit: float, uncertainty: Uncertainty, walk: Walk, *, count: int) -> float:
    """Share of drawn nights that fail, attempt by attempt; a disturbed attempt is outside."""
    noise = np.random.default_rng(7)
    spreads, offsets = draw_nights(uncertainty, count, seed=8)
    first_beyond = screen(limit, shared=uncertainty.shared) * spreads
    height, open_ = np.zeros(count, dtype=int), np.ones(count, dtype=bool)
    failed = np.zeros(count, dtype=bool)
    for attempt in range(walk.most):
        falls = offsets + noise.standard_normal(count)
        falls[noise.random(count) < uncertainty.disturbed] = math.inf
        if attempt == 0:
            open_ = falls > first_beyond
        height = height + np.where(falls > limit * spreads, 1, -1)
        failed |= open_ & (height >= walk.lead)
        open_ &= (height < walk.lead) & (height > -walk.clear)
    return float((failed | open_).mean())


# The promise


@pytest.mark.parametrize("uncertainty", SEVERAL, ids=["usual", "few degrees", "nights apart"])
@pytest.mark.parametrize("level", [0.03, 0.003])
def test_the_whole_procedure_fails_healthy_cases_as_often_as_it_says(level: float, uncertainty: Uncertainty) -> None:
    count = 400_000
    failing = draw_failures(multiplier(level, uncertainty, WALK), uncertainty, WALK, count=count)
    assert failing == pytest.approx(level, abs=4 * math.sqrt(level / count), rel=0.02)


@pytest.mark.parametrize("level", [1e-5, 7e-6])
@pytest.mark.parametrize("degrees", [8.0, 30.0, 300.0])
def test_and_so_at_levels_that_no_drawing_reaches(level: float, degrees: float) -> None:
    # Attempts are integrated exactly; only nights are drawn.
    uncertainty, walk = replace(UNSURE, degrees=degrees), Walk(lead=5, clear=3, most=20)
    limit = multiplier(level, uncertainty, walk)
    spreads, offsets = draw_nights(uncertainty, 1_000_000, seed=9)
    outside, suspicious = (
        uncertainty.disturbed + (1 - uncertainty.disturbed) * ndtr(offsets - beyond * spreads)
        for beyond in (limit, screen(limit, shared=uncertainty.shared))
    )
    assert failure_chance(outside, suspicious, walk).mean() == pytest.approx(level, rel=0.12)


def test_with_all_known_the_limit_is_where_the_walk_has_its_level() -> None:
    limit = multiplier(1e-6, KNOWN, WALK)
    beyond = np.array([limit]), np.array([screen(limit, shared=0.0)])
    outside, suspicious = (ndtr(-at) for at in beyond)
    assert failure_chance(outside, suspicious, WALK)[0] == pytest.approx(1e-6, rel=1e-3)


# What moves the limit


@pytest.mark.parametrize("uncertainty", [KNOWN, *SEVERAL])
def test_a_stricter_level_is_farther_out(uncertainty: Uncertainty) -> None:
    limits = [multiplier(level, uncertainty, Walk(lead=5, clear=3, most=20)) for level in (1e-2, 1e-3, 1e-4, 1e-5)]
    assert limits == sorted(limits)
    assert len(set(limits)) == len(limits)


def test_fewer_attempts_behind_the_spread_are_farther_out() -> None:
    limits = [multiplier(1e-4, replace(UNSURE, degrees=degrees), WALK) for degrees in (500, 50, 15, 8, 4)]
    assert limits == sorted(limits)
    assert limits[-1] > 1.5 * limits[0]


@pytest.mark.parametrize("value", ["shared", "disturbed"])
def test_nights_and_disturbances_are_allowed_for(value: str) -> None:
    quiet = multiplier(1e-4, replace(UNSURE, **{value: 0.0}), WALK)
    assert multiplier(1e-4, UNSURE, WALK) > quiet + 0.05


def test_an_unknown_spread_has_no_limit_from_noise() -> None:
    assert multiplier(1e-4, replace(UNSURE, degrees=0), WALK) == 0


def test_where_disturbed_attempts_alone_fail_too_often_no_limit_is_far_enough() -> None:
    assert multiplier(1e-6, replace(UNSURE, disturbed=0.2), Walk(lead=2, clear=3, most=20)) == 1000


# The screen


def test_a_first_attempt_is_looked_at_again_in_seven_cases_of_a_hundred() -> None:
    assert ndtr(-screen(3.0, shared=0.0)) == pytest.approx(0.067, abs=0.001)


@pytest.mark.parametrize("limit", [0.5, 1.0, 2.0, 3.0, 5.0, 50.0])
@pytest.mark.parametrize("shared", [0.0, 0.5, 3.0])
def test_the_screen_is_before_the_limit_and_nowhere_near_it_if_that_is_far(limit: float, shared: float) -> None:
    at = screen(limit, shared=shared)
    assert at <= limit
    assert limit - at <= 2 * math.hypot(1, shared) + 1e-9


# How long a lead


def walk_of(level: float, *, disturbed: float = 0.05) -> Walk:
    found = least_lead(level, disturbed=disturbed, clear=3, most=20)
    assert found is not None
    return found


def lead(level: float, *, disturbed: float = 0.05) -> int:
    return walk_of(level, disturbed=disturbed).lead


def test_the_lead_grows_as_the_level_shrinks() -> None:
    leads = [lead(level) for level in (1e-1, 1e-2, 1e-4, 1e-6, 1e-7)]
    assert leads == sorted(leads)
    assert leads[0] < leads[-1]


def test_the_lead_grows_with_the_share_of_disturbed_attempts() -> None:
    leads = [lead(1e-5, disturbed=share) for share in (0.001, 0.01, 0.05)]
    assert leads == sorted(set(leads))


@pytest.mark.parametrize("level", [1e-2, 1e-4, 7e-6])
def test_disturbed_attempts_alone_have_half_of_the_level_and_no_shorter_lead_would_do(level: float) -> None:
    walk = walk_of(level)
    assert failure_chance(0.05, 0.05, walk) <= level / 2
    if walk.lead > 2:
        assert failure_chance(0.05, 0.05, replace(walk, lead=walk.lead - 1)) > level / 2


def test_where_no_lead_is_long_enough_there_is_no_walk() -> None:
    assert least_lead(1e-9, disturbed=0.2, clear=3, most=8) is None
    chances = [failure_chance(0.2, 0.2, Walk(lead=lead, clear=3, most=8)) for lead in range(2, 9)]
    assert min(chances) > 1e-9


def test_undisturbed_attempts_need_the_shortest_lead() -> None:
    assert walk_of(1e-6, disturbed=0.0) == Walk(lead=2, clear=3, most=20)
