"""The results in the file that nccl-tests writes with ``-J``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.recorded.json_document import Document
from gpuwire_checks.recorded.nccl_agree import Half, Row
from gpuwire_checks.recorded.nccl_json_devices import is_count
from gpuwire_checks.recorded.nccl_numbers import NOT_CHECKED, Printed
from gpuwire_checks.topology.model import Doubt

MAX_ROWS = 10_000
_RESULT = re.compile(r'"size"\s{0,20}:')
_HALF_DIGIT = 5e-7
_FIGURES = ("time", "alg_bw", "bus_bw")


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a document; a row's ``line`` is its number among them, and ``lines`` has theirs."""

    rows: tuple[Row, ...]
    lines: tuple[int, ...]
    doubts: tuple[Doubt, ...]
    cut_at: int | None


def read_results(document: Document, text: str, *, source: str, first_line: int) -> Results:
    """The results that are whole; the last of a cut document may have its first measurement only.

    Raises:
        TopologyError: more than any run has.
    """
    entries = document.value.get("results", [])
    if len(entries) > MAX_ROWS:
        raise TopologyError(f"{source}:{first_line}: {len(entries)} results; at most {MAX_ROWS} are read")
    lines = _lines(text, document, len(entries), first_line)
    rows: list[Row] = []
    doubts: list[Doubt] = []
    cut_at = None
    for number, entry in enumerate(entries):
        halves, fault = _halves(entry)
        cut = document.cut and number == len(entries) - 1 and "out_of_bounds" not in document.value
        if cut and fault:
            cut_at = lines[number]
        row = _row(entry, number, halves) if halves and (cut or not fault) else None
        if row is not None:
            rows.append(row)
        if row is None or fault:
            told = f"a result that is cut: {fault}" if cut else f"{fault or 'no size, count and type'}: left out"
            doubts.append(Doubt(line=lines[number], text=told))
    return Results(tuple(rows), tuple(lines), tuple(doubts), cut_at)


def _lines(text: str, document: Document, wanted: int, first_line: int) -> list[int]:
    """The line of each result; that of the document where it is all on one line or cannot be told."""
    if "\n" not in text[document.start : document.end]:
        return [first_line] * wanted
    start = text.find('"results"', document.start)
    found = []
    position, line = document.start, first_line
    for match in _RESULT.finditer(text, max(start, document.start), document.end):
        line += text.count("\n", position, match.start())
        position = match.start()
        found.append(line)
    if document.cut and len(found) == wanted - 1:
        found.append(text.count("\n", 0, document.end) + 1)
    return found[:wanted] if len(found) >= wanted else [first_line] * wanted


def _halves(entry: object) -> tuple[tuple[Half, ...], str | None]:
    """The measurements of a result that can be read, and what is wrong with the others."""
    if not isinstance(entry, dict):
        return (), "a result that is no object"
    halves: list[Half] = []
    for name, in_place in (("out_of_place", False), ("in_place", True)):
        if name == "out_of_place" and name in entry and entry[name] is None:
            continue
        half, fault = _half(entry.get(name), in_place=in_place)
        if half is None:
            return tuple(halves), f"{name}: {fault}"
        halves.append(half)
    return tuple(halves), None


def _half(value: object, *, in_place: bool) -> tuple[Half | None, str]:
    if not isinstance(value, dict):
        return None, "missing"
    if "cpu_time" in value:
        return None, "its time is CPU time (-C 1), not that of a call"
    numbers = [value.get(name) for name in _FIGURES]
    wrong = value.get("nwrong", "missing")
    if not all(isinstance(number, int | float) and is_figure(number) for number in numbers):
        return None, f"{', '.join(_FIGURES)} are {', '.join(str(number)[:20] for number in numbers)}"
    if not (wrong is None or (isinstance(wrong, int | float) and is_figure(wrong) and wrong == int(wrong))):
        return None, f"nwrong is {str(wrong)[:20]}"
    time, algbw, busbw = (Printed(float(number), _HALF_DIGIT, 6) for number in numbers if number is not None)
    if time.value <= 0:
        return None, f"time is {time.value:g}"
    return Half(in_place, time, algbw, busbw, NOT_CHECKED if wrong is None else str(int(wrong))), ""


def is_figure(number: float) -> bool:
    """True for a finite number that is not negative, and no truth value."""
    return not isinstance(number, bool) and math.isfinite(number) and 0 <= number < 1e18


def _row(entry: Mapping[str, Any], number: int, halves: tuple[Half, ...]) -> Row | None:
    size, count, dtype = entry.get("size"), entry.get("count"), entry.get("type")
    redop, root = entry.get("redop"), str(entry.get("root")).strip()
    if not is_count(size) or not is_count(count) or not isinstance(dtype, str) or not isinstance(redop, str | None):
        return None
    if not re.fullmatch(r"-?[0-9]{1,6}", root):
        return None
    return Row(number, size, count, dtype, redop or None, int(root), halves)
