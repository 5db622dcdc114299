"""Without a bound, a case is held to what was published of its topology."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import measurement

from gpuwire_checks.baseline.floors import AppliedFloor, floor_of_case
from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.judge.reference import judge_reference
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.verdicts import Judgement
from gpuwire_checks.records import Case, Mismatch, Outcome, SizeClass

CASE = Case(
    collective="all_reduce",
    size_bytes=16 << 30,
    dtype="float32",
    world_size=8,
    size_class=SizeClass.PEAK,
    backend="nccl",
    device="cuda",
)
RULE = Rule(min_effect=0.03, level=1e-4)
assert (RULE.walk.lead, RULE.walk.clear, RULE.walk.most) == (4, 3, 20)


def floor(**more: object) -> AppliedFloor:
    content = {"figure": "all_reduce", "size": "16GiB", "world_size": 8, "kind": "floor", "source": "somebody"}
    found = floor_of_case([FloorEntry.model_validate({**content, "value": "460 GB/s", **more})], CASE, nvls=True)
    assert found is not None
    return found


def judged(*values: float, rule: Rule = RULE, slow_rank: int | None = None) -> Judgement:
    attempts = [measurement(CASE, value, slow_rank=slow_rank) for value in values]
    return judge_reference(attempts, floor(), rule, where="baselines/nvidia/x.yaml")


@pytest.mark.parametrize("value", [461.0, 480.0, 690.0])
def test_a_figure_that_reaches_the_floor_passes_at_once_and_says_by_what(value: float) -> None:
    judgement = judged(value)
    assert judgement.settled
    assert judgement.verdict.outcome is Outcome.PASS
    assert judgement.verdict.reason == (
        f"busbw {value:.0f} GB/s; held to the published floor of 460 GB/s (all_reduce at 16GiB on 8 ranks; somebody):"
        " nothing was recorded here"
    )
    assert (judgement.verdict.centre, judgement.verdict.accepted) == (None, (460.0, None))


def test_a_figure_below_it_is_a_suspicion_that_attempts_confirm() -> None:
    assert not judged(367).settled
    assert not judged(367, 366, 368).settled
    judgement = judged(367, 366, 368, 367, slow_rank=5)
    assert judgement.settled
    assert judgement.verdict.outcome is Outcome.REGRESSED
    assert judgement.verdict.slowest_rank == 5
    assert judgement.verdict.reason.startswith(
        "busbw 367 GB/s is below the published floor of 460 GB/s (all_reduce at 16GiB on 8 ranks; somebody);"
        " 4 of 4 attempts below; slowest is rank 5: it enters "
    )
    assert judgement.verdict.reason.endswith("; nothing was recorded here, so it is held to what is published")


def test_one_slow_attempt_is_cleared() -> None:
    assert not judged(200, 470, 470, 470).settled
    judgement = judged(200, 470, 470, 470, 470)
    assert (judgement.settled, judgement.verdict.outcome) == (True, Outcome.PASS)


def test_attempts_on_both_sides_are_unstable() -> None:
    judgement = judged(*[450, 470] * 10)
    assert (judgement.settled, judgement.verdict.outcome) == (True, Outcome.UNSTABLE)
    assert "10 of 20 attempts below: neither side led within the attempts allowed" in judgement.verdict.reason
    assert judgement.verdict.is_fault
    assert not judged(*[450, 470] * 10, rule=replace(RULE, warns_unstable=True)).verdict.is_fault


def test_attempts_run_out() -> None:
    late = judged(*[470] * 19, 400)
    assert (late.settled, late.verdict.outcome) == (True, Outcome.UNSTABLE)


def test_more_first_attempts_are_waited_for() -> None:
    rule = replace(RULE, first=2)
    assert not judged(470, rule=rule).settled
    assert judged(470, 471, rule=rule).settled


def test_a_wrong_result_stays_wrong() -> None:
    wrong = Mismatch(rank=1, index=7, expected="4.0", got="3.0", count=2, total=16)
    judgement = judge_reference([measurement(CASE, 480, (wrong,))], floor(), RULE, where="x.yaml")
    assert (judgement.settled, judgement.verdict.outcome) == (True, Outcome.WRONG)
