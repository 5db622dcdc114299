"""The exit status, from the outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Literal

from gpuwire_checks.records import Outcome


class ExitStatus(IntEnum):
    """What a run's exit status says; 2 to 5 are pytest's own. The most serious that applies is given."""

    GOOD = 0
    """All judged and good."""
    FAULT = 1
    """REGRESSED, WRONG, MISSING or CHANGED."""
    NOT_MEASURED = 6
    """Something could not be measured."""
    NOTHING_TO_COMPARE = 7
    """Something has no baseline."""
    NOT_RUN = 8
    """Something was planned and not run."""


def exit_status(outcomes: Iterable[Outcome], *, missing: Literal["fail", "record", "warn"]) -> ExitStatus:
    """The status of a run with these outcomes.

    Args:
        missing: with ``record`` or ``warn`` a case without a baseline does not change the status.
    """
    seen = set(outcomes)
    if any(outcome.is_fault for outcome in seen):
        return ExitStatus.FAULT
    if Outcome.ERROR in seen:
        return ExitStatus.NOT_MEASURED
    if Outcome.NO_BASELINE in seen and missing == "fail":
        return ExitStatus.NOTHING_TO_COMPARE
    if Outcome.NOT_RUN in seen:
        return ExitStatus.NOT_RUN
    return ExitStatus.GOOD
