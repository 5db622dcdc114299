"""The rank that held the others up, where one stands out."""

from __future__ import annotations

from statistics import median

from gpuwire_checks.records import Measurement, slowest_of_ranks
from gpuwire_checks.units import format_seconds

# A rank is named only where it stands out: the skew of a barrier alone reaches a tenth of a short call.
_LATE = 0.25
_LONGER = 0.10


def slowest_rank(measurement: Measurement) -> tuple[int, str] | None:
    """The rank that held the others up, and what shows it; None when no rank stands out.

    In a collective all ranks wait for the slowest, so their own seconds hardly differ: who enters last tells more.
    """
    lags = [median(lag) for lag in measurement.arrival_lag]
    call = median(slowest_of_ranks(measurement.per_call))
    last = max(range(len(lags)), key=lags.__getitem__)
    others = max((lag for rank, lag in enumerate(lags) if rank != last), default=0.0)
    if lags[last] - others > _LATE * call:
        return last, f"enters {format_seconds(lags[last])} after the first"
    seconds = [median(calls) for calls in measurement.per_call]
    longest = max(range(len(seconds)), key=seconds.__getitem__)
    rest = median([second for rank, second in enumerate(seconds) if rank != longest])
    if seconds[longest] > (1 + _LONGER) * rest:
        return longest, f"takes {seconds[longest] / rest - 1:.0%} longer than the others"
    return None
