"""Which collective a log is of: from a name in the text, or from what only one of them prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.topology.model import Unread

_NAMES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter_tensor",
    "alltoall": "all_to_all_single",
    "sendrecv": "send_recv",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "hypercube": "hypercube",
    "alltoallv": "alltoallv",
    "all_reduce_bias": "all_reduce_bias",
}
"""nccl-tests' words to keys of ``COLLECTIVES``; those without a key keep theirs."""
_WORD = f"({'|'.join(sorted(_NAMES, key=len, reverse=True))})"
_PROGRAM = re.compile(rf"(?<![A-Za-z0-9_]){_WORD}_(?:perf|test|bench)(?![A-Za-z0-9])")
_SOURCE_FILE = re.compile(rf"(?<![A-Za-z0-9_]){_WORD}\.cu\b")
_APART = 0.02
"""A factor is told from another when their rounding leaves this much between them."""
_SAME_COUNT = {"all_reduce", "broadcast", "reduce", "send_recv", "all_reduce_bias"}


def named_collective(text: str) -> str | None:
    """The collective whose program (``all_reduce_perf``) a line names."""
    match = _PROGRAM.search(text) if "_perf" in text or "_test" in text or "_bench" in text else None
    return _NAMES[match[1]] if match else None


def collective_of_source(where: str) -> str | None:
    """The collective whose source file (``all_reduce.cu:95``) an error names."""
    match = _SOURCE_FILE.search(where)
    return _NAMES[match[1]] if match else None


def factor_of(collective: str | None, world_size: int | Unread) -> float | None:
    """``busbw / algbw`` of a collective over so many ranks, None where that is not known."""
    known = COLLECTIVES.get(collective or "")
    return known.busbw_factor(world_size) if known is not None and isinstance(world_size, int) else None


def factors_of(collective: str | None, world_size: int | Unread) -> tuple[float, ...]:
    """``busbw / algbw`` of a collective over so many ranks; of every one where it is not named, none if unknown."""
    if collective is not None and collective not in COLLECTIVES:
        return ()
    names = COLLECTIVES if collective is None else (collective,)
    found = {factor for name in names if (factor := factor_of(name, world_size)) is not None}
    return tuple(sorted(found))


def same_count(collective: str | None) -> bool | None:
    """Whether ``count`` is of the same array as ``size``; None where it may be of one rank's part.

    False for alltoallv, which prints a count of 0 for a pattern from a file.
    """
    if collective == "alltoallv":
        return False
    return True if collective in _SAME_COUNT else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Printout:
    """What tells collectives apart in a table.

    Attributes:
        reduces: a redop other than ``none`` is printed.
        rooted: a root of 0 or more is printed.
        old: the header is one from before 2022, when each collective had its own columns.
        empty_redop: the header has a redop column with no word in it.
        ranks_per_count: size over count and bytes of the type: 1 or the number of ranks.
        moved_less: ``algbw`` does not count a rank's own part.
        factor: least and most of ``busbw / algbw``.
        world_size: as listed.
    """

    reduces: bool
    rooted: bool
    old: bool
    empty_redop: bool
    ranks_per_count: int
    moved_less: bool
    factor: tuple[float, float]
    world_size: int | None


def inferred_collective(shown: Printout) -> str | None:
    """The one collective that prints such a table, None where there are several or it has one rank.

    Source: ``*RunTest`` (redop, root), ``*GetCollByteCount`` (count) and ``*GetBw`` (factor) in src/*.cu of
    NVIDIA/nccl-tests.
    """
    least, most = shown.factor
    if least <= 0 or shown.world_size == 1:
        return None
    whole = shown.ranks_per_count == 1
    if shown.rooted:
        return {(True, True): "reduce", (False, True): "broadcast"}.get((shown.reduces, whole))
    if shown.reduces:
        return _unrooted_reduction(shown, whole=whole)
    if whole:
        return "send_recv" if shown.old and least <= 1 <= most else None
    if shown.moved_less or not shown.old:
        return None
    return "all_to_all_single" if shown.empty_redop else "all_gather_into_tensor"


def _unrooted_reduction(shown: Printout, *, whole: bool) -> str | None:
    """all_reduce and sendrecv print the same columns; their factor is the same with two ranks only."""
    least, most = shown.factor
    if not whole:
        return "reduce_scatter_tensor"
    if shown.old or least > 1:
        return "all_reduce"
    others = factor_of("all_reduce", shown.world_size if shown.world_size is not None else Unread.UNKNOWN)
    apart = others is not None and others > most + _APART and most - least < _APART
    return "send_recv" if apart and most >= 1 else None
