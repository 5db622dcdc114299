"""Rows that are unlike the other rows of their table: by the form of a number, or by their words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuwire_checks.recorded.nccl_agree import Half, Row
from gpuwire_checks.recorded.nccl_columns import REDOPS
from gpuwire_checks.recorded.nccl_numbers import TYPE_BYTES, has_rate_form, has_time_form


def out_of_form(rows: Sequence[Row], *, milliseconds: bool) -> dict[int, str]:
    """By line, the number that has lost a digit or its point: a form that printf does not give.

    Where most numbers of a table have another form, a program other than nccl-tests printed it, and none is held to
    that form.
    """
    found: dict[int, str] = {}
    total = odd = 0
    for row in rows:
        for half in row.halves:
            faults = list(_form_faults(half, milliseconds=milliseconds))
            total, odd = total + 3, odd + len(faults)
            if faults:
                found.setdefault(row.line, f"{faults[0]} is not in the form that the tool prints")
    return found if 2 * odd <= total else {}


def _form_faults(half: Half, *, milliseconds: bool) -> Iterator[str]:
    if not has_time_form(half.time, milliseconds=milliseconds):
        yield f"time {half.time.value:g}"
    if not has_rate_form(half.algbw):
        yield f"algbw {half.algbw.value:g}"
    if not has_rate_form(half.busbw):
        yield f"busbw {half.busbw.value:g}"


def of_other_words(rows: Sequence[Row]) -> dict[int, str]:
    """By line, the type or reduction that no nccl-tests knows, or the root of another collective than most rows have.

    A word that stands in two rows is taken for a new one.
    """
    types = Counter(row.dtype for row in rows)
    redops = Counter(row.redop for row in rows)
    kinds = Counter(map(_kind, rows)).most_common(2)
    split = len(kinds) > 1 and kinds[0][1] == kinds[1][1]
    found = {}
    for row in rows:
        if row.dtype not in TYPE_BYTES and types[row.dtype] < 2:
            found[row.line] = f"'{row.dtype}' is no type of nccl-tests"
        elif row.redop is not None and row.redop not in REDOPS and redops[row.redop] < 2:
            found[row.line] = f"'{row.redop}' is no reduction of nccl-tests"
        elif split or _kind(row) != kinds[0][0]:
            found[row.line] = f"redop {row.redop} with root {row.root}, unlike the other rows"
    return found


def _kind(row: Row) -> tuple[bool, bool]:
    return row.redop in (None, "none"), row.root is None or row.root < 0
