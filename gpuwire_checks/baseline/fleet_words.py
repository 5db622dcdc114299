"""What is said of a fleet: who does not agree, where, by how much and on which side, and why nothing is recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from gpuwire_checks.baseline.drift import Drift
from gpuwire_checks.baseline.fleet import Fleet, LeftOut, Refused
from gpuwire_checks.records import Case
from gpuwire_checks.units import format_value

_CASES_TOLD = 3
_NODES_TOLD = 8


def left_out_lines(fleet: Fleet) -> list[str]:
    """A line for each node that is left out as a whole, then one for each case that another is left out of."""
    found: dict[str, list[LeftOut]] = {}
    for left in fleet.left_out:
        found.setdefault(left.name, []).append(left)
    lines = [_whole(name, found.get(name, []), *counts) for name, counts in fleet.whole.items()]
    for name, some in sorted(found.items()):
        if name not in fleet.whole:
            worst = sorted(some, key=_distance, reverse=True)
            lines += [f"{name} is left out of {case_title(left.case)}: {_why(left)}" for left in worst[:_CASES_TOLD]]
            if len(some) > _CASES_TOLD:
                lines.append(f"{name} is left out of {len(some) - _CASES_TOLD} more cases, by less")
    return lines


def refused_line(refused: Refused) -> str:
    """Why there is no bound of a case."""
    title, unit = case_title(refused.case), refused.case.metric.unit
    if refused.drift is not None:
        return f"{title}: {drift_words(refused.drift)}: there is no level to record"
    if not refused.total:
        return f"{title}: no run has two attempts at it, and no node two runs: nothing tells how far attempts spread"
    what = "runs" if refused.of_one_node else "nodes"
    told = [f"{name} {format_value(figure, unit)}" for name, figure in refused.figures[:_NODES_TOLD]]
    more = f" and {len(refused.figures) - _NODES_TOLD} more" if len(refused.figures) > _NODES_TOLD else ""
    agree = f"only {refused.agreeing}" if refused.agreeing else "none"
    return (
        f"{title}: {agree} of {refused.total} {what} agree within {_worse_by(refused.allowed, refused.case)}, and more"
        f" than half must: {', '.join(told)}{more}"
    )


def drift_words(drift: Drift) -> str:
    """``figures drift by -5.2 % over 6 runs from 2026-01-01 12:00 to 2026-01-06 12:00``."""
    first, last = (f"{at:%Y-%m-%d %H:%M}" for at in (drift.first, drift.last))
    return f"figures drift by {signed_percent(math.expm1(drift.change))} over {drift.runs} runs from {first} to {last}"


def case_title(case: Case) -> str:
    """``busbw all_reduce-64MiB-bfloat16-ws8 on nccl``."""
    return f"{case.metric.name} {case.id} on {case.backend}"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def signed_percent(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


def _whole(name: str, some: Sequence[LeftOut], odd: int, of: int) -> str:
    """One sentence for a node that is left out of everything; its cases are not listed."""
    beyond = [left for left in some if _distance(left) > left.allowed]
    worst = max(some, key=_distance)
    slower = sum(left.is_slower for left in beyond)
    sides = [f"slower in {slower}"] * (slower > 0) + [f"faster in {len(beyond) - slower}"] * (len(beyond) > slower)
    typical = percent(abs(math.expm1(median(_change(left) for left in beyond or some))))
    return (
        f"{name} is left out of every case: it does not agree with the other nodes in {odd} of {of}"
        f" ({', '.join(sides) or 'it drifts'}; {typical} in the median); the farthest is {case_title(worst.case)}:"
        f" {_why(worst)}"
    )


def _why(left: LeftOut) -> str:
    unit = left.case.metric.unit
    if left.drift is not None:
        return f"its {drift_words(left.drift)}"
    side = "slower" if left.is_slower else "faster"
    return (
        f"{format_value(left.figure, unit)} is {percent(abs(left.change))} {'below' if left.change < 0 else 'above'}"
        f" the {format_value(left.others, unit)} of the others ({side};"
        f" {_worse_by(left.allowed, left.case)} is allowed)"
    )


def _worse_by(allowed: float, case: Case) -> str:
    """A distance as the policy writes it: a fraction of the centre, towards the bad side."""
    return percent(-math.expm1(-allowed) if case.metric.better == "higher" else math.expm1(allowed))


def _change(left: LeftOut) -> float:
    return math.log(left.figure / left.others)


def _distance(left: LeftOut) -> float:
    return abs(_change(left))
