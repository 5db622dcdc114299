"""How far a limit has to be from the centre, so that the whole procedure fails a healthy case as seldom as promised."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import lru_cache

from gpuwire_checks.statistics.walk import Walk, failure_chance

SCREEN = 1.5
"""Standard deviations beyond which a first attempt is looked at again: some 7 % of healthy cases."""
BEFORE_LIMIT = 2.0
"""Standard deviations by which the screen is before a limit that is farther than noise would need."""
_KNOWN = 1000.0
"""Degrees of freedom from which on a spread is known."""
_FARTHEST = 1000.0
_BEST_OFFSET = 4.0
"""Standard deviations of a night's offset to the good side that a false failure could still come from."""
_UNSEEN = 1e-4
"""Chance of a night so good that nobody asks what would be seen in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertainty:
    """What a limit has to allow for, beside the noise of one attempt.

    Attributes:
        degrees: degrees of freedom behind the spread.
        shared: standard deviation of what all attempts of a night have in common, in spreads: the error of the
            recorded centre, and the night's own offset.
        shared_degrees: degrees of freedom behind ``shared``; infinite where it follows from counts.
        disturbed: share of attempts that something else may spoil, however badly.
    """

    degrees: float
    shared: float
    shared_degrees: float
    disturbed: float


def least_lead(level: float, *, disturbed: float, clear: int, most: int) -> Walk | None:
    """The shortest walk that disturbed attempts alone make fail in at most half of the allowed chance.

    None where no walk of ``most`` attempts does: then no limit, however far, keeps that level.
    """
    walks = (Walk(lead=lead, clear=clear, most=most) for lead in range(2, most + 1))
    return next((walk for walk in walks if failure_chance(disturbed, disturbed, walk) <= level / 2), None)


def screen(limit: float, *, shared: float) -> float:
    """Where a first attempt becomes a suspicion, in spreads from the centre, for a limit in spreads."""
    one = math.hypot(1, shared)
    return min(limit, max(SCREEN * one, limit - BEFORE_LIMIT * one))


@lru_cache(maxsize=4096)
def multiplier(level: float, uncertainty: Uncertainty, walk: Walk) -> float:
    """Spreads from the centre to the limit, for a chance of ``level`` that a healthy case fails or disagrees.

    The chance is that of the whole procedure, from the screen to the last attempt, integrated over what the attempts of
    a night share and over what the spread may really be; noise is normal but for the disturbed attempts. At most 1000,
    where no limit is far enough.
    """
    # scipy.special takes 0.2 s to import: only a run that judges pays for it.
    from scipy.optimize import brentq  # noqa: PLC0415

    if uncertainty.degrees <= 0:
        return 0.0
    integrand = _Integrand(uncertainty, walk)

    def excess(log_limit: float) -> float:
        # Without disturbed attempts the chance far out is zero to the last digit.
        chance = max(integrand.chance(math.exp(log_limit)), sys.float_info.min)
        return math.log(chance) - math.log(level)

    low, high = math.log(0.05), math.log(_FARTHEST)
    if excess(low) <= 0:
        return math.exp(low)
    if excess(high) >= 0:
        return _FARTHEST
    return math.exp(brentq(excess, low, high, xtol=1e-6, rtol=1e-6))


@lru_cache(maxsize=4096)
def smallest_seen(limit: float, uncertainty: Uncertainty, walk: Walk, chance: float = 0.99) -> float:
    """The smallest shift to the bad side, in spreads, that is seen with this chance; infinite where none is."""
    from scipy.optimize import brentq  # noqa: PLC0415 - see multiplier

    if uncertainty.degrees <= 0:
        # No spread is known: a figure is where it is, and one beyond its limit is outside every time.
        return limit
    integrand = _detection(uncertainty, walk)

    def excess(shift: float) -> float:
        return integrand.chance(limit, shift=shift) - chance

    low, high = 0.0, limit + 1
    while excess(high) < 0:
        low, high = high, 2 * high
        if high > _FARTHEST**2:
            return math.inf
    return float(brentq(excess, low, high, xtol=1e-4)) if excess(low) < 0 else low


def detection_chance(limit: float, shift: float, uncertainty: Uncertainty, walk: Walk) -> float:
    """Chance that the whole procedure fails a case, or finds its attempts disagreeing, whose figures are all worse.

    Attempts are taken to be undisturbed, as the careful side here: what spoils an attempt puts it outside, which would
    help to see the shift, and how many a night has of those nobody knows.

    Args:
        limit: from the centre, in spreads as estimated.
        shift: of every figure to the bad side, likewise.
    """
    return _detection(uncertainty, walk).chance(limit, shift=shift)


def _detection(uncertainty: Uncertainty, walk: Walk) -> _Integrand:
    """The chance without disturbed attempts, over nights to the good side too: those are what hides a shift."""
    from scipy.special import stdtrit  # noqa: PLC0415 - see multiplier

    degrees = uncertainty.shared_degrees
    best = _BEST_OFFSET if math.isinf(degrees) else max(_BEST_OFFSET, -float(stdtrit(degrees, _UNSEEN)))
    return _Integrand(replace(uncertainty, disturbed=0.0), walk, best=best)


class _Integrand:
    """Chance of a failure, over a grid of shared offsets and of true spreads with their weights."""

    def __init__(self, uncertainty: Uncertainty, walk: Walk, *, best: float = _BEST_OFFSET) -> None:
        self._walk = walk
        self._shared = uncertainty.shared
        self._disturbed = uncertainty.disturbed
        offsets, of_offsets = _offsets(uncertainty.shared_degrees, best)
        scales, of_scales = _scales(uncertainty.degrees)
        self._offset = uncertainty.shared * offsets[None, :]
        self._scale = scales[:, None]
        self._weight = of_scales[:, None] * of_offsets[None, :]

    def chance(self, limit: float, *, shift: float = 0.0) -> float:
        outside = self._beyond(limit - shift)
        suspicious = self._beyond(screen(limit, shared=self._shared) - shift)
        return float((self._weight * failure_chance(outside, suspicious, self._walk)).sum())

    def _beyond(self, limit: float):  # type: ignore[no-untyped-def]  # an array of numpy, which is imported late
        from scipy.special import ndtr  # noqa: PLC0415 - see multiplier

        beyond = ndtr(self._offset - limit / self._scale)
        return self._disturbed + (1 - self._disturbed) * beyond


@lru_cache(maxsize=64)
def _offsets(degrees: float, best: float):  # type: ignore[no-untyped-def]  # see _beyond
    """Shared offsets towards the bad side in standard deviations, and their weights: normal, or Student's t.

    From ``best`` on the good side to where the bad side no longer counts.
    """
    import numpy as np  # noqa: PLC0415 - see multiplier
    from scipy.special import gammaln, stdtrit  # noqa: PLC0415 - see multiplier

    farthest = 8.0 if math.isinf(degrees) else float(stdtrit(degrees, 1 - 1e-9))
    # Steps of a sinh are even around the centre and grow with the distance, as the tails do.
    x = np.linspace(math.asinh(-best), math.asinh(farthest), 72 if math.isinf(degrees) else 160)
    at = np.sinh(x)
    if math.isinf(degrees):
        density = np.exp(-at * at / 2) / math.sqrt(2 * math.pi)
    else:
        log_scale = gammaln((degrees + 1) / 2) - gammaln(degrees / 2) - math.log(degrees * math.pi) / 2
        density = np.exp(log_scale - (degrees + 1) / 2 * np.log1p(at * at / degrees))
    return at, density * np.cosh(x) * (x[1] - x[0])


@lru_cache(maxsize=4096)
def _scales(degrees: float):  # type: ignore[no-untyped-def]  # see _beyond
    """What the true spread may be, over the one that was estimated, and the weights: chi square's."""
    import numpy as np  # noqa: PLC0415 - see multiplier
    from scipy.special import gammaln  # noqa: PLC0415 - see multiplier

    if degrees >= _KNOWN:
        return np.ones(1), np.ones(1)
    deviation = math.sqrt(2 / degrees)
    lowest = -9 * deviation - (40 / degrees if degrees < 10 else 0.0)
    y = np.linspace(lowest, 5 * deviation, 64)
    log_density = degrees / 2 * (math.log(degrees / 2) + y - np.exp(y)) - gammaln(degrees / 2)
    return np.exp(-y / 2), np.exp(log_density) * (y[1] - y[0])
