"""Parts of one kind, held to each other."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest

from gpuwire_checks.judge.peers import odd_ones, shared_part

LEVEL = 1e-2


def drawn(
    random_: random.Random, count: int, *, bad: int = 0, drop: float = 0.0, noise: float = 0.01
) -> dict[str, float]:
    """Figures around 100, the first of them slower."""
    return {
        f"GPU{number}": 100 * math.exp(random_.gauss(0, noise)) * (1 - drop if number < bad else 1)
        for number in range(count)
    }


def names(figures: dict[str, float], *, level: float = LEVEL, min_effect: float = 0.03) -> set[str]:
    return {odd.name for odd in odd_ones(figures, better="higher", level=level, min_effect=min_effect)}


def share_found(count: int, *, bad: int, drop: float, level: float = LEVEL, draws: int = 500) -> float:
    """How often the bad ones, and they alone, are found."""
    random_ = random.Random(5)
    expected = {f"GPU{number}" for number in range(bad)}
    hits = sum(names(drawn(random_, count, bad=bad, drop=drop), level=level) == expected for _ in range(draws))
    return hits / draws


@pytest.mark.parametrize("count", [3, 4, 5, 8, 28])
@pytest.mark.parametrize(("level", "draws"), [(1e-2, 4000), (1e-3, 20_000)])
def test_healthy_parts_are_called_odd_no_more_often_than_the_level(count: int, level: float, draws: int) -> None:
    """With no smallest effect that would hide it; measured 0.35 to 1.15 of the level, within three standard errors."""
    random_ = random.Random(count)
    draws = draws if count < 28 else draws // 4
    false = sum(bool(names(drawn(random_, count), level=level, min_effect=0.0)) for _ in range(draws))
    expected = level * draws
    assert false <= 1.15 * expected + 3 * math.sqrt(expected)
    if count < 8:
        assert false >= 0.5 * expected - 3 * math.sqrt(expected)


def test_one_slow_link_of_eight_is_found() -> None:
    assert share_found(8, bad=1, drop=0.10) > 0.95


def test_three_bad_of_eight_do_not_hide_each_other() -> None:
    assert share_found(8, bad=3, drop=0.20) > 0.98


def test_the_seven_pairs_of_one_gpu_are_found_among_28() -> None:
    assert share_found(28, bad=7, drop=0.10, level=1e-3) > 0.95


@pytest.mark.parametrize(("count", "bad"), [(8, 4), (4, 2), (28, 14), (8, 6)])
def test_of_two_halves_neither_is_called_odd(count: int, bad: int) -> None:
    random_ = random.Random(5)
    assert all(not names(drawn(random_, count, bad=bad, drop=0.5)) for _ in range(200))


def test_of_two_nothing_can_be_told_and_of_three_two_have_to_agree() -> None:
    assert names({}) == set()
    assert names({"GPU0": 50.0}) == set()
    assert names({"GPU0": 50.0, "GPU1": 100.0}) == set()
    assert names({"GPU0": 50.0, "GPU1": 100.0, "GPU2": 100.1}) == {"GPU0"}
    assert names({"GPU0": 50.0, "GPU1": 100.0, "GPU2": 110.0}) == set()


def test_an_odd_one_is_told_against_those_that_do_not_stand_out() -> None:
    figures = {"a": 50.0, "b": 80.0, **{f"link {number}": 100.0 + 0.01 * number for number in range(-3, 4)}}
    worst, next_ = odd_ones(figures, better="higher", level=LEVEL, min_effect=0.03)
    assert (worst.name, worst.figure, next_.name, next_.figure) == ("a", 50.0, "b", 80.0)
    assert worst.usual == next_.usual == pytest.approx(100.0)
    assert worst.change == pytest.approx(-0.5)


def test_a_fast_one_is_not_odd_and_hides_no_slow_one() -> None:
    steady = {f"GPU{number}": 100.0 + 0.1 * number for number in range(6)}
    assert names({**steady, "fast": 150.0}) == set()
    assert names({**steady, "fast": 150.0, "slow": 80.0}) == {"slow"}


def test_where_lower_is_better_the_high_one_is_odd() -> None:
    steady = {f"GPU{number}": 20.0 + 0.01 * number for number in range(7)}
    odd = odd_ones({**steady, "late": 30.0}, better="lower", level=LEVEL, min_effect=0.2)
    assert [(found.name, round(found.change, 2)) for found in odd] == [("late", 0.5)]
    assert odd_ones({**steady, "early": 10.0}, better="lower", level=LEVEL, min_effect=0.2) == ()


def test_what_does_not_matter_is_not_said_however_certain() -> None:
    equal = {f"GPU{number}": 100.0 for number in range(7)}
    assert names({**equal, "GPU7": 98.0}) == set()
    assert names({**equal, "GPU7": 96.0}) == {"GPU7"}
    assert names(equal) == set()


def test_neither_the_order_nor_the_unit_matters() -> None:
    random_ = random.Random(2)
    figures = drawn(random_, 8, bad=2, drop=0.3)
    turned = dict(reversed(figures.items()))
    assert names(figures) == names(turned) == names({name: 1e-6 * figure for name, figure in figures.items()})


def test_pairs_that_share_a_gpu_are_told_by_it() -> None:
    pairs = [(f"GPU{a}", f"GPU{b}") for a, b in combinations(range(8), 2)]
    assert shared_part([pair for pair in pairs if "GPU3" in pair]) == "GPU3"
    assert shared_part([("GPU1", "GPU3"), ("GPU3", "GPU7")]) == "GPU3"


def test_one_pair_or_pairs_apart_are_told_by_themselves() -> None:
    assert shared_part([]) is None
    assert shared_part([("GPU1", "GPU3")]) is None
    assert shared_part([("GPU1", "GPU3"), ("GPU2", "GPU7")]) is None
    assert shared_part([("GPU1", "GPU3"), ("GPU3", "GPU1")]) is None  # the two directions of one pair
