"""The words in a ``topo -m`` row, and which column each one surely belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile

_PATH = r"SYS|NODE|PHB|PXB|PIX|NV[1-9][0-9]{0,2}"
_IS_PATH = re.compile(rf"X|{_PATH}")
_FUSED = re.compile(rf"(?:(?:X|{_PATH})){{2,}}")
_IS_AFFINITY = re.compile(r"N/A|[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*")
_IS_NODE = re.compile(r"[0-9]{1,4}")
_GPU = re.compile(r"GPU?([0-9]{1,4})", re.IGNORECASE)
_NIC = re.compile(r"NIC[0-9]{1,4}", re.IGNORECASE)
_NIC_DEVICE = re.compile(r"(?=\w*[0-9])[a-z][\w.-]{0,62}", re.ASCII)
_PHRASE = re.compile(r"GPU is lost|Unknown Error|Not Supported", re.IGNORECASE)
# Drivers before 384 call the path between sockets SOC: "traversing PCIe as well as the SMP link between CPU sockets".
_OLD_NAMES = {"SOC": "SYS"}


def is_path(word: str) -> bool:
    """True for X, PIX, PXB, PHB, NODE, SYS and NV1 upwards."""
    return _IS_PATH.fullmatch(word) is not None


def is_affinity(word: str) -> bool:
    """True for a list of numbers (``0-23,48-71``) or ``N/A``: never a path."""
    return _IS_AFFINITY.fullmatch(word) is not None


def is_numa_node(word: str) -> bool:
    """True for one number: ``0-1`` names several nodes, and is none."""
    return _IS_NODE.fullmatch(word) is not None


def canonical_label(word: str) -> str | None:
    """``GPU0``, ``NIC0`` or ``mlx5_0`` for a device's name as people write it (``gpu0``, ``GP0.``), None for others."""
    bare = word.strip(".:,;")
    if gpu := _GPU.fullmatch(bare):
        return f"GPU{int(gpu[1])}"
    if _NIC.fullmatch(bare):
        return bare.upper()
    return bare if _NIC_DEVICE.fullmatch(bare) and not is_path(canonical_cell(bare)) else None


def canonical_cell(word: str) -> str:
    """``NV1`` for ``nv1.``, ``SYS`` for ``SOC``; a word that is no cell comes back as it is."""
    bare = word.strip(".,;[]").upper()
    bare = _OLD_NAMES.get(bare, bare)
    return bare if is_path(bare) or is_affinity(bare) else word


def cell_words(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The cells of a row without its label, and those read otherwise than they stand: ``("NV1.", "NV1")``."""
    joined = _PHRASE.sub(lambda match: match[0].replace(" ", "_"), text)
    joined = re.sub(r"(?<=[0-9]),[ \t]+(?=[0-9])", ",", joined)
    words: list[str] = []
    renamed = []
    for word in joined.split()[1:]:
        cell = canonical_cell(word)
        parts = re.findall(rf"X|{_PATH}", cell) if _FUSED.fullmatch(cell) else [cell]
        words += parts
        if parts != [word]:
            renamed.append((word, " ".join(parts)))
    return words, renamed


@dataclass(frozen=True, slots=True)
class Placed:
    """A row's cells by column (None: not sure), the words after them, and why some are not sure.

    Attributes:
        tails_are_sure: False in a row of more cells than columns, or of another device: a part of an affinity may be
            among its cells.
    """

    cells: tuple[str | None, ...]
    rest: tuple[str, ...]
    problem: str | None = None
    tails_are_sure: bool = True


def place_row(text: str, words: list[str], *, own: int, columns: int, tails: int, cut: bool) -> Placed:
    """Each cell under its column, anchored at the X of the row's own device.

    Args:
        text: the row as it stands, for its tabs.
        words: its cells by white space.
        own: the column of the row's own device.
        columns: number of device columns.
        tails: number of affinity columns.
        cut: the text may end within this row.
    """
    matrix, rest = words[:columns], tuple(words[columns:])
    counted = len(words) == columns + tails and not any(map(is_path, rest))
    if (counted or _width(words) == columns) and _crosses(matrix) == [own]:
        if cut and tails and not rest and not _is_whole(matrix[-1]):
            return Placed((*matrix[:-1], None), (), "is cut at the end of its last cell")
        return Placed(tuple(matrix), rest)
    by_tab = _place_by_tab(text, own=own, columns=columns)
    return by_tab or _place_around_cross(words, own=own, columns=columns, cut=cut)


def _width(words: list[str]) -> int:
    """Cells before the affinities."""
    return next((at for at, word in enumerate(words) if is_affinity(word)), len(words))


def _crosses(cells: list[str]) -> list[int]:
    return [at for at, cell in enumerate(cells) if cell == "X"]


def _is_whole(cell: str) -> bool:
    """False for a last cell that may go on where the text was cut: NV1 of NV12, or SY."""
    return is_path(cell) and not cell.startswith("NV")


def _place_by_tab(text: str, *, own: int, columns: int) -> Placed | None:
    """Cells between tabs, where an empty one keeps its column; None when the tabs do not fit the header."""
    parts = [canonical_cell(part.strip()) for part in text.strip().split("\t")][1:]
    cells = parts[:columns]
    if len(cells) < columns or _crosses(cells) != [own] or any(" " in cell or is_affinity(cell) for cell in cells):
        return None
    if any(map(is_path, parts[columns:])):  # the header lacks a column
        return None
    empty = cells.count("")
    rest = tuple(part for part in parts[columns:] if part)
    return Placed(tuple(cell or None for cell in cells), rest, f"has {empty} empty cell{'s'[: empty > 1]}")


def _place_around_cross(words: list[str], *, own: int, columns: int, cut: bool) -> Placed:
    """The cells that the X, or the start of a cut row, fix; those on a side with one too few or many stay unknown."""
    width = _width(words)
    cells, rest = words[:width], tuple(words[width:])
    nothing: list[str | None] = [None] * columns
    crosses = _crosses(cells)
    if cut and not rest and width < columns and (crosses == [own] or (not crosses and width <= own)):
        sure = list(takewhile(is_path, cells if cells and _is_whole(cells[-1]) else cells[:-1]))
        return Placed((*sure, *nothing[len(sure) :]), (), f"is cut after {len(sure)} of {columns} cells")
    found = f"has {width} cells for {columns} columns"
    if width != columns and crosses == [own]:
        return Placed(
            (*cells[: own + 1], *nothing[own + 1 :]),
            rest,
            f"{found}: those right of its X are not used",
            width < columns,
        )
    if width != columns and rest and len(crosses) == 1 and width - crosses[0] == columns - own:
        return Placed(
            (*nothing[:own], *cells[crosses[0] :]), rest, f"{found}: those left of its X are not used", width < columns
        )
    where = f"its X in column {crosses[0] + 1}, not {own + 1}" if len(crosses) == 1 else f"{len(crosses)} X"
    return Placed(tuple(nothing), rest, f"{found} and {where}: the row is not used", tails_are_sure=False)


def place_tails(rest: tuple[str, ...], names: tuple[str, ...], *, cut: bool) -> tuple[dict[str, str], str | None]:
    """The affinity cells by column name, and what is wrong with them; too few of them are only placed in a cut row."""
    if len(rest) == len(names):
        return dict(zip(names, rest, strict=True)), None
    if len(rest) < len(names) and cut:
        sure = rest[:-1]
        return dict(zip(names, sure, strict=False)), f"is cut: '{names[len(sure)]}' and what follows are not sure"
    return {}, f"has {len(rest)} cells for the {len(names)} columns {', '.join(names)}: they are not used"
