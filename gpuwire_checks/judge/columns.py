"""Rows of words in columns, as plain text."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = "  "


def aligned(rows: Sequence[Sequence[str]], *, left: int) -> list[str]:
    """Lines of rows of equal length: the first ``left`` columns to the left, the others, figures, to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        _GAP.join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
