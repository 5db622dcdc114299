"""The table of an nccl-tests run: its rows as figures, and what is left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuwire_checks.recorded.nccl_agree import Agreement, Row, agreement
from gpuwire_checks.recorded.nccl_cells import LeftOutError, fits, place, rest_agrees
from gpuwire_checks.recorded.nccl_columns import REDOPS, Columns, shape_columns
from gpuwire_checks.recorded.nccl_numbers import is_error_field, is_plain_count
from gpuwire_checks.recorded.nccl_unlike import of_other_words, out_of_form
from gpuwire_checks.topology.model import Doubt

_SHOWN = 60


@dataclass(slots=True)
class RowText:
    """The fields of one row as they stood, on one line or, where another writer came between, on several.

    Attributes:
        marked: rccl-tests' asterisk stands by an error.
    """

    line: int
    pieces: list[tuple[int, list[str]]]
    marked: bool = False

    @property
    def fields(self) -> list[str]:
        return [word for _, piece in self.pieces for word in piece]


@dataclass(slots=True)
class TableText:
    """What of a run makes its table; ``columns`` None where the header is lost or unknown."""

    columns: Columns | None = None
    header_line: int | None = None
    rows: list[RowText] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Table:
    """A table as read.

    Attributes:
        empty_redop: the header has a redop column, and no row has a word in it.
        cut_at: the line of the row that the end of the log cuts.
    """

    rows: tuple[Row, ...]
    columns: Columns | None
    agreement: Agreement | None
    empty_redop: bool
    cut_at: int | None
    doubts: tuple[Doubt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the rest of the text says of a table.

    Attributes:
        same_count, factors: see ``agreement``.
        ended: the concluding lines follow, so that the end cuts no row.
        open_line: the last line of the text where no newline ends it: its last field may be cut.
    """

    same_count: bool | None
    factors: tuple[float, ...]
    ended: bool
    open_line: int | None


def read_table(text: TableText, known: Known) -> Table:
    """The rows that are surely there; ``doubts`` has the others, line by line."""
    columns, empty_redop, doubts = _columns(text)
    if columns is None:
        return _without_columns(text, known, doubts)
    if "cputime" in columns.half:
        told = "the time column is CPU time (-C 1), not that of a call: the rows are left out"
        doubts.append(Doubt(line=text.header_line, text=told))
        return Table((), columns, None, empty_redop, None, tuple(doubts))
    return _Reading(text.rows, columns, known, doubts).table(empty_redop=empty_redop)


def _columns(text: TableText) -> tuple[Columns | None, bool, list[Doubt]]:
    """The header's columns, or, where it is lost or fits no row, those of the rows' shape."""
    header, rows = text.columns, [row.fields for row in text.rows]
    widths = Counter(map(len, rows))
    if header is not None:
        without = replace(header, lead=tuple(name for name in header.lead if name != "redop"))
        words = any(len(fields) > 3 and fields[3] in REDOPS for fields in rows)
        if without.width < header.width and 2 * widths[without.width] > len(rows) and not words:
            return without, True, []
        if widths[header.width] or not rows:
            return header, False, []
    shape, times = Counter(map(shape_columns, rows)).most_common(1)[0] if rows else (None, 0)
    if header is not None and (shape is None or 2 * times <= len(rows)):
        return header, False, []
    if text.header_line is None or (header is None and shape is None and not rows):
        return shape, False, []
    told = "this header is not one that nccl-tests prints for the rows here; their columns are told by their shape"
    return shape, False, [Doubt(line=text.header_line, text=told)]


def _without_columns(text: TableText, known: Known, doubts: list[Doubt]) -> Table:
    told = "a row that cannot be placed: no known header is above it, and its fields have no known shape"
    doubts += [Doubt(line=row.line, text=told) for row in text.rows]
    cut = text.rows[-1].line if text.rows and not known.ended else None
    return Table((), None, None, False, cut, tuple(doubts))


class _Reading:
    """One pass over the rows of a table."""

    def __init__(self, texts: Sequence[RowText], columns: Columns, known: Known, doubts: list[Doubt]) -> None:
        self.texts = texts
        self.columns = columns
        self.known = known
        self.doubts = doubts
        self.cut_at: int | None = None

    def table(self, *, empty_redop: bool) -> Table:
        """All of it; what is odd by itself is left out before rows are held to each other."""
        columns = self.columns
        rows = [row for text in self.texts if (row := self._row(text)) is not None]
        rows = self._without(rows, out_of_form(rows, milliseconds=columns.seconds_per_unit == 1e-3))
        rows = self._without(rows, of_other_words(rows))
        common = agreement(
            rows,
            seconds_per_unit=columns.seconds_per_unit,
            sized="size" in columns.lead,
            same_count=self.known.same_count,
            factors=self.known.factors,
        )
        kept = tuple(self._without(rows, common.against))
        return Table(kept, columns, common, empty_redop, self.cut_at, tuple(self.doubts))

    def _without(self, rows: Sequence[Row], reasons: Mapping[int, str]) -> list[Row]:
        for line, reason in reasons.items():
            self.doubts.append(Doubt(line=line, text=f"{reason}: the row is left out"))
        return [row for row in rows if row.line not in reasons]

    def _row(self, text: RowText) -> Row | None:
        last = text is self.texts[-1] and not self.known.ended
        fields = self._fields(text, last=last)
        try:
            if last and (len(fields) < self.columns.width or self._open_field(text, fields)):
                return self._cut_row(text, fields)
            if not fits(fields, self.columns):
                raise LeftOutError(f"{len(fields)} fields where a row has {self.columns.width}")
            measurements = len(self.columns.in_place)
            return place(fields, self.columns, line=text.line, measurements=measurements, marked=text.marked)
        except LeftOutError as reason:
            self.doubts.append(Doubt(line=text.line, text=f"{reason}: the row is left out"))
            return None

    def _fields(self, text: RowText, *, last: bool) -> list[str]:
        """The fields of a row: all its pieces together, or the first where that is a whole row by itself."""
        first = text.pieces[0][1]
        if len(text.pieces) == 1 or fits(text.fields, self.columns) or not fits(first, self.columns):
            return text.fields
        for line, piece in text.pieces[1:]:
            cut = last and line == text.pieces[-1][0] and len(piece) < 3
            self.cut_at = line if cut else self.cut_at
            told = "the beginning of a row, which is cut" if cut else "numbers that are no row"
            self.doubts.append(Doubt(line=line, text=f"{told}: {' '.join(piece)[:_SHOWN]}"))
        return first

    def _open_field(self, text: RowText, fields: list[str]) -> bool:
        """True when the text ends right after a count that more digits could follow, or in the middle of one."""
        if text.pieces[-1][0] != self.known.open_line or len(fields) != self.columns.width:
            return False
        counts = self.columns.half[-1] in ("wrong", "error")
        return counts and fields[-1] != "0" and (is_plain_count(fields[-1]) or not is_error_field(fields[-1]))

    def _cut_row(self, text: RowText, fields: list[str]) -> Row | None:
        """A row that the end of the log cuts: its first measurement, where that is surely whole."""
        self.cut_at = text.line
        told = f"the row of size {fields[0]} is cut: {len(fields)} of {self.columns.width} fields"
        first = len(self.columns.lead) + len(self.columns.half)
        row = None
        if len(self.columns.in_place) > 1 and len(fields) > first and rest_agrees(fields, self.columns):
            row = place(fields, self.columns, line=text.line, measurements=1, marked=text.marked)
            told += "; its first measurement is whole"
        self.doubts.append(Doubt(line=text.line, text=told))
        return row
