"""What a careful engineer would say of an nccl-tests-like log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import mean

from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.inspect.references import References
from gpuwire_checks.recorded.model import CollectiveLog, FigureRow
from gpuwire_checks.topology.model import Unread
from gpuwire_checks.units import format_size

_LARGE = 1 << 20
"""Bytes, from which on bandwidth and not latency is measured."""
_COLLAPSE = 0.5
"""Of the figure at a smaller size: bandwidth rises with size, or stays."""
_AVERAGE_TOLERANCE = 0.01
MEASURED_SHARE = 0.8
"""Of a figure that was measured on one machine: what another healthy one may fall short of it by is not published."""
_EIGHT_NICS = 400.0
"""GB/s of eight ports of 400 Gbit/s, as many as a node has."""


def inspect_log(log: CollectiveLog, references: References) -> list[Finding]:
    """Findings of one run of the program."""
    return [
        *_failure(log),
        *_completeness(log),
        *_correctness(log),
        *_ranks(log),
        *_figures(log),
        *_collapses(log),
        *_against_references(log, references),
        *(Finding(level=Level.WARN, text=doubt.text, line=doubt.line) for doubt in log.doubts),
        *_facts(log),
    ]


def _failure(log: CollectiveLog) -> Iterable[Finding]:
    failure = log.failure
    if failure is None:
        return
    host = "" if isinstance(failure.host, Unread) else f" on host {failure.host}"
    where = "" if isinstance(failure.where, Unread) else f" at {failure.where}"
    if failure.kind == "launcher" and not log.rows:
        lead, before = "the launcher failed, nothing was measured, and this says nothing of bandwidth", ""
    else:
        lead = {"launcher": "the launcher ended the run", "library": "the library gave up", "lost": "a GPU is lost"}[
            failure.kind
        ]
        before = f", after {_rows_words(log)}" if log.rows else ", before any row"
    text = f"{lead}{where}{host}{before}: {failure.text}"
    part = None if isinstance(failure.host, Unread) else f"host {failure.host}"
    level = Level.FAIL if failure.kind == "lost" else Level.ERROR
    yield Finding(level=level, text=text, line=failure.line, part=part)


def _completeness(log: CollectiveLog) -> Iterable[Finding]:
    if log.cut_at is not None:
        text = (
            f"the log is cut within a row; {_rows_words(log)} before it {'is' if _num_rows(log) == 1 else 'are'} whole"
        )
        yield Finding(level=Level.INCOMPLETE, text=text, line=log.cut_at)
    elif not log.rows and log.failure is None:
        yield Finding(level=Level.INCOMPLETE, text="no data row: the run had not begun to measure, or the log is cut")
    elif not log.ended and log.rows and log.tool != "nccl1":
        text = "no average line: the program did not end, or the end of the log is missing; compare the largest size"
        yield Finding(level=Level.NOTE, text=text)


def _rows_words(log: CollectiveLog) -> str:
    count = _num_rows(log)
    return f"{count} row{'' if count == 1 else 's'}"


def _num_rows(log: CollectiveLog) -> int:
    """Rows as printed: each has a figure or two."""
    return len({row.line for row in log.rows})


def _correctness(log: CollectiveLog) -> Iterable[Finding]:
    wrong = [row for row in log.rows if isinstance(row.wrong, int) and row.wrong]
    for row in wrong[:8]:
        text = f"{row.wrong} wrong values at {_row_words(row)}: wrong data is worse than slow data"
        yield Finding(level=Level.FAIL, text=text, line=row.line)
    printed = log.printed_out_of_bounds
    if isinstance(printed, int) and printed and not wrong:
        yield Finding(level=Level.FAIL, text=f"the tool counts {printed} values out of bounds")
    if log.rows and (log.validated is False or all(isinstance(row.wrong, Unread) for row in log.rows)):
        text = "correctness was not checked (N/A): unknown, and not 0 wrong; run with -c 1"
        yield Finding(level=Level.WARN, text=text, line=log.rows[0].line)


def _ranks(log: CollectiveLog) -> Iterable[Finding]:
    if log.world_size == 1:
        text = "1 rank in the communicator: busbw is 0 by definition and no link is used; build with MPI=1, or use -g N"
        yield Finding(level=Level.ERROR, text=text)
    models = {rank.model for rank in log.ranks if not isinstance(rank.model, Unread)}
    if len(models) > 1:
        text = f"ranks use different GPU models: {', '.join(sorted(map(str, models)))}; the slowest sets the pace"
        yield Finding(level=Level.WARN, text=text)
    if isinstance(log.world_size, Unread) and isinstance(log.highest_rank, int) and not log.failure:
        text = f"{log.highest_rank + 1} ranks, from rank {log.highest_rank}; the list of devices is partial"
        yield Finding(level=Level.NOTE, text=text)
    yield from _implied_ranks(log)


def _implied_ranks(log: CollectiveLog) -> Iterable[Finding]:
    """Busbw over algbw gives the number of ranks; it must be that of the list."""
    collective = COLLECTIVES.get(str(log.collective))
    if collective is None or not isinstance(log.world_size, int) or log.world_size < 2:
        return
    factor = collective.busbw_factor(log.world_size)
    odd = [row for row in log.rows if row.algbw > 1 and abs(row.busbw / row.algbw - factor) > 0.02 * factor]
    if odd:
        row = odd[0]
        text = (
            f"busbw/algbw is {row.busbw / row.algbw:.3f}, and {factor:.3f} for {log.world_size} ranks: the figures are "
            "of another number of ranks than the list, or of another collective"
        )
        yield Finding(level=Level.FAIL, text=text, line=row.line)


def _figures(log: CollectiveLog) -> Iterable[Finding]:
    if not log.rows:
        return
    largest = max(row.size_bytes for row in log.rows)
    at = {("in" if row.in_place else "out-of"): row for row in log.rows if row.size_bytes == largest}
    words = " and ".join(f"{row.busbw:g} GB/s {place}-place" for place, row in at.items())
    level = Level.NOTE if log.cut_at is not None or log.failure else Level.PASS
    row = next(iter(at.values()))
    yield Finding(level=level, text=f"busbw at the largest size, {format_size(largest)}: {words}", line=row.line)
    average = mean(row.busbw for row in log.rows)
    if isinstance(log.printed_average, Unread):
        yield Finding(level=Level.NOTE, text=f"average busbw over the rows here: {average:.4g} GB/s (none is printed)")
        return
    text = f"average busbw {log.printed_average:g} GB/s as printed; over the rows here it is {average:.6g}"
    off = abs(average - log.printed_average) > _AVERAGE_TOLERANCE * max(log.printed_average, 0.01)
    more = ": rows are missing here" if off else ""
    yield Finding(level=Level.WARN if off else Level.NOTE, text=text + more)
    if log.printed_average > _EIGHT_NICS and not isinstance(log.highest_rank, Unread) and log.highest_rank >= 16:
        text = (
            f"more than the {_EIGHT_NICS:g} GB/s of eight 400 Gbit/s ports: all of it goes over NVLink, also between "
            "nodes, and a network baseline is the wrong one"
        )
        yield Finding(level=Level.NOTE, text=text)


def _row_words(row: FigureRow) -> str:
    return f"{format_size(row.size_bytes)}, {'in' if row.in_place else 'out-of'}-place"


def _collapses(log: CollectiveLog) -> Iterable[Finding]:
    """A large size far below a smaller one."""
    for in_place in (False, True):
        rows = sorted(
            (row for row in log.rows if row.in_place is in_place and row.size_bytes >= _LARGE),
            key=lambda row: row.size_bytes,
        )
        best: FigureRow | None = None
        for row in rows:
            if best is not None and row.busbw < _COLLAPSE * best.busbw:
                text = (
                    f"busbw collapses at {_row_words(row)}: {row.busbw:g} GB/s, and {best.busbw:g} at "
                    f"{format_size(best.size_bytes)}; with links in order, suspect the network (flow control)"
                )
                yield Finding(level=Level.FAIL, text=text, line=row.line)
                break
            best = row if best is None or row.busbw > best.busbw else best


def _against_references(log: CollectiveLog, references: References) -> Iterable[Finding]:
    """One node of one model against what was published of it, at the sizes that were."""
    models = {rank.model for rank in log.ranks}
    if len(models) != 1 or len(log.hosts) != 1 or not isinstance(log.world_size, int):
        return
    floors = references.floors(next(iter(models)), figure=str(log.collective), world_size=log.world_size)
    for floor in floors:
        rows = [row for row in log.rows if row.size_bytes == floor.size]
        if not rows or floor.size is None:
            continue
        best = max(rows, key=lambda row: row.busbw)
        published = floor.value / 1e9
        least = published if floor.kind == "floor" else MEASURED_SHARE * published
        held = f"{'floor' if floor.kind == 'floor' else 'measured elsewhere'} {published:g} GB/s, {floor.source}"
        text = f"busbw {best.busbw:g} GB/s at {format_size(floor.size)}, published {published:g}"
        under = f" ({floor.condition})" if floor.condition else ""
        level = Level.PASS if best.busbw >= least else Level.FAIL if floor.kind == "floor" else Level.WARN
        yield Finding(level=level, text=text + under, line=best.line, against=held)


def _facts(log: CollectiveLog) -> Iterable[Finding]:
    name = "collective not named" if isinstance(log.collective, Unread) else log.collective
    ranks = f"{log.world_size} ranks" if isinstance(log.world_size, int) else "ranks not known"
    hosts = f" on {len(log.hosts)} host{'s' if len(log.hosts) > 1 else ''}" if log.hosts else ""
    versions = "".join(f", {tool} {version}" for tool, version in log.versions)
    text = f"{log.tool}: {name}, {ranks}{hosts}, {_rows_words(log)} of figures{versions}"
    yield Finding(level=Level.NOTE, text=text, line=log.first_line)


def compare_runs(logs: Sequence[CollectiveLog]) -> list[Finding]:
    """Runs of one collective over as many ranks in one text: one that is far slower at the same size."""
    by_case: dict[tuple[str, int | Unread, int, bool], list[tuple[int, FigureRow]]] = defaultdict(list)
    for number, log in enumerate(logs, start=1):
        for row in log.rows:
            by_case[str(log.collective), log.world_size, row.size_bytes, row.in_place].append((number, row))
    for (_, _, size, _), rows in by_case.items():
        runs = {number for number, _ in rows}
        best = max(rows, key=lambda pair: pair[1].busbw)
        slow = [(number, row) for number, row in rows if row.busbw < _COLLAPSE * best[1].busbw]
        if len(runs) > 1 and slow and size >= _LARGE:
            listed = ", ".join(f"run {number} {row.busbw:g}" for number, row in rows)
            times = " and ".join(f"{best[1].busbw / row.busbw:.1f}" for _, row in slow[:4])
            text = (
                f"runs of the same size differ: {listed} GB/s; {len(slow)} of {len(rows)} are {times} times slower "
                "than the best; on PCIe cards such a factor means that P2P is not in use"
            )
            return [Finding(level=Level.FAIL, text=text, line=slow[0][1].line)]
    return []
