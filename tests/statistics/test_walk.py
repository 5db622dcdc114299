"""The sequential rule: how attempts end, and how often healthy ones fail, path by path."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwire_checks.statistics.walk import Walk, failure_chance, walk_end

WALK = Walk(lead=3, clear=2, most=9)
SMALL_WALKS = [
    Walk(lead=lead, clear=clear, most=most) for lead in (1, 2, 3, 4) for clear in (1, 2, 3) for most in (1, 2, 5, 8)
]
chances = st.floats(0, 1)


def end(votes: str, walk: Walk = WALK) -> str | None:
    """How attempts end that were outside (``o``) or inside (``i``)."""
    return walk_end([vote == "o" for vote in votes], walk)


def chance(outside: float, suspicious: float, walk: Walk) -> float:
    return float(failure_chance(np.array([outside]), np.array([suspicious]), walk)[0])


# How attempts end


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ("", None),
        ("o", None),
        ("ooo", "failed"),
        ("oioioo", None),
        ("ooioo", "failed"),
        ("ii", "cleared"),
        ("oiii", "cleared"),
        ("oioioioi", None),
        ("oioioioio", "disagree"),
        ("oioioiooo", "failed"),
    ],
)
def test_a_lead_decides_and_neither_side_leading_is_disagreement(votes: str, expected: str | None) -> None:
    assert end(votes) == expected


def test_attempts_after_the_end_change_nothing() -> None:
    assert end("ooo" + "i" * 20) == "failed"
    assert end("ii" + "o" * 20) == "cleared"
    assert end("oioioioio" + "o" * 20) == "disagree"


def test_one_good_attempt_never_excuses_a_fault_and_one_bad_one_never_makes_it() -> None:
    assert end("oiooo") == "failed"
    assert end("oii") is None
    assert end("oiii") == "cleared"


# How often


@pytest.mark.parametrize("walk", SMALL_WALKS, ids=str)
@pytest.mark.parametrize(("outside", "suspicious"), [(0.1, 0.3), (0.5, 0.5), (0.7, 1.0), (0.0, 0.2)])
def test_the_chance_is_that_of_all_paths(outside: float, suspicious: float, walk: Walk) -> None:
    failing = 0.0
    for first, rest in product((True, False), product((True, False), repeat=walk.most - 1)):
        begins = outside if first else suspicious - outside
        path = begins * prod(outside if vote else 1 - outside for vote in rest)
        failing += path * (walk_end([first, *rest], walk) != "cleared")
    assert chance(outside, suspicious, walk) == pytest.approx(failing, abs=1e-12)


def test_the_chance_is_that_of_drawn_attempts() -> None:
    lots, outside, suspicious = np.random.default_rng(11).random((20_000, WALK.most)), 0.35, 0.6
    failed = sum(
        row[0] < suspicious and walk_end([bool(lot < outside) for lot in row], WALK) != "cleared" for row in lots
    )
    expected = chance(outside, suspicious, WALK)
    assert failed / len(lots) == pytest.approx(expected, abs=4 * (expected / len(lots)) ** 0.5)


@given(chances, chances, chances, st.sampled_from(SMALL_WALKS))
def test_worse_attempts_fail_more_often(one: float, other: float, screen: float, walk: Walk) -> None:
    low, high = sorted((one, other))
    suspicious = max(high, screen)
    assert 0 <= chance(low, suspicious, walk) <= chance(high, suspicious, walk) + 1e-12 <= 1 + 1e-11


@given(chances, chances, chances, st.sampled_from(SMALL_WALKS))
def test_a_tighter_screen_finds_more(outside: float, one: float, other: float, walk: Walk) -> None:
    low, high = sorted((max(outside, one), max(outside, other)))
    assert chance(outside, low, walk) <= chance(outside, high, walk) + 1e-12


@given(chances, st.integers(2, 5), st.integers(1, 4))
def test_a_longer_lead_fails_less_where_attempts_do_not_run_out(outside: float, lead: int, clear: int) -> None:
    # Far fewer walks than one in a million are undecided after so many attempts of a rare fault.
    outside /= 5
    short, longer = (Walk(lead=steps, clear=clear, most=200) for steps in (lead, lead + 1))
    assert chance(outside, 0.3, longer) <= chance(outside, 0.3, short) + 1e-12


def test_sure_attempts_have_sure_ends() -> None:
    assert chance(1.0, 1.0, WALK) == 1
    assert chance(0.0, 1.0, WALK) == 0
    assert chance(0.0, 0.0, WALK) == 0


def test_chances_of_many_cases_are_those_of_each() -> None:
    outside, suspicious = np.array([[0.1, 0.2], [0.3, 0.9]]), np.array([[0.1, 0.5], [0.4, 1.0]])
    together = failure_chance(outside, suspicious, WALK)
    for index in np.ndindex(2, 2):
        assert together[index] == pytest.approx(chance(outside[index], suspicious[index], WALK))
