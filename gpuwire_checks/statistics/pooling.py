"""A metric's spread with its family's behind it: a moderated variance.

Five attempts say little about their own spread. Metrics of one family have noise of one kind, so each one's variance is
drawn towards the family's, as far as the family's own members agree: Smyth (2004), "Linear models and empirical Bayes
methods", with medians in place of means, and with the family's size as the most that it can be worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gpuwire_checks.statistics.robust import spread_of_logs

_SMALLEST = 1e-4
"""A spread below 0.01 % is that of a clock's ticks."""
_CLEARLY = 1e-4
"""How seldom chance alone makes a member exceed its family by as much as counts as clearly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A standard deviation of logarithms, and the degrees of freedom behind it; no degrees: nothing is known."""

    spread: float
    degrees: float


NOTHING = Spread(spread=0.0, degrees=0.0)


def family_spread(members: Sequence[Spread]) -> Spread:
    """What members of a family say of the spread of another one: the typical spread, and what it is worth.

    The degrees are those of the prior: few where members differ by more than chance explains, and never more than all
    members have together.
    """
    from scipy.special import digamma, polygamma  # noqa: PLC0415 - 0.2 s that only a run that judges pays for

    known = [member for member in members if member.degrees > 0]
    if not known:
        return NOTHING
    halves = [member.degrees / 2 for member in known]
    logs = [
        2 * math.log(max(member.spread, _SMALLEST)) - float(digamma(half)) + math.log(half)
        for member, half in zip(known, halves, strict=True)
    ]
    together = sum(member.degrees for member in known)
    spread = math.exp(median(logs) / 2)
    if len(logs) < 2:
        return Spread(spread=spread, degrees=together)
    beyond_chance = spread_of_logs(logs) ** 2 - median(float(polygamma(1, half)) for half in halves)
    prior = 2 * _inverse_trigamma(beyond_chance) if beyond_chance > 0 else math.inf
    return Spread(spread=spread, degrees=min(prior, together))


def moderated(own: Spread, family: Spread) -> Spread:
    """A metric's own spread drawn towards its family's.

    One that clearly exceeds the family's keeps its own, and its own degrees of freedom: pooling must not hide an
    unsteady metric, nor lend it a certainty that it lacks.
    """
    if own.degrees <= 0 or family.degrees <= 0:
        return own if family.degrees <= 0 else family
    if stands_out(own, family):
        return own
    total = own.degrees + family.degrees
    own_share, family_share = own.degrees / total, family.degrees / total
    return Spread(
        spread=math.hypot(math.sqrt(own_share) * own.spread, math.sqrt(family_share) * family.spread), degrees=total
    )


def stands_out(own: Spread, family: Spread) -> bool:
    """Whether a metric's own spread exceeds its family's by more than chance explains: an F test at 1 in 10,000."""
    from scipy.special import fdtrc  # noqa: PLC0415 - see family_spread

    if own.degrees <= 0 or family.degrees <= 0:
        return False
    ratio = (own.spread / max(family.spread, _SMALLEST)) ** 2
    return bool(fdtrc(own.degrees, family.degrees, ratio) < _CLEARLY)


def _inverse_trigamma(value: float) -> float:
    """Where the trigamma function has this value; Newton's method on its reciprocal, after Smyth (2004)."""
    from scipy.special import polygamma  # noqa: PLC0415 - see family_spread

    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    at = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, at))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, at))
        at += step
        if -step / at < 1e-8:
            break
    return at
