"""What nccl-tests says before and after its table: options, devices, versions, the concluding lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuwire_checks.recorded.model import LogRank
from gpuwire_checks.topology.model import Doubt, Unread

_OPTION = {
    name: re.compile(rf"\b{name}s?:?[ \t]+([0-9]{{1,9}})(?=\s)", re.IGNORECASE)
    for name in ("nThread", "nGpu", "nRank", "validation")
}
_VALIDATION_AT_END = re.compile(r"\bvalidation:?[ \t]+([0-9]{1,9})\s*$", re.IGNORECASE)
_RANK = re.compile(
    r"\W{0,8}Rank\s+([0-9]{1,7})\s+(?:Group\s+([0-9]{1,7})\s+)?(?:Pid\s+([0-9]{1,9})\s+)?on\s+(\S{1,255})\s+"
    r"device\s+([0-9]{1,4})\s+\[([0-9a-fA-Fx:.]{1,20})\]\s*(.{0,120})"
)
_RANK_START = re.compile(r"\W{0,8}Rank\s+[0-9]{0,7}(?:\s|$)")
_OUT_OF_BOUNDS = re.compile(r"\W{0,8}Out of bounds values\s{0,40}:\s{0,40}([0-9]{1,12})\s{1,40}(OK|FAILED)\b")
_AVERAGE = re.compile(r"\W{0,8}Avg bus bandwidth\s{0,40}:\s{0,40}([0-9][0-9.e+-]{0,20})(\s+FAILED)?(\s*)")
_NUMBER = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,9})?(?:e[+-][0-9]{2})?")
_NCCL = re.compile(r"\b([NR]CCL) version :?\s?([0-9]{1,3}(?:\.[0-9]{1,4}){1,3})(?:\+(cuda|hip)([0-9.]{1,12}))?(?=\s|$)")
_TESTS = re.compile(r"nccl-tests version (\S{1,40}) nccl-headers=([0-9]{3,6}) nccl-library=([0-9]{3,6})(?=\s|$)")
_RCCL_TESTS = re.compile(r"rccl-tests: Version (\S{1,60})(?=\s|$)")
_COMPILED = re.compile(r"NCCL Tests compiled with NCCL ([0-9.]{1,12})(?=\s|$)")
_AMD = re.compile(r"\bAMD\b|Radeon|Instinct|\bgfx[0-9]", re.IGNORECASE)
_SIGNIFICANT = 6


@dataclass(frozen=True, slots=True)
class Options:
    """What the line of options says; None where it does not."""

    threads: int | None
    gpus: int | None
    ranks_per_gpu: int | None
    validation: int | None
    rccl: bool

    @property
    def ranks_per_process(self) -> int | None:
        if self.threads is None or self.gpus is None:
            return None
        return self.threads * self.gpus * (self.ranks_per_gpu or 1)


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


def read_options(text: str) -> Options:
    """The options in a line such as ``nThread 1 nGpus 8 minBytes 8 ...``."""
    found = {name: match for name, regex in _OPTION.items() if (match := regex.search(text))}
    validation = found.get("validation") or _VALIDATION_AT_END.search(text)
    return Options(
        threads=int(found["nThread"][1]) if "nThread" in found else None,
        gpus=int(found["nGpu"][1]) if "nGpu" in found else None,
        ranks_per_gpu=int(found["nRank"][1]) if "nRank" in found else None,
        validation=int(validation[1]) if validation else None,
        rccl="nThreads:" in text or "nThread:" in text,
    )


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
    doubts = [Doubt(line=line, text="a line of the list of devices that is not whole") for line in broken]
    alone = []
    for one in lines:
        first = by_number.setdefault(one.rank.rank, one)
        if (first.rank, first.pid) != (one.rank, one.pid):
            alone.append(one)
    if alone:
        told = (
            f"rank {alone[0].rank.rank} is listed {len(alone) + 1} times: processes that each run alone, as a program "
            "built without MPI=1 does"
            if set(by_number) == {0}
            else f"rank {alone[0].rank.rank} is listed again, with another device"
        )
        doubts.append(Doubt(line=alone[0].line, text=told))
    numbers = sorted(by_number)
    groups = set(Counter(one.group for one in by_number.values()).values())
    if len(groups) > 1:
        told = f"the ranks are in groups of different sizes: {', '.join(map(str, sorted(groups)[:8]))}"
        doubts.append(Doubt(line=lines[0].line, text=told))
    whole = numbers == list(range(len(numbers))) and followed and not broken and (not alone or numbers == [0])
    whole = whole and len(groups) == 1
    gaps = sorted(set(range(numbers[0], numbers[-1] + 1)) - set(numbers)) if numbers else []
    if gaps:
        names = ", ".join(map(str, gaps[:8]))
        doubts.append(Doubt(line=by_number[numbers[-1]].line, text=f"the list of devices lacks rank {names}"))
    if whole and per_process and len(numbers) % per_process and not alone:
        told = f"{len(numbers)} devices are listed, and each process has {per_process}: the list is not whole"
        doubts.append(Doubt(line=by_number[numbers[-1]].line, text=told))
        whole = False
    hosts = dict.fromkeys(str(by_number[number].rank.host) for number in numbers)
    return RankList(
        ranks=tuple(one.rank for one in (lines if alone and numbers == [0] else by_number.values())),
        world_size=max(groups) if whole else Unread.UNKNOWN,
        highest_rank=numbers[-1] if numbers and not whole else Unread.UNKNOWN,
        hosts=tuple(hosts),
        doubts=tuple(doubts),
    )


def is_amd(ranks: Iterable[LogRank]) -> bool:
    """True when a device is one of AMD's."""
    return any(isinstance(rank.model, str) and _AMD.search(rank.model) for rank in ranks)


