"""How many elements of a result were wrong, from what each version of nccl-tests prints of it."""

from __future__ import annotations

import math

from gpuwire_checks.recorded.nccl_agree import Half, Row
from gpuwire_checks.recorded.nccl_numbers import NOT_CHECKED, count_of, is_plain_count
from gpuwire_checks.topology.model import Unread

_BOUNDS = {"half": 1e-2, "float": 1e-5, "double": 1e-12}
"""Of the largest difference, times the number of ranks less one (``DeltaMaxValue`` in src/common.cu before 2022).
Integers have none."""
_MANY_RANKS = 4096
_ROUNDED = 2.0
"""One digit is printed: 2e-05 may be 1.5e-05."""


def wrong_elements(
    row: Row, half: Half, *, counts: bool, world_size: int | None, printed_total: int | None
) -> tuple[int | Unread, str | None]:
    """Elements out of bounds, and what is doubtful about that.

    Before 2022 the last column is the largest difference and no count: 0 says that nothing is wrong, and so does the
    tool's own total of 0; any other leaves the number *unknown*.

    Args:
        counts: the column is ``#wrong``.
        printed_total: as the tool prints it at the end; it counts results with a wrong element, not elements.
    """
    if half.errors == NOT_CHECKED:
        return Unread.UNKNOWN, None
    if counts or is_plain_count(half.errors):
        return _counted(half.errors, printed_total)
    if half.marked:
        return Unread.UNKNOWN, f"the tool marks the error {half.errors} as beyond its bound: results are wrong"
    return _measured(row.dtype, half.errors, world_size or _MANY_RANKS, printed_total)


def _counted(word: str, printed_total: int | None) -> tuple[int | Unread, str | None]:
    number = count_of(word)
    if number is None:
        return (0, None) if not float(word) else (Unread.UNKNOWN, f"'{word}' is no count of wrong elements")
    if number and printed_total == 0:
        return Unread.UNKNOWN, f"{word} wrong elements, and the tool counts none out of bounds at the end"
    return number, None


def _measured(dtype: str, word: str, world_size: int, printed_total: int | None) -> tuple[int | Unread, str | None]:
    difference = float(word)
    if difference == 0 or (printed_total == 0 and not math.isnan(difference)):
        return 0, None
    if difference <= _BOUNDS.get(dtype, 0.0) * (world_size - 1) * _ROUNDED:
        return Unread.UNKNOWN, None
    return Unread.UNKNOWN, f"the largest error {word} is beyond what rounding gives in {dtype}"
