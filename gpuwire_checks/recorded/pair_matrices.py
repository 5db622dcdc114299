"""A grid of figures as a ``PairMatrix``: its diagonal, its sum, and what of it contradicts itself."""

from __future__ import annotations

import math
from typing import Literal

from gpuwire_checks.recorded.matrices import Cell, Grid, numbers_words
from gpuwire_checks.recorded.model import PairMatrix
from gpuwire_checks.topology.model import Doubt, Unread

_ROUNDING = 0.0051
"""Of a figure printed with two decimals."""
_NEAR_LOCAL = 0.7
"""Of the smallest figure within a device. A pair reaches half of it at most (NVLink5 in both directions)."""


def pair_matrix(
    grid: Grid,
    *,
    line: int,
    test: str,
    unit: Literal["GB/s", "us", "ns"],
    diagonal: Literal["blank", "local", "latency"] | None,
    printed_sum: float | Unread = Unread.UNKNOWN,
    sum_tolerance: float = _ROUNDING,
) -> tuple[PairMatrix, list[Doubt]]:
    """The matrix of a grid, and what of it is to be doubted.

    Args:
        line: of its title.
        diagonal: of a matrix between devices: left out by the tool (``blank``), the copy within a device (``local``),
            the latency of such a copy; None where the rows are no devices.
        sum_tolerance: the rounding of each cell.
    """
    rows, doubts = _without_misplaced(grid, diagonal)
    if diagonal is not None and (missing := [number for number in grid.columns if number not in rows]):
        doubts.append(Doubt(line=line, text=f"{test}: no row for {numbers_words(missing)}"))
    doubts += _zeros(grid, rows, off_diagonal=diagonal is not None)
    whole = diagonal is None or len(rows) == len(grid.columns)
    if whole and (doubt := sum_doubt(rows, printed_sum, sum_tolerance)):
        doubts.append(Doubt(line=line, text=f"{test}: {doubt}"))
    cells = tuple(
        tuple(None if isinstance(cell, Unread) or (diagonal and at == number) else cell for at, cell in enumerate(row))
        for number, row in rows.items()
    )
    local = tuple(_figure(row[number]) for number, row in rows.items()) if diagonal else ()
    matrix = PairMatrix(
        line=line,
        test=test,
        unit=unit,
        rows=tuple(rows),
        columns=grid.columns,
        cells=cells,
        local=local,
        printed_sum=printed_sum,
    )
    return matrix, doubts


def cut_line(grid: Grid, matrix: PairMatrix) -> int | None:
    """The line at which the text ends before the matrix does, None where it does not."""
    if grid.ends_at is None or (matrix.rows == matrix.columns and not grid.cut):
        return None
    return grid.ends_at if grid.cut or matrix.local or not matrix.rows else None


def _figure(cell: Cell) -> float | None:
    """The figure within a device; a tool that measures none prints N/A or 0.00."""
    return None if isinstance(cell, Unread) or cell == 0 else cell


def _without_misplaced(grid: Grid, diagonal: str | None) -> tuple[dict[int, tuple[Cell, ...]], list[Doubt]]:
    """The rows without those that have no column, or whose diagonal shows that they stand under another number."""
    if diagonal is None:
        return grid.rows, []
    rows = {number: row for number, row in grid.rows.items() if number < len(row)}
    odd = _misplaced(rows, diagonal)
    doubts = [
        Doubt(line=grid.lines[number], text=f"row {number} has no {diagonal} cell at column {number}: not read")
        for number in grid.rows
        if number in odd or number not in rows
    ]
    return {number: row for number, row in rows.items() if number not in odd}, doubts


def _misplaced(rows: dict[int, tuple[Cell, ...]], diagonal: str) -> set[int]:
    if diagonal == "blank":
        return {number for number, row in rows.items() if not isinstance(row[number], Unread) and row[number] != 0}
    if diagonal == "local":
        least = min((figure for number, row in rows.items() if (figure := _figure(row[number]))), default=math.inf)
        odd = {number for number, row in rows.items() if not _largest_within(row, number, least)}
        return odd if 2 * len(odd) <= len(rows) else set()
    return set()


def _largest_within(row: tuple[Cell, ...], number: int, least: float) -> bool:
    """Whether the diagonal holds the largest cell, or that of other rows: a copy within a device crosses no wire."""
    own = row[number]
    largest = max((cell for cell in row if not isinstance(cell, Unread)), default=0.0)
    return largest < _NEAR_LOCAL * least if isinstance(own, Unread) else own == largest


def _zeros(grid: Grid, rows: dict[int, tuple[Cell, ...]], *, off_diagonal: bool) -> list[Doubt]:
    doubts = []
    for number, row in rows.items():
        zero = [at for at, cell in enumerate(row) if cell == 0.0 and not (off_diagonal and at == number)]
        if zero:
            text = f"row {number} has 0.00 under {numbers_words(zero)}: measured as nothing, or not measured"
            doubts.append(Doubt(line=grid.lines[number], text=text))
    return doubts


def sum_doubt(rows: dict[int, tuple[Cell, ...]], printed: float | Unread, tolerance: float) -> str | None:
    """How a printed sum contradicts the cells; None where it does not, or where not all of them are known."""
    cells = [cell for row in rows.values() for cell in row]
    figures = [cell for cell in cells if not isinstance(cell, Unread)]
    if isinstance(printed, Unread) or not figures or Unread.UNKNOWN in cells:
        return None
    total = sum(figures)
    if abs(total - printed) <= tolerance * (len(figures) + 1):
        return None
    return f"the sum is printed as {printed:.2f}, and the cells here add up to {total:.2f}"
