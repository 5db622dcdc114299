"""A pasted text to the runs of nccl-tests in it."""

from __future__ import annotations

import re

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import split_launcher, without_marks
from gpuwire_checks.recorded.nccl_book import Book
from gpuwire_checks.recorded.nccl_columns import header_columns, is_header, shape_columns
from gpuwire_checks.recorded.nccl_fields import is_numeric, row_fields, starts_row
from gpuwire_checks.recorded.nccl_head import read_options
from gpuwire_checks.recorded.nccl_ranks import is_rank_line, read_rank
from gpuwire_checks.recorded.nccl_rows import RowText
from gpuwire_checks.recorded.nccl_run import Run

MAX_TEXT = 64 << 20
"""Characters."""
MAX_LINES = 2_000_000
MAX_LINES_READ = 150_000
"""Lines that are not NCCL's own ``INFO``."""
MAX_LINE = 4096
"""Characters. A row has under 300."""
MAX_ROWS = 10_000
MAX_RANKS = 50_000
MAX_WARNINGS = 100
MAX_PIECES = 8
_STREAM = re.compile(r"<std(?:out|err)>")
_INFO = re.compile(
    r"\s{0,40}(?:[0-9]{1,6}: {1,8}|\[[0-9]{1,6},[0-9]{1,6}\]<std(?:out|err)>:|[A-Za-z][\w.-]{0,62}: )?"
    r"[A-Za-z0-9][\w.-]{0,254}:[0-9]{1,9}:[0-9]{1,9} \[[0-9]{1,4}\] NCCL (?:INFO|TRACE) "
)
_FIGURES_AT_END = re.compile(r"[0-9]\.[0-9]{2}\s+[0-9]+\.[0-9]{2}\s+(?:[0-9]+|N/A)\s*$")
_MARKED = re.compile(r"[0-9]e[+-][0-9]{2,3}\*")
_MARKS = re.compile(r"[\x1b`*\[]")
_LABELLED = re.compile(r"\s*(?:[>\[(]|[0-9]{4}-|[A-Za-z0-9][\w.-]{0,62}:)")
_ROWLIKE = 3
"""Numbers in a line of a table from which on it must have been a row."""


def split_runs(text: str, *, source: str) -> tuple[list[Run], int | None]:
    """Every run in a text, in order of their first lines, and the last line where no newline ends it.

    Raises:
        TopologyError: no run, or more lines, rows, devices or runs than any log has.
    """
    if len(text) > MAX_TEXT or text.count("\n") > MAX_LINES:
        raise TopologyError(
            f"{source}:1: {len(text)} characters in {text.count(chr(10)) + 1} lines; at most {MAX_TEXT} in {MAX_LINES} "
            "are read: leave out NCCL's INFO lines (grep -v 'NCCL INFO')"
        )
    splitter = _Splitter(text, source=source)
    splitter.split()
    runs = [run for run in splitter.book.runs if run.says_something]
    if not runs:
        long = f"; line {splitter.long_line} is too long to be read" if splitter.long_line else ""
        raise TopologyError(
            f"{source}:1: no output of nccl-tests: a header such as 'size count type redop root time algbw busbw "
            f"#wrong' with rows under it, its list of devices, or the error it ended with; paste one of them{long}"
        )
    return runs, splitter.book.open_line


