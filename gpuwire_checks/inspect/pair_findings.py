"""Findings of single matrices: ranges, groups, odd parts, P2P on against off, and the PCIe link that a rate fits."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.inspect.pair_rates import model_of, published
from gpuwire_checks.inspect.pair_shapes import STEP, Groups, OddPart, Pairs, Shape, irregular_devices, levels_of
from gpuwire_checks.inspect.pair_words import (
    gpus_words,
    group_words,
    is_host,
    is_local,
    is_one_way,
    is_staged,
    percent,
    range_words,
    sides,
)
from gpuwire_checks.inspect.pcie_fit import pcie_fit
from gpuwire_checks.recorded.model import PairLog, PairMatrix

_ASYMMETRY = 1.15
_SPREAD = 1.25
_NAMED = 8
_LATENCY = "a latency, in {unit} and not GB/s"


def matrix_findings(log: PairLog, shape: Shape) -> Iterable[Finding]:
    """The range of a matrix between devices, and its pattern."""
    matrix = shape.matrix
    if not shape.pairs:
        return
    if matrix.unit != "GB/s":
        words = f"{matrix.test}: {range_words(_cells(matrix), matrix.unit)}: {_LATENCY.format(unit=matrix.unit)}"
        yield Finding(level=Level.NOTE, text=words, line=matrix.line)
        return
    level, words = _pattern(shape)
    if level is Level.WARN and is_staged(matrix):
        level = Level.NOTE
    yield Finding(level=level, text=f"{matrix.test}: {words}", line=matrix.line, against=published(log, matrix))
    if not shape.odd:
        yield from _asymmetries(matrix, shape.pairs)


def _cells(matrix: PairMatrix) -> list[float]:
    return [cell for row in matrix.cells for cell in row if cell is not None]


def _pattern(shape: Shape) -> tuple[Level, str]:
    """PASS for one level or a regular pattern, WARN for what is fine only where it is meant, NOTE beside odd parts."""
    pairs = shape.pairs
    devices = {device for pair in pairs for device in pair}
    over = f"on {len(pairs)} ordered pair{'' if len(pairs) == 1 else 's'} of {gpus_words(len(devices))}"
    whole = f"{range_words(pairs.values(), 'GB/s')} {over}"
    if shape.groups is not None:
        return _grouped(shape, shape.groups)
    if shape.odd:
        return Level.NOTE, whole
    if len(devices) < 3:
        return Level.PASS, whole
    level, words = _levelled(pairs)
    return level, f"{whole}{words}"


def _levelled(pairs: Pairs) -> tuple[Level, str]:
    """Of figures without groups and odd parts: one level, several in a regular pattern, or neither."""
    levels = levels_of(pairs.values())
    if len(levels) == 1:
        wide = levels[0][1] > _SPREAD * levels[0][0]
        if wide:
            return Level.WARN, ": a wide spread with no step in it"
        return Level.PASS, f"; no odd pair{_lowest(pairs)}"
    named = f": {len(levels)} levels ({', '.join(range_words(level, 'GB/s') for level in levels[:_NAMED])})"
    if strange := irregular_devices(pairs):
        text = f"{named} in no regular pattern; {group_words(strange[:_NAMED])} differ from the others"
        return Level.WARN, text
    return Level.PASS, f"{named}, the same for every GPU: a regular pattern; no odd pair"


def _grouped(shape: Shape, groups: Groups) -> tuple[Level, str]:
    inside = shape.usual_class()
    across = [figure for pair, figure in shape.pairs.items() if pair not in inside]
    named = " and ".join(group_words(group) for group in groups.groups[:_NAMED])
    figures = f"{range_words(inside.values(), 'GB/s')} inside, {range_words(across, 'GB/s')} across"
    if groups.alone:
        text = f"{figures}; faster between {named} than with {group_words(groups.alone[:_NAMED])}"
        return Level.NOTE if shape.odd else Level.WARN, f"{text}; fine where a bridge joins only those"
    sizes = {len(group) for group in groups.groups}
    count = len(groups.groups)
    kind = "two-socket pattern" if count == 2 and len(sizes) == 1 else f"pattern of {count} groups"
    regular = f"a {'regular ' if len(sizes) == 1 else ''}{kind}, {named}: {figures}"
    return (Level.NOTE, regular) if shape.odd else (Level.PASS, f"{regular}; no odd pair")


def _lowest(pairs: Pairs) -> str:
    (a, b), low = min(pairs.items(), key=lambda item: item[1])
    below = 1 - low / median(pairs.values())
    return f" (lowest GPU{a}->GPU{b}, {100 * below:.1f} % below the median)" if below >= 0.001 else ""


def odd_findings(log: PairLog, shapes: Sequence[Shape]) -> Iterable[Finding]:
    """What is below the rest: each part once, with the matrix in which it is farthest below."""
    found: dict[tuple[str, tuple[int, ...]], list[tuple[OddPart, PairMatrix]]] = defaultdict(list)
    for shape in shapes:
        for part in shape.odd:
            found[part.kind, part.devices].append((part, shape.matrix))
    parts = sorted(found.values(), key=lambda same: not any(_is_of_wires(matrix) for _, matrix in same))
    yield from (_odd_finding(log, same) for same in parts[:_NAMED])
    if len(parts) > _NAMED:
        text = f"{len(parts) - _NAMED} more rows, columns or pairs are below the rest: no single part is at fault"
        yield Finding(level=Level.WARN, text=text)


def _odd_finding(log: PairLog, same: Sequence[tuple[OddPart, PairMatrix]]) -> Finding:
    part, matrix = min(same, key=lambda pair: (not _is_of_wires(pair[1]), pair[0].share))
    more = f"; so in {len(same) - 1} more matri{'x' if len(same) == 2 else 'ces'}" if len(same) > 1 else ""
    fit = pcie_fit(part.figure, model_of(log)) if is_one_way(matrix) else None
    fits = f"; it fits {fit.words}" if fit is not None and fit.narrow else ""
    return Finding(
        level=Level.FAIL if _is_of_wires(matrix) else Level.WARN,
        text=f"{_odd_words(part, matrix)} ({matrix.test}){fits}{more}",
        part="-".join(f"GPU{device}" for device in part.devices),
        line=matrix.line,
        against=published(log, matrix),
    )


def _is_of_wires(matrix: PairMatrix) -> bool:
    return matrix.unit == "GB/s" and not is_staged(matrix)


def _odd_words(part: OddPart, matrix: PairMatrix) -> str:
    row, column = sides(matrix)
    first = f"GPU{part.devices[0]}"
    last = f"GPU{part.devices[-1]}"
    what = {
        "device": f"{first}, to and from every other GPU,",
        "row": f"{first} row ({row} {first})",
        "column": f"{first} column ({column} {first})",
        "pair": f"{first}-{last}, in both directions,",
        "cell": f"{first}->{last} ({row} {first}, one direction only)",
    }[part.kind]
    if matrix.unit != "GB/s":
        above = percent(1 / part.share - 1)
        return f"{what} is {above} above the median latency of the others: {1 / part.figure:.2f} {matrix.unit}"
    below = f"{percent(1 - part.share)} below the median of the others"
    return f"{what} is {below}: {part.figure:.2f} against {part.usual:.2f} GB/s"


def _asymmetries(matrix: PairMatrix, pairs: Pairs) -> Iterable[Finding]:
    """Pairs whose two directions differ, by more than those of the others do."""
    apart = {(a, b): abs(math.log(pairs[a, b] / pairs[b, a])) for a, b in pairs if a < b and (b, a) in pairs}
    noise = median(apart.values()) if len(apart) > 2 else 0.0
    uneven = [pair for pair, distance in apart.items() if distance > max(math.log(_ASYMMETRY), 5 * noise)]
    for a, b in uneven[:_NAMED]:
        lower, higher = sorted((pairs[a, b], pairs[b, a]))
        text = f"{matrix.test}: GPU{a}->GPU{b} {pairs[a, b]:.2f} and GPU{b}->GPU{a} {pairs[b, a]:.2f} GB/s"
        text = f"{text} differ by {percent(1 - lower / higher)}"
        yield Finding(level=Level.WARN, text=text, part=f"GPU{a}-GPU{b}", line=matrix.line)
    if noise > math.log(_ASYMMETRY):
        text = f"{matrix.test}: the two directions of most pairs differ by {percent(1 - math.exp(-noise))} and more"
        yield Finding(level=Level.WARN, text=text, line=matrix.line)


def row_findings(log: PairLog, matrix: PairMatrix, *, judged: bool) -> Iterable[Finding]:
    """Of a matrix with a figure per GPU: its range, and a GPU below the others where it is to be judged."""
    if matrix.local or not _cells(matrix):
        return
    words = f"{matrix.test}: {range_words(_cells(matrix), matrix.unit)}"
    if matrix.unit != "GB/s":
        yield Finding(level=Level.NOTE, text=f"{words}: {_LATENCY.format(unit=matrix.unit)}", line=matrix.line)
        return
    if judged:
        yield from _odd_columns(log, matrix)
    where = ", within the device" if is_local(matrix) else ""
    yield Finding(level=Level.NOTE, text=f"{words}{where}", line=matrix.line, against=published(log, matrix))


def _odd_columns(log: PairLog, matrix: PairMatrix) -> Iterable[Finding]:
    known = {column: cell for column, cell in zip(matrix.columns, matrix.cells[0], strict=True) if cell is not None}
    if len(known) < 3:
        return
    usual = median(known.values())
    noise = median(abs(cell / usual - 1) for cell in known.values())
    for column, cell in known.items():
        if cell * STEP < usual and 1 - cell / usual > 5 * 1.4826 * noise:
            fit = pcie_fit(cell, model_of(log)) if is_host(matrix) and is_one_way(matrix) else None
            fits = f"; it fits {fit.words}" if fit is not None else ""
            below = f"{percent(1 - cell / usual)} below the median of the others"
            text = f"GPU{column} is {below}: {cell:.2f} against {usual:.2f} GB/s ({matrix.test}){fits}"
            yield Finding(level=Level.FAIL, text=text, part=f"GPU{column}", line=matrix.line)
