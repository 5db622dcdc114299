"""The chance that a change is seen, against the rule itself played on drawn attempts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpuwire_checks.statistics.level import (
    Uncertainty,
    detection_chance,
    least_lead,
    multiplier,
    screen,
    smallest_seen,
)
from gpuwire_checks.statistics.walk import Walk, walk_end

LEVEL = 1 / 50_000
WALK = Walk(lead=4, clear=3, most=20)
KNOWN = Uncertainty(degrees=1000.0, shared=0.45, shared_degrees=math.inf, disturbed=0.05)
FEW = Uncertainty(degrees=8.0, shared=0.7, shared_degrees=math.inf, disturbed=0.05)
TWO_NODES = Uncertainty(degrees=30.0, shared=1.0, shared_degrees=2.0, disturbed=0.05)


def played(limit: float, shift: float, uncertainty: Uncertainty, walk: Walk, *, times: int = 4000) -> float:
    """How often the rule fails a shifted case, in so many nights."""
    draw = np.random.default_rng(7)
    suspicious = screen(limit, shared=uncertainty.shared)
    failed = 0
    for _ in range(times):
        # The true spread, where the estimated one is 1.
        spread = 1 / math.sqrt(draw.chisquare(uncertainty.degrees) / uncertainty.degrees)
        free = uncertainty.shared_degrees
        offset = draw.normal() if math.isinf(free) else draw.standard_t(free)
        figures = shift + spread * (uncertainty.shared * offset + draw.normal(size=walk.most))
        if figures[0] > suspicious:
            failed += walk_end([bool(figure > limit) for figure in figures], walk) in ("failed", "disagree")
    return failed / times


@pytest.mark.parametrize("uncertainty", [KNOWN, FEW, TWO_NODES], ids=["known", "few attempts", "nodes that differ"])
@pytest.mark.parametrize("beyond", [-1.0, 0.5, 2.0])
def test_the_chance_is_that_of_the_rule_itself(uncertainty: Uncertainty, beyond: float) -> None:
    limit = 4.0
    chance = detection_chance(limit, limit + beyond, uncertainty, WALK)
    error = math.sqrt(max(chance * (1 - chance), 1e-3) / 4000)
    assert chance == pytest.approx(played(limit, limit + beyond, uncertainty, WALK), abs=4 * error)


@pytest.mark.parametrize("uncertainty", [KNOWN, FEW, TWO_NODES], ids=["known", "few attempts", "nodes that differ"])
def test_the_smallest_seen_is_seen_so_often(uncertainty: Uncertainty) -> None:
    shift = smallest_seen(4.0, uncertainty, WALK)
    assert detection_chance(4.0, shift, uncertainty, WALK) == pytest.approx(0.99, abs=1e-4)
    assert shift > 4.0
    assert smallest_seen(4.0, uncertainty, WALK, chance=0.5) < shift


def test_a_healthy_case_fails_no_more_often_than_its_level() -> None:
    walk = least_lead(LEVEL, disturbed=0.05, clear=3, most=20)
    assert walk is not None
    limit = multiplier(LEVEL, KNOWN, walk)
    assert detection_chance(limit, 0.0, KNOWN, walk) <= LEVEL
    undisturbed = Uncertainty(degrees=8.0, shared=0.7, shared_degrees=math.inf, disturbed=0.0)
    limit = multiplier(LEVEL, undisturbed, walk)
    assert detection_chance(limit, 0.0, undisturbed, walk) == pytest.approx(LEVEL, rel=0.01)


def test_a_greater_shift_is_seen_more_often_and_a_farther_limit_less() -> None:
    chances = [detection_chance(4.0, shift, FEW, WALK) for shift in (0, 1, 2, 3, 4, 5, 6, 8, 12)]
    assert chances == sorted(chances)
    assert detection_chance(5.0, 5.0, FEW, WALK) < detection_chance(4.0, 5.0, FEW, WALK)


def test_disturbed_attempts_are_not_counted_on() -> None:
    quiet = Uncertainty(degrees=8.0, shared=0.7, shared_degrees=math.inf, disturbed=0.0)
    assert detection_chance(4.0, 4.5, FEW, WALK) == detection_chance(4.0, 4.5, quiet, WALK)


def test_two_nodes_that_differ_hide_much_and_where_nothing_is_known_the_limit_counts() -> None:
    cauchy = Uncertainty(degrees=30.0, shared=1.0, shared_degrees=1.0, disturbed=0.05)
    # The 99th percentile of Student's t with one degree of freedom is 31.8.
    assert smallest_seen(4.0, cauchy, WALK) == pytest.approx(4 + 31.8, rel=0.1)
    assert math.isinf(smallest_seen(4.0, cauchy, WALK, chance=1 - 1e-9))
    nothing = Uncertainty(degrees=0.0, shared=0.5, shared_degrees=math.inf, disturbed=0.05)
    assert smallest_seen(4.0, nothing, WALK) == 4.0
