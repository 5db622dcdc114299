"""The control of a suspicion: a case that passed in the same run, measured again beside the suspect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gpuwire_checks.judge.limits import Limits
from gpuwire_checks.records import Case, Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A case that passed at once in this run, its limits, and when."""

    case: Case
    limits: Limits
    passed_at: str


def control_words(control: Control, attempts: Sequence[Measurement]) -> str:
    """What the control did meanwhile: it tells a fault of the suspect's wires from a node that slowed as a whole."""
    fall = median(control.limits.fall(attempt.value) for attempt in attempts)
    # Plus zero: a change that rounds to nothing has no sign.
    change = round(median(attempt.value for attempt in attempts) / control.limits.centre - 1, 3) + 0.0
    name, count = control.case.id, len(attempts)
    if fall <= control.limits.width:
        return f"meanwhile {name} stayed inside its limits ({change:+.1%}, {count} of its attempts between these)"
    return (
        f"meanwhile {name}, which passed at {control.passed_at}, is outside its limits too ({change:+.1%}, {count}"
        " attempts): the node as a whole has slowed since then, by load, clocks or a part that failed within this run"
    )
