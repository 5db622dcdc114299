"""The text that ``nvbandwidth`` prints, as people paste it, to a ``PairLog``.

Source: NVIDIA/nvbandwidth output.cpp, inline_common.h and testcases_ce.cpp, versions 0.2 to 0.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import Line
from gpuwire_checks.recorded.matrices import (
    MAX_MATRICES,
    Pasted,
    header_numbers,
    limited,
    pasted_lines,
    read_grid,
)
from gpuwire_checks.recorded.model import Failure, PairLog, PairMatrix
from gpuwire_checks.recorded.nvbandwidth_names import (
    between_devices,
    cuda_version,
    direction_name,
    failure_of,
    size_doubts,
    title_name,
    unit_of,
)
from gpuwire_checks.recorded.pair_matrices import cut_line, pair_matrix
from gpuwire_checks.topology.model import Doubt, Unread

_SIGN = re.compile(r"(?:CPU|GPU)\((?:row|column)\)|nvbandwidth Version: ")
_TITLE = re.compile(
    r"^\s*(?:memcpy (?:CE|SM|local)|memory latency|multicast SM|Device to Device Latency|Bisect benchmarking)\b"
)
_OWN_WORDS = ("Waived:", "NOTE:", "ERROR:", "Error:", "NVML_ERROR:")
_ERROR = re.compile(
    r"(?:ERROR|Error|NVML_ERROR):|\[(?:CUDA_ERROR|cudaError)|ASSERT in expression|Invalid value when checking"
)
_NOT_RUN = re.compile(r"not found|out of bound|Invalid Arguments")
_DEVICE = re.compile(r"Device\s+([0-9]{1,4}):\s+(\S.{0,120})")
_PROCESS = re.compile(r"Process\s+([0-9]{1,4})\s+\([^()]{1,255}\):\s+device\s+[0-9]{1,4}:\s+(\S.{0,120})")
_PCI = re.compile(r"\s*\([0-9A-Fa-f]{1,8}(?::[0-9A-Fa-f]{1,8}){1,2}\).*")
_FIGURE = re.compile(r"[0-9]{1,9}\.[0-9]{2}")
_VERSIONS = {
    "nvbandwidth Version:": "nvbandwidth",
    "CUDA Runtime Version:": "cuda",
    "CUDA Driver Version:": "cuda driver",
    "Driver Version:": "driver",
}
_ENDS = ("Running", "SUM", "&&&&", "Waived:", "Waiving", "NOTE:")
"""First words of lines that no matrix goes beyond."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A title, the lines up to the next one, and what the lines around say of its name."""

    title: Line
    running: str
    body: tuple[Line, ...]
    sum_name: str
    printed_sum: float | Unread


def looks_like_nvbandwidth_text(text: str) -> bool:
    """True when a line names its rows or columns as nvbandwidth does, and is not within JSON."""
    found = _SIGN.search(text)
    if found is None:
        return False
    return '"' not in text[max(0, found.start() - 200, text.rfind("\n", 0, found.start()) + 1) : found.start()]


def read_nvbandwidth_text(text: str, *, source: str) -> PairLog:
    """The matrices whose cells can surely be placed; ``doubts`` has the rest, line by line.

    Raises:
        TopologyError: no matrix, no waived test and no error is there, or the text is too large.
    """
    pasted = pasted_lines(text, source=source, tool="nvbandwidth", title=_TITLE, own_words=_OWN_WORDS)
    lines, doubts = _of_one_run(pasted)
    devices = _devices(lines)
    matrices: list[PairMatrix] = []
    cut_at = lines[-1].number if lines and (_is_title(lines[-1]) or lines[-1].text.split()[0] == "Running") else None
    for block in _blocks(lines, doubts):
        matrix, cut = _matrix(block, doubts, last=pasted.last)
        cut_at = cut or cut_at
        if matrix is not None:
            matrices.append(matrix)
            doubts += size_doubts(matrix, len(devices))
    failure = _failure(lines, doubts)
    waived = tuple(_waived(lines))
    if not (matrices or failure or waived):
        raise TopologyError(f"{source}:{_first_line(doubts)}: {_nothing_words(doubts)}")
    return PairLog(
        source=source,
        tool="nvbandwidth",
        devices=devices,
        matrices=tuple(matrices),
        connected=(),
        waived=waived,
        ended=_ended(lines, matrices),
        failure=failure,
        versions=tuple(_versions(lines)),
        doubts=limited(doubts),
        cut_at=cut_at,
    )


def _first_line(doubts: Sequence[Doubt]) -> int:
    return next((doubt.line for doubt in doubts if doubt.line is not None), 1)


def _nothing_words(doubts: Sequence[Doubt]) -> str:
    why = f" ({doubts[0].text})" if doubts else ""
    return (
        f"no matrix of nvbandwidth that can be read{why}: a title such as 'memcpy CE GPU(row) -> GPU(column) "
        "bandwidth (GB/s)', a header of device numbers and rows under it; paste all three"
    )


def _of_one_run(pasted: Pasted) -> tuple[tuple[Line, ...], list[Doubt]]:
    """The lines up to a second run in the same text."""
    doubts = list(pasted.doubts)
    begun = False
    for at, line in enumerate(pasted.lines):
        begun = begun or _is_title(line)
        if begun and line.text.lstrip().startswith("nvbandwidth Version:"):
            doubts.append(Doubt(line=line.number, text="a second run of nvbandwidth begins here: not read"))
            return pasted.lines[:at], doubts
    return pasted.lines, doubts


def _is_title(line: Line) -> bool:
    return _TITLE.search(line.text) is not None


