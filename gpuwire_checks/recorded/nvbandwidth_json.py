"""What ``nvbandwidth -j`` prints, whole or cut, to a ``PairLog``.

Source: NVIDIA/nvbandwidth json_output.cpp, versions 0.5 to 0.8.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.recorded.matrices import MAX_DEVICES, Cell, Grid, limited
from gpuwire_checks.recorded.model import Failure, PairLog, PairMatrix
from gpuwire_checks.recorded.nvbandwidth_document import KEY, Document, read_document, unlabelled
from gpuwire_checks.recorded.nvbandwidth_names import (
    between_devices,
    cuda_version,
    failure_of,
    size_doubts,
    title_name,
    unit_of,
)
from gpuwire_checks.recorded.pair_matrices import pair_matrix, sum_doubt
from gpuwire_checks.topology.model import Doubt, Unread

_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?(?:e\+?[0-9]{1,2})?")
_DEVICE = re.compile(r"([0-9]{1,4}):\s+(\S.{0,120}?)(?:\s*\([0-9A-Fa-f:]{5,20}\).*)?")
_DIGITS = 1e-5
"""Of a figure: six significant digits are printed."""


def looks_like_nvbandwidth_json(text: str) -> bool:
    """True when the key ``nvbandwidth`` is there, and one that only its output has."""
    return KEY.search(text) is not None and any(
        key in text for key in ('"testcases"', '"bandwidth_matrix"', '"CUDA Runtime Version"', '"git_version"')
    )


def read_nvbandwidth_json(text: str, *, source: str) -> PairLog:
    """The matrices of all tests that are whole; ``doubts`` has the rest, with the line of the test.

    Raises:
        TopologyError: no such object is there, it has no test and no error, or the text is too large.
    """
    document = read_document(unlabelled(text, source=source), source=source)
    body = document.body
    doubts: list[Doubt] = []
    if document.ended is not None:
        doubts.append(Doubt(line=document.ended, text="the JSON ends here, or is none: what follows is not read"))
    devices = tuple(_devices(body))
    matrices: list[PairMatrix] = []
    for line, case in document.cases:
        for matrix in _matrices(case, line, doubts, devices=len(devices)):
            matrices.append(matrix)
            doubts += size_doubts(matrix, len(devices))
    waived = tuple((line, _text(case, "name")) for line, case in document.cases if _text(case, "status") == "Waived")
    failure = _failure(document, doubts)
    if not (matrices or waived or failure):
        raise TopologyError(
            f"{source}:{document.ended or 1}: no test with a bandwidth_matrix, and no error, in this JSON of "
            f"nvbandwidth{': ' + doubts[0].text if doubts else ''}; paste all that `nvbandwidth -j` prints"
        )
    return PairLog(
        source=source,
        tool="nvbandwidth",
        devices=devices,
        matrices=tuple(matrices),
        connected=(),
        waived=waived,
        ended=document.ended is None,
        failure=failure,
        versions=tuple(_versions(body)),
        doubts=limited(doubts),
        cut_at=document.ended,
    )


def _text(case: object, key: str) -> str:
    value = case.get(key, "") if isinstance(case, dict) else ""
    return value[:300] if isinstance(value, str) else ""


def _devices(body: dict[str, Any]) -> Iterator[tuple[int, str]]:
    listed = body.get("GPU Device list")
    for entry in listed[:MAX_DEVICES] if isinstance(listed, list) else []:
        if isinstance(entry, str) and (match := _DEVICE.fullmatch(entry[:400])):
            yield int(match[1]), match[2]


def _versions(body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key, name in (("version", "nvbandwidth"), ("CUDA Runtime Version", "cuda"), ("Driver Version", "driver")):
        value = body.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool):
            yield name, cuda_version(str(value)) if name == "cuda" else str(value)[:80]


def _failure(document: Document, doubts: list[Doubt]) -> Failure | None:
    first = None
    if isinstance(error := document.body.get("error"), str):
        first = failure_of(None, error)
    if isinstance(warning := document.body.get("warning"), str):
        doubts.append(Doubt(line=None, text=f"the tool warns: {warning[:300]}"))
    for line, case in document.cases:
        name, status = _text(case, "name"), _text(case, "status")
        told = _text(case, "error")
        if status == "Error" or told:
            first = first or failure_of(line, f"{name}: {told or 'ended with an error'}")
        elif status not in ("Passed", "Waived"):
            doubts.append(Doubt(line=line, text=f"test '{name}' has the status '{status}', and no result"))
    return first


def _matrices(case: object, line: int, doubts: list[Doubt], *, devices: int) -> Iterator[PairMatrix]:
    """The matrix of a test; of one in two directions the three that stand in one list."""
    rows = case.get("bandwidth_matrix") if isinstance(case, dict) else None
    if not isinstance(case, dict) or rows is None:
        return
    title = _text(case, "bandwidth_description")
    name = _text(case, "name")[:100] or title_name(title)
    unit = unit_of(title)
    fits = isinstance(rows, list) and 0 < len(rows) <= 3 * MAX_DEVICES
    if unit is None or not fits or not all(isinstance(row, list) and row for row in rows):
        doubts.append(Doubt(line=line, text=f"{name}: no matrix of a known size and unit ('{title[:100]}'): not read"))
        return
    columns = Counter(map(len, rows)).most_common(1)[0][0]
    read = [_cells(row, at, line, name, doubts) for at, row in enumerate(rows)]
    total = _sum(case.get("sum"))
    between = between_devices(name, title, first_row=read[0], rows=len(rows))
    parts = _parts(name, len(rows), columns) if between else (name,)
    fault = _square_fault(rows, columns, parts) if between else _row_fault(read, total, devices=devices)
    if fault is not None:
        doubts.append(Doubt(line=line, text=f"{name}: {fault}, not read"))
        return
    for at, part in enumerate(parts):
        mine = read[at * columns : (at + 1) * columns] if between else read
        placed = {number: tuple(cells) for number, cells in enumerate(mine) if len(cells) == columns}
        matrix, more = pair_matrix(
            Grid(columns=tuple(range(columns)), rows=placed, lines=dict.fromkeys(placed, line)),
            line=line,
            test=part,
            unit=unit,
            diagonal="blank" if between else None,
            printed_sum=total if part == parts[-1] else Unread.UNKNOWN,
            sum_tolerance=_tolerance(mine),
        )
        doubts += more
        if matrix.rows:
            yield matrix


def _tolerance(rows: Sequence[Sequence[Cell]]) -> float:
    figures = [cell for cells in rows for cell in cells if not isinstance(cell, Unread)]
    return _DIGITS * max(figures, default=0.0) + 1e-6


def _parts(name: str, rows: int, columns: int) -> tuple[str, ...]:
    """A test in two directions puts three matrices one under the other (addTestcaseResults is called three times)."""
    if rows != 3 * columns:
        return (name,)
    word = "write" if "_write" in name else "read"
    return f"{name}_{word}1", f"{name}_{word}2", f"{name}_total"


def _square_fault(rows: Sequence[Sequence[object]], columns: int, parts: Sequence[str]) -> str | None:
    """Why the rows between devices, which have no numbers here, cannot be counted; None where they can."""
    if columns > MAX_DEVICES:
        return f"{columns} columns; at most {MAX_DEVICES} are read"
    if len(rows) != len(parts) * columns:
        return f"{len(rows)} rows and {columns} columns: not sure which rows are missing"
    return None


def _row_fault(rows: Sequence[Sequence[Cell]], total: float | Unread, *, devices: int) -> str | None:
    """Why the cells of one row cannot be counted: some are missing by the list of devices, or else by their sum."""
    if len(rows[0]) > MAX_DEVICES:
        return f"{len(rows[0])} columns; at most {MAX_DEVICES} are read"
    if len(rows) > 1 or len(rows[0]) >= devices > 0:
        return None
    if devices:
        return f"{len(rows[0])} cells for {devices} devices: not sure of which"
    doubt = sum_doubt({0: tuple(rows[0])}, total, _tolerance(rows))
    return f"{doubt}: not sure under which devices they stand" if doubt else None


def _cells(row: Sequence[object], at: int, line: int, name: str, doubts: list[Doubt]) -> list[Cell]:
    cells = [_cell(value) for value in row[: MAX_DEVICES + 1]]
    bad = [column for column, cell in enumerate(cells) if cell is Unread.UNKNOWN]
    if bad:
        text = f"{name}: row {at} has no figure under {', '.join(map(str, bad[:8]))}: not read"
        doubts.append(Doubt(line=line, text=text))
    return cells


def _cell(value: object) -> Cell:
    if isinstance(value, str) and value.strip().upper() == "N/A":
        return Unread.NOT_SUPPORTED
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
        return float(value)
    return Unread.UNKNOWN


def _sum(value: object) -> float | Unread:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return Unread.UNKNOWN
