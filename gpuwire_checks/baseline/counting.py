"""Bounds that grow: by the counts behind them, or as a window over the last good runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from gpuwire_checks.baseline.schema import BoundEntry, TailEntry, round_figure
from gpuwire_checks.statistics.robust import centre_error, robust_spread

WINDOW = 20
"""Attempts that the rolling bound remembers."""
_SPREADS = 3.0


def grown(old: BoundEntry, new: BoundEntry) -> BoundEntry:
    """One bound of two of the same case.

    The centre is the mean of the two logarithms, weighted by their attempts: either is a median already, so that no
    single run moves it. Spreads within runs are pooled by their degrees of freedom; ``between`` is what the nodes and
    runs of both have about the common centre. Counts are added: a node that is behind both counts twice. A tail is
    kept where both have one.
    """
    apart = math.log(new.centre / old.centre)
    share = new.attempts / (old.attempts + new.attempts)
    return old.model_copy(
        update={
            "centre": round_figure(old.centre * math.exp(share * apart)),
            "spread": round_figure(_pooled(old.spread, _free(old), new.spread, _free(new)), 3),
            "attempts": old.attempts + new.attempts,
            "nodes": old.nodes + new.nodes,
            "runs": old.runs + new.runs,
            "between": round_figure(_between(old, new, apart), 3),
            "tail": _grown_tail(old, new, share),
        }
    )


def too_far(old: BoundEntry, new: BoundEntry, *, allowed: float, night: float) -> float | None:
    """The logarithm by which two bounds of a case differ, where that is more than their errors and the policy allow.

    Two levels have no common one: their mean would be the level of neither.

    Args:
        allowed: smallest change worth a failure, as a logarithm.
        night: what the attempts of a run have in common, in spreads.
    """
    apart = math.log(new.centre / old.centre)
    error = math.hypot(_error(old, night), _error(new, night))
    return apart if abs(apart) > max(allowed, _SPREADS * error) else None


def rolled(bound: BoundEntry, rolling: BoundEntry | None, values: Sequence[float]) -> BoundEntry:
    """The rolling bound after a good run: a window of the last attempts, kept by counts.

    New attempts take the place of as many old ones, whose share shrinks. It begins at the recorded bound: a single
    night tells no spread. The window is taken as one run, so that its spread has the nights in it, and the nodes where
    several share a baseline.

    Args:
        bound: the recorded bound, from which a window that is not there yet begins.
        values: the figures of one run, in the bound's unit.
    """
    old = rolling or _as_one_run(bound)
    new = values[-WINDOW:]
    kept = min(old.attempts, WINDOW - len(new))
    centre = median(new)
    apart = math.log(centre / old.centre)
    total = kept + len(new)
    squares = max(kept - 1, 0) * old.spread**2 + (len(new) - 1) * robust_spread(new) ** 2
    squares += apart**2 * kept * len(new) / total
    return old.model_copy(
        update={
            "centre": round_figure(old.centre * math.exp(apart * len(new) / total)),
            "spread": round_figure(math.sqrt(squares / max(total - 1, 1)), 3),
            "attempts": total,
        }
    )


def _as_one_run(bound: BoundEntry) -> BoundEntry:
    spread = math.hypot(bound.spread, bound.between or 0.0)
    return bound.model_copy(
        update={"spread": round_figure(spread, 3), "nodes": 1, "runs": 1, "between": None, "tail": None}
    )


def _free(entry: BoundEntry) -> int:
    return entry.attempts - entry.runs


def _groups(entry: BoundEntry) -> int:
    return entry.nodes if entry.nodes > 1 else entry.runs


def _error(entry: BoundEntry, night: float) -> float:
    within = entry.spread * math.hypot(centre_error(entry.attempts), night / math.sqrt(entry.runs))
    return math.hypot(within, (entry.between or 0.0) / math.sqrt(_groups(entry)))


def _pooled(one: float, free: int, other: float, other_free: int) -> float:
    if free + other_free <= 0:
        return max(one, other)
    return math.sqrt((free * one**2 + other_free * other**2) / (free + other_free))


def _between(old: BoundEntry, new: BoundEntry, apart: float) -> float:
    """Standard deviation of all groups about their common centre, from that of each part about its own."""
    a, b = _groups(old), _groups(new)
    squares = (a - 1) * (old.between or 0.0) ** 2 + (b - 1) * (new.between or 0.0) ** 2 + apart**2 * a * b / (a + b)
    return math.sqrt(squares / (a + b - 1))


def _grown_tail(old: BoundEntry, new: BoundEntry, share: float) -> TailEntry | None:
    if old.tail is None or new.tail is None:
        return None
    apart = math.log(new.tail.centre / old.tail.centre)
    return TailEntry(
        centre=round_figure(old.tail.centre * math.exp(share * apart), 4),
        spread=round_figure(_pooled(old.tail.spread, _free(old), new.tail.spread, _free(new)), 3),
    )
