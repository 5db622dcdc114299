"""The exit status: the most serious outcome decides, and nothing but good ones give 0."""

from __future__ import annotations

import itertools
from typing import Literal

import pytest

from gpuwire_checks.records import Outcome
from gpuwire_checks.report.status import ExitStatus, exit_status

FAULTS = (Outcome.REGRESSED, Outcome.WRONG, Outcome.MISSING, Outcome.CHANGED)
ORDER = (
    *((fault, ExitStatus.FAULT) for fault in FAULTS),
    (Outcome.ERROR, ExitStatus.NOT_MEASURED),
    (Outcome.NO_BASELINE, ExitStatus.NOTHING_TO_COMPARE),
    (Outcome.NOT_RUN, ExitStatus.NOT_RUN),
    (Outcome.PASS, ExitStatus.GOOD),
    (Outcome.IMPROVED, ExitStatus.GOOD),
)


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
        assert exit_status([Outcome.PASS, outcome, Outcome.PASS], missing="fail") is status


def test_the_more_serious_of_two_decides_in_any_order() -> None:
    for (first, status), (second, _) in itertools.combinations(ORDER, 2):
        assert exit_status([first, second], missing="fail") is status
        assert exit_status([second, first], missing="fail") is status


@pytest.mark.parametrize("missing", ["record", "warn"])
def test_by_policy_a_missing_baseline_does_not_change_the_status(missing: Literal["record", "warn"]) -> None:
    assert exit_status([Outcome.NO_BASELINE, Outcome.PASS], missing=missing) is ExitStatus.GOOD
    for outcome, status in ORDER:
        if outcome is not Outcome.NO_BASELINE:
            assert exit_status([Outcome.NO_BASELINE, outcome], missing=missing) is status


def test_outcomes_are_read_once() -> None:
    assert exit_status(iter([Outcome.NOT_RUN, Outcome.ERROR]), missing="fail") is ExitStatus.NOT_MEASURED
