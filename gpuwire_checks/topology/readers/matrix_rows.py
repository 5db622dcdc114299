"""The rows of a ``topo -m`` matrix: each device's paths by column, its affinities, what is doubtful."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from gpuwire_checks.pasted import Line
from gpuwire_checks.topology.readers.matrix_cells import cell_words, is_path, place_row, place_tails
from gpuwire_checks.topology.readers.matrix_lines import Block


@dataclass(frozen=True, slots=True)
class Row:
    """One device's line: the path per column (None: not known), its affinities by column name, and its doubts."""

    line: int
    paths: tuple[str | None, ...]
    tails: dict[str, str]
    doubts: tuple[str, ...]


def states_paths(rows: dict[str, Row], block: Block) -> bool:
    """True when a cell is a path class, or the one GPU of a node has its X."""
    if len(block.header.devices) == 1:
        return bool(block.header.tails) and any(row.paths == ("X",) for row in rows.values())
    return any(path not in (None, "X") for row in rows.values() for path in row.paths)


def read_rows(block: Block) -> dict[str, Row]:
    """The row of each device that has one, in the header's order."""
    last = max(line.number for line in block.rows.values())
    whole = [_num_paths(line) for line in block.rows.values() if line.number != last]
    wide = bool(whole) and min(whole) > len(block.header.devices)
    return {
        # Where other rows have more cells than columns, a row that is cut does not tell which column is missing.
        device: _unplaced(device, block) if cut and wide else _read_row(device, at, block, cut=cut)
        for at, device in enumerate(block.header.devices)
        if device in block.rows
        for cut in [block.rows[device].number == last and not block.ends]
    }


def _num_paths(line: Line) -> int:
    return sum(map(is_path, cell_words(line.text)[0]))


def _unplaced(device: str, block: Block) -> Row:
    doubt = f"row {device} is cut, and other rows have more cells than columns: the row is not used"
    return Row(block.rows[device].number, (None,) * len(block.header.devices), {}, (doubt,))


def _read_row(device: str, own: int, block: Block, *, cut: bool) -> Row:
    header, line = block.header, block.rows[device]
    words, renamed = cell_words(line.text)
    # Without its GPU a driver prints one message in place of the row.
    if len(words) == 1 and not is_path(words[0]):
        return Row(line.number, (None,) * len(header.devices), {}, (f"{device} reads '{_spaced(words[0])}'",))
    label, is_gpu = line.text.split()[0], device.startswith("GPU")
    renamed = [(label, device), *renamed] if label != device else renamed
    columns, tails = len(header.devices), len(header.tails) if is_gpu else 0
    placed = place_row(line.text, words, own=own, columns=columns, tails=tails, cut=cut)
    doubts = [renaming(renamed)] if renamed else []
    doubts += [f"row {device} {placed.problem}"] if placed.problem else []
    unknown = {at: cell for at, cell in enumerate(placed.cells) if cell is not None and not is_path(cell)}
    doubts += [f"row {device}: {_strange(unknown, header.devices)}"] if unknown else []
    affinities, problem = _read_tails(placed.rest, block, cut=cut) if placed.tails_are_sure else ({}, None)
    if len(affinities) == len(header.tails) and line.number == block.open_line and _may_go_on(affinities, block, line):
        last = header.tails[-1]
        problem = f"is the end of the text: '{last}' {affinities.pop(last)[:20]} may be cut, and is not used"
    if problem and (placed.rest or is_gpu) and not (cut and placed.problem):
        doubts.append(f"row {device} {problem}")
    paths = tuple(None if at in unknown else cell for at, cell in enumerate(placed.cells))
    return Row(line.number, paths, affinities, tuple(doubts))


def _may_go_on(affinities: dict[str, str], block: Block, line: Line) -> bool:
    """Whether the last word is a number that no other row has."""
    word = next(reversed(affinities.values()), "N/A")
    others = [other.text.split()[-1] for other in block.rows.values() if other is not line]
    return word[-1:].isdigit() and word not in others


def _read_tails(rest: tuple[str, ...], block: Block, *, cut: bool) -> tuple[dict[str, str], str | None]:
    if block.header.unread:
        return {}, None
    return place_tails(rest, block.header.tails, cut=cut)


def _spaced(word: str) -> str:
    return word.replace("_", " ")[:40]


def renaming(renamed: list[tuple[str, str]]) -> str:
    """``read 'GP0' as GPU0``: how a line's words were taken that do not stand as nvidia-smi prints them."""
    shown = ", ".join(f"'{word[:20]}' as {meant}" for word, meant in renamed[:4])
    return f"read {shown}" + (f" and {len(renamed) - 4} more" if len(renamed) > 4 else "")


def _strange(unknown: dict[int, str], devices: tuple[str, ...]) -> str:
    shown = ", ".join(f"'{_spaced(cell)}' under {devices[at]}" for at, cell in islice(unknown.items(), 4))
    more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
    return f"{shown}{more}: not a path class"
