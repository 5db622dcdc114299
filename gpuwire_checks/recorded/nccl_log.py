"""One run's lines to a ``CollectiveLog``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from gpuwire_checks.recorded.model import CollectiveLog, FigureRow
from gpuwire_checks.recorded.nccl_agree import Agreement, Half, Row
from gpuwire_checks.recorded.nccl_errors import wrong_elements
from gpuwire_checks.recorded.nccl_failures import main_failure
from gpuwire_checks.recorded.nccl_names import (
    Printout,
    collective_of_source,
    factors_of,
    inferred_collective,
    same_count,
)
from gpuwire_checks.recorded.nccl_numbers import NOT_CHECKED
from gpuwire_checks.recorded.nccl_ranks import RankList, is_amd, rank_list
from gpuwire_checks.recorded.nccl_rows import Known, Table, read_table
from gpuwire_checks.recorded.nccl_run import MAX_DOUBTS, Run
from gpuwire_checks.topology.model import Doubt, Unread


def collective_log(run: Run, *, source: str, open_line: int | None) -> CollectiveLog:
    """A run as a whole.

    Args:
        open_line: the last line of the text where no newline ends it: its last word may be cut.
    """
    ranks = rank_list(
        run.ranks,
        broken=run.broken_ranks,
        followed=run.followed,
        per_process=run.options.ranks_per_process if run.options else None,
    )
    named = _named(run)
    table = read_table(run.table, _known(run, named, ranks, open_line))
    collective, inferred = _collective(run, named, ranks, table)
    figures = list(_figures(run, table, ranks))
    doubts = [
        *run.doubts,
        *ranks.doubts,
        *table.doubts,
        *(doubt for _, doubt in figures if doubt is not None),
        *_contradictions(run, table),
    ]
    return CollectiveLog(
        source=source,
        tool=_tool(run, ranks, table),
        first_line=run.first_line,
        collective=collective,
        ranks=ranks.ranks,
        world_size=ranks.world_size,
        highest_rank=ranks.highest_rank,
        hosts=ranks.hosts,
        rows=tuple(row for row, _ in figures),
        validated=_validated(run, table),
        printed_average=Unread.UNKNOWN if run.average is None else run.average,
        printed_out_of_bounds=Unread.UNKNOWN if run.out_of_bounds is None else run.out_of_bounds,
        ended=run.ended,
        cut_at=table.cut_at,
        failure=main_failure(run.troubles, ended=run.ended),
        versions=tuple(run.versions.items()),
        doubts=bounded(doubts),
        inferred=inferred,
    )


def bounded(doubts: list[Doubt]) -> tuple[Doubt, ...]:
    """Doubts in the order of their lines; past a limit, how many more there are."""
    ordered = sorted(doubts, key=lambda doubt: doubt.line or 0)
    if len(ordered) <= MAX_DOUBTS:
        return tuple(ordered)
    left = len(ordered) - MAX_DOUBTS
    return (*ordered[:MAX_DOUBTS], Doubt(line=None, text=f"{left} more doubtful lines, which are not listed"))


def _known(run: Run, named: str | None, ranks: RankList, open_line: int | None) -> Known:
    return Known(
        same_count=same_count(named),
        factors=factors_of(named, ranks.world_size),
        ended=run.ended,
        open_line=open_line,
    )


def _named(run: Run) -> str | None:
    """The collective that the text names: the program's own word before that of a command line or an error."""
    for names in ([one for one in run.names if one.stated], run.names):
        if names:
            return names[-1].collective
    where = (trouble.failure.where for trouble in run.troubles if isinstance(trouble.failure.where, str))
    return next((found for file in where if (found := collective_of_source(file)) is not None), None)


def _collective(run: Run, named: str | None, ranks: RankList, table: Table) -> tuple[str | Unread, tuple[Doubt, ...]]:
    columns = table.columns
    if named is not None or table.agreement is None or columns is None:
        return named or Unread.UNKNOWN, ()
    return infer(
        table.rows,
        table.agreement,
        line=run.table.header_line,
        world_size=ranks.world_size,
        old=columns.named and columns.errors == "error",
        empty_redop=table.empty_redop,
    )