def _blocks(lines: Sequence[Line], doubts: list[Doubt]) -> Iterator[_Block]:
    titles = [at for at, line in enumerate(lines) if _is_title(line)]
    if len(titles) > MAX_MATRICES:
        text = f"more than {MAX_MATRICES} matrices: not read from here on"
        doubts.append(Doubt(line=lines[titles[MAX_MATRICES]].number, text=text))
        lines = lines[: titles[MAX_MATRICES]]
        titles = titles[:MAX_MATRICES]
    names = _running_names(lines, titles, doubts)
    for at, following in pairwise([*titles, len(lines)]):
        within = range(at + 1, following)
        end = next((index for index in within if lines[index].text.split()[0] in _ENDS), following)
        name, value = _sum(lines[end]) if end < following else ("", Unread.UNKNOWN)
        yield _Block(lines[at], names[at], tuple(lines[at + 1 : end]), name, value)


def _running_names(lines: Sequence[Line], titles: Sequence[int], doubts: list[Doubt]) -> dict[int, str]:
    """Of each title the test that it belongs to; only tests in two directions print more than one matrix."""
    names = dict.fromkeys(titles, "")
    open_line, name, used = None, "", True
    for at, line in enumerate(lines):
        if line.text.split()[0] == "Running":
            _doubt_unused(open_line, used, doubts)
            open_line, name, used = line, line.text.split(None, 1)[-1].rstrip(".")[:100], False
        elif at in names:
            names[at] = name
            used = True
            if not ("bidirectional" in name and "device_to_device" in name):
                name = ""
    _doubt_unused(open_line, used, doubts)
    return names


def _doubt_unused(line: Line | None, used: bool, doubts: list[Doubt]) -> None:
    if line is not None and not used:
        doubts.append(Doubt(line=line.number, text=f"no matrix under '{line.text.strip()[:100]}'"))


def _sum(line: Line) -> tuple[str, float | Unread]:
    """Name and value of a SUM line, or of the PERF line that ``--perfFormatter`` prints for it."""
    found = line.text.split()
    found = found[1:] if found[0] == "SUM" else found[2:] if found[:2] == ["&&&&", "PERF"] else []
    if len(found) < 2:
        return "", Unread.UNKNOWN
    return found[0][:100], float(found[1]) if _FIGURE.fullmatch(found[1]) else Unread.UNKNOWN


def _matrix(block: _Block, doubts: list[Doubt], *, last: int) -> tuple[PairMatrix | None, int | None]:
    """The matrix of a block, and the line at which the text ends within it."""
    title = block.title.text.strip()
    unit = unit_of(title)
    header = next((at for at, line in enumerate(block.body) if header_numbers(line.text)), None)
    if unit is None or header is None:
        what = "known unit in" if unit is None else "header of device numbers under"
        doubts.append(Doubt(line=block.title.number, text=f"no {what} '{title[:100]}': not read"))
        return None, None
    grid = read_grid(block.body[header], block.body[header + 1 :], last=last)
    doubts += grid.doubts
    test = _name(block, doubts)
    between = between_devices(test, title, first_row=grid.rows.get(0), rows=len(grid.rows))
    matrix, more = pair_matrix(
        grid,
        line=block.title.number,
        test=test,
        unit=unit,
        diagonal="blank" if between else None,
        printed_sum=block.printed_sum,
    )
    doubts += more
    if not matrix.rows:
        doubts.append(Doubt(line=block.title.number, text=f"{test}: no row that can be read under its header"))
    return (matrix if matrix.rows else None), cut_line(grid, matrix)


def _name(block: _Block, doubts: list[Doubt]) -> str:
    """The test's name: from the SUM under the matrix, else from the line above it, else the title without its unit."""
    above = direction_name(block.running, block.title.text)
    if above and block.sum_name and block.sum_name not in (above, block.running):
        text = f"the matrix is of '{above}' by the line above it and of '{block.sum_name}' by its SUM"
        doubts.append(Doubt(line=block.title.number, text=text))
    return block.sum_name or above or title_name(block.title.text)


def _devices(lines: Sequence[Line]) -> tuple[tuple[int, str], ...]:
    found: dict[int, str] = {}
    for line in lines:
        match = _DEVICE.match(line.text.strip()) or _PROCESS.match(line.text.strip())
        if match:
            found.setdefault(int(match[1]), _PCI.sub("", match[2]).strip())
    return tuple(sorted(found.items()))


def _waived(lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
    for line in lines:
        first, *rest = line.text.split()
        if first in ("Waived:", "Waiving"):
            yield line.number, " ".join(rest).rstrip(".")[:100]


def _versions(lines: Sequence[Line]) -> Iterator[tuple[str, str]]:
    found: dict[str, str] = {}
    for line in lines:
        text = line.text.strip()
        name = next((name for label, name in _VERSIONS.items() if text.startswith(label)), None)
        if name is not None:
            found.setdefault(name, text.rsplit(None, 1)[-1][:80])
    return ((name, cuda_version(value) if "cuda" in name else value) for name, value in found.items())


def _failure(lines: Sequence[Line], doubts: list[Doubt]) -> Failure | None:
    """The first error of the run; a test that was asked for and is not there is only a doubt."""
    first = None
    for line in lines:
        text = line.text.strip()
        if not _ERROR.match(text):
            continue
        if _NOT_RUN.search(text) or first is not None:
            doubts.append(Doubt(line=line.number, text=text[:200]))
        else:
            first = failure_of(line.number, text)
    return first


def _ended(lines: Sequence[Line], matrices: Sequence[PairMatrix]) -> bool:
    """Since version 0.5 a note concludes the output; the older one stands at its beginning."""
    begin = matrices[-1].line if matrices else 0
    return any(line.number > begin and "NOTE: The reported results" in line.text for line in lines)
