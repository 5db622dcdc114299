"""Which of several nodes agree: those around one level, by medians and robust spreads, never by a mean.

Nodes agree that are no farther from each other than what the policy calls worth a failure, or than their own noise
explains. How far nodes of this fleet are from each other is asked only where there are enough of them, and never allows
more than twice that: a spread taken from the nodes themselves would let half a fleet of broken ones in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist, median

from gpuwire_checks.statistics.robust import centre_error

_SPREADS = 3.0
"""Standard deviations of a node's own error that are allowed to it: 1 healthy node in 370 is beyond."""
_ENOUGH = 10
"""Nodes from which on their own spread is asked."""
_WIDEST = 2.0
"""By how much their own spread may widen what the policy allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A node, or where there is one node only a run of it.

    Attributes:
        centre: the logarithm of its figure.
        error: the standard error of that.
    """

    name: str
    centre: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What a majority has in common, if it is one.

    Attributes:
        inside: names of those that agree.
        centre: the median of their logarithms.
        allowed: of each unit, the distance that would have been allowed to it.
    """

    inside: frozenset[str]
    centre: float
    allowed: dict[str, float]
    total: int

    @property
    def is_majority(self) -> bool:
        return 2 * len(self.inside) > self.total


def agreement(units: Sequence[Unit], *, allowed: float) -> Agreement:
    """Which units agree: the most that lie beside each other, each near the median of the others among them.

    Args:
        allowed: smallest distance that counts, as a logarithm.
    """
    ordered = sorted(units, key=lambda unit: (unit.centre, unit.name))
    room = max(allowed, min(_SPREADS * _spread_of_near(ordered), _WIDEST * allowed))
    windows = (
        (ordered[start : start + size], size)
        for size in range(len(ordered), 0, -1)
        for start in _narrow_first(ordered, size)
    )
    inside = next(window for window, _ in windows if _agree(window, room))
    return Agreement(
        inside=frozenset(unit.name for unit in inside),
        centre=median(unit.centre for unit in inside),
        allowed={unit.name: _allowed(unit, inside, room) for unit in ordered},
        total=len(ordered),
    )


def _narrow_first(ordered: Sequence[Unit], size: int) -> list[int]:
    """Where runs of so many units begin, the narrowest first."""
    starts = range(len(ordered) - size + 1)
    return sorted(starts, key=lambda start: ordered[start + size - 1].centre - ordered[start].centre)


def _agree(window: Sequence[Unit], room: float) -> bool:
    """Whether each unit, of some in order, is near the median of the others."""
    for index, unit in enumerate(window):
        others = [*window[:index], *window[index + 1 :]]
        if others and abs(unit.centre - median(other.centre for other in others)) > _allowed(unit, others, room):
            return False
    return True


def _allowed(unit: Unit, among: Sequence[Unit], room: float) -> float:
    """The distance allowed to a unit from the median of the others among some."""
    errors = [other.error for other in among if other is not unit]
    if not errors:
        return room
    of_median = median(errors) * min(1.0, centre_error(len(errors)))
    return max(room, _SPREADS * math.hypot(unit.error, of_median))


def _spread_of_near(ordered: Sequence[Unit]) -> float:
    """Standard deviation of units that are near to each other, half of them being anywhere; 0 of too few to tell.

    The difference between two units that as many pairs stay below as half the units have among themselves, scaled as
    for a normal sample (after Rousseeuw and Croux 1993, with half in place of more than half).
    """
    if len(ordered) < _ENOUGH:
        return 0.0
    differences = sorted(abs(a.centre - b.centre) for a, b in combinations(ordered, 2))
    near = math.comb(len(ordered) // 2, 2)
    usual = NormalDist(sigma=math.sqrt(2)).inv_cdf((1 + near / len(differences)) / 2)
    return differences[near - 1] / usual
