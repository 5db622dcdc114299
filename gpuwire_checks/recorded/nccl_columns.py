"""The columns of an nccl-tests table, from its header or from the shape of a row.

The headers on record, each with its own words (NVIDIA/nccl-tests and ROCm/rccl-tests, ``git log -p src/``):

* NCCL 1's bench: ``N type op time algbw busbw``, time in ms;
* 2017: ``bytes N type [op] [root] time algbw busbw res``, time in ms; broadcast is out-of-place only;
* 2019: ``size count type [redop] [root] time algbw busbw error``; ``error`` is a largest difference, not a count;
* 2022: ``size count type redop root time algbw busbw #wrong``; ``#wrong`` counts elements;
* with options: ``cputime`` for ``time``, ``copybw``, ``i_min i_max i_p99 i_cv%``, ``timestamp``; in-place only (rccl).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

_ALIASES = {"bytes": "size", "n": "count", "op": "redop", "res": "error", "#wrong": "wrong", "cputime": "cputime"}
_LEADS = {
    ("size", "count", "type", "redop", "root"),
    ("size", "count", "type", "redop"),
    ("size", "count", "type", "root"),
    ("size", "count", "type"),
    ("count", "type", "redop"),
}
_PER_ITERATION = ("i_min", "i_max", "i_p99", "i_cv%")
_HALVES = {
    ("time", "algbw", "busbw"),
    *(
        (time, "algbw", "busbw", *copy, errors, *iterations)
        for time in ("time", "cputime")
        for copy in ((), ("copybw",))
        for errors in ("wrong", "error")
        for iterations in ((), _PER_ITERATION)
    ),
}
REDOPS = {"sum", "prod", "max", "min", "avg", "mulsum", "premulsum", "none"}
_ROOT = re.compile(r"-?[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Columns:
    """What each field of a row is.

    Attributes:
        lead: names of the fields before the first figure.
        half: names of the fields of one measurement.
        in_place: of each measurement in a row, whether it is in place.
        errors: what the last field of a measurement counts: ``wrong`` elements, the largest ``error``, or nothing.
        seconds_per_unit: of the time field.
        named: a header says so; else it is the shape of a row that does.
    """

    lead: tuple[str, ...]
    half: tuple[str, ...]
    in_place: tuple[bool, ...]
    errors: Literal["wrong", "error", "any", ""]
    seconds_per_unit: float
    named: bool

    @property
    def width(self) -> int:
        """Fields of a whole row."""
        return len(self.lead) + len(self.half) * len(self.in_place)

    @property
    def tool(self) -> Literal["nccl1", "nccl-tests"]:
        return "nccl1" if self.lead[0] == "count" else "nccl-tests"


def is_header(line: str) -> bool:
    """True for a line that names the figures' columns, whatever its state."""
    return "busbw" in line and "algbw" in line


@lru_cache(maxsize=64)
def header_columns(line: str, *, heading: str) -> Columns | None:
    """The columns a header names; None when its words are not those of any known header.

    Args:
        heading: the line above, which says ``in-place`` or ``out-of-place`` where there is one measurement only.
    """
    words = [word.casefold() for word in line.replace("|", " ").split()]
    if words and words[0].startswith("#") and words[0] != "#wrong":
        words[0] = words[0].lstrip("#")
    old = "bytes" in words or "n" in words
    names = [_ALIASES.get(word, word) for word in words if word and word != "timestamp"]
    start = next((at for at, name in enumerate(names) if name in ("time", "cputime")), len(names))
    lead, rest = tuple(names[:start]), tuple(names[start:])
    halves = 2 if rest[: len(rest) // 2] == rest[len(rest) // 2 :] else 1
    half = rest[: len(rest) // halves]
    if lead not in _LEADS or half not in _HALVES or (len(half) == 3) != (lead[0] == "count"):
        return None
    first = (False,) if old or "out-of-place" in heading else (True,)
    return Columns(
        lead=lead,
        half=half,
        in_place=(False, True) if halves == 2 else first,
        errors="wrong" if "wrong" in half else "error" if "error" in half else "",
        seconds_per_unit=1e-3 if old else 1e-6,
        named=True,
    )


def shape_columns(fields: list[str]) -> Columns | None:
    """The columns of a row whose header is lost, where its number of fields and its words leave one reading."""
    lead: tuple[str, ...]
    if len(fields) == 13 and fields[3] in REDOPS and _ROOT.fullmatch(fields[4]):
        lead = ("size", "count", "type", "redop", "root")
    elif len(fields) == 12 and fields[3] in REDOPS:
        lead = ("size", "count", "type", "redop")
    elif len(fields) == 12 and fields[3].isascii() and fields[3].isdigit():
        lead = ("size", "count", "type", "root")
    elif len(fields) == 11:
        lead = ("size", "count", "type")
    else:
        return None
    half = ("time", "algbw", "busbw", "wrong")
    return Columns(lead=lead, half=half, in_place=(False, True), errors="any", seconds_per_unit=1e-6, named=False)
