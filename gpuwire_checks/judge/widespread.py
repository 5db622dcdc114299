"""Most cases down by one factor: the node as a whole is slow, and that is confirmed once, not case by case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_ENOUGH = 5
"""Cases confirmed one by one before others may join them."""
_ALIKE = 0.25
"""Share of the common fall by which a case may differ from it and still be of one factor."""
_NOISE = 3.0
"""Spreads by which noise alone may set it apart."""
_MOSTLY = 0.8
"""Share of the fallen that have to be of one factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallen:
    """A case that was confirmed to be down: its name, how far as a logarithm, and its spread between attempts."""

    name: str
    fall: float
    spread: float
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Widespread:
    """A fall that most cases share.

    Attributes:
        fall: the common one, as a logarithm.
        fallen, judged: cases that share it, of those that were judged.
        first: the case that was confirmed first, and its attempts.
    """

    fall: float
    fallen: int
    judged: int
    first: Fallen

    @property
    def words(self) -> str:
        """What all cases are down by, and how that was confirmed."""
        return (
            f"{self.fallen} of {self.judged} cases before it are down by one factor, about"
            f" {-math.expm1(-self.fall):.0%} of the speed: that was confirmed on"
            f" {self.first.name} ({self.first.attempts} attempts) and others, and is the node as a whole"
            " (clocks, driver, load) rather than one wire"
        )


def widespread(fallen: Sequence[Fallen], *, judged: int) -> Widespread | None:
    """The fall that most cases share; None where few fell, or each by a factor of its own."""
    if len(fallen) < _ENOUGH or 2 * len(fallen) <= judged:
        return None
    common = median(case.fall for case in fallen)
    alike = sum(is_alike(case.fall, common, spread=case.spread) for case in fallen)
    if alike < _MOSTLY * len(fallen):
        return None
    return Widespread(fall=common, fallen=alike, judged=judged, first=fallen[0])


def is_alike(fall: float, common: float, *, spread: float) -> bool:
    """Whether a case fell by the common factor, as far as its noise lets that be told."""
    return abs(fall - common) <= max(_ALIKE * common, _NOISE * spread)
