"""``rocm-smi --showtopo``, as people paste it: weight, hops and link type of each pair, and NUMA nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import Line
from gpuwire_checks.topology.model import Doubt, NodeTopology, PairPath, Unread
from gpuwire_checks.topology.readers.blank import blank_gpu, blank_node
from gpuwire_checks.topology.readers.plain_lines import PlainLines, bounded, plain_lines, shown

MAX_GPUS = 64
_START = re.compile(r"(?:={3,}[ \w]*)?(?:ROCm System Management Interface|(?:Weight|Hops|Link Type) between two GPUs)")
_TITLE = re.compile(r"\s*=+\s*(Weight|Hops|Link Type|Link accessibility|Numa)\b.*")
_END = re.compile(r"\s*=+\s*End of ROCm SMI Log\b.*")
_HEADER = re.compile(r"\s*(?:GPU\d{1,3}\s*){1,64}")
_ROW = re.compile(r"\s*GPU(\d{1,3})\s+(\S.*)")
_NUMA = re.compile(r"\s*GPU\[(\d{1,3})\]\s*:\s*\(Topology\)\s*Numa (Node|Affinity):\s*(-?\d{1,4}|N/A)\s*")
_NAME = re.compile(r"GPU(\d{1,3})")
_CELLS = {"Weight": re.compile(r"\d{1,5}"), "Hops": re.compile(r"\d{1,3}"), "Link Type": re.compile(r"XGMI|PCIE|0")}
_SELF = "0"

Table = dict[tuple[int, int], str]
"""Cells by the numbers of row and column."""
Lines = dict[tuple[str, int], int]
"""Where the row of a GPU stands, by the name of its table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The lines under a title, up to the next one."""

    name: str
    title: Line
    lines: tuple[Line, ...]


def looks_like_rocm_topo(text: str) -> bool:
    """True where one of the tables of ``rocm-smi --showtopo`` has its title."""
    return re.search(r"={3} (?:Weight|Hops|Link Type) between two GPUs ={3}", text) is not None


def read_rocm_topo(text: str, *, source: str) -> NodeTopology:
    """GPUs, the link type of each pair with its hops and weight, and NUMA nodes.

    A pair's path is ``XGMI`` or ``PCIE``. A cell and its mirror must agree; where one is missing the other counts.

    Raises:
        TopologyError: no table can be read, or it is larger than any node.
    """
    plain = plain_lines(text, start=_START, tool="rocm-smi --showtopo", source=source)
    sections = list(_sections(plain.lines))
    doubts = [*plain.doubts]
    if plain.may_be_cut and not _END.fullmatch(plain.lines[-1].text):
        doubts.append(Doubt(line=plain.lines[-1].number, text="the text ends here, before the end of the log"))
    lines: Lines = {}
    tables = {name: _table(name, sections, plain, lines, doubts) for name in _CELLS}
    numa = _numa_nodes(sections, doubts)
    gpus = sorted({gpu for table in tables.values() for pair in table for gpu in pair} | set(numa))
    if not any(tables.values()):
        raise TopologyError(
            f"{source}:{plain.lines[0].number}: no table of weights, hops or link types can be read; paste all of "
            "`rocm-smi --showtopo`"
        )
    return blank_node(
        source,
        gpus=tuple(blank_gpu(gpu, vendor="amd", numa_node=numa.get(gpu, Unread.UNKNOWN)) for gpu in gpus),
        paths=tuple(_paths(gpus, tables, lines, doubts)),
        doubts=bounded(doubts),
    )


def _sections(lines: Sequence[Line]) -> Iterator[Section]:
    titles = [(at, match[1]) for at, line in enumerate(lines) if (match := _TITLE.fullmatch(line.text))]
    ends = [at for at, _ in titles[1:]] + [len(lines)] * bool(titles)
    for (at, name), end in zip(titles, ends, strict=True):
        under = [line for line in lines[at + 1 : end] if not _END.fullmatch(line.text)]
        yield Section(name=name, title=lines[at], lines=tuple(under))


def _table(name: str, sections: Sequence[Section], plain: PlainLines, lines: Lines, doubts: list[Doubt]) -> Table:
    """The cells of one table; empty, with a doubt, where it is not there or its columns are not known."""
    section = next((section for section in sections if section.name == name), None)
    if section is None:
        doubts.append(Doubt(line=None, text=f"no table of {name.lower()} between GPUs"))
        return {}
    header = next((line for line in section.lines if _HEADER.fullmatch(line.text)), None)
    columns = [int(number) for number in _NAME.findall(header.text)] if header else []
    if header is None or len(set(columns)) < len(columns) or len(columns) > MAX_GPUS:
        what = "no header of GPUs" if header is None else "its header names a GPU twice, or too many"
        doubts.append(Doubt(line=section.title.number, text=f"{name}: {what}; none of its cells can be placed"))
        return {}
    return _rows(section, header, columns, plain=plain, lines=lines, doubts=doubts)


def _rows(
    section: Section, header: Line, columns: Sequence[int], *, plain: PlainLines, lines: Lines, doubts: list[Doubt]
) -> Table:
    """The cells of the rows that can be placed whole."""
    name = section.name
    table: Table = {}
    seen: set[int] = set()
    for line in (line for line in section.lines if line is not header):
        match = _ROW.fullmatch(line.text)
        if match is None:
            doubts.append(Doubt(line=line.number, text=f"{name}: {shown(line.text)} is no row of this table"))
            continue
        row, cells = int(match[1]), match[2].split()
        fault = "it has a row already" if row in seen else _row_fault(name, row, cells, columns)
        if fault is None and plain.cut_at(line) and cells[-1] != _SELF and name != "Link Type":
            fault = "the text ends within it"
        seen.add(row)
        if fault is None:
            lines[name, row] = line.number
            table.update({(row, column): cell for column, cell in zip(columns, cells, strict=True) if column != row})
        else:
            doubts.append(Doubt(line=line.number, text=f"{name}: the row of GPU{row} is left out: {fault}"))
    if missing := [f"GPU{column}" for column in columns if column not in seen]:
        doubts.append(Doubt(line=header.number, text=f"{name}: no row for {', '.join(missing)}"))
    return table


def _row_fault(name: str, row: int, cells: Sequence[str], columns: Sequence[int]) -> str | None:
    """Why the cells of a row cannot all be placed; None when they can."""
    if row not in columns:
        return "the header does not name it"
    if len(cells) != len(columns):
        return f"{len(cells)} cells for {len(columns)} columns"
    odd = next((cell for cell in cells if not _CELLS[name].fullmatch(cell)), None)
    if odd is not None:
        return f"{shown(odd)} is no {name.lower()}"
    zeros = [column for column, cell in zip(columns, cells, strict=True) if cell == _SELF]
    if zeros != [row]:
        return f"0 stands for the GPU itself, and here it stands under {', '.join(f'GPU{c}' for c in zeros) or 'none'}"
    return None


def _paths(gpus: Sequence[int], tables: Mapping[str, Table], lines: Lines, doubts: list[Doubt]) -> Iterator[PairPath]:
    for a, b in combinations(gpus, 2):
        link, hops, weight = (
            _agreed(name, tables[name], a, b, lines=lines, doubts=doubts) for name in ("Link Type", "Hops", "Weight")
        )
        if link is not None:
            yield PairPath(
                a=f"GPU{a}",
                b=f"GPU{b}",
                path=link,
                hops=Unread.UNKNOWN if hops is None else int(hops),
                weight=Unread.UNKNOWN if weight is None else int(weight),
            )


def _agreed(name: str, table: Table, a: int, b: int, *, lines: Lines, doubts: list[Doubt]) -> str | None:
    """The cell of a pair; None where there is none, or the two cells contradict each other."""
    there, back = table.get((a, b)), table.get((b, a))
    if there is not None and back is not None and there != back:
        text = f"{name}: GPU{a}-GPU{b} is {there} on line {lines[name, a]}, and {back} the other way; left out"
        doubts.append(Doubt(line=lines[name, b], text=text))
        return None
    return there if there is not None else back


def _numa_nodes(sections: Sequence[Section], doubts: list[Doubt]) -> dict[int, int | Unread]:
    """The NUMA node of each GPU; the kernel's -1 is *unknown*."""
    found: dict[int, int | Unread] = {}
    for line in (line for section in sections if section.name == "Numa" for line in section.lines):
        match = _NUMA.fullmatch(line.text)
        if match is None:
            doubts.append(Doubt(line=line.number, text=f"{shown(line.text)} is no NUMA line"))
        elif match[2] == "Node" and int(match[1]) in found:
            found[int(match[1])] = Unread.UNKNOWN
            doubts.append(Doubt(line=line.number, text=f"a second NUMA node of GPU{match[1]}: neither is used"))
        elif match[2] == "Node" and int(match[1]) < MAX_GPUS:
            found[int(match[1])] = _numa_node(match[3])
    return found


def _numa_node(word: str) -> int | Unread:
    if word == "N/A":
        return Unread.NOT_SUPPORTED
    return int(word) if int(word) >= 0 else Unread.UNKNOWN
