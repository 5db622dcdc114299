"""A header of device numbers and the rows of figures under it, as tools print them and people paste them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import Line, split_launcher, without_marks
from gpuwire_checks.topology.model import Doubt, Unread

MAX_TEXT = 4 << 20
"""Characters. Every test of nvbandwidth on 72 GPUs prints 2 million."""
MAX_LINES = 50_000
MAX_LINE = 16_384
MAX_DEVICES = 512
MAX_MATRICES = 200
"""All tests of nvbandwidth print fewer than a hundred."""
MAX_DOUBTS = 200
_HOST_ROWS = 16
"""Rows of a test between host and devices; the tools print one."""
_CELL = re.compile(r"[0-9]{1,7}\.[0-9]{2}")
"""Both tools print two decimals, so that a figure with fewer is cut or damaged."""
_PARTS = re.compile(r"[0-9]{1,7}\.[0-9]{2}|N/A", re.IGNORECASE)
_BIT = re.compile(r"[01]")
_NUMBER = re.compile(r"[0-9]{1,4}")
_CORNER = re.compile(r"|[A-Za-z]{1,3}(?:[\\/][A-Za-z]{1,3})?")

Cell: TypeAlias = float | Unread
"""A figure; *not supported* where the tool prints N/A, *unknown* where it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pasted:
    """The lines of one run. ``last`` is the number of the last line of the whole text that says something."""

    lines: tuple[Line, ...]
    last: int
    doubts: tuple[Doubt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A header and the rows under it that could be placed, by device number.

    Attributes:
        lines: of the rows.
        ends_at: the last line of the text where that stands under this header, None where other lines follow.
        cut: the row there is not whole.
    """

    columns: tuple[int, ...]
    rows: dict[int, tuple[Cell, ...]] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    ends_at: int | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class _Row:
    line: Line
    words: tuple[str, ...]


def pasted_lines(text: str, *, source: str, tool: str, title: re.Pattern[str], own_words: Collection[str]) -> Pasted:
    """The lines of the first launcher label under which a line matches ``title``, and those without a label.

    Args:
        own_words: words with a colon that begin the tool's own lines (``Device:``), and are no launcher's label.

    Raises:
        TopologyError: the text is larger than such an output.
    """
    if len(text) > MAX_TEXT or text.count("\n") > MAX_LINES:
        raise TopologyError(
            f"{source}:1: {len(text)} characters in {text.count(chr(10)) + 1} lines; an output of {tool} has at most "
            f"{MAX_TEXT} in {MAX_LINES}: paste only that output"
        )
    doubts, lines = [], []
    for number, raw in enumerate(text.split("\n"), start=1):
        if len(raw) > MAX_LINE:
            doubts.append(Doubt(line=number, text=f"a line of {len(raw)} characters, longer than a row: not read"))
        elif (line := _line(number, raw, own_words)).text.strip():
            lines.append(line)
    titled = dict.fromkeys(line.launcher for line in lines if title.search(line.text))
    first, *others = titled or [""]
    if others:
        text = f"{', '.join(others[:5])} {'prints' if len(others) == 1 else 'print'} matrices too: only {first} is read"
        doubts.append(Doubt(line=None, text=text))
    kept = tuple(line for line in lines if line.launcher in ("", first))
    return Pasted(lines=kept, last=lines[-1].number if lines else 0, doubts=tuple(doubts))


def _line(number: int, raw: str, own_words: Collection[str]) -> Line:
    launcher, text = split_launcher(without_marks(raw))
    for word in own_words:
        if launcher.endswith(word):
            return Line(number, launcher.removesuffix(word), word + text)
    return Line(number, launcher, text)


def words(text: str) -> list[str]:
    """The cells of a line, of a Markdown table too, where they may be empty."""
    if text.count("|") < 2:
        return text.split()
    return list(map(str.strip, text.strip().removeprefix("|").removesuffix("|").split("|")))


def header_numbers(text: str) -> tuple[int, ...] | None:
    """The device numbers of a header, after a corner such as ``D\\D``; None where the line is no header."""
    found = words(text)
    if len(found) > 1 and _CORNER.fullmatch(found[0]):
        found = found[1:]
    if not found or len(found) > MAX_DEVICES or not all(_NUMBER.fullmatch(word) for word in found):
        return None
    return tuple(map(int, found))


def read_grid(header: Line, below: Sequence[Line], *, last: int, bits: bool = False) -> Grid:
    """The rows whose cells surely stand under the columns of ``header``.

    Args:
        last: the last line of the text; a row there may be cut.
        bits: cells are 0 or 1, not figures with two decimals.
    """
    columns = header_numbers(header.text) or ()
    if columns != tuple(range(len(columns))):
        text = f"the header counts {numbers_words(columns)}, not from 0 on: no cell can be placed under it"
        return Grid(columns=columns, doubts=(Doubt(line=header.number, text=text),))
    own = _up_to_header(below, columns, bits=bits)
    found, doubts = _find_rows(own, len(columns), _BIT if bits else _CELL)
    edges = _common_edges(found.values(), len(columns))
    rows = {}
    for number, row in found.items():
        cells, doubt = _place(row, len(columns), edges, bits=bits, may_be_cut=row.line.number == last)
        if doubt is not None:
            doubts.append(Doubt(line=row.line.number, text=doubt))
        if cells is not None:
            rows[number] = tuple(cells)
    return Grid(
        columns=columns,
        rows=rows,
        lines={number: found[number].line.number for number in rows},
        doubts=tuple(doubts),
        ends_at=last if last == [header, *own][-1].number else None,
        cut=any(doubt.line == last for doubt in doubts),
    )


def _up_to_header(below: Sequence[Line], columns: tuple[int, ...], *, bits: bool) -> Sequence[Line]:
    """The lines before another header: its title may be lost, and its rows are not of this matrix."""
    for at, line in enumerate(below):
        numbers = header_numbers(line.text)
        if numbers == columns or (numbers and not bits and numbers == tuple(range(len(numbers)))):
            return below[:at]
    return below


def _find_rows(below: Sequence[Line], columns: int, whole: re.Pattern[str]) -> tuple[dict[int, _Row], list[Doubt]]:
    """The rows by their device number; of two with one number the one that alone has all cells, or neither."""
    rows: dict[int, list[_Row]] = {}
    doubts = []
    for line in below:
        first, *rest = words(line.text)
        cells = sum(1 for word in rest if _is_cell(word, whole))
        if not cells or 2 * cells < len(rest):
            continue
        if _NUMBER.fullmatch(first) and int(first) < max(columns, _HOST_ROWS):
            rows.setdefault(int(first), []).append(_Row(line, tuple(rest)))
        else:
            doubts.append(Doubt(line=line.number, text=f"a row that begins with '{first[:20]}', no device: not read"))
    found = {}
    for number, same in rows.items():
        complete = [row for row in same if len(row.words) == columns]
        chosen = same[0] if len(same) == 1 else complete[0] if len(complete) == 1 else None
        if chosen is not None:
            found[number] = chosen
        doubts += [
            Doubt(line=row.line.number, text=f"{len(same)} rows {number}: this one is not read")
            for row in same
            if row is not chosen
        ]
    return found, doubts


def _is_cell(word: str, whole: re.Pattern[str]) -> bool:
    return bool(word) and (bool(whole.fullmatch(word)) or word.upper() == "N/A")


def _place(
    row: _Row, columns: int, edges: tuple[int, ...] | None, *, bits: bool, may_be_cut: bool
) -> tuple[list[Cell] | None, str | None]:
    """The cells under the columns, None where they cannot be placed; and what is to be doubted."""
    whole = _BIT if bits else _CELL
    if len(row.words) == columns:
        cells, doubt = _cells(row.words, whole)
        if may_be_cut and cells[-1] is Unread.UNKNOWN:
            doubt = f"the text ends within '{row.words[-1][:20]}', the last of {columns} cells"
        return cells, doubt
    parted = [part for word in row.words for part in _parted(word)]
    if len(row.words) < len(parted) == columns:
        cells, _ = _cells(parted, whole)
        fused = next(word for word in row.words if len(_parted(word)) > 1)
        return cells, f"read '{fused[:40]}' as {' '.join(_parted(fused)[:5])}"
    if edges is not None and (placed := _by_position(row.line.text, edges)) is not None:
        return _cells(placed, whole)
    count = len(row.words)
    # One cell that is gone may be any of the row; more of them at the very end of a text are those after the cut.
    lost_more = count < columns - 1 or not _is_cell(row.words[-1], whole)
    if may_be_cut and count < columns and lost_more and _stands_first(row, edges):
        cells, _ = _cells(row.words, whole)
        return [*cells, *[Unread.UNKNOWN] * (columns - count)], f"the text ends after {count} of {columns} cells"
    return None, f"{count} cells under {columns} columns: not sure under which, the row is not read"


def _stands_first(row: _Row, edges: tuple[int, ...] | None) -> bool:
    """Whether the cells end where the first ones of the other rows do, as far as those end alike."""
    ends = tuple(match.end() for match in re.finditer(r"\S+", row.line.text))[1:]
    sure = ends if _is_cell(row.words[-1], _CELL) else ends[:-1]
    return edges is None or sure == edges[: len(sure)]


def _parted(word: str) -> list[str]:
    parts = _PARTS.findall(word)
    return parts if "".join(parts) == word else [word]


def _cells(found: Sequence[str], whole: re.Pattern[str]) -> tuple[list[Cell], str | None]:
    bad = [(column, word) for column, word in enumerate(found) if not _is_cell(word, whole)]
    cells: list[Cell] = [
        float(word) if whole.fullmatch(word) else Unread.NOT_SUPPORTED if word.upper() == "N/A" else Unread.UNKNOWN
        for word in found
    ]
    named = ", ".join(
        f"'{word[:20]}' under {column}" if word else f"nothing under {column}" for column, word in bad[:8]
    )
    return cells, f"{named}: no figure, not read" if bad else None


def _common_edges(rows: Iterable[_Row], columns: int) -> tuple[int, ...] | None:
    """Where the cells of each whole row end, None where they do not end alike."""
    found = set()
    for row in rows:
        if len(row.words) == columns and all(_is_cell(word, _CELL) for word in row.words):
            ends = [match.end() for match in re.finditer(r"\S+", row.line.text)]
            found.add(None if "\t" in row.line.text or "|" in row.line.text else tuple(ends[1:]))
    return found.pop() if len(found) == 1 else None


def _by_position(text: str, edges: tuple[int, ...]) -> list[str] | None:
    """The cells of a row some of which are blank, the last one not; None where one does not end at its edge."""
    begin = len(text) - len(text.lstrip()) + len(text.split(maxsplit=1)[0])
    if "\t" in text or len(text) != edges[-1] or begin >= edges[0]:
        return None
    placed = []
    for left, right in zip([begin, *edges], edges, strict=False):
        piece = text[left:right].split()
        if len(piece) > 1 or (piece and (text[right - 1].isspace() or not text[left].isspace())):
            return None
        placed.append(piece[0] if piece else "")
    return placed


def limited(doubts: Iterable[Doubt]) -> tuple[Doubt, ...]:
    """The first ``MAX_DOUBTS`` and how many were left out."""
    every = list(doubts)
    if len(every) <= MAX_DOUBTS:
        return tuple(every)
    rest = Doubt(line=None, text=f"{len(every) - MAX_DOUBTS} more doubtful lines; they are not listed")
    return (*every[:MAX_DOUBTS], rest)


def numbers_words(numbers: Sequence[int]) -> str:
    """The first eight numbers, and how many more."""
    return ", ".join(map(str, numbers[:8])) + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")
