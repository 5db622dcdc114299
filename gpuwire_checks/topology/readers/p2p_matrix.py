"""``nvidia-smi topo -p2p``, one table or several, as people paste it, to the peer access of ordered GPU pairs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import Line
from gpuwire_checks.topology.model import Doubt, NodeTopology, PeerAccess
from gpuwire_checks.topology.readers.blank import blank_gpu, blank_node
from gpuwire_checks.topology.readers.matrix_cells import cell_words
from gpuwire_checks.topology.readers.matrix_lines import MAX_HEADERS, Header, pasted_lines, read_header
from gpuwire_checks.topology.readers.matrix_rows import renaming
from gpuwire_checks.topology.readers.p2p_rows import Row, has_status, read_row, row_label, states_path
from gpuwire_checks.topology.readers.plain_lines import bounded, few, shown

MAX_TEXT = 1 << 20
"""Characters. The table of the largest node sold has under a thousand."""
MAX_LINES = 20_000
_SNIFFED_LINES = 6000
"""In which a matrix must begin to be found; a log of so many lines is no paste of one."""
MAX_DEVICES = 256
UNKNOWN = "unknown"
_CAPABILITIES = {"r": "read", "w": "write", "n": "nvlink", "a": "atomics", "p": "pcie"}
"""The letters of ``nvidia-smi topo -p2p``; ``p`` is NVML_P2P_CAPS_INDEX_PROP, which is also _PCI (nvml.h)."""
_COMMAND = re.compile(r"(?<!\S)-{1,2}p2p(?:status)?[ \t=]{1,4}([rwnap])(?!\w)")
_HEADER = re.compile(r"GPU?\d{1,4}.{0,80}?GPU?\d", re.IGNORECASE)
_LEGEND = re.compile(r"\s*Legend\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """A header, the rows of its devices, and doubts of other lines.

    Attributes:
        misnamed: a row has no column, so that a column without a row may be its.
    """

    header: Header
    rows: dict[str, Row]
    doubts: tuple[Doubt, ...] = ()
    misnamed: bool = False
    capability: str = UNKNOWN


def looks_like_p2p_matrix(text: str) -> bool:
    """True when there is a header of GPUs with a row of P2P statuses under it; ``topo -m`` has the same header."""
    start = text[:MAX_TEXT]
    if not _HEADER.search(start):
        return False
    return bool(_tables(pasted_lines("\n".join(start.split("\n", _SNIFFED_LINES)[:_SNIFFED_LINES]))))


def read_p2p_matrix(text: str, *, source: str) -> NodeTopology:
    """The status of each ordered pair that a table surely states; ``doubts`` has the rest, line by line.

    A cell and its mirror are two facts; that they differ is a doubt. The table itself does not say which capability
    it is of: that is ``unknown`` unless the command stands above it.

    Raises:
        TopologyError: no table, none of its cells can be placed, or it is larger than any node.
    """
    if len(text) > MAX_TEXT or text.count("\n") > MAX_LINES:
        raise TopologyError(
            f"{source}:1: {len(text)} characters in {text.count(chr(10)) + 1} lines; a table has at most {MAX_TEXT} in "
            f"{MAX_LINES}: paste only the output of `nvidia-smi topo -p2p`"
        )
    tables = _tables(pasted_lines(text))
    if not tables:
        raise TopologyError(
            f"{source}:1: no `nvidia-smi topo -p2p` table: a header such as 'GPU0 GPU1' and, under it, a row of OK, "
            "CNS, GNS, TNS, NS, DR, U per GPU; paste both"
        )
    for table in tables:
        if fault := _header_fault(table.header):
            raise TopologyError(f"{source}:{table.header.line.number}: {fault}")
    return _node(tables, source=source)


def _node(tables: Sequence[_Table], *, source: str) -> NodeTopology:
    first = {table.capability: table for table in reversed(tables)}
    used = [table for table in tables if table is first[table.capability]]
    peers = tuple(access for table in used for access in _peers(table))
    doubts = [doubt for table in used for doubt in _table_doubts(table)]
    if not peers:
        reason = f"; {doubts[0].text}" if doubts else ""
        line = tables[0].header.line.number
        raise TopologyError(f"{source}:{line}: no cell under this header can be placed{reason}; paste all rows")
    doubts += few([_again(table) for table in tables if table is not first[table.capability]])
    names = {device for table in used for device in table.header.devices if device.startswith("GPU")}
    gpus = tuple(blank_gpu(index, vendor="nvidia") for index in sorted(int(name.removeprefix("GPU")) for name in names))
    return blank_node(source, gpus=gpus, peers=peers, doubts=bounded(doubts))


def _again(table: _Table) -> Doubt:
    if table.capability == UNKNOWN:
        text = "a further table whose command is not shown: not read"
    else:
        text = f"a second table of the capability '{table.capability}': not read"
    return Doubt(line=table.header.line.number, text=text)


def _header_fault(header: Header) -> str | None:
    if len(header.devices) > MAX_DEVICES:
        return f"the header names {len(header.devices)} devices; at most {MAX_DEVICES} are read"
    twice = [device for device, count in Counter(header.devices).items() if count > 1]
    if twice:
        return f"the header names {', '.join(twice[:5])} twice: no cell can be placed under it"
    return None


def _tables(lines: Sequence[Line]) -> list[_Table]:
    """Every P2P table in the order of the text, with the capability that the last command above it names."""
    headers = {line.number: header for line in lines if (header := read_header(line)) is not None}
    starts = list(headers)[:MAX_HEADERS]
    tables: list[_Table] = []
    asked: list[str] = []
    for line in lines:
        if commands := _COMMAND.findall(line.text):
            asked = [_CAPABILITIES[letter] for letter in commands]
        elif line.number in starts:
            table = _table(headers[line.number], _below(headers[line.number], lines, headers))
            if table is not None:
                tables.append(replace(table, capability=asked.pop(0) if asked else UNKNOWN))
    return tables


def _below(header: Header, lines: Sequence[Line], headers: dict[int, Header]) -> list[Line]:
    """The lines under a header that its launcher printed, up to the next header."""
    mine = ("", header.line.launcher)
    after = [line for line in lines if line.number > header.line.number and line.launcher in mine]
    end = next((at for at, line in enumerate(after) if line.number in headers), len(after))
    return after[:end]


def _table(header: Header, below: Sequence[Line]) -> _Table | None:
    """The table under a header; None when it has no row with a status, or is a ``topo -m`` matrix."""
    found = [(label, line) for line in below if (label := row_label(line, header)) is not None]
    stating = [line for _, line in found if any(map(has_status, cell_words(line.text)[0]))]
    if not stating or any(states_path(line) for _, line in found):
        return None
    if _header_fault(header):
        return _Table(header=header, rows={})
    chosen: dict[str, Line] = {}
    for label, line in found:
        if label not in chosen or ("X" in line.text.split() and "X" not in chosen[label].text.split()):
            chosen[label] = line
    last = max(line.number for line in chosen.values())
    ends = any(_LEGEND.match(line.text) for line in below if line.number > last)
    rows = {
        device: read_row(device, at, header, chosen[device], cut=chosen[device].number == last and not ends)
        for at, device in enumerate(header.devices)
        if device in chosen
    }
    again = [line for label, line in found if line is not chosen[label]]
    doubts = (*_strangers(header, chosen), *_strays(below, chosen, again, last))
    return _Table(header=header, rows=rows, doubts=doubts, misnamed=len(rows) < len(chosen))


def _strangers(header: Header, rows: dict[str, Line]) -> Iterator[Doubt]:
    """What header and rows do not have in common."""
    missing = [device for device in header.devices if device not in rows and device.startswith("GPU")]
    strange = [(label, line) for label, line in rows.items() if label not in header.devices]
    if header.renamed:
        yield Doubt(line=header.line.number, text=renaming(list(header.renamed)))
    if header.unread:
        text = f"'{' '.join(header.unread)[:60]}' in the header names no GPU: what stands under it is not read"
        yield Doubt(line=header.line.number, text=text)
    if missing:
        names = ", ".join(missing[:20]) + (f" and {len(missing) - 20} more" if len(missing) > 20 else "")
        under = ", and rows have other names: the cells under it are not used" if strange else ""
        yield Doubt(line=max(line.number for line in rows.values()), text=f"no row for {names}{under}")
    for label, line in strange:
        yield Doubt(line=line.number, text=f"row {label} has no column in the header: not read")


def _strays(below: Sequence[Line], rows: dict[str, Line], again: Sequence[Line], last: int) -> Iterator[Doubt]:
    taken = {line.number for line in (*rows.values(), *again)}
    between = [line for line in below if line.number < last and line.number not in taken]
    for lines, what in ((again, "a second row of one device"), (between, "not part of the table")):
        yield from few([Doubt(line=line.number, text=f"{what}, not read: {shown(line.text)}") for line in lines], 3)


def _peers(table: _Table) -> Iterator[PeerAccess]:
    """Each ordered pair of GPUs whose cell is sure."""
    for a, row in table.rows.items():
        for b, cell in zip(table.header.devices, row.cells, strict=True):
            both = a.startswith("GPU") and b.startswith("GPU")
            if both and cell is not None and cell != "X" and not (table.misnamed and b not in table.rows):
                yield PeerAccess(a=a, b=b, capability=table.capability, status=cell)


def _table_doubts(table: _Table) -> Iterator[Doubt]:
    for row in table.rows.values():
        yield from (Doubt(line=row.line, text=text) for text in row.doubts)
    yield from table.doubts
    places = {device: at for at, device in enumerate(table.header.devices)}
    for a, row in table.rows.items():
        for b, other in table.rows.items():
            here, there = row.cells[places[b]], other.cells[places[a]]
            if places[a] < places[b] and here and there and here != there:
                where = f"{a} to {b} is {here} on line {row.line} and {b} to {a} is {there} on line {other.line}"
                yield Doubt(line=other.line, text=f"{where}: both are kept as they stand")
