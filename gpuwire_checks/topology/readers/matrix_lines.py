"""Pasted text to the lines of one ``nvidia-smi topo -m`` matrix: what a terminal, launcher or forum put around it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from gpuwire_checks.pasted import Line, split_launcher, without_marks
from gpuwire_checks.topology.readers.matrix_cells import canonical_cell, canonical_label, is_path

_TABLE_RULE = re.compile(r"[-|:+=\s]+")
MAX_HEADERS = 16
MAX_LINE = 16_384
"""Characters. A row of 512 devices and a CPU affinity that lists every CPU has under 8 thousand."""
CPU, NUMA, GPU_NUMA = "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
_TAILS = {name.replace(" ", "").casefold(): name for name in (CPU, NUMA, GPU_NUMA)}
_TAIL = re.compile(r"GPU\s*NUMA\s*ID|CPU\s*Affinity|NUMA\s*Affinity", re.IGNORECASE)
_LEGEND = re.compile(r"\s*(?:NIC\s+)?Legend\b", re.IGNORECASE)
_NIC_LEGEND = re.compile(r"\s*(NIC[0-9]{1,4})\s*[:=]\s*([\w.-]{1,64})\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Header:
    """The columns: devices, then the affinity columns (``CPU Affinity`` ...) in the order of the text.

    Attributes:
        unread: words that name neither; the columns after the devices cannot be placed then.
        renamed: words read as another, as ``("GP0", "GPU0")``.
    """

    line: Line
    devices: tuple[str, ...]
    tails: tuple[str, ...]
    unread: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One matrix in a text: its rows by device, and what else stood there.

    Attributes:
        nic_devices: of each label in the NIC legend (``NIC0``), the line and the device (``mlx5_0``).
        again: rows of a device that had one already.
        between: lines among the rows that are none.
        elsewhere: headers of further matrices, which are not read.
        ends: True when a legend follows the last row, so that it is not cut by the end of the text.
        open_line: the last line of the text, where its last word may go on.
        strange_legend: lines of the NIC legend that are not read.
    """

    header: Header
    rows: dict[str, Line]
    nic_devices: dict[str, tuple[int, str]]
    again: tuple[Line, ...]
    between: tuple[Line, ...]
    elsewhere: tuple[Line, ...]
    ends: bool
    open_line: int | None
    strange_legend: tuple[int, ...]


def pasted_lines(text: str) -> list[Line]:
    """The lines that say something and are no longer than a row can be, in order."""
    cleaned = (
        _clean(number, raw)
        for number, raw in enumerate(text.split("\n"), start=1)
        if raw.strip() and len(raw) <= MAX_LINE
    )
    return [line for line in cleaned if line.text.strip() and not _TABLE_RULE.fullmatch(line.text)]


def _clean(number: int, raw: str) -> Line:
    """A line, its launcher's label apart; the cells of a Markdown table by tabs."""
    launcher, text = split_launcher(without_marks(raw))
    if text.count("|") > 1:
        inner = text.strip().removeprefix("|").removesuffix("|")
        text = "\t".join(cell.strip() for cell in inner.split("|")).rstrip()
    return Line(number, launcher, text)


def read_header(line: Line) -> Header | None:
    """The columns this line names, or None when it is not the header of a matrix."""
    tails = tuple(_TAILS["".join(match.split()).casefold()] for match in _TAIL.findall(line.text))
    spaced = re.sub(r"(?<=\d)(?=GPU\d|NIC\d)", " ", _TAIL.sub(" ", line.text))
    words = spaced.split()
    devices = [label for label in takewhile(bool, map(canonical_label, words)) if label]
    count = len(devices)
    if not devices or not devices[0].startswith("GPU") or (len(devices) < 2 and not tails):
        return None
    if any(is_path(canonical_cell(word)) for word in words[count:]):
        return None
    renamed = tuple((word, label) for word in words if (label := canonical_label(word)) is not None and word != label)
    return Header(line, tuple(devices), tails, tuple(words[count:]), renamed)


def blocks(lines: list[Line], *, open_line: int | None = None) -> Iterator[Block]:
    """Each matrix that has a header and rows, ``topo -p2p`` tables among them, within the first ``MAX_HEADERS``."""
    headers = [header for line in lines if (header := read_header(line)) is not None]
    for at, header in enumerate(headers[:MAX_HEADERS]):
        mine = [line for line in lines if line.launcher in ("", header.line.launcher)]
        others = [other.line for other in headers[at + 1 :]]
        end = next((other.number for other in others if other.launcher in ("", header.line.launcher)), None)
        after = [line for line in mine if header.line.number < line.number and (end is None or line.number < end)]
        rows = list(_rows(after, header))
        if rows:
            yield _block(header, rows, after, tuple(others), open_line)


def _rows(lines: list[Line], header: Header) -> Iterator[tuple[str, Line]]:
    """The lines that start with a device, or what looks like one, and have a cell after it."""
    by_name = {device.casefold(): device for device in header.devices}
    for line in lines:
        first, *rest = line.text.split() or [""]
        label = canonical_label(first)
        if label is None or not (label.casefold() in by_name or label.startswith(("GPU", "NIC")) or _only_paths(rest)):
            continue
        if any(is_path(canonical_cell(word)) or is_failure(word) for word in rest):
            yield by_name.get(label.casefold(), label), line


def _only_paths(cells: list[str]) -> bool:
    """True for the cells of a NIC's row, whose name may be misprinted in the header."""
    return "X" in cells and all(is_path(canonical_cell(cell)) for cell in cells)


def is_failure(word: str) -> bool:
    """True for what nvidia-smi prints in place of a value: ``ERR!``, or a GPU that is ``lost``."""
    return word.strip("[].,").upper() in {"ERR!", "LOST"}


def _block(
    header: Header, rows: list[tuple[str, Line]], after: list[Line], others: tuple[Line, ...], open_line: int | None
) -> Block:
    legend = next((line.number for line in after if _LEGEND.match(line.text)), None)
    first: dict[str, Line] = {}
    again = []
    for label, line in rows:
        if first.setdefault(label, line) is not line:
            again.append(line)
    last = rows[-1][1].number
    taken = {line.number for _, line in rows}
    between = tuple(line for line in after if line.number < last and line.number not in taken)
    ends = legend is not None and legend > last
    named, strange = _nic_legend(after, open_line)
    return Block(header, first, named, tuple(again), between, others, ends, open_line, strange)


def _nic_legend(after: list[Line], open_line: int | None) -> tuple[dict[str, tuple[int, str]], tuple[int, ...]]:
    """The device of each label, and the lines that are not read: one that may be cut, two of one label."""
    found = [(match, line.number) for line in after if (match := _NIC_LEGEND.fullmatch(line.text))]
    count = Counter(match[1].upper() for match, _ in found)
    odd = {number for match, number in found if number == open_line or count[match[1].upper()] > 1}
    named = {match[1].upper(): (number, match[2]) for match, number in found if number not in odd}
    return named, tuple(sorted(odd))
