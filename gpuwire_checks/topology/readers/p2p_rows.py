"""The rows of a ``topo -p2p`` table: each device's statuses by column, and what is doubtful in its line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuwire_checks.pasted import Line
from gpuwire_checks.topology.readers.matrix_cells import canonical_label, cell_words, is_affinity, is_path
from gpuwire_checks.topology.readers.matrix_lines import Header
from gpuwire_checks.topology.readers.matrix_rows import renaming

_STATUS = r"OK|CNS|GNS|TNS|NS|DR|U"
_IS_CELL = re.compile(rf"X|{_STATUS}")
_FUSED = re.compile(rf"(?:X|{_STATUS}){{2,}}")
_FAILED = re.compile(r"GPU is lost|Unknown Error|ERR!", re.IGNORECASE)
_Cells = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A device's cells by column (None: not sure), and what is doubtful in its line."""

    line: int
    cells: _Cells
    doubts: tuple[str, ...]


def row_label(line: Line, header: Header) -> str | None:
    """The device whose row a line is: its name first, and cells of a table for half of the rest or more."""
    first, *rest = line.text.split()
    label = canonical_label(first)
    if label is None or first.endswith(":") or not (label in header.devices or label.startswith("GPU")):
        return None
    words, _ = cell_words(line.text)
    cells = sum(is_path(word) or has_status(word) for word in words)
    return label if rest and (2 * cells >= len(words) or _FAILED.search(line.text)) else None


def has_status(word: str) -> bool:
    """True for a P2P status, as it stands or run together with others."""
    bare = _bare(word)
    return bare != "X" and bool(_IS_CELL.fullmatch(bare) or _FUSED.fullmatch(bare))


def states_path(line: Line) -> bool:
    """True when a cell is a path class, as in ``topo -m``."""
    return any(is_path(word) and word != "X" for word in cell_words(line.text)[0])


def read_row(device: str, own: int, header: Header, line: Line, *, cut: bool) -> Row:
    """The row of a device; ``cut``: the text may end in it."""
    words, renamed = _words(line.text)
    columns = len(header.devices)
    label = line.text.split()[0]
    renamed = [(label, device), *renamed] if label != device else renamed
    doubts = [renaming(renamed)] if renamed else []
    if len(words) == 1 and not _IS_CELL.fullmatch(words[0]):
        return Row(line=line.number, cells=(None,) * columns, doubts=(f"{device} reads '{_spaced(words[0])}'",))
    if header.tails:
        words = words[:columns] if len(words) >= columns else [word for word in words if not is_affinity(word)]
    cells, problem = _placed(line.text, words, own=own, columns=columns, cut=cut)
    doubts += [f"row {device} {problem}"] if problem else []
    odd = {at: cell for at, cell in enumerate(cells) if cell is not None and not _IS_CELL.fullmatch(cell)}
    for at, cell in list(odd.items())[:4]:
        doubts.append(f"row {device}: '{_spaced(cell)}' under {header.devices[at]} is no P2P status")
    if len(odd) > 4:
        doubts.append(f"row {device}: {len(odd) - 4} more cells are no P2P status")
    sure = tuple(None if at in odd else cell for at, cell in enumerate(cells))
    return Row(line=line.number, cells=sure, doubts=tuple(doubts))


def _bare(word: str) -> str:
    return word.strip(".,;[]").upper()


def _words(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The cells of a row without its label, and those read otherwise than they stand."""
    words: list[str] = []
    before, renamed = cell_words(text)
    for word in before:
        known = _IS_CELL.fullmatch(_bare(word)) or _FUSED.fullmatch(_bare(word))
        parts = _IS_CELL.findall(_bare(word)) if known else [word]
        words += parts
        if parts != [word]:
            renamed.append((word, " ".join(parts)))
    return words, renamed


def _spaced(word: str) -> str:
    return word.replace("_", " ")[:40]


def _placed(text: str, words: list[str], *, own: int, columns: int, cut: bool) -> tuple[_Cells, str | None]:
    """Each cell under its column, anchored at the X of the row's own device, and what is wrong with the row."""
    crosses = [at for at, word in enumerate(words) if word == "X"]
    width = len(words)
    nothing: _Cells = (None,) * columns
    if width == columns and crosses == [own]:
        return tuple(words), None
    tabbed = [part.strip() for part in text.strip().split("\t")[1:]]
    if len(tabbed) == columns and [at for at, part in enumerate(tabbed) if part == "X"] == [own]:
        empty = tabbed.count("")
        return tuple(part or None for part in tabbed), f"has {empty} empty cell{'s'[: empty > 1]}"
    if cut and width < columns and (crosses == [own] or (not crosses and width <= own)):
        # No status is the beginning of another, so that a cell which was cut in its middle is none.
        return (*words, *nothing[width:]), f"is cut after {width} of {columns} cells"
    return _placed_around_cross(words, crosses, own=own, nothing=nothing)


def _placed_around_cross(
    words: list[str], crosses: list[int], *, own: int, nothing: _Cells
) -> tuple[_Cells, str | None]:
    """The cells on the side of the X that has as many as it must; those on the other side stay unknown."""
    width, columns = len(words), len(nothing)
    found = f"has {width} cells for {columns} columns"
    if width != columns and crosses == [own]:
        return (*words[: own + 1], *nothing[own + 1 :]), f"{found}: those right of its X are not used"
    if width != columns and len(crosses) == 1 and width - crosses[0] == columns - own:
        return (*nothing[:own], *words[crosses[0] :]), f"{found}: those left of its X are not used"
    where = f"its X in column {crosses[0] + 1}, not {own + 1}" if len(crosses) == 1 else f"{len(crosses)} X"
    return nothing, f"{found} and {where}: the row is not used"