def infer(
    rows: Sequence[Row],
    common: Agreement,
    *,
    line: int | None,
    world_size: int | Unread,
    old: bool = False,
    empty_redop: bool = False,
) -> tuple[str | Unread, tuple[Doubt, ...]]:
    """The collective that prints such rows, with the reason; *unknown* where it is not the only one."""
    if common.factor is None or common.ranks_per_count is None or not rows:
        return Unread.UNKNOWN, ()
    shown = Printout(
        reduces=rows[0].redop not in (None, "none", ""),
        rooted=rows[0].root is not None and rows[0].root >= 0,
        old=old,
        empty_redop=empty_redop,
        ranks_per_count=common.ranks_per_count,
        moved_less=common.moved_less,
        factor=common.factor,
        world_size=world_size if isinstance(world_size, int) else None,
    )
    found = inferred_collective(shown)
    if found is None:
        return Unread.UNKNOWN, ()
    told = (
        f"the collective is not named; {found} is the only one that prints {'a' if shown.reduces else 'no'} reduction, "
        f"{'a' if shown.rooted else 'no'} root and busbw/algbw of {sum(shown.factor) / 2:.3f}"
    )
    return found, (Doubt(line=line or rows[0].line, text=told),)


def _tool(run: Run, ranks: RankList, table: Table) -> Literal["nccl-tests", "rccl-tests", "nccl1"]:
    if table.columns is not None and table.columns.tool == "nccl1":
        return "nccl1"
    amd = run.rccl or (run.options is not None and run.options.rccl) or is_amd(ranks.ranks)
    return "rccl-tests" if amd else "nccl-tests"


def _validated(run: Run, table: Table) -> bool | Unread:
    """Whether results were checked: the rows say it; where there are none, only that it was off can be known."""
    errors = [half.errors for row in table.rows for half in row.halves]
    if errors and table.columns is not None and table.columns.errors:
        return any(error != NOT_CHECKED for error in errors)
    if run.options is not None and run.options.validation == 0:
        return False
    return Unread.UNKNOWN


def _contradictions(run: Run, table: Table) -> Iterator[Doubt]:
    validation = run.options.validation if run.options else None
    if table.rows and validation is not None and (validation > 0) != _validated(run, table):
        told = f"validation: {validation} in the options, and the rows say otherwise"
        yield Doubt(line=table.rows[0].line, text=told)
    stated = [one for one in run.names if one.stated]
    if len({one.collective for one in stated}) > 1:
        told = f"{stated[-1].collective} here, and {stated[0].collective} in line {stated[0].line}"
        yield Doubt(line=stated[-1].line, text=told)


def _figures(run: Run, table: Table, ranks: RankList) -> Iterator[tuple[FigureRow, Doubt | None]]:
    if table.columns is None:
        return
    world_size = ranks.world_size if isinstance(ranks.world_size, int) else None
    for row in table.rows:
        for half in row.halves:
            wrong, told = wrong_elements(
                row,
                half,
                counts=table.columns.errors == "wrong",
                world_size=world_size,
                printed_total=run.out_of_bounds,
            )
            figure = figure_row(row, half, wrong, seconds_per_unit=table.columns.seconds_per_unit)
            yield figure, Doubt(line=row.line, text=told) if told else None


def figure_row(row: Row, half: Half, wrong: int | Unread, *, seconds_per_unit: float) -> FigureRow:
    """One measurement with what its row says of it."""
    return FigureRow(
        line=row.line,
        size_bytes=row.size,
        count=row.count,
        dtype=row.dtype,
        redop=None if row.redop in ("none", "") else row.redop,
        root=None if row.root is None or row.root < 0 else row.root,
        in_place=half.in_place,
        seconds=half.time.value * seconds_per_unit,
        algbw=half.algbw.value,
        busbw=half.busbw.value,
        wrong=wrong,
    )
