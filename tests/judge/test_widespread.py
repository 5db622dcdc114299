"""Most cases down by one factor, and cases that each fell by a factor of their own."""

from __future__ import annotations

import math

import pytest

from gpuwire_checks.judge.widespread import Fallen, is_alike, widespread


def fallen(*drops: float, spread: float = 0.01) -> list[Fallen]:
    return [
        Fallen(name=f"case-{index}", fall=-math.log1p(-drop), spread=spread, attempts=5)
        for index, drop in enumerate(drops)
    ]


def test_most_cases_down_by_one_factor_are_one_suspicion() -> None:
    common = widespread(fallen(0.20, 0.21, 0.19, 0.20, 0.22, 0.18), judged=8)
    assert common is not None
    assert common.fall == pytest.approx(-math.log(0.8), rel=0.02)
    assert common.words == (
        "6 of 8 cases before it are down by one factor, about 20% of the speed: that was confirmed on case-0"
        " (5 attempts) and others, and is the node as a whole (clocks, driver, load) rather than one wire"
    )


def test_four_cases_are_too_few() -> None:
    assert widespread(fallen(*[0.2] * 4), judged=4) is None
    assert widespread(fallen(*[0.2] * 5), judged=5) is not None


def test_half_of_the_cases_are_not_most() -> None:
    assert widespread(fallen(*[0.2] * 5), judged=10) is None
    assert widespread(fallen(*[0.2] * 5), judged=9) is not None


def test_cases_that_each_fell_by_a_factor_of_their_own_are_no_one_suspicion() -> None:
    assert widespread(fallen(0.05, 0.1, 0.2, 0.4, 0.6, 0.8), judged=6) is None


def test_one_case_that_fell_further_does_not_hide_the_rest() -> None:
    common = widespread(fallen(*[0.2] * 8, 0.9), judged=9)
    assert common is not None
    assert (common.fallen, common.judged) == (8, 9)


def test_a_fall_is_alike_as_far_as_its_noise_lets_that_be_told() -> None:
    assert is_alike(0.25, 0.20, spread=0.0)
    assert not is_alike(0.26, 0.20, spread=0.0)
    assert is_alike(0.26, 0.20, spread=0.03)
    assert not is_alike(0.10, 0.20, spread=0.01)