def read_out_of_bounds(text: str) -> int | None:
    """How many, from ``Out of bounds values : 0 OK``; None when the line is not whole or contradicts itself."""
    match = _OUT_OF_BOUNDS.match(text)
    if match is None or (int(match[1]) == 0) != (match[2] == "OK"):
        return None
    return int(match[1])


def read_average(text: str, *, cut: bool) -> tuple[float | None, bool]:
    """GB/s from ``Avg bus bandwidth : 68.4``, and whether the tool itself says that it is too low.

    None when it is no number, or when the text ends right after it and more digits could follow: ``%g`` prints at most
    six.
    """
    match = _AVERAGE.match(text)
    if match is None or not _NUMBER.fullmatch(match[1]):
        return None, False
    digits = len(match[1].partition("e")[0].replace(".", "").lstrip("0"))
    if cut and not match[3] and not match[2] and digits < _SIGNIFICANT:
        return None, False
    return float(match[1]), bool(match[2])


def read_versions(text: str) -> dict[str, str]:
    """Versions a line states, by what they are of."""
    found: dict[str, str] = {}
    if match := _NCCL.search(text):
        found[match[1].lower()] = match[2]
        if match[3]:
            found[match[3]] = match[4]
    if match := _TESTS.search(text):
        found |= {"nccl-tests": match[1], "nccl headers": library_version(int(match[2]))}
        found["nccl"] = library_version(int(match[3]))
    if match := _RCCL_TESTS.search(text):
        found["rccl-tests"] = match[1]
    if match := _COMPILED.search(text):
        found["nccl headers"] = match[1]
    return found


def library_version(code: int) -> str:
    """``NCCL_VERSION_CODE`` as a version: 2804 is 2.8.4 and 23005 is 2.30.5.

    Source: ``NCCL_VERSION(X,Y,Z)`` in nccl.h, which has four places for the minor version since 2.9.
    """
    major, rest = divmod(code, 1000 if code < 10_000 else 10_000)
    return f"{major}.{rest // 100}.{rest % 100}"
