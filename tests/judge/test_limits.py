"""The limits that a bound has under a rule: what each uncertainty does to them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.judge.limits import Limits, limits_of, tail_limits_of, uncertainty_of
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.records import BUSBW, LATENCY, TAIL, Bound
from gpuwire_checks.statistics.robust import centre_error
from gpuwire_checks.tolerance import as_logarithm

RULE = Rule(min_effect=0.03, level=1 / 140_000, max_slack=0.15)
BOUND = Bound(metric=BUSBW, centre=400.0, spread=0.01, degrees=300, attempts=20, nodes=1, where="n.yaml:9")


def of(**changes: Any) -> Limits:
    return limits_of(replace(BOUND, **changes), RULE)


def test_the_budget_of_the_docs_asks_for_a_lead_of_five() -> None:
    assert (RULE.walk.lead, RULE.walk.clear, RULE.walk.most) == (5, 3, 20)


def test_a_budget_that_the_attempts_cannot_keep_is_refused() -> None:
    greedy = replace(RULE, level=1e-9)
    with pytest.raises(ConfigError) as caught:
        limits_of(BOUND, greedy)
    assert str(caught.value) == (
        "at most 1 false failure in 1,000,000,000 decisions (false_alarms) cannot be promised: with 5% of attempts"
        " disturbed (noise), 20 attempts are too few to tell; raise attempts.confirm, or allow for fewer disturbed ones"
    )
    assert limits_of(BOUND, replace(greedy, most=40)).multiplier > 1


def test_noise_decides_where_it_is_more_than_the_smallest_effect() -> None:
    noisy, steady = of(spread=0.02), of(spread=0.002)
    assert noisy.width == noisy.noise > noisy.min_effect
    assert steady.width == steady.min_effect == pytest.approx(-math.log(0.97))
    assert steady.accepted == pytest.approx((400 * 0.97, 400 / 0.97))
    assert steady.worst == steady.accepted[0]


@pytest.mark.parametrize(
    ("changes", "wider"),
    [
        ({"attempts": 5}, True),
        ({"attempts": 200}, False),
        ({"degrees": 10.0}, True),
        ({"degrees": 1e9}, False),
        ({"nodes": 10, "runs": 10, "between": 0.02}, True),
        # What was seen between nodes is less than what nights are allowed anyway; ten of them have ten nights.
        ({"nodes": 10, "runs": 10, "between": 0.001}, False),
        ({"nodes": 1, "runs": 1}, None),
    ],
)
def test_what_is_not_known_widens_the_limit(changes: dict[str, Any], wider: bool | None) -> None:
    usual, other = of().multiplier, of(**changes).multiplier
    assert (other > usual) if wider else (other < usual) if wider is False else (other == usual)


def test_few_nodes_say_little_of_how_nodes_differ() -> None:
    few = of(nodes=4, runs=4, between=0.01)
    many = of(nodes=40, runs=40, between=0.01)
    assert few.uncertainty.shared_degrees == 3
    assert many.uncertainty.shared_degrees == 39
    assert few.multiplier > 2 * many.multiplier


def test_a_stricter_budget_widens_and_never_narrows() -> None:
    widths = [limits_of(BOUND, replace(RULE, level=level)).multiplier for level in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)]
    # A stricter level may ask for a longer lead, which by itself makes failures rarer.
    assert widths[0] < widths[-1]
    assert all(width > 1.5 for width in widths)


def test_nothing_known_of_the_noise_leaves_the_smallest_effect() -> None:
    for unknown in (of(spread=0.0), of(degrees=0.0)):
        assert (unknown.noise, unknown.screen) == (0.0, unknown.width)
        assert unknown.width == unknown.min_effect


@pytest.mark.parametrize("spread", [0.0005, 0.005, 0.01, 0.05, 0.5])
def test_the_screen_is_before_the_limit_and_beyond_usual_noise(spread: float) -> None:
    limits = of(spread=spread)
    one = limits.spread * math.hypot(1, limits.uncertainty.shared)
    assert 1.5 * one <= limits.screen <= limits.width
    # A figure that is just outside is suspicious 98 times of a hundred.
    assert limits.width - limits.screen == pytest.approx(min(2 * one, limits.width - 1.5 * one))


def test_a_limit_is_enforceable_up_to_the_slack_that_the_policy_allows() -> None:
    assert of().enforceable
    assert not of(spread=0.1).enforceable
    assert limits_of(replace(BOUND, spread=0.1), replace(RULE, max_slack=math.inf)).enforceable


def test_of_a_latency_the_bad_side_is_above() -> None:
    limits = limits_of(replace(BOUND, metric=LATENCY), RULE)
    assert limits.worst == limits.accepted[1] > 400
    assert limits.fall(440.0) == pytest.approx(math.log(1.1)) == -of().fall(440.0)


def test_a_fraction_of_a_whole_or_more_is_a_change_to_the_other_side() -> None:
    assert as_logarithm(0.5, "higher") == pytest.approx(math.log(2))
    assert as_logarithm(0.5, "lower") == pytest.approx(math.log(1.5))
    assert as_logarithm(1.0, "higher") == as_logarithm(1.0, "lower") == pytest.approx(math.log(2))
    assert math.isinf(as_logarithm(math.inf, "lower"))


def test_a_tail_has_limits_only_where_it_was_recorded_and_asked_for() -> None:
    tailed = replace(BOUND, tail=replace(BOUND, metric=TAIL, centre=1.2, spread=0.05))
    asked = replace(RULE, tail=0.5)
    assert tail_limits_of(tailed, RULE) is None
    assert tail_limits_of(BOUND, asked) is None
    limits = tail_limits_of(tailed, asked)
    assert limits is not None
    assert limits.worst == pytest.approx(1.8)
    assert limits.enforceable


def test_more_first_attempts_share_the_level() -> None:
    twice = replace(RULE, first=2)
    assert twice.each_level == pytest.approx(RULE.level / 2)
    assert limits_of(BOUND, twice).multiplier > of().multiplier


@given(st.floats(0.5, 5000), st.integers(1, 500), st.floats(0, 0.5) | st.none(), st.integers(2, 60))
def test_uncertainties_are_rounded_to_the_careful_side(
    degrees: float, attempts: int, between: float | None, nodes: int
) -> None:
    bound = replace(BOUND, degrees=degrees, attempts=max(attempts, nodes), nodes=nodes, runs=nodes, between=between)
    found = uncertainty_of(bound, RULE)
    counted = math.hypot(centre_error(bound.attempts), RULE.night * math.sqrt(1 + 1 / bound.groups))
    seen = 0.0 if between is None else between * math.sqrt(1 + 1 / nodes) / bound.spread
    assert found.degrees <= min(degrees, 1000) * 1.000001
    assert found.degrees >= min(degrees, 1000) / 1.051
    assert max(counted, seen) * 0.999999 <= found.shared <= max(counted, seen) * 1.051
    assert math.isinf(found.shared_degrees) is (seen <= counted)
