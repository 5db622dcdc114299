"""What a series of attempts has beside independent noise: drift, and what attempts close in time share. Logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import median

from gpuwire_checks.statistics.pooling import Spread, family_spread
from gpuwire_checks.statistics.robust import centre_error, spread_degrees, spread_of_logs

BLOCK = 5
"""Attempts in a row that count as close in time."""
FEWEST_BLOCKS = 3
_MEDIAN_OF_BLOCK = 0.5356
"""Standard deviation of the median of five normal figures, by integration; the large-sample formula has it as 0.56."""
_SHAMOS = 1.0483


def half_drift(logs: Sequence[float]) -> tuple[float, float]:
    """By how much the median of the second half is above that of the first, and that over its standard error.

    The error is that of independent noise within each half, so that a drift does not hide in its own spread.
    """
    half = len(logs) // 2
    first, second = logs[:half], logs[half:]
    drift = median(second) - median(first)
    noise = math.hypot(spread_of_logs(first), spread_of_logs(second)) / math.sqrt(2)
    if noise <= 0:
        return drift, math.copysign(math.inf, drift) if drift else 0.0
    return drift, drift / (noise * math.hypot(centre_error(len(first)), centre_error(len(second))))


def shared_in_blocks(series: Sequence[Sequence[float]]) -> float | None:
    """Standard deviation of what five attempts in a row share, in spreads between attempts within such a block.

    Medians of blocks differ by more than those of independent attempts would; what is beyond that is shared. One figure
    from many series: each gives the spread of its own blocks, and the typical one counts. None of fewer than three
    blocks, or where no series has any noise.
    """
    found = [spread for logs in series if (spread := _block_spread(logs)) is not None]
    if not found:
        return None
    typical = family_spread(found).spread
    return math.sqrt(max(0.0, typical**2 - _MEDIAN_OF_BLOCK**2))


def _block_spread(logs: Sequence[float]) -> Spread | None:
    """The spread of the medians of blocks, in spreads within blocks."""
    blocks = [logs[at : at + BLOCK] for at in range(0, len(logs) - BLOCK + 1, BLOCK)]
    if len(blocks) < FEWEST_BLOCKS:
        return None
    within = _SHAMOS * median(abs(a - b) for block in blocks for a, b in combinations(block, 2))
    if within <= 0:
        return None
    between = spread_of_logs([median(block) for block in blocks])
    return Spread(spread=between / within, degrees=spread_degrees(len(blocks)))
