"""From attempts and a bound to a verdict: every outcome, and what its sentence says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from fakes import measurement
from gloo import case
from hypothesis import given
from hypothesis import strategies as st

from gpuwire_checks.judge import Judgement, Rule, accepted_range, judge, slowest_rank
from gpuwire_checks.records import BUSBW, LATENCY, Bound, Measurement, Metric, Mismatch, Outcome

BUCKET = case(size_bytes=1 << 20, world_size=4)
SMALL = case(size_bytes=8 << 10, world_size=4)
RULE = Rule(min_effect=0.1, level=1e-4, max_attempts=5)
WRONG = Mismatch(rank=1, index=7, expected="4.0", got="3.0", count=2, total=16)


def bound(metric: Metric = BUSBW, *, centre: float = 100.0, spread: float = 0.0, degrees: float = 20) -> Bound:
    return Bound(
        metric=metric, centre=centre, spread=spread, degrees=degrees, attempts=5, nodes=1, where="nodes/a.yaml:12"
    )


def judged(*values: float, rule: Rule = RULE, of: Bound | None = None) -> Judgement:
    """The verdict on attempts at a rate; the bound is 100 GB/s, and 90 to 111 are accepted."""
    return judge([measurement(BUCKET, value) for value in values], of or bound(), rule, where="nodes/a.yaml")


def judged_latency(*values: float) -> Judgement:
    """The verdict on attempts at a latency; the bound is 100 us, and 90.9 to 110 are accepted."""
    return judge([measurement(SMALL, value) for value in values], bound(LATENCY), RULE, where="nodes/a.yaml")


def settled(judgement: Judgement) -> Outcome:
    assert judgement.settled
    return judgement.verdict.outcome


# One attempt


@pytest.mark.parametrize("value", [90.1, 95, 100, 105, 111])
def test_a_rate_inside_its_bound_passes_at_once(value: float) -> None:
    assert settled(judged(value)) is Outcome.PASS


@pytest.mark.parametrize(("value", "outcome"), [(89.9, Outcome.REGRESSED), (111.2, Outcome.IMPROVED)])
def test_a_rate_outside_its_bound_is_a_suspicion(value: float, outcome: Outcome) -> None:
    judgement = judged(value)
    assert (judgement.settled, judgement.verdict.outcome) == (False, outcome)


@pytest.mark.parametrize(("value", "outcome"), [(110.1, Outcome.REGRESSED), (90.8, Outcome.IMPROVED)])
def test_of_a_latency_the_lower_is_the_better(value: float, outcome: Outcome) -> None:
    judgement = judged_latency(value)
    assert (judgement.settled, judgement.verdict.outcome) == (False, outcome)
    assert settled(judged_latency(value, value, value)) is outcome


@pytest.mark.parametrize("value", [91.0, 100, 109.9])
def test_a_latency_inside_its_bound_passes_at_once(value: float) -> None:
    assert settled(judged_latency(value)) is Outcome.PASS


def test_a_rule_of_one_attempt_decides_on_it() -> None:
    assert settled(judged(50, rule=replace(RULE, max_attempts=1))) is Outcome.REGRESSED


# Several attempts


def test_one_bad_attempt_of_several_passes() -> None:
    assert not judged(50, 100).settled
    assert not judged(50, 100, 100).settled
    assert settled(judged(50, 100, 100, 100)) is Outcome.PASS


def test_one_good_attempt_of_several_does_not_pass() -> None:
    assert not judged(50, 100, 50).settled
    assert settled(judged(50, 100, 50, 50)) is Outcome.REGRESSED


def test_a_majority_that_the_rest_could_not_turn_settles_early() -> None:
    assert not judged(50, 50).settled
    assert settled(judged(50, 50, 50)) is Outcome.REGRESSED
    assert settled(judged(150, 150, 150)) is Outcome.IMPROVED


def test_attempts_on_three_sides_are_settled_by_their_median_when_they_run_out() -> None:
    assert not judged(50, 150, 100, 50).settled
    assert settled(judged(50, 150, 100, 50, 150)) is Outcome.PASS
    assert settled(judged(50, 150, 100, 50, 50)) is Outcome.REGRESSED


def test_the_figure_of_a_verdict_is_the_median_and_every_attempt_is_kept() -> None:
    verdict = judged(50, 60, 100, 55).verdict
    assert verdict.value == pytest.approx(57.5)
    assert verdict.attempts == pytest.approx((50, 60, 100, 55))


@given(
    # A first figure that passes ends it: nobody measures on.
    st.sampled_from([1.0, 80.0, 120.0, 900.0]),
    st.lists(st.sampled_from([1.0, 80.0, 95.0, 100.0, 110.0, 120.0, 900.0]), min_size=4, max_size=4),
)
def test_what_has_settled_early_would_have_ended_the_same(first: float, rest: list[float]) -> None:
    values = [first, *rest]
    judgements = [judged(*values[:count]) for count in range(1, 6)]
    early = next(judgement for judgement in judgements if judgement.settled)
    assert early.verdict.outcome is settled(judgements[-1])


@given(st.lists(st.floats(1, 1000), min_size=5, max_size=5))
def test_when_attempts_have_run_out_their_order_does_not_matter(values: list[float]) -> None:
    assert judged(*values).verdict.outcome is judged(*reversed(values)).verdict.outcome


@given(st.floats(1e-3, 1e6))
def test_a_rate_and_its_time_are_judged_alike(factor: float) -> None:
    rule = replace(RULE, min_effect=1e-9)
    of_rate, of_time = bound(spread=0.05), bound(LATENCY, spread=0.05)
    rate = judge([measurement(BUCKET, 100 * factor)] * 5, of_rate, rule, where="")
    late = judge([measurement(SMALL, 100 / factor)] * 5, of_time, rule, where="")
    low, high = accepted_range(of_rate, rule)
    if min(abs(math.log(100 * factor / edge)) for edge in (low, high)) > 1e-6:
        assert rate.verdict.outcome is late.verdict.outcome


def test_the_same_attempts_give_the_same_verdict_to_the_byte() -> None:
    values = (50.0, 51.0, 49.5)
    assert repr(judged(*values)) == repr(judged(*values))


# What is accepted


def test_the_smallest_effect_is_a_fraction_of_the_centre_on_the_bad_side() -> None:
    assert accepted_range(bound(), RULE) == pytest.approx((90.0, 100 / 0.9))
    assert accepted_range(bound(LATENCY), RULE) == pytest.approx((100 / 1.1, 110.0))


def test_a_latency_may_be_allowed_to_double() -> None:
    assert accepted_range(bound(LATENCY), replace(RULE, min_effect=1.0)) == pytest.approx((50.0, 200.0))


def test_a_rate_may_be_allowed_more_than_its_whole() -> None:
    low, high = accepted_range(bound(), replace(RULE, min_effect=1.0))
    assert (low, high) == pytest.approx((50.0, 200.0))


def test_noise_widens_what_is_accepted_on_both_sides() -> None:
    low, high = accepted_range(bound(spread=0.1), RULE)
    assert low < 70
    assert low * high == pytest.approx(100**2)
    assert settled(judged(low * 1.01, of=bound(spread=0.1))) is Outcome.PASS


def test_a_bound_of_two_attempts_that_differed_is_loose_and_no_crash() -> None:
    loose, rule = bound(spread=0.1, degrees=1), replace(RULE, level=2.8e-5)
    assert accepted_range(loose, rule) == pytest.approx((0.1, 100_000))
    assert settled(judged(1.0, rule=rule, of=loose)) is Outcome.PASS
    assert not judged(0.09, rule=rule, of=loose).settled


# Not a matter of speed


def test_a_wrong_result_comes_before_any_figure() -> None:
    for of in (bound(), None):
        judgement = judge([measurement(BUCKET, 100, (WRONG,))], of, RULE, where="nodes/a.yaml")
        assert settled(judgement) is Outcome.WRONG
        assert judgement.verdict.reason == ("rank 1 got 3.0 instead of 4.0 at index 7 (2 of 16 elements are wrong)")
        assert (judgement.verdict.centre, judgement.verdict.accepted) == (None, None)


@pytest.mark.parametrize(("ranks", "more"), [(2, "and 1 more rank is wrong"), (4, "and 3 more ranks are wrong")])
def test_the_first_wrong_rank_is_told_in_full_and_the_others_counted(ranks: int, more: str) -> None:
    wrong = tuple(replace(WRONG, rank=rank) for rank in range(ranks))
    reason = judge([measurement(BUCKET, 100, wrong)], bound(), RULE, where="").verdict.reason
    assert reason == f"rank 0 got 3.0 instead of 4.0 at index 7 (2 of 16 elements are wrong), {more}"


def test_a_result_wrong_once_is_wrong_whatever_came_before() -> None:
    sound, unchecked = measurement(BUCKET, 50), replace(measurement(BUCKET, 50), checked_ranks=0)
    for before in (sound, unchecked):
        attempts = [before, measurement(BUCKET, 100, (WRONG,)), sound]
        assert settled(judge(attempts, bound(), RULE, where="")) is Outcome.WRONG


def test_results_that_nobody_checked_are_an_error_and_never_a_pass() -> None:
    unchecked = replace(measurement(BUCKET, 100), checked_ranks=0)
    for of in (bound(), None):
        judgement = judge([unchecked], of, RULE, where="")
        assert settled(judgement) is Outcome.ERROR
        assert judgement.verdict.reason == "no rank's result was checked, so its speed says nothing"


def test_without_a_bound_nothing_passes() -> None:
    judgement = judge([measurement(SMALL, 100)], None, RULE, where="nodes/a.yaml")
    assert settled(judgement) is Outcome.NO_BASELINE
    assert judgement.verdict.reason == (
        "no bound for latency all_reduce-8KiB-float32-ws4 on gloo (nodes/a.yaml);"
        " record one with: gpuwire baseline record"
    )
    assert judgement.verdict.value == pytest.approx(100)


# The sentence


def test_a_pass_says_what_was_measured_and_what_is_accepted() -> None:
    assert judged(95).verdict.reason == (
        "busbw 95.0 GB/s is 5.0% below the baseline's 100 GB/s; accepted 90.0 GB/s to 111 GB/s"
    )


def test_a_regression_says_how_often_and_where_its_bound_stands() -> None:
    assert judged(50, 100, 50, 50).verdict.reason == (
        "busbw 50.0 GB/s is 50.0% below the baseline's 100 GB/s; accepted 90.0 GB/s to 111 GB/s;"
        " 3 of 4 attempts outside (nodes/a.yaml:12)"
    )


def test_a_slower_latency_is_above_its_baseline() -> None:
    assert judged_latency(200, 200, 200).verdict.reason == (
        "latency 200 us is 100.0% above the baseline's 100 us; accepted 90.9 us to 110 us;"
        " 3 of 3 attempts outside (nodes/a.yaml:12)"
    )


def test_a_regression_names_the_rank_that_is_late() -> None:
    slow = [measurement(BUCKET, 50, slow_rank=2)] * 3
    verdict = judge(slow, bound(), RULE, where="").verdict
    assert verdict.slowest_rank == 2
    # 1 MiB at 50 GB/s of bus bandwidth on 4 ranks takes 31.5 us, and it enters half of that late.
    assert "3 of 3 attempts outside; slowest is rank 2: it enters 15.7 us after the first (nodes" in verdict.reason


def test_a_pass_does_not_accuse_a_rank() -> None:
    verdict = judge([measurement(BUCKET, 100, slow_rank=2)], bound(), RULE, where="").verdict
    assert verdict.outcome is Outcome.PASS
    assert "slowest" not in verdict.reason


# The rank that holds the others up


def of_ranks(seconds: Sequence[float], lags: Sequence[float] | None = None) -> Measurement:
    """Five calls that take each rank so long, entered so late."""
    ranks = lags or [0.0] * len(seconds)
    return replace(
        measurement(BUCKET, 100),
        per_call=tuple((second,) * 5 for second in seconds),
        arrival_lag=tuple((lag,) * 5 for lag in ranks),
    )


def test_a_rank_that_enters_late_is_the_slowest() -> None:
    assert slowest_rank(of_ranks([1e-3] * 4, [0, 1e-5, 0, 5e-4])) == (3, "enters 500 us after the first")


def test_late_comes_before_longer() -> None:
    # The late rank waits for nobody, so its own call is the shortest.
    found = slowest_rank(of_ranks([1e-3, 1e-3, 5e-4, 1e-3], [0, 0, 5e-4, 0]))
    assert found is not None
    assert found[0] == 2


def test_a_rank_that_takes_longer_is_the_slowest() -> None:
    assert slowest_rank(of_ranks([1e-3, 1.5e-3, 1e-3, 1e-3])) == (1, "takes 50% longer than the others")


def test_no_rank_stands_out_of_noise() -> None:
    assert slowest_rank(of_ranks([1e-3] * 4)) is None
    assert slowest_rank(of_ranks([1e-3, 1.05e-3, 0.98e-3, 1.02e-3], [0, 1e-4, 5e-5, 2e-4])) is None


def test_two_late_ranks_are_not_one_slow_rank() -> None:
    assert slowest_rank(of_ranks([1e-3] * 4, [0, 5e-4, 0, 5e-4])) is None


def test_one_late_call_of_many_names_no_rank() -> None:
    once = replace(of_ranks([1e-3] * 4), arrival_lag=((0.0,) * 5, (5e-3, 0, 0, 0, 0), (0.0,) * 5, (0.0,) * 5))
    assert slowest_rank(once) is None


def test_of_two_ranks_either_may_be_the_slowest() -> None:
    assert slowest_rank(of_ranks([1e-3, 1e-3], [4e-4, 0])) == (0, "enters 400 us after the first")
    assert slowest_rank(of_ranks([1e-3, 2e-3])) == (1, "takes 100% longer than the others")
