"""A case from first attempt to verdict: further attempts, the control beside them, and what goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from fakes import FakeRanks, Script
from gloo import case

from gpuwire_checks.harness.trial import Trial, run_trial
from gpuwire_checks.judge.control import Control
from gpuwire_checks.judge.limits import limits_of
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.verdicts import Judgement
from gpuwire_checks.records import BUSBW, Bound, Case, Measurement, Outcome

SUSPECT = case("all_reduce", size_bytes=1 << 20)
OTHER = case("broadcast", size_bytes=1 << 20)
BOUND = Bound(metric=BUSBW, centre=100.0, spread=0.01, degrees=200, attempts=20, nodes=1, where="n.yaml:3")
RULE = Rule(min_effect=0.1, level=1e-4)
CONTROL = Control(case=OTHER, limits=limits_of(BOUND, RULE), passed_at="2026-01-01T00:00:00+00:00")


class LoggedRanks(FakeRanks):
    """Keeps in which order cases were measured, and which on a fresh process group."""

    def __init__(self, figure: Script) -> None:
        super().__init__(figure)
        self.asked: list[tuple[str, bool]] = []

    def measure(self, case: Case, *, fresh: bool = False) -> Measurement:
        self.asked.append((case.collective, fresh))
        return super().measure(case, fresh=fresh)


def trial(ranks: FakeRanks, *, control: Control | None = CONTROL) -> Trial:
    return run_trial(SUSPECT, ranks, bound=BOUND, rule=RULE, pause_seconds=0, where="n.yaml", control=control)


def test_a_case_that_passes_at_once_needs_no_control() -> None:
    ranks = LoggedRanks(lambda case, attempt: 100.0)
    assert trial(ranks).verdict.outcome is Outcome.PASS
    assert ranks.asked == [("all_reduce", False)]


def test_each_further_attempt_has_a_fresh_group_and_the_control_in_it() -> None:
    ranks = LoggedRanks(lambda case, attempt: 50.0 if case.collective == "all_reduce" else 100.0)
    done = trial(ranks)
    assert ranks.asked == [
        ("all_reduce", False),
        ("all_reduce", True),
        ("broadcast", False),
        ("all_reduce", True),
        ("broadcast", False),
        ("all_reduce", True),
    ]
    assert (len(done.attempts), len(done.control)) == (4, 2)
    assert done.verdict.reason.endswith(
        "4 of 4 attempts outside (n.yaml:3); meanwhile broadcast-1MiB-float32-ws2 stayed inside its limits"
        " (+0.0%, 2 of its attempts between these)"
    )


def test_a_control_that_slowed_as_well_says_that_the_node_did() -> None:
    done = trial(LoggedRanks(lambda case, attempt: 50.0))
    assert done.verdict.outcome is Outcome.REGRESSED
    assert done.verdict.reason.endswith(
        "; meanwhile broadcast-1MiB-float32-ws2, which passed at 2026-01-01T00:00:00+00:00, is outside its limits too"
        " (-50.0%, 2 attempts): the node as a whole has slowed since then, by load, clocks or a part that failed within"
        " this run"
    )


def test_a_suspicion_that_clears_says_nothing_of_its_control() -> None:
    done = trial(LoggedRanks(lambda case, attempt: 50.0 if case is SUSPECT and attempt == 0 else 100.0))
    assert (done.verdict.outcome, len(done.attempts), len(done.control)) == (Outcome.PASS, 5, 3)
    assert "meanwhile" not in done.verdict.reason


def test_a_control_that_cannot_be_measured_does_not_stop_the_suspects_attempts() -> None:
    def figure(case: Case, attempt: int) -> float | str:
        return 50.0 if case.collective == "all_reduce" else "rank 1 ended"

    done = trial(LoggedRanks(figure))
    assert (done.verdict.outcome, len(done.attempts), done.control) == (Outcome.REGRESSED, 4, ())


def test_without_a_case_that_passed_there_is_no_control() -> None:
    done = trial(LoggedRanks(lambda case, attempt: 50.0), control=None)
    assert (len(done.attempts), done.control) == (4, ())


def test_an_attempt_that_fails_keeps_what_was_measured() -> None:
    def figure(case: Case, attempt: int) -> float | str:
        return "rank 1 ended" if case.collective == "all_reduce" and attempt == 3 else 50.0

    done = trial(LoggedRanks(figure))
    assert (done.verdict.outcome, done.verdict.reason) == (Outcome.ERROR, "rank 1 ended")
    assert done.verdict.attempts == pytest.approx((50.0, 50.0, 50.0))
    assert (len(done.attempts), len(done.control)) == (3, 2)


def test_a_suspicion_that_the_budget_leaves_no_time_to_settle_is_neither_a_fault_nor_a_pass() -> None:
    ranks = LoggedRanks(lambda case, attempt: 50.0)
    left = iter([None, "0.1 s are left of the budget of 30 s, and this takes about 0.5 s"])
    done = run_trial(
        SUSPECT, ranks, bound=BOUND, rule=RULE, pause_seconds=0, where="", control=CONTROL, too_late=lambda: next(left)
    )
    assert (done.verdict.outcome, len(done.attempts), len(done.control)) == (Outcome.NOT_RUN, 2, 0)
    assert done.verdict.reason == (
        "a suspicion that was not settled: busbw 50.0 GB/s is 50.0% below the baseline's 100 GB/s; accepted 90.0 GB/s"
        " to 111 GB/s; 2 of 2 attempts outside; 0.1 s are left of the budget of 30 s, and this takes about 0.5 s"
    )
    assert done.verdict.attempts == pytest.approx((50.0, 50.0))


def test_what_other_cases_showed_may_settle_a_judgement() -> None:
    def settle(judgement: Judgement, attempts: Sequence[Measurement]) -> Judgement:
        return replace(judgement, settled=True)

    ranks = LoggedRanks(lambda case, attempt: 50.0)
    done = run_trial(SUSPECT, ranks, bound=BOUND, rule=RULE, pause_seconds=0, where="", settle=settle)
    assert len(done.attempts) == 1
