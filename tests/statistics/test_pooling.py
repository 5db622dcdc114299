"""A spread with its family's behind it: what is lent, what is kept, and what few members are worth."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwire_checks.statistics.pooling import NOTHING, Spread, family_spread, moderated, stands_out
from gpuwire_checks.statistics.robust import robust_spread, spread_degrees


def spread(value: float, degrees: float) -> Spread:
    return Spread(spread=value, degrees=degrees)


def recorded(noise: random.Random, spreads: list[float], *, attempts: int) -> list[Spread]:
    """What recordings of so many attempts say of metrics with these true spreads."""
    return [
        spread(robust_spread([noise.lognormvariate(0, true) for _ in range(attempts)]), spread_degrees(attempts))
        for true in spreads
    ]


def test_variances_are_pooled_by_their_degrees_of_freedom() -> None:
    found = moderated(spread(0.01, 4), spread(0.02, 36))
    assert found.spread == pytest.approx(math.sqrt((4 * 0.01**2 + 36 * 0.02**2) / 40))
    assert found.degrees == 40


def test_a_spread_without_a_family_is_its_own() -> None:
    assert moderated(spread(0.03, 4), NOTHING) == spread(0.03, 4)


def test_a_spread_of_one_attempt_is_its_familys() -> None:
    assert moderated(NOTHING, spread(0.02, 8)) == spread(0.02, 8)


def test_nothing_known_stays_nothing() -> None:
    assert moderated(NOTHING, NOTHING) == NOTHING
    assert family_spread([]) == family_spread([NOTHING]) == NOTHING


def test_a_spread_that_clearly_exceeds_its_familys_is_kept() -> None:
    unsteady, family = spread(0.10, 4), spread(0.02, 36)
    assert stands_out(unsteady, family)
    assert moderated(unsteady, family) == unsteady


def test_a_spread_that_chance_explains_is_pooled() -> None:
    member, family = spread(0.04, 4), spread(0.02, 36)
    assert not stands_out(member, family)
    assert moderated(member, family).spread < 0.03


def test_a_steady_spread_is_never_kept_apart() -> None:
    assert not stands_out(spread(0.0001, 50), spread(0.02, 500))


def test_a_family_of_one_kind_is_worth_all_its_members() -> None:
    noise = random.Random(3)
    found = [family_spread(recorded(noise, [0.02] * 20, attempts=20)) for _ in range(40)]
    typical = sorted(some.spread for some in found)[20]
    assert typical == pytest.approx(0.02, rel=0.05)
    # Members of one kind: in half of the recordings chance explains all their differences.
    assert sorted(some.degrees for some in found)[20] > 100


def test_a_family_whose_members_differ_is_worth_little() -> None:
    noise = random.Random(4)
    true = [0.02 * math.exp(noise.gauss(0, 0.7)) for _ in range(30)]
    assert family_spread(recorded(noise, true, attempts=20)).degrees < 6


def test_a_family_is_never_worth_more_than_its_members_have() -> None:
    alone = family_spread([spread(0.02, 3)])
    assert [alone.spread, alone.degrees] == [pytest.approx(0.02, rel=0.5), pytest.approx(3)]
    assert family_spread([spread(0.02, 3), spread(0.02, 3)]).degrees == pytest.approx(6)


def test_one_unsteady_member_does_not_loosen_the_others() -> None:
    steady = [spread(0.02, 15)] * 8
    assert family_spread([*steady, spread(0.5, 15)]).spread == pytest.approx(family_spread(steady).spread)


def test_members_without_noise_are_no_crash() -> None:
    assert 0 < family_spread([spread(0.0, 4)] * 3).spread < 0.001


@given(st.floats(0, 2), st.floats(0, 50), st.floats(0, 2), st.floats(0, 500))
def test_pooling_never_takes_from_an_unsteady_spread_nor_adds_beyond_both(
    own: float, own_degrees: float, family: float, family_degrees: float
) -> None:
    found = moderated(spread(own, own_degrees), spread(family, family_degrees))
    assert found.spread <= max(own, family) * (1 + 1e-9)
    assert 0 <= found.degrees <= own_degrees + family_degrees
    if stands_out(spread(own, own_degrees), spread(family, family_degrees)):
        assert found == spread(own, own_degrees)


@given(st.lists(st.floats(1e-3, 1), min_size=1, max_size=12), st.floats(1, 40))
def test_a_family_lies_among_its_members(values: list[float], degrees: float) -> None:
    found = family_spread([spread(value, degrees) for value in values])
    # The median of a variance with few degrees lies below its mean, which is made up for.
    assert min(values) * 0.9 <= found.spread <= max(values) * 2
    assert 0 < found.degrees <= degrees * len(values) * (1 + 1e-9)