class _Splitter:
    """One pass over the lines; each goes to the run that its launcher's label is in."""

    def __init__(self, text: str, *, source: str) -> None:
        self.lines = text.split("\n")
        last = self.lines[-1]
        open_line = len(self.lines) if last.strip() else None
        self.book = Book(source=source, open_line=open_line, open_word=not last[-1:].isspace())
        self.num_rows = 0
        self.num_warnings = 0
        self.long_line: int | None = None

    def split(self) -> None:
        """Gives every line to its run."""
        lines_read = 0
        for number, raw in enumerate(self.lines, start=1):
            if not raw or raw.isspace():
                continue
            if " NCCL " in raw and self._passed_over(number, raw):
                continue
            lines_read += 1
            if lines_read > MAX_LINES_READ:
                self.book.refuse(number, f"more than {MAX_LINES_READ} lines other than NCCL's INFO lines")
            if len(raw) > MAX_LINE:
                self.long_line = number
                self.book.run("", number).doubt(number, f"a line of {len(raw)} characters is not read")
            else:
                self._line(number, raw)

    def _passed_over(self, number: int, raw: str) -> bool:
        """True for a line of NCCL's own log that says no more than that the run goes on."""
        if _INFO.match(raw) is None:
            self.num_warnings += " NCCL WARN " in raw
            return self.num_warnings > MAX_WARNINGS
        if self.book.active is not None and number != self.book.open_line:
            self.book.active.followed = True
            if _FIGURES_AT_END.search(raw, max(0, len(raw) - 40)):
                self.book.active.doubt(number, "figures at the end of an NCCL INFO line are not read")
        return "CCL version" not in raw

    def _line(self, number: int, raw: str) -> None:
        text = raw.rstrip() if raw.isascii() and not _MARKS.search(raw) else without_marks(raw)
        label, body = split_launcher(text) if _LABELLED.match(text) else ("", text)
        if label.startswith(("nThread", "rccl-tests")):
            label, body = "", text
        body = body.lstrip()
        key = _STREAM.sub("", label)
        if "Rank" in body and is_rank_line(body):
            self._rank(key, number, body)
            return
        if self.book.active is not None and number != self.book.open_line:
            self.book.active.followed = True
        if "busbw" in body and is_header(body):
            self._header(key, number, body)
        elif "nGpus" in body:
            self._options(key, number, body)
        elif not self._row(key, number, body, marked="*" in raw and _MARKED.search(raw) is not None):
            self.book.remark(key, number, body)
            after = self.lines[number] if number < len(self.lines) else ""
            self.book.trouble(key, number, text, after=after)

    def _header(self, key: str, number: int, body: str) -> None:
        seen = self.book.seen(key)
        run = self.book.run(key, number, fresh=seen.measured and not seen.alone)
        run.table.header_line = number
        run.table.columns = header_columns(body, heading=run.heading)

    def _rank(self, key: str, number: int, body: str) -> None:
        seen = self.book.seen(key)
        fresh = (seen.measured or seen.table.header_line is not None) and not seen.alone
        run = self.book.run(key, number, fresh=fresh)
        run.followed = False
        rank = read_rank(body, line=number, cut=number == self.book.open_line)
        if rank is None:
            run.broken_ranks.append(number)
        else:
            run.ranks.append(rank)
        if len(run.ranks) + len(run.broken_ranks) > MAX_RANKS:
            self.book.refuse(number, f"more than {MAX_RANKS} devices")

    def _options(self, key: str, number: int, body: str) -> None:
        seen = self.book.seen(key)
        others = any(one.rank.rank for one in seen.ranks)
        started = seen.measured or seen.table.header_line is not None or others or seen.failed
        run = self.book.run(key, number, fresh=started and not seen.alone)
        run.options = run.options or read_options(body)

    def _row(self, key: str, number: int, body: str, *, marked: bool) -> bool:
        """Takes a row, a part of one, or what was one; False for any other line."""
        if not (body[:40].lstrip(" \t|")[:1].isdigit() or body.count(".") >= _ROWLIKE):
            return False
        seen = self.book.seen(key)
        fields, rest = row_fields(body)
        if not starts_row(fields, seen.table.columns):
            return seen.in_table and self._part(seen, number, fields, body)
        if not seen.in_table and shape_columns(fields) is None:
            return False
        run = self.book.run(key, number, fresh=seen.ended and not seen.alone)
        self._add(run, RowText(number, [(number, fields)], marked))
        if rest:
            self.book.remark(key, number, rest)
            self.book.trouble(key, number, rest, after="")
        return True

    def _add(self, run: Run, row: RowText) -> None:
        run.table.rows.append(row)
        run.open_row = row
        self.num_rows += 1
        if self.num_rows > MAX_ROWS:
            self.book.refuse(row.line, f"more than {MAX_ROWS} rows")

    def _part(self, run: Run, number: int, fields: list[str], body: str) -> bool:
        """The rest of a row that another writer cut in two, or what was a row and no longer is."""
        words = body.replace("|", " ").split()
        if len(fields) == len(words) and all(map(is_numeric, words)):
            if run.open_row is not None and len(run.open_row.pieces) < MAX_PIECES:
                run.open_row.pieces.append((number, fields))
            else:
                self._add(run, RowText(number, [(number, fields)]))
            return True
        if sum(map(is_numeric, words)) < _ROWLIKE:
            return False
        run.doubt(number, f"not a row that can be read: {' '.join(words)[:60]}")
        run.open_row = None
        return True
