"""The fields of one row to figures, each in the column it is under."""

from __future__ import annotations

import re

from gpuwire_checks.recorded.nccl_agree import Half, Row
from gpuwire_checks.recorded.nccl_columns import Columns
from gpuwire_checks.recorded.nccl_numbers import NOT_CHECKED, TYPE_BYTES, Printed, is_error_field, printed

_INTEGER = re.compile(r"[0-9]{1,19}")
_SIGNED = re.compile(r"-?[0-9]{1,6}")
_WORD = re.compile(r"[a-z][a-z0-9_]{0,15}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SHOWN = 20


class LeftOutError(Exception):
    """Why a row gives no figures; it becomes a doubt."""


def fits(fields: list[str], columns: Columns) -> bool:
    """True when there is a field for every column, and after them nothing but a time stamp or a remark."""
    width = columns.width
    if len(fields) <= width:
        return len(fields) == width
    return _DATE.fullmatch(fields[width]) is not None or not fields[width][0].isalnum()


def place(fields: list[str], columns: Columns, *, line: int, measurements: int, marked: bool) -> Row:
    """A row with its first ``measurements``.

    Raises:
        LeftOutError: a field is not what its column holds.
    """
    lead = dict(zip(columns.lead, fields, strict=False))
    dtype = lead["type"]
    if not _WORD.fullmatch(dtype):
        raise LeftOutError(f"'{dtype[:_SHOWN]}' is no type")
    count = _whole(lead["count"], "count")
    start, width = len(columns.lead), len(columns.half)
    return Row(
        line=line,
        size=_whole(lead["size"], "size") if "size" in lead else count * _bytes(dtype),
        count=count,
        dtype=dtype,
        redop=_redop(lead["redop"]) if "redop" in lead else None,
        root=_root(lead["root"]) if "root" in lead else None,
        halves=tuple(
            _half(fields[start + at * width : start + (at + 1) * width], columns, at, marked=marked)
            for at in range(measurements)
        ),
    )


def _half(fields: list[str], columns: Columns, at: int, *, marked: bool) -> Half:
    named = dict(zip(columns.half, fields, strict=True))
    errors = next((named[name] for name in ("wrong", "error") if name in named), NOT_CHECKED)
    if not is_error_field(errors):
        raise LeftOutError(f"'{errors[:_SHOWN]}' is no count of errors")
    for name in columns.half[3:]:
        if name not in ("wrong", "error"):
            _number(named[name], name)
    time = _number(named["time"], "time")
    if time.value <= 0:
        raise LeftOutError(f"time {named['time'][:_SHOWN]} is not positive")
    return Half(
        in_place=columns.in_place[at],
        time=time,
        algbw=_number(named["algbw"], "algbw"),
        busbw=_number(named["busbw"], "busbw"),
        errors=errors,
        marked=marked,
    )


def rest_agrees(fields: list[str], columns: Columns) -> bool:
    """True when what is there of a second measurement is one; else a field is missing further left.

    The last field may be cut, and is not looked at.
    """
    sure = fields[len(columns.lead) + len(columns.half) : -1]
    if not sure:
        return True
    time, algbw = printed(sure[0]), printed(sure[1]) if len(sure) > 1 else None
    if time is None or time.least <= 0 or (len(sure) > 1 and algbw is None):
        return False
    if algbw is None:
        return True
    amount = int(fields[0]) * 1e-9 / columns.seconds_per_unit
    return amount / time.most <= algbw.most and amount / time.least >= algbw.least


def _whole(word: str, name: str) -> int:
    if not _INTEGER.fullmatch(word):
        raise LeftOutError(f"{name} '{word[:_SHOWN]}' is no whole number")
    return int(word)


def _number(word: str, name: str) -> Printed:
    number = printed(word)
    if number is None:
        raise LeftOutError(f"{name} '{word[:_SHOWN]}' is no number")
    return number


def _redop(word: str) -> str:
    if not _WORD.fullmatch(word):
        raise LeftOutError(f"'{word[:_SHOWN]}' is no reduction")
    return word


def _root(word: str) -> int:
    if not _SIGNED.fullmatch(word):
        raise LeftOutError(f"root '{word[:_SHOWN]}' is no whole number")
    return int(word)


def _bytes(dtype: str) -> int:
    if dtype not in TYPE_BYTES:
        raise LeftOutError(f"'{dtype[:_SHOWN]}' is no type of nccl-tests")
    return TYPE_BYTES[dtype]
