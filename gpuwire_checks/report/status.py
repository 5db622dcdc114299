"""The exit status, from the outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Literal

from gpuwire_checks.records import Outcome, Verdict


class ExitStatus(IntEnum):
    """What a run's exit status says; 2 to 5 are pytest's own. The most serious that applies is given."""

    GOOD = 0
    """All judged and good."""
    FAULT = 1
    """REGRESSED, WRONG, MISSING, UNSTABLE or CHANGED."""
    NOT_MEASURED = 6
    """Something could not be measured."""
    NOTHING_TO_COMPARE = 7
    """Something has no baseline."""
    NOT_RUN = 8
    """Something was planned and not run."""


def exit_status(verdicts: Iterable[Verdict], *, missing: Literal["fail", "record", "warn"]) -> ExitStatus:
    """The status of a run with these verdicts; an UNSTABLE that is a warning by policy does not change it.

    Args:
        missing: with ``record`` or ``warn`` a case without a baseline does not change the status.
    """
    seen = {verdict.outcome for verdict in verdicts if not verdict.warned}
    if any(outcome.is_fault for outcome in seen):
        return ExitStatus.FAULT
    if Outcome.ERROR in seen:
        return ExitStatus.NOT_MEASURED
    if Outcome.NO_BASELINE in seen and missing == "fail":
        return ExitStatus.NOTHING_TO_COMPARE
    if Outcome.NOT_RUN in seen:
        return ExitStatus.NOT_RUN
    return ExitStatus.GOOD
