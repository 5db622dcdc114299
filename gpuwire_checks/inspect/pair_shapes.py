"""The shape of a matrix of figures between devices: its groups, its levels, and what stands out from them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median
from typing import Literal, TypeAlias

from gpuwire_checks.recorded.model import PairMatrix

Pairs: TypeAlias = dict[tuple[int, int], float]
"""Figures by row and column, the diagonal left out; higher is better."""

STEP = 1 / 0.9
"""The smallest factor between two levels, and the smallest by which a cell, row or column is odd: 10 % below.

Repeated runs of p2pBandwidthLatencyTest differ by 5 to 10 % (NVIDIA/cuda-samples issue #449).
"""
_LATENCY_STEP = 1.5
_MADS = 5.0
_MOST = 0.75
"""Of the cells of a row: when so many are odd, the row is."""
_DENSE = 0.6
"""Of the pairs inside a group: the others may be odd ones."""
_GAPS_TRIED = 4
_LEAST = 1e-3


@dataclass(frozen=True, slots=True)
class Groups:
    """Devices with faster pairs inside, and those that are in no group."""

    groups: tuple[tuple[int, ...], ...]
    alone: tuple[int, ...]
    number_of: dict[int, int]

    def same(self, a: int, b: int) -> bool:
        """Whether two devices are in one group."""
        return a in self.number_of and self.number_of[a] == self.number_of.get(b)


@dataclass(frozen=True, slots=True)
class OddPart:
    """What is below the rest: a device (all its cells), one row or column, a pair in both directions, or one cell.

    Attributes:
        share: of what is usual for such cells, 0.6 for 40 % below.
        figure, usual: medians.
    """

    kind: Literal["device", "row", "column", "pair", "cell"]
    devices: tuple[int, ...]
    share: float
    figure: float
    usual: float


@dataclass(frozen=True, slots=True)
class Shape:
    """A matrix between devices, seen through. Of any other matrix there are no pairs, no groups and nothing odd."""

    matrix: PairMatrix
    pairs: Pairs
    groups: Groups | None
    odd: tuple[OddPart, ...]

    def usual_class(self) -> Pairs:
        """The figures inside groups; all of them where there are no groups."""
        groups = self.groups
        return self.pairs if groups is None else {pair: at for pair, at in self.pairs.items() if groups.same(*pair)}


def shape_of(matrix: PairMatrix) -> Shape:
    """The shape of a matrix; latencies need more than bandwidths to be odd."""
    pairs = pairs_of(matrix) if matrix.local else {}
    groups = find_groups(pairs)
    step = STEP if matrix.unit == "GB/s" else _LATENCY_STEP
    return Shape(matrix, pairs, groups, tuple(odd_parts(pairs, groups, at_least=step)) if len(pairs) > 2 else ())


def pairs_of(matrix: PairMatrix) -> Pairs:
    """The figures between two devices; latencies inverted, so that higher is better."""
    return {
        (row, column): 1 / max(cell, _LEAST) if matrix.unit != "GB/s" else max(cell, _LEAST)
        for row, cells in zip(matrix.rows, matrix.cells, strict=True)
        for column, cell in zip(matrix.columns, cells, strict=True)
        if cell is not None and row != column
    }


def levels_of(figures: Iterable[float]) -> list[tuple[float, float]]:
    """Lowest and highest figure of each level, best first: figures with no step between neighbours are of one."""
    levels: list[tuple[float, float]] = []
    for figure in sorted(figures, reverse=True):
        if levels and levels[-1][0] < STEP * figure:
            levels[-1] = (figure, levels[-1][1])
        else:
            levels.append((figure, figure))
    return levels


def find_groups(pairs: Pairs) -> Groups | None:
    """Two or more groups with faster pairs inside, or fast groups beside devices in none; None without such a pattern.

    One large group beside single devices is none: those devices are slow.
    """
    devices = sorted({device for pair in pairs for device in pair})
    both = {(a, b): max(pairs[a, b], pairs[b, a]) for a, b in pairs if a < b and (b, a) in pairs}
    ordered = sorted(set(both.values()))
    gaps = sorted(((high / low, low) for low, high in pairwise(ordered) if high >= STEP * low), reverse=True)
    for _, limit in gaps[:_GAPS_TRIED]:
        joined = _joined(devices, [pair for pair, figure in both.items() if figure > limit])
        groups = tuple(group for group in joined if len(group) > 1)
        alone = tuple(group[0] for group in joined if len(group) == 1)
        slow_devices = len(groups) == 1 and len(groups[0]) > 2 and len(alone) <= len(groups[0])
        if len(joined) > 1 and groups and not slow_devices and all(_dense(group, both, limit) for group in groups):
            return Groups(groups, alone, {device: at for at, group in enumerate(groups) for device in group})
    return None


def _joined(devices: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[tuple[int, ...]]:
    group_of = {device: [device] for device in devices}
    for a, b in edges:
        mine, other = group_of[a], group_of[b]
        if mine is not other:
            small, large = sorted((mine, other), key=len)
            large += small
            for device in small:
                group_of[device] = large
    return sorted({tuple(sorted(group)) for group in group_of.values()})


def _dense(group: Sequence[int], both: Pairs, limit: float) -> bool:
    inside = [both[pair] for pair in combinations(group, 2) if pair in both]
    return sum(figure > limit for figure in inside) >= _DENSE * len(inside)


def irregular_devices(pairs: Pairs) -> list[int]:
    """The devices with other levels in their row or column than most devices have; none where all are alike."""
    bounds = sorted(low for low, _ in levels_of(pairs.values()))
    seen: dict[int, list[Counter[int]]] = defaultdict(lambda: [Counter(), Counter()])
    for (a, b), figure in pairs.items():
        level = bisect_right(bounds, figure)
        seen[a][0][level] += 1
        seen[b][1][level] += 1
    kinds = {device: tuple(tuple(sorted(count.items())) for count in counts) for device, counts in seen.items()}
    usual = Counter(kinds.values()).most_common(1)[0][0] if kinds else ()
    return sorted(device for device, kind in kinds.items() if kind != usual)


def odd_parts(pairs: Pairs, groups: Groups | None, *, at_least: float = STEP) -> list[OddPart]:
    """What is below the rest by ``at_least`` and by five times their usual deviation (median and MAD of logarithms)."""
    kinds = {pair: groups is not None and groups.same(*pair) for pair in pairs}
    usual = _middle({pair: math.log(figure) for pair, figure in pairs.items()}, kinds)
    away = {pair: math.log(figure) - usual[kinds[pair]] for pair, figure in pairs.items()}
    deviation = _middle({pair: abs(distance) for pair, distance in away.items()}, kinds)
    limit = {kind: max(math.log(at_least), _MADS * 1.4826 * value) for kind, value in deviation.items()}
    odd = {pair for pair, distance in away.items() if distance < -limit[kinds[pair]]}
    return list(_parts(pairs, odd, away))


def _middle(values: Pairs, kinds: dict[tuple[int, int], bool]) -> dict[bool, float]:
    """The median of the devices' medians, inside groups and outside: half of all cells may be of one slow device."""
    own: dict[bool, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (a, b), value in values.items():
        own[kinds[a, b]][a].append(value)
        own[kinds[a, b]][b].append(value)
    return {kind: median(median(values) for values in of.values()) for kind, of in own.items()}


def _parts(pairs: Pairs, odd: set[tuple[int, int]], away: Pairs) -> Iterable[OddPart]:
    rows, columns = _mostly(pairs, odd, side=0), _mostly(pairs, odd, side=1)
    whole = rows & columns
    cells: dict[tuple[Literal["device", "row", "column"], int], list[tuple[int, int]]] = defaultdict(list)
    left = set()
    for a, b in sorted(odd):
        for device in {a, b} & whole:
            cells["device", device].append((a, b))
        if a in rows - whole:
            cells["row", a].append((a, b))
        if b in columns - whole:
            cells["column", b].append((a, b))
        if not (a in rows or b in columns):
            left.add((a, b))
    for (kind, device), mine in sorted(cells.items(), key=lambda item: item[0][1]):
        yield _part(kind, (device,), mine, pairs, away)
    for a, b in sorted(left):
        if (b, a) not in left:
            yield _part("cell", (a, b), [(a, b)], pairs, away)
        elif a < b:
            yield _part("pair", (a, b), [(a, b), (b, a)], pairs, away)


def _mostly(pairs: Pairs, odd: set[tuple[int, int]], *, side: int) -> set[int]:
    """The devices most of whose row (side 0) or column (side 1) is odd."""
    every, bad = Counter(pair[side] for pair in pairs), Counter(pair[side] for pair in odd)
    return {device for device, count in bad.items() if every[device] > 1 and count >= _MOST * every[device]}


def _part(
    kind: Literal["device", "row", "column", "pair", "cell"],
    devices: tuple[int, ...],
    cells: Sequence[tuple[int, int]],
    pairs: Pairs,
    away: Pairs,
) -> OddPart:
    share = math.exp(median(away[cell] for cell in cells))
    figure = median(pairs[cell] for cell in cells)
    return OddPart(kind, devices, share, figure, figure / share)
