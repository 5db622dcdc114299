"""A line to the fields of a row, and what another writer put after them."""

from __future__ import annotations

import re

from gpuwire_checks.recorded.nccl_columns import Columns

_INTEGER = re.compile(r"[0-9]{1,19}")
_NUMERIC = re.compile(r"-?[0-9][0-9.]{0,20}(?:e[+-]?[0-9]{1,3})?|N/A|-?nan|inf")
_WORD = re.compile(r"[a-z][a-z0-9_]{0,15}")
_GLUED = re.compile(r"(-?[0-9]{1,9})[A-Za-z][\w.-]{0,254}:(?:[0-9]|$)")
_LEAD_AT_MOST = 5


def row_fields(line: str) -> tuple[list[str], str]:
    """The fields at the start of a line, as far as they can be those of a row, and the rest of the line.

    nccl-tests prints a row in three parts; what NCCL prints meanwhile may stand right after one of them:
    ``8  2  float  sum  -1node7:99:99 [0] NCCL INFO ...``.
    """
    words = line.replace("|", " ").split()
    fields: list[str] = []
    for at, word in enumerate(words):
        if is_field(word) or (0 < at < _LEAD_AT_MOST and _WORD.fullmatch(word)):
            fields.append(word)
            continue
        glued = _GLUED.match(word)
        if glued:
            fields.append(glued[1])
            words[at] = word[len(glued[1]) :]
        return fields, " ".join(words[at:])
    return fields, ""


def is_field(word: str) -> bool:
    """True for a number, whole or not, and for what is printed in place of one."""
    return (word[0].isdigit() or word[0] in "-." or word in ("N/A", "nan", "inf")) and ":" not in word


def is_numeric(word: str) -> bool:
    """True for a number, and for what is printed in place of one."""
    return _NUMERIC.fullmatch(word) is not None


def starts_row(fields: list[str], columns: Columns | None) -> bool:
    """True when a row begins with these fields: a size, a count and a type; in NCCL 1's bench there is no size."""
    at = 1 if columns is not None and columns.lead[0] == "count" else 2
    return len(fields) > at and all(map(_INTEGER.fullmatch, fields[:at])) and bool(_WORD.fullmatch(fields[at]))
