"""From attempts to a bound."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from gpuwire_checks.baseline.schema import BoundEntry, CaseEntry, TailEntry, round_figure
from gpuwire_checks.records import Case, Measurement
from gpuwire_checks.statistics.robust import robust_spread


def summarise(attempts: Sequence[Measurement]) -> BoundEntry:
    """The bound that attempts at one case on one node give: their median, and their spread.

    Raises:
        ValueError: fewer than two attempts, attempts at different cases, or a wrong or unchecked result among them.
    """
    cases = {attempt.case for attempt in attempts}
    if len(attempts) < 2 or len(cases) != 1:
        raise ValueError(f"a bound needs two attempts or more at one case, not {len(attempts)} at {len(cases)}")
    (case,) = cases
    if any(attempt.mismatches for attempt in attempts):
        raise ValueError(f"{case.id} gave a wrong result: it is no baseline")
    if any(attempt.checked_ranks == 0 for attempt in attempts):
        raise ValueError(f"{case.id} has results that were not checked: it is no baseline")
    values = [attempt.value for attempt in attempts]
    return BoundEntry(
        metric=case.metric.name,
        case=case_entry(case),
        unit=case.metric.unit,
        better=case.metric.better,
        centre=round_figure(median(values)),
        spread=round_figure(robust_spread(values), 3),
        attempts=len(values),
        nodes=1,
        tail=_tail(attempts),
    )


def case_entry(case: Case) -> CaseEntry:
    """A case as a baseline file names it."""
    return CaseEntry.model_validate(
        {
            "collective": case.collective,
            "size": case.size_bytes,
            "dtype": case.dtype,
            "world_size": case.world_size,
            "backend": case.backend,
        }
    )


def _tail(attempts: Sequence[Measurement]) -> TailEntry | None:
    """The spread within attempts; None where one of them has too few single calls to tell."""
    tails = [tail for attempt in attempts if (tail := attempt.tail) is not None]
    if len(tails) < len(attempts):
        return None
    return TailEntry(centre=round_figure(median(tails), 4), spread=round_figure(robust_spread(tails), 3))
