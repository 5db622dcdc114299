"""From attempts and a bound to a verdict: every outcome, and what its sentence says."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from fakes import measurement
from gloo import case
from hypothesis import given
from hypothesis import strategies as st

from gpuwire_checks.judge.limits import limits_of
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.slowest import slowest_rank
from gpuwire_checks.judge.verdicts import Judgement, accepted_range, judge
from gpuwire_checks.records import BUSBW, LATENCY, TAIL, Bound, Measurement, Metric, Mismatch, Outcome, Verdict

BUCKET = case(size_bytes=1 << 20, world_size=4)
SMALL = case(size_bytes=8 << 10, world_size=4)
RULE = Rule(min_effect=0.1, level=1e-4)
assert (RULE.walk.lead, RULE.walk.clear, RULE.walk.most) == (4, 3, 20)
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
def test_a_rate_outside_its_bound_is_a_suspicion_and_no_pass(value: float, outcome: Outcome) -> None:
    judgement = judged(value)
    assert (judgement.settled, judgement.verdict.outcome) == (False, Outcome.UNSTABLE)
    assert settled(judged(*[value] * 4)) is outcome


@pytest.mark.parametrize(("value", "outcome"), [(110.1, Outcome.REGRESSED), (90.8, Outcome.IMPROVED)])
def test_of_a_latency_the_lower_is_the_better(value: float, outcome: Outcome) -> None:
    assert not judged_latency(value).settled
    assert settled(judged_latency(*[value] * 4)) is outcome


@pytest.mark.parametrize("value", [91.0, 100, 109.9])
def test_a_latency_inside_its_bound_passes_at_once(value: float) -> None:
    assert settled(judged_latency(value)) is Outcome.PASS


# Several attempts: those outside vote against those inside


def test_one_bad_attempt_does_not_decide() -> None:
    assert not judged(50).settled
    assert not judged(50, 50, 50).settled
    assert settled(judged(50, 50, 50, 50)) is Outcome.REGRESSED


def test_one_bad_attempt_of_several_passes() -> None:
    assert not judged(50, 100, 100, 100).settled
    assert settled(judged(50, 100, 100, 100, 100)) is Outcome.PASS


def test_one_good_attempt_does_not_excuse() -> None:
    assert not judged(50, 100, 50, 50, 50).settled
    assert settled(judged(50, 100, 50, 50, 50, 50)) is Outcome.UNSTABLE


def test_a_fault_that_comes_and_goes_is_unstable_and_says_how_often_it_passed() -> None:
    verdict = judged(50, 100, 50, 50, 50, 50, of=bound(spread=0.01)).verdict
    assert (verdict.outcome, verdict.is_fault) == (Outcome.UNSTABLE, True)
    assert "; 5 of 6 attempts outside: it comes and goes, 1 of 6 passed (nodes/a.yaml:12)" in verdict.reason


def test_attempts_at_one_level_about_the_limit_are_regressed_and_not_unstable() -> None:
    # 10 % is the smallest effect, and a figure 10 % down with 2 % noise is on either side of it.
    verdict = judged(88, 91, 88.5, 89, 88, 89.5, of=bound(spread=0.02)).verdict
    assert verdict.outcome is Outcome.REGRESSED


def test_attempts_that_never_lead_either_way_are_unstable_when_they_run_out() -> None:
    assert not judged(*[50, 100] * 9, 50).settled
    verdict = judged(*[50, 100] * 10).verdict
    assert settled(judged(*[50, 100] * 10)) is Outcome.UNSTABLE
    assert "10 of 20 attempts outside: neither side led within the attempts allowed" in verdict.reason
    assert verdict.is_fault


def test_a_policy_may_make_a_warning_of_attempts_that_never_lead_but_not_of_a_lead() -> None:
    lenient = replace(RULE, warns_unstable=True)
    undecided = judged(*[50, 100] * 10, rule=lenient).verdict
    assert (undecided.outcome, undecided.warned, undecided.is_fault) == (Outcome.UNSTABLE, True, False)
    led = judged(50, 100, 50, 50, 50, 50, rule=lenient).verdict
    assert (led.outcome, led.warned, led.is_fault) == (Outcome.UNSTABLE, False, True)


def test_a_better_figure_is_confirmed_as_a_worse_one_is() -> None:
    assert not judged(150, 150, 150).settled
    assert settled(judged(150, 150, 150, 150)) is Outcome.IMPROVED
    assert settled(judged(150, 100, 100, 100, 100)) is Outcome.PASS


def test_a_first_figure_that_is_better_hides_none_that_is_worse() -> None:
    assert not judged(150, 50, 50, 50).settled
    assert settled(judged(150, 50, 50, 50, 50)) is Outcome.REGRESSED


def test_a_policy_may_ask_for_more_than_one_attempt_before_a_pass() -> None:
    careful = replace(RULE, first=2)
    assert not judged(100, rule=careful).settled
    assert settled(judged(100, 100, rule=careful)) is Outcome.PASS
    assert not judged(100, 50, rule=careful).settled
    assert settled(judged(100, 50, 50, 50, 50, rule=careful)) is Outcome.REGRESSED


def test_a_first_figure_within_the_screen_passes_and_one_before_the_limit_is_looked_at_again() -> None:
    noisy = bound(spread=0.02, degrees=500)
    limits = limits_of(noisy, RULE)
    assert 0.0 < limits.screen < limits.width
    between = 100 * math.exp(-(limits.screen + limits.width) / 2)
    assert settled(judged(100 * math.exp(-limits.screen * 0.99), of=noisy)) is Outcome.PASS
    assert not judged(between, of=noisy).settled
    assert not judged(between, 100, of=noisy).settled
    assert settled(judged(between, 100, 100, of=noisy)) is Outcome.PASS


def test_the_figure_of_a_verdict_is_the_median_and_every_attempt_is_kept() -> None:
    verdict = judged(50, 60, 100, 55).verdict
    assert verdict.value == pytest.approx(57.5)
    assert verdict.attempts == pytest.approx((50, 60, 100, 55))


FIGURES = st.sampled_from([1.0, 50.0, 80.0, 89.0, 91.0, 95.0, 100.0, 110.0, 120.0, 900.0])
NIGHTS = st.lists(FIGURES, min_size=20, max_size=20)


def outcome_of_night(values: Sequence[float], of: Bound, rule: Rule = RULE) -> Verdict:
    """The verdict of a night in which attempts come out like this: measured on only as far as needed."""
    for count in range(1, len(values) + 1):
        judgement = judged(*values[:count], rule=rule, of=of)
        if judgement.settled:
            return judgement.verdict
    raise AssertionError("never settled")


@given(NIGHTS, st.sampled_from([0.0, 0.02, 0.2]))
def test_every_night_is_settled(values: list[float], spread: float) -> None:
    assert len(outcome_of_night(values, bound(spread=spread)).attempts) <= RULE.most


@given(
    st.lists(FIGURES, min_size=1, max_size=20),
    st.integers(0, 19),
    st.floats(0.1, 1.0),
    st.sampled_from([0.0, 0.02]),
    st.booleans(),
)
def test_a_worse_figure_never_turns_a_failure_into_a_pass(
    values: list[float], index: int, factor: float, spread: float, lenient: bool
) -> None:
    worse = [value * factor if at == index else value for at, value in enumerate(values)]
    rule, of = replace(RULE, warns_unstable=lenient), bound(spread=spread)
    was, now = judged(*values, rule=rule, of=of), judged(*worse, rule=rule, of=of)
    if was.settled and was.verdict.is_fault:
        assert now.verdict.is_fault
        assert now.settled
    # Nor in a night that measures on only as far as needed, unless a first figure that is too good made it look again.
    if values[0] <= 110 and len(values) == 20 and outcome_of_night(values, of, rule).is_fault:
        assert outcome_of_night(worse, of, rule).is_fault


@given(st.lists(FIGURES, min_size=4, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_attempts_does_not_matter_to_a_figure_that_failed_throughout(
    values: list[float], shuffle: random.Random
) -> None:
    bad = [min(value, 80.0) for value in values]
    mixed = list(bad)
    shuffle.shuffle(mixed)
    assert judged(*bad).verdict.outcome is judged(*mixed).verdict.outcome is Outcome.REGRESSED


@given(NIGHTS, st.floats(1e-3, 1e6), st.sampled_from([0.0, 0.02]))
def test_the_scale_of_all_figures_does_not_matter(values: list[float], factor: float, spread: float) -> None:
    # Beside the limits by a millionth, so that rounding is not what is tested.
    scaled = outcome_of_night([value * factor for value in values], bound(centre=100 * factor, spread=spread))
    assert scaled.outcome is outcome_of_night(values, bound(spread=spread)).outcome


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
    assert repr(judged(*values, of=bound(spread=0.03))) == repr(judged(*values, of=bound(spread=0.03)))


# A limit that cannot be enforced


def test_a_limit_looser_than_the_policy_allows_is_unstable_and_says_what_could_be_seen() -> None:
    strict = replace(RULE, max_slack=0.15)
    verdict = judged(100, rule=strict, of=bound(spread=0.1)).verdict
    assert (verdict.outcome, verdict.is_fault) == (Outcome.UNSTABLE, True)
    assert verdict.reason.startswith(
        "busbw 100 GB/s is 0.0% below the baseline's 100 GB/s, but its noise is too wide to hold it to that: it varies"
        " by 10.5% between attempts, so that only a drop of "
    )
    assert verdict.reason.endswith(
        " would be seen, and a drop of 15.0% is the most that the policy calls a limit; record it with more attempts or"
        " find what disturbs it (nodes/a.yaml:12)"
    )
    assert judged(100, rule=replace(strict, warns_unstable=True), of=bound(spread=0.1)).verdict.warned


def test_a_figure_beyond_even_a_loose_limit_is_regressed() -> None:
    strict = replace(RULE, max_slack=0.15, warns_unstable=True)
    assert settled(judged(1, 1, 1, 1, rule=strict, of=bound(spread=0.1))) is Outcome.REGRESSED


def test_a_limit_within_what_the_policy_allows_is_enforced() -> None:
    assert settled(judged(100, rule=replace(RULE, max_slack=0.15), of=bound(spread=0.01))) is Outcome.PASS


# The spread within attempts


def spread_calls(tail: float, *, calls: int = 40) -> Measurement:
    """An attempt as usual, whose slowest tenth of single calls take so many times the median."""
    usual = measurement(BUCKET, 100)
    seconds = usual.per_call[0][0]
    late = calls // 10
    rank = (seconds,) * (calls - late) + (seconds * tail,) * late
    return replace(usual, per_call=(rank,) * BUCKET.world_size, arrival_lag=((0.0,) * calls,) * BUCKET.world_size)


TAILED = replace(
    bound(spread=0.01, degrees=200), tail=replace(bound(spread=0.05, degrees=200), metric=TAIL, centre=1.2)
)
TAIL_RULE = replace(RULE, tail=0.5)


def test_a_link_that_flaps_keeps_its_median_and_is_unstable() -> None:
    judgement = judge([spread_calls(3.0)] * 4, TAILED, TAIL_RULE, where="")
    assert settled(judgement) is Outcome.UNSTABLE
    assert judgement.verdict.reason == (
        "single calls spread too far: p95/p50 is 3.00, and 1.20 when recorded; accepted up to 1.80;"
        " 4 of 4 attempts outside, while their median is inside its limit (nodes/a.yaml:12)"
    )
    assert not judge([spread_calls(3.0)] * 3, TAILED, TAIL_RULE, where="").settled


def test_a_spread_as_recorded_passes_at_once() -> None:
    for tail in (1.0, 1.2, 1.5):
        assert settled(judge([spread_calls(tail)], TAILED, TAIL_RULE, where="")) is Outcome.PASS


def test_a_spread_is_not_held_to_what_was_not_recorded_nor_asked_for_nor_told_by_few_calls() -> None:
    for attempt, of, rule in (
        (spread_calls(9.0), replace(TAILED, tail=None), TAIL_RULE),
        (spread_calls(9.0), TAILED, RULE),
        (spread_calls(9.0, calls=19), TAILED, TAIL_RULE),
    ):
        assert settled(judge([attempt], of, rule, where="")) is Outcome.PASS


def test_a_tail_is_the_95th_percentile_over_the_median_on_the_slowest_rank() -> None:
    assert spread_calls(3.0).tail == pytest.approx(3.0)
    assert spread_calls(3.0, calls=19).tail is None
    one_late_call = spread_calls(3.0, calls=20)
    ranks = ((*one_late_call.per_call[0][:-1], 1.0),) * BUCKET.world_size
    # Of 20 calls the slowest is beyond the 95th percentile; of the two late ones the other is at it.
    assert replace(one_late_call, per_call=ranks).tail == pytest.approx(3.0)


# The last good runs, beside what was recorded


ROLLING = replace(
    bound(spread=0.01, degrees=200), rolling=replace(bound(spread=0.01, degrees=200), centre=94.0, attempts=20)
)


def test_a_step_that_the_recorded_bound_would_accept_shows_against_the_last_good_runs() -> None:
    rule = replace(RULE, min_effect=0.12)
    assert settled(judged(89, 89, 89, 89, rule=rule, of=replace(ROLLING, rolling=None))) is Outcome.PASS
    rule = replace(RULE, min_effect=0.05)
    loose = replace(ROLLING, spread=0.05)
    verdict = judged(*[88.5] * 8, rule=rule, of=loose).verdict
    assert verdict.outcome is Outcome.REGRESSED
    assert "busbw 88.5 GB/s is 5.9% below the last good runs' 94.0 GB/s; accepted " in verdict.reason
    assert verdict.reason.endswith(
        "; 8 of 8 attempts outside. The recorded 100 GB/s would still accept it (nodes/a.yaml:12)"
    )


def test_a_drift_that_the_last_good_runs_followed_shows_against_the_recorded_bound() -> None:
    drifted = replace(ROLLING, rolling=replace(bound(spread=0.01, degrees=200), centre=85.0))
    assert settled(judged(85, 85, 85, 85, of=drifted)) is Outcome.REGRESSED


def test_a_figure_as_recorded_and_as_of_late_passes() -> None:
    assert settled(judged(95, of=ROLLING)) is Outcome.PASS


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
    assert settled(judged(*[low * 1.01] * 3, of=bound(spread=0.1))) is Outcome.PASS


def test_a_bound_of_two_attempts_that_differed_is_too_loose_to_enforce_and_no_crash() -> None:
    loose, rule = bound(spread=0.1, degrees=0.8), replace(RULE, level=2.8e-5, max_slack=0.9)
    low, high = accepted_range(loose, rule)
    assert 0 < low < 1e-30
    assert 1e30 < high < math.inf
    assert settled(judged(1.0, rule=rule, of=loose)) is Outcome.UNSTABLE


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
    assert judged(50, 50, 50, 50).verdict.reason == (
        "busbw 50.0 GB/s is 50.0% below the baseline's 100 GB/s; accepted 90.0 GB/s to 111 GB/s;"
        " 4 of 4 attempts outside (nodes/a.yaml:12)"
    )


def test_a_slower_latency_is_above_its_baseline() -> None:
    assert judged_latency(200, 200, 200, 200).verdict.reason == (
        "latency 200 us is 100.0% above the baseline's 100 us; accepted 90.9 us to 110 us;"
        " 4 of 4 attempts outside (nodes/a.yaml:12)"
    )


def test_a_regression_names_the_rank_that_is_late() -> None:
    slow = [measurement(BUCKET, 50, slow_rank=2)] * 4
    verdict = judge(slow, bound(), RULE, where="").verdict
    assert verdict.slowest_rank == 2
    # 1 MiB at 50 GB/s of bus bandwidth on 4 ranks takes 31.5 us, and it enters half of that late.
    assert "4 of 4 attempts outside; slowest is rank 2: it enters 15.7 us after the first (nodes" in verdict.reason


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
