"""A pasted text to the runs of nccl-tests in it."""

from __future__ import annotations

import re
from typing import NoReturn

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import split_launcher, without_marks
from gpuwire_checks.recorded.nccl_columns import header_columns, is_header, shape_columns
from gpuwire_checks.recorded.nccl_failures import read_trouble
from gpuwire_checks.recorded.nccl_fields import is_numeric, row_fields, starts_row
from gpuwire_checks.recorded.nccl_head import (
    is_rank_line,
    read_average,
    read_options,
    read_out_of_bounds,
    read_rank,
    read_versions,
)
from gpuwire_checks.recorded.nccl_names import named_collective
from gpuwire_checks.recorded.nccl_rows import RowText
from gpuwire_checks.recorded.nccl_run import Named, Run

MAX_TEXT = 64 << 20
"""Characters."""
MAX_LINES = 2_000_000
MAX_LINES_READ = 150_000
"""Lines that are not NCCL's own ``INFO``."""
MAX_LINE = 4096
"""Characters. A row has under 300."""
MAX_ROWS = 10_000
MAX_RANKS = 50_000
MAX_RUNS = 500
MAX_TROUBLES = 100
MAX_PIECES = 8
_STREAM = re.compile(r"<std(?:out|err)>")
_INFO = re.compile(
    r"\s{0,40}(?:[0-9]{1,6}: {1,8}|\[[0-9]{1,6},[0-9]{1,6}\]<std(?:out|err)>:|[A-Za-z][\w.-]{0,62}: )?"
    r"[A-Za-z0-9][\w.-]{0,254}:[0-9]{1,9}:[0-9]{1,9} \[[0-9]{1,4}\] NCCL (?:INFO|TRACE) "
)
_FIGURES_AT_END = re.compile(r"[0-9]\.[0-9]{2}\s+[0-9]+\.[0-9]{2}\s+(?:[0-9]+|N/A)\s*$")
_MARKED = re.compile(r"[0-9]e[+-][0-9]{2,3}\*")
_MARKS = re.compile(r"[\x1b`*\[]")
_LABELLED = re.compile(r"[:>]|pid=")
_LABEL_AT_MOST = 200
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
    runs = [run for run in splitter.runs if run.says_something]
    if not runs:
        long = f"; line {splitter.long_line} is too long to be read" if splitter.long_line else ""
        raise TopologyError(
            f"{source}:1: no output of nccl-tests: a header such as 'size count type redop root time algbw busbw "
            f"#wrong' with rows under it, its list of devices, or the error it ended with; paste one of them{long}"
        )
    return runs, splitter.open_line


