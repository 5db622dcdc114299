"""Bounds that grow by counts, and the window over the last good runs."""

from __future__ import annotations

import math
import random

import pytest
from bound_builders import gpu_bound

from gpuwire_checks.baseline.counting import WINDOW, grown, rolled, too_far
from gpuwire_checks.baseline.schema import BoundEntry


def bound(centre: float = 200.0, **more: object) -> BoundEntry:
    return gpu_bound(**{"centre": centre, "attempts": 20, **more})  # type: ignore[arg-type]  # any field


# By counts


def test_the_centre_is_weighted_by_attempts_in_logarithms() -> None:
    both = grown(bound(200.0, attempts=30), bound(204.0, attempts=10))
    assert both.centre == pytest.approx(200 * (204 / 200) ** 0.25, rel=1e-4)


def test_counts_are_added() -> None:
    both = grown(bound(attempts=20, nodes=1), bound(attempts=30, nodes=6, between=0.004))
    assert (both.attempts, both.nodes, both.runs) == (50, 7, 7)


def test_the_same_level_twice_keeps_its_spread() -> None:
    both = grown(bound(spread=0.01), bound(spread=0.01))
    assert (both.centre, both.spread, both.between) == (200.0, 0.01, 0.0)


def test_spreads_are_pooled_by_what_is_behind_them() -> None:
    both = grown(bound(spread=0.01, attempts=40), bound(spread=0.03, attempts=2))
    assert both.spread == pytest.approx(math.sqrt((39 * 0.01**2 + 0.03**2) / 40), rel=0.01)


def test_what_is_between_has_the_step_from_one_to_the_other_in_it() -> None:
    both = grown(bound(200.0), bound(200 * math.exp(0.02)))
    assert both.between == pytest.approx(0.02 / math.sqrt(2), rel=0.01)


def test_a_tail_is_kept_where_both_have_one() -> None:
    tail = {"centre": 1.2, "spread": 0.01}
    assert grown(bound(tail=tail), bound()).tail is None
    assert grown(bound(tail=tail), bound(tail={"centre": 1.2, "spread": 0.02})).tail is not None


def test_two_levels_are_too_far_from_each_other() -> None:
    apart = too_far(bound(200.0), bound(180.0), allowed=0.03, night=0.4)
    assert apart == pytest.approx(math.log(0.9))
    assert too_far(bound(200.0), bound(196.0), allowed=0.03, night=0.4) is None


def test_noise_may_explain_more_than_the_policy_allows() -> None:
    noisy = {"spread": 0.10, "attempts": 5}
    assert too_far(bound(200.0, **noisy), bound(180.0, **noisy), allowed=0.03, night=0.4) is None


# The window


def test_a_window_begins_at_the_recorded_bound_and_keeps_its_noise() -> None:
    first = rolled(bound(200.0, spread=0.01, attempts=20), None, [190.0])
    assert first.attempts == WINDOW
    assert first.centre == pytest.approx(200 * (190 / 200) ** (1 / 20), rel=1e-4)
    assert first.spread == pytest.approx(0.015, abs=0.002)


def test_a_window_of_few_attempts_grows_to_its_length() -> None:
    window = bound(attempts=5)
    for expected in (6, 7, 8):
        window = rolled(bound(attempts=5), window, [200.0])
        assert window.attempts == expected


def test_a_run_of_as_many_attempts_as_the_window_takes_its_place() -> None:
    chance = random.Random(1)
    values = [100 * math.exp(chance.gauss(0, 0.02)) for _ in range(30)]
    window = rolled(bound(200.0), bound(200.0), values)
    assert window.attempts == WINDOW
    assert window.centre == pytest.approx(100, rel=0.03)
    assert window.spread == pytest.approx(0.02, rel=0.5)


def test_a_window_is_one_run_and_has_in_its_spread_what_nodes_differ_by() -> None:
    window = rolled(bound(spread=0.003, nodes=4, between=0.004), None, [200.0])
    assert (window.nodes, window.runs, window.between, window.tail) == (1, 1, None, None)
    assert window.spread == pytest.approx(0.005, rel=0.05)


def test_a_steady_window_keeps_the_level_and_the_noise_of_its_runs() -> None:
    chance = random.Random(2)
    recorded, window = bound(200.0, spread=0.01), None
    for _ in range(200):
        window = rolled(recorded, window, [200 * math.exp(chance.gauss(0, 0.01))])
    assert window is not None
    assert window.centre == pytest.approx(200, rel=0.01)
    assert window.spread == pytest.approx(0.01, rel=0.4)


def test_what_was_recorded_does_not_move() -> None:
    recorded = bound()
    rolled(recorded, None, [150.0])
    assert recorded == bound()
