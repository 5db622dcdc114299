"""From attempts to a bound."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import measurement
from gloo import case

from gpuwire_checks.baseline.record import summarise
from gpuwire_checks.records import Measurement, Mismatch
from gpuwire_checks.statistics.robust import robust_spread

BUCKET = case(size_bytes=1 << 20)
WRONG = Mismatch(rank=1, index=0, expected="1.0", got="2.0", count=1, total=4)


def test_a_bound_is_the_median_of_its_attempts() -> None:
    entry = summarise([measurement(BUCKET, value) for value in (2.0, 2.1, 9.0, 2.05, 1.9)])
    assert (entry.centre, entry.attempts, entry.nodes) == (2.05, 5, 1)
    assert (entry.metric, entry.unit, entry.better) == ("busbw", "GB/s", "higher")
    assert str(entry.case) == "all_reduce-1MiB-float32-ws2-gloo"


def test_the_bound_of_a_latency_is_in_microseconds_and_lower_is_better() -> None:
    entry = summarise([measurement(case("barrier"), value) for value in (80.0, 82.0)])
    assert (entry.metric, entry.unit, entry.better, entry.centre) == ("latency", "us", "lower", 81.0)
    assert (entry.case.size, entry.case.dtype) == (0, None)


def test_the_spread_is_that_of_the_logarithms() -> None:
    entry = summarise([measurement(BUCKET, value) for value in (2.0, 2.2)])
    assert entry.spread == pytest.approx(robust_spread([2.0, 2.2]), rel=1e-2)
    assert entry.spread == float(f"{entry.spread:.3g}")


def test_attempts_that_agree_to_the_last_digit_have_no_spread() -> None:
    assert summarise([measurement(BUCKET, 2.0)] * 5).spread == 0.0


def test_one_attempt_is_no_bound() -> None:
    with pytest.raises(ValueError, match=r"needs two attempts or more at one case, not 1 at 1$"):
        summarise([measurement(BUCKET, 2.0)])
    with pytest.raises(ValueError, match=r"not 0 at 0$"):
        summarise([])


def test_attempts_at_different_cases_are_no_bound() -> None:
    with pytest.raises(ValueError, match=r"not 2 at 2$"):
        summarise([measurement(BUCKET, 2.0), measurement(case(size_bytes=2 << 20), 2.0)])


def test_the_time_set_aside_for_a_case_does_not_make_it_another() -> None:
    other = replace(BUCKET, seconds=9.0, predicted_seconds=20.0)
    assert summarise([measurement(BUCKET, 2.0), measurement(other, 2.0)]).attempts == 2


def test_a_wrong_result_is_never_recorded() -> None:
    with pytest.raises(ValueError, match=r"^all_reduce-1MiB-float32-ws2 gave a wrong result: it is no baseline$"):
        summarise([measurement(BUCKET, 2.0), measurement(BUCKET, 2.0, (WRONG,)), measurement(BUCKET, 2.0)])


def test_results_that_nobody_checked_are_never_recorded() -> None:
    unchecked = replace(measurement(BUCKET, 2.0), checked_ranks=0)
    with pytest.raises(ValueError, match=r"^all_reduce-1MiB-float32-ws2 has results that were not checked"):
        summarise([measurement(BUCKET, 2.0), unchecked])


def with_calls(*calls: float) -> Measurement:
    """An attempt whose single calls take so many times the usual."""
    usual = measurement(BUCKET, 2.0)
    seconds = usual.per_call[0][0]
    rank = tuple(seconds * call for call in calls)
    return replace(usual, per_call=(rank,) * BUCKET.world_size, arrival_lag=((0.0,) * len(calls),) * BUCKET.world_size)


def test_the_spread_of_single_calls_is_recorded_too() -> None:
    attempts = [with_calls(*[1.0] * 38, late, late) for late in (1.2, 1.3, 1.25)]
    within = summarise(attempts).tail
    assert within is not None
    assert within.centre == 1.0  # two late calls of forty are beyond the 95th percentile
    attempts = [with_calls(*[1.0] * 36, *[late] * 4) for late in (1.2, 1.3, 1.25)]
    tail = summarise(attempts).tail
    assert tail is not None
    assert tail.centre == pytest.approx(1.25)
    assert tail.spread == pytest.approx(robust_spread([1.2, 1.3, 1.25]), rel=1e-2)


def test_too_few_single_calls_tell_no_tail() -> None:
    assert summarise([with_calls(*[1.0] * 19), with_calls(*[1.0] * 40)]).tail is None
