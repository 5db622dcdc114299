"""The exit status: the most serious outcome decides, and nothing but good ones give 0."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from report_builders import verdict

from gpuwire_checks.harness.options import Missing
from gpuwire_checks.records import Outcome
from gpuwire_checks.report.status import ExitStatus, exit_status

FAULTS = (Outcome.REGRESSED, Outcome.WRONG, Outcome.MISSING, Outcome.UNSTABLE, Outcome.CHANGED)
ORDER = (
    *((fault, ExitStatus.FAULT) for fault in FAULTS),
    (Outcome.ERROR, ExitStatus.NOT_MEASURED),
    (Outcome.NO_BASELINE, ExitStatus.NOTHING_TO_COMPARE),
    (Outcome.NOT_RUN, ExitStatus.NOT_RUN),
    (Outcome.PASS, ExitStatus.GOOD),
    (Outcome.IMPROVED, ExitStatus.GOOD),
)


def status_of(*outcomes: Outcome, missing: Missing = "fail") -> ExitStatus:
    return exit_status([verdict(outcome) for outcome in outcomes], missing=missing)


def test_the_numbers_are_those_of_the_docs() -> None:
    assert {status.name: int(status) for status in ExitStatus} == {
        "GOOD": 0,
        "FAULT": 1,
        "NOT_MEASURED": 6,
        "NOTHING_TO_COMPARE": 7,
        "NOT_RUN": 8,
    }


def test_every_outcome_has_its_status() -> None:
    assert {outcome for outcome, _ in ORDER} == set(Outcome)
    for outcome, status in ORDER:
        assert status_of(Outcome.PASS, outcome, Outcome.PASS) is status


def test_the_more_serious_of_two_decides_in_any_order() -> None:
    for (first, status), (second, _) in itertools.combinations(ORDER, 2):
        assert status_of(first, second) is status
        assert status_of(second, first) is status


@pytest.mark.parametrize("missing", ["record", "warn"])
def test_by_policy_a_missing_baseline_does_not_change_the_status(missing: Missing) -> None:
    assert status_of(Outcome.NO_BASELINE, Outcome.PASS, missing=missing) is ExitStatus.GOOD
    for outcome, status in ORDER:
        if outcome is not Outcome.NO_BASELINE:
            assert status_of(Outcome.NO_BASELINE, outcome, missing=missing) is status


def test_an_unstable_case_that_is_a_warning_by_policy_does_not_change_the_status() -> None:
    warned = replace(verdict(Outcome.UNSTABLE), warned=True)
    assert exit_status([warned, verdict()], missing="fail") is ExitStatus.GOOD
    assert exit_status([warned, verdict(Outcome.NOT_RUN)], missing="fail") is ExitStatus.NOT_RUN
    assert exit_status([warned, verdict(Outcome.UNSTABLE)], missing="fail") is ExitStatus.FAULT


def test_outcomes_are_read_once() -> None:
    verdicts = iter([verdict(Outcome.NOT_RUN), verdict(Outcome.ERROR)])
    assert exit_status(verdicts, missing="fail") is ExitStatus.NOT_MEASURED
