"""The numbers behind a limit. Noise and slowdowns are factors, so everything is in natural logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, stdev

# The median absolute deviation of a normal sample, times this, is its standard deviation.
_MAD_TO_SD = 1.4826
_ENOUGH_FOR_MAD = 4
_WIDEST = math.log(1000)


def robust_spread(values: Sequence[float]) -> float:
    """Standard deviation of the logarithms of positive ``values``, robust against an outlier.

    The scaled median absolute deviation from 4 values on, but not below half the plain standard deviation: of 4 to 6
    values it is often near zero by chance. The plain standard deviation of 2 or 3; 0 of 1.

    Raises:
        ValueError: no values, or one that is not positive and finite.
    """
    if not values or any(not (0 < value < math.inf) for value in values):
        raise ValueError(f"a spread needs positive figures, not {list(values)}")
    logs = [math.log(value) for value in values]
    if len(logs) < 2:
        return 0.0
    plain = stdev(logs)
    if len(logs) < _ENOUGH_FOR_MAD:
        return plain
    centre = median(logs)
    return max(_MAD_TO_SD * median(abs(log - centre) for log in logs), plain / 2)


def moderated(own: float, *, own_degrees: float, family: float, family_degrees: float) -> tuple[float, float]:
    """A metric's spread with its family's behind it, and the degrees of freedom of the two together.

    Few attempts say little about their own spread: variances are pooled by their degrees of freedom, after Smyth
    (2004), "Linear models and empirical Bayes methods". A spread that clearly exceeds the family's keeps its own, and
    its own degrees of freedom: pooling must not hide an unsteady metric, nor lend it a certainty that it lacks.
    """
    total = own_degrees + family_degrees
    if total <= 0:
        return own, 0.0
    # Beyond twice the family's, chance alone seldom explains it at a handful of degrees of freedom.
    if own > 2 * family and own_degrees > 0:
        return own, own_degrees
    return math.hypot(math.sqrt(own_degrees / total) * own, math.sqrt(family_degrees / total) * family), total


def upper_quantile(level: float, degrees: float) -> float:
    """Student's t that is exceeded with probability ``level`` at so many degrees of freedom; normal at infinity."""
    # scipy.special takes 0.2 s to import: only a run that judges pays for it.
    from scipy.special import ndtri, stdtrit  # noqa: PLC0415

    if math.isinf(degrees):
        return float(-ndtri(level))
    return float(-stdtrit(degrees, level))


def half_width(*, min_effect: float, level: float, spread: float, degrees: float, attempts: int) -> float:
    """Half the width of the accepted range, as a logarithm: the larger of what matters and what noise can do.

    ``quantile x spread x sqrt(1 + 1/attempts)``: the one of the figure judged, and the centre's own error. At most a
    factor of 1000: with one degree of freedom the quantile exceeds 10,000, and a range that wide has no figures.
    """
    if degrees <= 0:
        return min_effect
    noise = upper_quantile(level, degrees) * spread * math.sqrt(1 + 1 / attempts)
    return max(min_effect, min(noise, _WIDEST))