class _Splitter:
    """One pass over the lines; each goes to the run that its launcher's label is in."""

    def __init__(self, text: str, *, source: str) -> None:
        self.source = source
        self.lines = text.split("\n")
        self.open_line = len(self.lines) if self.lines[-1].strip() else None
        self.runs: list[Run] = []
        self.current: dict[str, Run] = {}
        self.active: Run | None = None
        self.next_name: Named | None = None
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
                self._refuse(number, f"more than {MAX_LINES_READ} lines other than NCCL's INFO lines")
            if len(raw) > MAX_LINE:
                self.long_line = number
                self._run("", number).doubt(number, f"a line of {len(raw)} characters is not read")
            else:
                self._line(number, raw)

    def _refuse(self, line: int, what: str) -> NoReturn:
        raise TopologyError(f"{self.source}:{line}: {what}: paste only the output of nccl-tests")

    def _passed_over(self, number: int, raw: str) -> bool:
        """True for a line of NCCL's own log that says no more than that the run goes on."""
        if _INFO.match(raw) is None:
            self.num_warnings += " NCCL WARN " in raw
            return self.num_warnings > MAX_TROUBLES
        if self.active is not None and number != self.open_line:
            self.active.followed = True
            if _FIGURES_AT_END.search(raw, max(0, len(raw) - 40)):
                self.active.doubt(number, "figures at the end of an NCCL INFO line are not read")
        return "CCL version" not in raw

    def _line(self, number: int, raw: str) -> None:
        text = raw.rstrip() if raw.isascii() and not _MARKS.search(raw) else without_marks(raw)
        label, body = split_launcher(text) if _LABELLED.search(text, 0, _LABEL_AT_MOST) else ("", text)
        if label.startswith(("nThread", "rccl-tests")):
            label, body = "", text
        body = body.lstrip()
        key = _STREAM.sub("", label)
        if "Rank" in body and is_rank_line(body):
            self._rank(key, number, body)
            return
        if self.active is not None and number != self.open_line:
            self.active.followed = True
        if "busbw" in body and is_header(body):
            self._header(key, number, body)
        elif "nGpus" in body:
            self._options(key, number, body)
        elif not self._row(key, number, body, marked="*" in raw and _MARKED.search(raw) is not None):
            self._other(key, number, body)
            self._trouble(key, number, text)

    def _run(self, key: str, number: int, *, fresh: bool = False) -> Run:
        """The run that lines with a label belong to; a fresh one where they start another."""
        run = self.current.get(key)
        if run is None and self.active is not None and not self.active.begun and self.active.options is None:
            run = self.active
        if run is None or fresh:
            run = Run(number)
            if self.next_name is not None:
                run.names.append(self.next_name)
                self.next_name = None
            self.runs.append(run)
            if len(self.runs) > MAX_RUNS:
                self._refuse(number, f"more than {MAX_RUNS} runs")
        self.current[key] = self.active = run
        return run

    def _seen(self, key: str) -> Run:
        """The run so far under a label, for questions only."""
        return self.current.get(key) or Run(0)

    def _header(self, key: str, number: int, body: str) -> None:
        seen = self._seen(key)
        run = self._run(key, number, fresh=seen.measured and not seen.alone)
        run.table.header_line = number
        run.table.columns = header_columns(body, heading=run.heading)

    def _rank(self, key: str, number: int, body: str) -> None:
        seen = self._seen(key)
        fresh = (seen.measured or seen.table.header_line is not None) and not seen.alone
        run = self._run(key, number, fresh=fresh)
        run.followed = False
        rank = read_rank(body, line=number, cut=number == self.open_line)
        if rank is None:
            run.broken_ranks.append(number)
        else:
            run.ranks.append(rank)
        if len(run.ranks) + len(run.broken_ranks) > MAX_RANKS:
            self._refuse(number, f"more than {MAX_RANKS} devices")

    def _options(self, key: str, number: int, body: str) -> None:
        seen = self._seen(key)
        others = any(one.rank.rank for one in seen.ranks)
        started = seen.measured or seen.table.header_line is not None or others or seen.failed
        run = self._run(key, number, fresh=started and not seen.alone)
        run.options = run.options or read_options(body)

    def _row(self, key: str, number: int, body: str, *, marked: bool) -> bool:
        """Takes a row, a part of one, or what was one; False for any other line."""
        if not (body[:40].lstrip(" \t|")[:1].isdigit() or body.count(".") >= _ROWLIKE):
            return False
        seen = self._seen(key)
        fields, rest = row_fields(body)
        if not starts_row(fields, seen.table.columns):
            return seen.in_table and self._part(seen, number, fields, body)
        if not seen.in_table and shape_columns(fields) is None:
            return False
        run = self._run(key, number, fresh=seen.ended and not seen.alone)
        self._add(run, RowText(number, [(number, fields)], marked))
        if rest:
            self._other(key, number, rest)
            self._trouble(key, number, rest)
        return True

    def _add(self, run: Run, row: RowText) -> None:
        run.table.rows.append(row)
        run.open_row = row
        self.num_rows += 1
        if self.num_rows > MAX_ROWS:
            self._refuse(row.line, f"more than {MAX_ROWS} rows")

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

    def _other(self, key: str, number: int, body: str) -> None:
        """Whatever else a line may say of its run."""
        body = " ".join(body.split())
        if "Collective test" in body:
            self._named_by_program(key, number, body)
        elif "ersion" in body or "compiled with" in body:
            self._version(key, number, body)
        elif "Out of bounds" in body or "Avg bus" in body:
            self._conclusion(key, number, body)
        elif "-place" in body:
            self._run(key, number, fresh=self._seen(key).ended and not self._seen(key).alone).heading = body
        elif "asterisk" in body and key in self.current:
            self.current[key].rccl = True
        elif collective := named_collective(body):
            self._named_by_command(number, collective)

    def _named_by_program(self, key: str, number: int, body: str) -> None:
        seen = self._seen(key)
        starting = "starting" in body
        run = self._run(key, number, fresh=starting and (seen.begun or seen.failed) and not seen.alone)
        run.ended = run.ended or (not starting and "concluded" in body)
        if collective := named_collective(body):
            run.names.append(Named(number, collective, stated=True))

    def _named_by_command(self, number: int, collective: str) -> None:
        """A command line names the run it starts; a launcher's message, the one that just failed."""
        run = self.active
        if run is not None and not run.begun and not run.names:
            run.names.append(Named(number, collective, stated=False))
        else:
            self.next_name = Named(number, collective, stated=False)

    def _version(self, key: str, number: int, body: str) -> None:
        found = read_versions(body) if number != self.open_line else {}
        if not found:
            return
        seen = self._seen(key)
        run = self._run(key, number, fresh="nccl-tests" in found and (seen.begun or seen.failed) and not seen.alone)
        for name, version in found.items():
            if run.versions.setdefault(name, version) != version:
                run.doubt(number, f"{name} {version} here, and {run.versions[name]} above")
        run.rccl = run.rccl or "rccl" in found or "rccl-tests" in found

    def _conclusion(self, key: str, number: int, body: str) -> None:
        seen = self._seen(key)
        average = "Avg bus" in body
        run = self._run(key, number, fresh=average and seen.average is not None and not seen.alone)
        if not average:
            run.out_of_bounds = read_out_of_bounds(body)
            if run.out_of_bounds is None:
                run.doubt(number, "the count of values out of bounds is cut, or contradicts its OK or FAILED")
            return
        cut = number == self.open_line and not self.lines[-1][-1].isspace()
        value, too_low = read_average(body, cut=cut)
        run.average = value if run.average is None else run.average
        run.ended = value is not None or not cut
        if value is None:
            run.doubt(number, "the average is cut, or no number")
        if too_low:
            run.doubt(number, "the tool calls its own average too low (below NCCL_TESTS_MIN_BW)")

    def _trouble(self, key: str, number: int, text: str) -> None:
        run = self.current.get(key) or self.active
        if run is not None and len(run.troubles) >= MAX_TROUBLES:
            return
        after = self.lines[number] if number < len(self.lines) else ""
        trouble = read_trouble(text, line=number, after=after)
        if trouble is None:
            return
        if run is None or (run.ended and (trouble.definite or trouble.before_start)):
            run = self._run("", number, fresh=True)
        run.troubles.append(trouble)
