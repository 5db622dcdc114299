"""The pairs of a ``topo -m`` matrix whose two cells agree, and everything in it that is doubtful."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from gpuwire_checks.topology.model import Doubt, PairPath
from gpuwire_checks.topology.readers.matrix_cells import is_affinity, is_numa_node
from gpuwire_checks.topology.readers.matrix_lines import NUMA, Block
from gpuwire_checks.topology.readers.matrix_rows import Row, renaming

NO_NVLINK_CELL = (
    "no NVLink cell: either there is no NVLink, or this is `nvidia-smi topo -mp`, which hides it; "
    "run `nvidia-smi topo -m`"
)


def misnamed(block: Block) -> frozenset[str]:
    """Columns without a row where a row has no column: the name of one of the two is wrong."""
    devices = block.header.devices
    if block.rows.keys() <= set(devices):
        return frozenset()
    return frozenset(devices) - block.rows.keys()


def pair_paths(block: Block, rows: dict[str, Row]) -> Iterator[PairPath]:
    """Each pair once, in the header's order, where a cell and its mirror agree or only one of them is known."""
    wrong = misnamed(block)
    columns = [(at, device) for at, device in enumerate(block.header.devices) if device not in wrong]
    for (at, a), (to, b) in combinations(columns, 2):
        here, mirror = _cell(rows, a, to), _cell(rows, b, at)
        path = here or mirror
        if path is not None and path == (mirror or here):
            yield PairPath(a=a, b=b, path=path)


def _cell(rows: dict[str, Row], device: str, column: int) -> str | None:
    return rows[device].paths[column] if device in rows else None


def all_doubts(block: Block, rows: dict[str, Row], paths: tuple[PairPath, ...]) -> Iterator[Doubt]:
    """What keeps a path or a value unknown first, remarks on other lines last: a long list is cut at its end."""
    yield from _header_doubts(block, paths)
    yield from _missing_rows(block, rows)
    for row in rows.values():
        yield from (Doubt(line=row.line, text=text) for text in row.doubts)
    yield from _conflicts(block.header.devices, rows)
    yield from _affinity_doubts(rows)
    yield from _stray_lines(block)


def _header_doubts(block: Block, paths: tuple[PairPath, ...]) -> Iterator[Doubt]:
    header = block.header
    between_gpus = [pair for pair in paths if pair.a.startswith("GPU") and pair.b.startswith("GPU")]
    if between_gpus and not any(pair.nvlinks for pair in between_gpus):
        yield Doubt(line=header.line.number, text=NO_NVLINK_CELL)
    if header.renamed:
        yield Doubt(line=header.line.number, text=renaming(list(header.renamed)))
    gpus = [device for device in header.devices if device.startswith("GPU")]
    odd = next((f"{gpu} where GPU{at} is expected" for at, gpu in enumerate(gpus) if gpu != f"GPU{at}"), None)
    if odd:
        yield Doubt(line=header.line.number, text=f"the header names {odd}: a column may be missing, or misnamed")
    if header.unread:
        words = " ".join(header.unread)[:60]
        yield Doubt(line=header.line.number, text=f"'{words}' in the header names no known column: affinities not read")


def _missing_rows(block: Block, rows: dict[str, Row]) -> Iterator[Doubt]:
    missing = [device for device in block.header.devices if device not in rows]
    if missing:
        last = max(row.line for row in rows.values())
        names = ", ".join(missing[:20]) + (f" and {len(missing) - 20} more" if len(missing) > 20 else "")
        known = "only their paths to devices that have a row are known"
        if misnamed(block):
            known = "rows have other names, and what stands under it is not used"
        yield Doubt(line=last, text=f"no row for {names}: {known}")
    for label, line in block.rows.items():
        if label not in block.header.devices:
            yield Doubt(line=line.number, text=f"row {label} has no column in the header: not read")


def _conflicts(devices: tuple[str, ...], rows: dict[str, Row]) -> Iterator[Doubt]:
    for (at, a), (to, b) in combinations(enumerate(devices), 2):
        here, mirror = _cell(rows, a, to), _cell(rows, b, at)
        if here and mirror and here != mirror:
            where = f"{a}-{b} is {here} on line {rows[a].line} and {mirror} on line {rows[b].line}"
            yield Doubt(line=rows[b].line, text=f"{where}: taken as unknown")


def _affinity_doubts(rows: dict[str, Row]) -> Iterator[Doubt]:
    spans: dict[str, list[str]] = {}
    for device, row in rows.items():
        for name, word in row.tails.items():
            if not is_affinity(word):
                yield Doubt(line=row.line, text=f"row {device}: {name} '{word[:20]}' is no list of numbers")
            elif name == NUMA and word != "N/A" and not is_numa_node(word):
                spans.setdefault(word, []).append(device)
    for word, devices in spans.items():
        names = ", ".join(devices)
        text = f"{NUMA} '{word[:40]}' of {names} is not one node: not pinned to one, as is usual in a virtual machine"
        yield Doubt(line=rows[devices[0]].line, text=text)


def _stray_lines(block: Block) -> Iterator[Doubt]:
    for label, (number, device) in block.nic_devices.items():
        if label not in block.header.devices:
            yield Doubt(line=number, text=f"the NIC legend names {label} ({device}), which has no column")
    if block.nic_devices:
        legend = max(number for number, _ in block.nic_devices.values())
        unnamed = [name for name in block.header.devices if name.startswith("NIC") and name not in block.nic_devices]
        if unnamed:
            yield Doubt(line=legend, text=f"the NIC legend has no line for {', '.join(unnamed[:20])}")
    for number in block.strange_legend:
        yield Doubt(line=number, text="a line of the NIC legend that is cut, or of a NIC that has one: not read")
    if block.elsewhere:
        first = block.elsewhere[0]
        yield Doubt(line=first.number, text=f"{len(block.elsewhere)} more matrix header(s) from here on: not read")
    for lines, what in ((block.again, "a second row of one device"), (block.between, "not part of the matrix")):
        for line in lines[:3]:
            yield Doubt(line=line.number, text=f"{what}, not read: '{' '.join(line.text.split())[:60]}'")
        if len(lines) > 3:
            yield Doubt(line=lines[3].number, text=f"{what}, not read: {len(lines) - 3} more lines from here on")
