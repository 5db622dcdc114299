"""Whether the figures of a table agree with each other, as far as their rounding lets one tell.

A lost digit or a shifted column is found so: ``size = count * bytes of the type * k`` with one ``k`` for the table (1,
or the number of ranks), ``algbw = size / time`` and ``busbw = algbw * factor`` with one factor for the table.
Source: NVIDIA/nccl-tests doc/PERFORMANCE.md and ``*GetBw`` in src/*.cu.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpuwire_checks.recorded.nccl_numbers import TYPE_BYTES, Printed

_SLACK = 1e-6
"""Relative; of the sums of doubles, not of the rounding."""
_TELLS = 4.0
"""A bandwidth is of use for the factor when it is this many roundings large."""
_FACTOR_AT_MOST = 2.0
"""2(n-1)/n of all_reduce is the largest there is."""


@dataclass(frozen=True, slots=True)
class Half:
    """One measurement of a row; ``time`` in the tool's unit, which is ``seconds_per_unit``."""

    in_place: bool
    time: Printed
    algbw: Printed
    busbw: Printed
    errors: str
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One row, its fields placed. ``redop`` and ``root`` None where the table has none."""

    line: int
    size: int
    count: int
    dtype: str
    redop: str | None
    root: int | None
    halves: tuple[Half, ...]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the rows of a table have in common.

    Attributes:
        against: by line, why a row's figures cannot be right.
        ranks_per_count: ``k``, None where no row tells.
        moved_less: ``algbw`` counts (k-1)/k of the size, as hypercube and, until 2020, all_gather print it.
        factor: least and most of ``busbw / algbw``, None where no row tells.
    """

    against: dict[int, str]
    ranks_per_count: int | None
    moved_less: bool
    factor: tuple[float, float] | None


def agreement(
    rows: Sequence[Row], *, seconds_per_unit: float, sized: bool, same_count: bool | None, factors: tuple[float, ...]
) -> Agreement:
    """What rows agree on, and which do not.

    Args:
        sized: sizes are printed, and not made of the counts.
        same_count: size and count are of the same array, as in all_reduce; None when it is not known, False when they
            are not related at all (alltoallv).
        factors: those that the ranks and, where it is named, the collective allow; empty when nothing is known. They
            decide where the rows are not enough.
    """
    against: dict[int, str] = {}
    ratio = None
    if sized and same_count is not False:
        ratio = _sizes(rows, against, same_count=same_count)
    rest = [row for row in rows if row.line not in against]
    moved_less = _times(rest, against, seconds_per_unit=seconds_per_unit, sized=sized)
    rest = [row for row in rest if row.line not in against]
    found = _factors(rest, against, allowed=factors)
    return Agreement(against, ratio, moved_less, found)


def _sizes(rows: Sequence[Row], against: dict[int, str], *, same_count: bool | None) -> int | None:
    """One ``k`` for the table; a row of size 0 tells nothing but must have count 0."""
    by_type: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.size == 0 or row.count == 0:
            if row.size != row.count:
                against[row.line] = f"size {row.size} and count {row.count}"
        else:
            by_type[row.dtype].append(row)
    common: int | None = None
    for dtype, group in by_type.items():
        known = TYPE_BYTES.get(dtype)
        unit = known or 1
        ratios = Counter(row.size // row.count // unit for row in group if row.size % (row.count * unit) == 0)
        most = max(ratios.values(), default=0)
        best = [ratio for ratio, times in ratios.items() if times == most]
        chosen = 1 if known and (same_count or 1 in best) else best[0] if len(best) == 1 else None
        for row in group:
            if chosen is None or row.size != row.count * unit * chosen:
                against[row.line] = f"size {row.size} is not {row.count} elements of {dtype}"
        common = chosen if known and common is None else common
    return common


def _times(rows: Sequence[Row], against: dict[int, str], *, seconds_per_unit: float, sized: bool) -> bool:
    """``algbw`` is size over time, or (k-1)/k of it in every row that tells."""
    scale = 1e-9 / seconds_per_unit
    whole = _disagreeing(rows, lambda row: row.size * scale)
    if not whole:
        return False
    if sized:
        less = _disagreeing(rows, lambda row: _without_own_share(row) * scale)
        if len(less) < len(whole):
            against.update(less)
            return True
    against.update(whole)
    return False


def _without_own_share(row: Row) -> float:
    own = row.count * TYPE_BYTES.get(row.dtype, 1)
    return float(max(row.size - own, 0)) if own < row.size else float(row.size)


def _disagreeing(rows: Iterable[Row], moved: Callable[[Row], float]) -> dict[int, str]:
    found = {}
    for row in rows:
        amount = moved(row)
        for half in row.halves:
            time, algbw = half.time, half.algbw
            low = amount / time.most * (1 - _SLACK)
            high = amount / time.least * (1 + _SLACK) if time.least > 0 else float("inf")
            if low > algbw.most or high < algbw.least:
                found[row.line] = f"algbw {algbw.value:g} is not size / time ({amount / max(time.value, 1e-9):.4g})"
    return found


def _factors(rows: Sequence[Row], against: dict[int, str], *, allowed: tuple[float, ...]) -> tuple[float, float] | None:
    """One factor for the table: the one that most measurements allow."""
    spans = [(row, *_factor_span(half)) for row in rows for half in row.halves]
    halves = [half for row in rows for half in row.halves]
    telling = [
        (low, high)
        for (_, low, high), half in zip(spans, halves, strict=True)
        if half.algbw.value > _TELLS * half.algbw.half
    ]
    low, high, known = _common_factor(telling, allowed)
    for row, least, most in spans:
        if least > high or most < low:
            others = f"; the others have {low:.3f}" if known else "; no two rows agree" if telling else ""
            against[row.line] = f"busbw / algbw is {least:.3f} to {most:.3f}{others}"
    return _most_covered(telling)[:2] if known else None


def _common_factor(telling: Sequence[tuple[float, float]], allowed: tuple[float, ...]) -> tuple[float, float, bool]:
    """Least and most of the factor, and whether rows tell it; nothing is between them when no two rows agree."""
    if not telling:
        return 0.0, _FACTOR_AT_MOST, False
    votes = {factor: sum(least <= factor <= most for least, most in telling) for factor in allowed}
    best = [factor for factor, count in votes.items() if count == max(votes.values())]
    if len(best) == 1 and (2 * votes[best[0]] > len(telling) or (len(allowed) == 1 and votes[best[0]])):
        return best[0], best[0], True
    low, high, covering = _most_covered(telling)
    return (low, high, True) if 2 * covering > len(telling) else (0.0, -1.0, False)


def _factor_span(half: Half) -> tuple[float, float]:
    least = half.busbw.least / half.algbw.most * (1 - _SLACK)
    most = half.busbw.most / half.algbw.least * (1 + _SLACK) if half.algbw.least > 0 else float("inf")
    return least, most


def _most_covered(spans: Sequence[tuple[float, float]]) -> tuple[float, float, int]:
    """The stretch that most spans contain, and how many do."""
    edges = sorted([(low, 0) for low, _ in spans] + [(high, 1) for _, high in spans])
    best = (0.0, -1.0, 0)
    open_spans = 0
    for at, (edge, closes) in enumerate(edges):
        open_spans += -1 if closes else 1
        if not closes and open_spans > best[2]:
            best = (edge, edges[at + 1][0], open_spans)
    return best
