"""What a test says of a trial: each expectation fails with the verdict's evidence, or is silent."""

from __future__ import annotations

import pytest

from gpuwire_checks.harness.options import Missing
from gpuwire_checks.harness.trial import Trial
from gpuwire_checks.records import Outcome
from gpuwire_checks.report.evidence import evidence_lines


class Expect:
    """The ``expect`` fixture."""

    def __init__(self, *, missing: Missing) -> None:
        self._missing = missing

    def correct(self, trial: Trial) -> None:
        """Every checked rank held exactly what it had to."""
        if trial.verdict.outcome is Outcome.WRONG:
            _fail(trial)

    def within_baseline(self, trial: Trial) -> None:
        """The figure is inside its bound; without a bound, what the policy for missing baselines says."""
        if trial.verdict.is_fault:
            _fail(trial)
        if trial.verdict.warned:
            # By policy a warning, and yet no pass: it could not be held to its limit.
            pytest.skip(f"{trial.verdict.outcome.value}: {trial.verdict.reason}")
        if trial.verdict.outcome is Outcome.NO_BASELINE:
            self._no_baseline(trial)

    def present(self, trial: Trial) -> None:
        """The part is here, as the baseline or a requirement says."""
        self.within_baseline(trial)

    def met(self, trial: Trial) -> None:
        """A part is as the baseline expects it; what could not be told, and why, is a skip and never a pass."""
        self.within_baseline(trial)
        if trial.verdict.outcome is Outcome.NOT_RUN:
            pytest.skip(f"NOT RUN: {trial.verdict.reason}")

    def _no_baseline(self, trial: Trial) -> None:
        if self._missing == "fail":
            _fail(trial)
        # Not passed: it was not compared with anything.
        pytest.skip(f"{trial.verdict.outcome.value}: {trial.verdict.reason}")


def _fail(trial: Trial) -> None:
    pytest.fail("\n".join(evidence_lines(trial.verdict, trial.attempts)), pytrace=False)
