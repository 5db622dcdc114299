"""The noise that the bounds of one family share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gpuwire_checks.baseline.schema import BoundEntry
from gpuwire_checks.records import BUSBW
from gpuwire_checks.statistics.pooling import NOTHING, Spread, family_spread, moderated, stands_out
from gpuwire_checks.statistics.robust import spread_degrees

Family = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Where the spread of a bound comes from.

    Attributes:
        own: what was recorded of the case itself.
        family: what the other members of its family say.
        members: how many those are.
        used: the two together, or its own alone where that clearly exceeds the family's.
    """

    own: Spread
    family: Spread
    members: int
    used: Spread

    @property
    def keeps_own(self) -> bool:
        return stands_out(self.own, self.family)


def family_of(entry: BoundEntry) -> Family:
    """Latencies of a backend are noisy in the same way; rates are, within a factor of four in size."""
    size_step = int(math.log(entry.case.size, 4)) if entry.metric == BUSBW.name else 0
    return entry.metric, entry.case.backend, size_step


def own_spread(entry: BoundEntry) -> Spread:
    """The spread within runs: each run's own centre takes a degree of freedom."""
    return Spread(spread=entry.spread, degrees=spread_degrees(entry.attempts - entry.runs + 1))


def own_tail_spread(entry: BoundEntry) -> Spread:
    if entry.tail is None:
        return NOTHING
    return Spread(spread=entry.tail.spread, degrees=spread_degrees(entry.attempts - entry.runs + 1))


def level_noise(entry: BoundEntry, entries: Iterable[BoundEntry]) -> Noise:
    """The noise of a bound's figure, from its own attempts and from its family among ``entries``."""
    return _noise(own_spread(entry), [own_spread(other) for other in _others(entry, entries)])


def tail_noise(entry: BoundEntry, entries: Iterable[BoundEntry]) -> Noise:
    """The same of the spread within attempts."""
    others = [own_tail_spread(other) for other in _others(entry, entries) if other.tail is not None]
    return _noise(own_tail_spread(entry), others)


def _others(entry: BoundEntry, entries: Iterable[BoundEntry]) -> list[BoundEntry]:
    """The rest of a bound's family: it is compared with them, and must not be compared with itself."""
    return [other for other in entries if other is not entry and family_of(other) == family_of(entry)]


def _noise(own: Spread, others: list[Spread]) -> Noise:
    family = family_spread(others)
    return Noise(own=own, family=family, members=len(others), used=moderated(own, family))
