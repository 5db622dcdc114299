"""The text of ``p2pBandwidthLatencyTest`` (CUDA samples), as people paste it, to a ``PairLog``.

Source: NVIDIA/cuda-samples p2pBandwidthLatencyTest.cu.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import Line
from gpuwire_checks.recorded.matrices import (
    Pasted,
    header_numbers,
    limited,
    pasted_lines,
    read_grid,
    words,
)
from gpuwire_checks.recorded.model import Failure, PairLog, PairMatrix
from gpuwire_checks.recorded.pair_matrices import cut_line, pair_matrix
from gpuwire_checks.topology.model import Doubt, Unread

_TITLE = re.compile(
    r"((?:(?:Uni|Bi)directional )?P2P=(?:Disabled|Enabled) (Bandwidth|Latency)(?: \(P2P (?:Writes|Reads)\))?)"
    r" Matrix \((GB/s|us)\)"
)
_ANY_TITLE = re.compile(r"P2P=(?:Disabled|Enabled)\b.{1,80}Matrix|P2P\s{1,16}Connectivity\s{1,16}Matrix")
_BEGIN = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"
_END = "NOTE: The CUDA Samples are not meant"
_OWN_WORDS = ("Device:", "NOTE:")
_DEVICE = re.compile(r"Device:\s*([0-9]{1,4}),\s*(\S.{0,120}?),\s*pciBusID")
_ACCESS = re.compile(r"Device=([0-9]{1,4})\s+(CAN|CANNOT)\s+Access\s+Peer\s+Device=([0-9]{1,4})")
_FAILURE = re.compile(r"Cuda failure\s+(\S{1,200}?:[0-9]{1,6})?|CUDA error at\b")
_LOST = re.compile(r"GPU is lost|fallen off the bus", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Block:
    """A title and the lines up to the next one."""

    title: Line
    body: tuple[Line, ...]


def looks_like_p2p_bandwidth(text: str) -> bool:
    """True when a line is the title of one of its matrices."""
    return _ANY_TITLE.search(text) is not None


def read_p2p_bandwidth(text: str, *, source: str) -> PairLog:
    """The matrices whose cells can surely be placed; ``doubts`` has the rest, line by line.

    The latency of each block is two matrices, as the GPU and as the CPU measured it.

    Raises:
        TopologyError: no matrix and no error is there, or the text is too large.
    """
    pasted = pasted_lines(text, source=source, tool="p2pBandwidthLatencyTest", title=_ANY_TITLE, own_words=_OWN_WORDS)
    lines, doubts = _of_one_run(pasted)
    blocks = list(_blocks(lines))
    devices = tuple(
        sorted({int(m[1]): " ".join(m[2].split()) for line in lines if (m := _DEVICE.search(line.text))}.items())
    )
    read = [pair for block in blocks for pair in _matrices(block, doubts, last=pasted.last)]
    matrices = [matrix for matrix, _ in read if matrix.rows]
    for matrix in matrices:
        if devices and len(matrix.columns) != len(devices):
            text = f"{matrix.test}: {len(matrix.columns)} columns, and {len(devices)} devices are listed"
            doubts.append(Doubt(line=matrix.line, text=text))
    connected = _connected(lines, blocks, doubts, last=pasted.last)
    failure = next(_failures(lines), None)
    if not (matrices or connected or failure):
        raise TopologyError(f"{source}:{doubts[0].line or 1 if doubts else 1}: {_nothing_words(doubts)}")
    return PairLog(
        source=source,
        tool="p2pBandwidthLatencyTest",
        devices=devices,
        matrices=tuple(matrices),
        connected=connected,
        waived=(),
        ended=bool(blocks) and any(_END in line.text for line in blocks[-1].body),
        failure=failure,
        versions=(),
        doubts=limited(doubts),
        cut_at=next((cut for _, cut in read if cut is not None), None),
    )


def _nothing_words(doubts: Sequence[Doubt]) -> str:
    why = f" ({doubts[0].text})" if doubts else ""
    return (
        f"no matrix of p2pBandwidthLatencyTest that can be read{why}: a title such as 'Unidirectional P2P=Enabled "
        "Bandwidth (P2P Writes) Matrix (GB/s)', a header 'D\\D 0 1' and rows under it; paste all three"
    )


def _of_one_run(pasted: Pasted) -> tuple[tuple[Line, ...], list[Doubt]]:
    """The lines up to a title that was there before, as when the test was run twice (with ``--sm_copy``)."""
    doubts = list(pasted.doubts)
    seen: set[str] = set()
    for at, line in enumerate(pasted.lines):
        title = _ANY_TITLE.search(line.text)
        key = " ".join(line.text.split()) if title else _BEGIN if _BEGIN in line.text else None
        if key is not None and (key in seen or (key == _BEGIN and seen)):
            doubts.append(Doubt(line=line.number, text=f"'{key[:80]}' again: of a second run, not read from here on"))
            return pasted.lines[:at], doubts
        if key is not None:
            seen.add(key)
    return pasted.lines, doubts


def _blocks(lines: Sequence[Line]) -> Iterator[_Block]:
    titles = [at for at, line in enumerate(lines) if _ANY_TITLE.search(line.text)]
    for at, following in pairwise([*titles, len(lines)]):
        yield _Block(lines[at], tuple(lines[at + 1 : following]))


def _matrices(block: _Block, doubts: list[Doubt], *, last: int) -> Iterator[tuple[PairMatrix, int | None]]:
    """Each matrix of a block, and the line at which the text ends within it."""
    title = _TITLE.search(" ".join(block.title.text.split()))
    if title is None:
        if "Connectivity" not in block.title.text:
            text = f"no title that is known: '{block.title.text.strip()[:100]}': not read"
            doubts.append(Doubt(line=block.title.number, text=text))
        return
    headers = [at for at, line in enumerate(block.body) if header_numbers(line.text)]
    if not headers:
        text = f"no header of device numbers under '{title[0][:100]}': not read"
        doubts.append(Doubt(line=block.title.number, text=text))
    seen: set[str] = set()
    for at, following in pairwise([*headers, len(block.body)]):
        header = block.body[at]
        clock = _clock(header)
        if clock in seen or (clock and title[2] == "Bandwidth") or (seen and not clock):
            doubts.append(Doubt(line=header.number, text="a header whose title is not there: not read"))
            continue
        seen.add(clock)
        grid = read_grid(header, block.body[at + 1 : following], last=last)
        doubts += grid.doubts
        diagonal: Literal["local", "latency"] = "local" if title[2] == "Bandwidth" else "latency"
        matrix, more = pair_matrix(
            grid,
            line=block.title.number if at == headers[0] else header.number,
            test=f"{title[1]} {clock}".rstrip(),
            unit="GB/s" if title[3] == "GB/s" else "us",
            diagonal=diagonal,
        )
        doubts += more
        yield matrix, cut_line(grid, matrix)


def _clock(header: Line) -> str:
    """``GPU`` or ``CPU``: which of them measured the latencies under this header; empty for a bandwidth."""
    corner = words(header.text)[0].upper()
    return corner if corner in ("GPU", "CPU") else ""


def _connected(
    lines: Sequence[Line], blocks: Sequence[_Block], doubts: list[Doubt], *, last: int
) -> tuple[tuple[int, int, bool], ...]:
    """Whether P2P is possible, of each ordered pair of which matrix and list do not contradict each other."""
    found: dict[tuple[int, int], bool] = {}
    for line in lines:
        if match := _ACCESS.search(line.text):
            found[int(match[1]), int(match[3])] = match[2] == "CAN"
    for block in blocks:
        if "Connectivity" in block.title.text:
            _add_matrix(found, block, doubts, last=last)
    return tuple((a, b, can) for (a, b), can in sorted(found.items()) if a != b)


def _add_matrix(found: dict[tuple[int, int], bool], block: _Block, doubts: list[Doubt], *, last: int) -> None:
    header = next((at for at, line in enumerate(block.body) if header_numbers(line.text)), None)
    if header is None:
        doubts.append(Doubt(line=block.title.number, text="no header under 'P2P Connectivity Matrix': not read"))
        return
    grid = read_grid(block.body[header], block.body[header + 1 :], last=last, bits=True)
    doubts += grid.doubts
    for a, row in grid.rows.items():
        for b, cell in enumerate(row):
            if isinstance(cell, Unread) or a == b:
                continue
            if found.setdefault((a, b), cell == 1) != (cell == 1):
                del found[a, b]
                text = f"device {a} to {b} is {cell:g} here, and listed otherwise above: taken as not known"
                doubts.append(Doubt(line=grid.lines[a], text=text))


def _failures(lines: Sequence[Line]) -> Iterator[Failure]:
    for line in lines:
        if match := _FAILURE.search(line.text):
            yield Failure(
                line=line.number,
                kind="lost" if _LOST.search(line.text) else "library",
                text=line.text.strip()[:300],
                where=match[1] or Unread.UNKNOWN,
            )
