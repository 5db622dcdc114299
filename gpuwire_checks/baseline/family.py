"""The noise that the bounds of one family share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from gpuwire_checks.baseline.schema import BoundEntry
from gpuwire_checks.records import BUSBW

Family = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A spread, and the degrees of freedom behind it."""

    spread: float
    degrees: float

    @staticmethod
    def none() -> Spread:
        return Spread(spread=0.0, degrees=0.0)

    @staticmethod
    def family_of(entry: BoundEntry) -> Family:
        """Latencies of a backend are noisy in the same way; rates are, within a factor of four in size."""
        size_step = int(math.log(entry.case.size, 4)) if entry.metric == BUSBW.name else 0
        return entry.metric, entry.case.backend, size_step


def family_spreads(entries: Iterable[BoundEntry], *, without: BoundEntry) -> dict[Family, Spread]:
    """The typical spread of each family, one entry left out: it is what the family is to be compared with."""
    members: dict[Family, list[BoundEntry]] = {}
    for entry in entries:
        if entry is not without:
            members.setdefault(Spread.family_of(entry), []).append(entry)
    return {
        family: Spread(
            # Median of variances: one unsteady member must not loosen the others.
            spread=math.sqrt(median(entry.spread**2 for entry in some)),
            degrees=float(sum(entry.attempts - 1 for entry in some)),
        )
        for family, some in members.items()
    }
