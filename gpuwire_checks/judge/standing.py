"""How figures stand to their limits, and whether more of them are needed. Pure arithmetic: no words, no cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean

from gpuwire_checks.judge.limits import Limits
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.statistics.walk import walk_end

_DISAGREE = 1e-3
"""How seldom chance alone spreads attempts at one level so far that they count as disagreeing."""


class Standing(str, Enum):
    """Where attempts stand to their limits; open ones need more attempts."""

    INSIDE = "inside"
    WORSE = "worse"
    COMES_AND_GOES = "comes and goes"
    UNDECIDED = "undecided"
    BETTER = "better"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Falls:
    """Figures as distances to the bad side of the centre, and how many are outside."""

    falls: tuple[float, ...]
    outside: int


def falls_of(values: Sequence[float], limits: Limits) -> Falls:
    falls = tuple(limits.fall(value) for value in values)
    return Falls(falls=falls, outside=sum(fall > limits.width for fall in falls))


def standing(values: Sequence[float], limits: Limits, rule: Rule) -> Standing:
    """Where these attempts stand, in the order they were made.

    The first attempt beyond the screen begins a suspicion. It and those after it vote until one side leads by enough.
    """
    falls = falls_of(values, limits).falls
    bad = _after_first(falls, limits.screen)
    end = walk_end([fall > limits.width for fall in bad], rule.walk) if bad else "cleared"
    if end == "failed":
        return Standing.COMES_AND_GOES if _disagree(bad, limits) else Standing.WORSE
    spent = len(values) >= rule.most
    if end == "disagree" or (end is None and spent):
        return Standing.UNDECIDED
    good = _after_first([-fall for fall in falls], limits.width)
    good_end = walk_end([fall > limits.width for fall in good], rule.walk) if good else "cleared"
    if end is None or (good_end is None and not spent) or len(values) < rule.first:
        return Standing.OPEN
    return Standing.BETTER if good_end == "failed" else Standing.INSIDE


def _after_first(falls: Sequence[float], beyond: float) -> Sequence[float]:
    """From the first one beyond a distance on."""
    first = next((index for index, fall in enumerate(falls) if fall > beyond), len(falls))
    return falls[first:]


def _disagree(falls: Sequence[float], limits: Limits) -> bool:
    """Whether attempts are further apart than noise explains, some of them inside: a fault that comes and goes."""
    from scipy.special import fdtrc  # noqa: PLC0415 - 0.2 s that only a failing case pays for

    if all(fall > limits.width for fall in falls):
        return False
    if limits.spread <= 0:
        return True
    middle = fmean(falls)
    squares = sum((fall - middle) ** 2 for fall in falls) / limits.spread**2
    free = len(falls) - 1
    return bool(fdtrc(free, limits.uncertainty.degrees, squares / free) < _DISAGREE)
