"""nccl-tests' list of devices: one line per rank, and whether the list is whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuwire_checks.recorded.model import LogRank
from gpuwire_checks.topology.model import Doubt, Unread

_RANK = re.compile(
    r"\W{0,8}Rank\s+([0-9]{1,7})\s+(?:Group\s+([0-9]{1,7})\s+)?(?:Pid\s+([0-9]{1,9})\s+)?on\s+(\S{1,255})\s+"
    r"device\s+([0-9]{1,4})\s+\[([0-9a-fA-Fx:.]{1,20})\]\s*(.{0,120})"
)
_RANK_START = re.compile(r"\W{0,8}Rank\s+[0-9]{0,7}(?:\s|$)")
_AMD = re.compile(r"\bAMD\b|Radeon|Instinct|\bgfx[0-9]", re.IGNORECASE)
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class RankLine:
    """A line of the list of devices, with what else it says of the process."""

    line: int
    rank: LogRank
    group: int
    pid: int | None


@dataclass(frozen=True, slots=True)
class RankList:
    """What the list of devices says as a whole."""

    ranks: tuple[LogRank, ...]
    world_size: int | Unread
    highest_rank: int | Unread
    hosts: tuple[str, ...]
    doubts: tuple[Doubt, ...]


def is_rank_line(text: str) -> bool:
    """True for a line that begins as one of the list of devices does."""
    return _RANK_START.match(text) is not None


def read_rank(text: str, *, line: int, cut: bool) -> RankLine | None:
    """A line of the list of devices, None when it is not whole.

    Args:
        cut: the text ends here without a newline, so that the model's name may go on.
    """
    match = _RANK.match(text)
    if match is None:
        return None
    rank, group, pid, host, device, bus, model = match.groups()
    return RankLine(
        line=line,
        rank=LogRank(
            rank=int(rank),
            host=host,
            device=int(device),
            bus=bus,
            model=" ".join(model.split()) if model.strip() and not cut else Unread.UNKNOWN,
        ),
        group=int(group or 0),
        pid=int(pid) if pid else None,
    )


def rank_list(lines: Sequence[RankLine], *, broken: Sequence[int], followed: bool, per_process: int | None) -> RankList:
    """The list as a whole: how many ranks there are, when none of it is missing.

    Args:
        broken: lines of the list that are not whole.
        followed: something comes after the list, so that its end is there.
        per_process: ranks of each process, which the number of ranks is a multiple of.
    """
    by_number: dict[int, RankLine] = {}
    for one in lines:
        by_number.setdefault(one.rank.rank, one)
    again = [one for one in lines if not _same(one, by_number[one.rank.rank])]
    alone = bool(again) and set(by_number) == {0}
    first_to_last = [by_number[number] for number in sorted(by_number)]
    faults = [
        *(Doubt(line=line, text="a line of the list of devices that is not whole") for line in broken),
        *_listed_again(again, alone=alone),
        *_groups(first_to_last),
        *_gaps(first_to_last),
        *_multiple(first_to_last, 1 if alone else per_process or 1),
    ]
    whole = bool(lines) and followed and by_number.keys() == set(range(len(by_number))) and len(faults) == alone
    return RankList(
        ranks=tuple(one.rank for one in (lines if alone else first_to_last)),
        world_size=_in_group(first_to_last) if whole else Unread.UNKNOWN,
        highest_rank=max(by_number) if lines and not whole else Unread.UNKNOWN,
        hosts=tuple(dict.fromkeys(str(one.rank.host) for one in first_to_last)),
        doubts=tuple(faults),
    )


def _same(one: RankLine, other: RankLine) -> bool:
    return (one.rank, one.pid) == (other.rank, other.pid)


def _listed_again(again: Sequence[RankLine], *, alone: bool) -> Iterator[Doubt]:
    if alone:
        told = (
            f"rank 0 is listed {len(again) + 1} times: processes that each run alone, as a program built without MPI=1 "
            "does"
        )
        yield Doubt(line=again[0].line, text=told)
    elif again:
        yield Doubt(line=again[0].line, text=f"rank {again[0].rank.rank} is listed again, with another device")


def _in_group(ranks: Sequence[RankLine]) -> int:
    """Ranks of one communicator; NCCL_TESTS_SPLIT makes several of the processes."""
    return max(Counter(one.group for one in ranks).values())


def _groups(ranks: Sequence[RankLine]) -> Iterator[Doubt]:
    sizes = sorted(set(Counter(one.group for one in ranks).values()))
    if len(sizes) > 1:
        told = f"the ranks are in groups of different sizes: {', '.join(map(str, sizes[:_SHOWN]))}"
        yield Doubt(line=ranks[0].line, text=told)


def _gaps(ranks: Sequence[RankLine]) -> Iterator[Doubt]:
    """A list whose beginning is lost has no gap."""
    for before, after in pairwise(ranks):
        missing = after.rank.rank - before.rank.rank - 1
        if missing:
            more = f" and {missing - 1} more" if missing > 1 else ""
            told = f"the list of devices lacks rank {before.rank.rank + 1}{more}"
            yield Doubt(line=after.line, text=told)
            return


def _multiple(ranks: Sequence[RankLine], per_process: int) -> Iterator[Doubt]:
    if ranks and ranks[0].rank.rank == 0 and len(ranks) % per_process:
        told = f"{len(ranks)} devices are listed, and each process has {per_process}: the list is not whole"
        yield Doubt(line=ranks[-1].line, text=told)


def is_amd(ranks: Iterable[LogRank]) -> bool:
    """True when a device is one of AMD's."""
    return any(isinstance(rank.model, str) and _AMD.search(rank.model) for rank in ranks)
