"""The devices in the file that nccl-tests writes with ``-J``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from gpuwire_checks.recorded.model import LogRank
from gpuwire_checks.topology.model import Doubt, Unread

MAX_RANKS = 50_000


@dataclass(frozen=True, slots=True)
class Devices:
    """What the list says as a whole; it has the first device of each process (``writeDeviceReport`` in src/util.cu)."""

    ranks: tuple[LogRank, ...]
    world_size: int | Unread
    highest_rank: int | Unread
    hosts: tuple[str, ...]
    doubts: tuple[Doubt, ...]
    inferred: tuple[Doubt, ...]


def read_devices(config: Mapping[str, Any], *, line: int, cut: bool) -> Devices:
    """The devices of a ``config``, and how many ranks that makes.

    Args:
        cut: the text ends within the config.
    """
    entries = config.get("devices")
    listed = [entry for entry in entries if isinstance(entry, dict)][:MAX_RANKS] if isinstance(entries, list) else []
    ranks = [(rank, entry) for entry in listed if (rank := _rank(entry)) is not None]
    each = _product(config)
    groups = [entry.get("group", 0) for _, entry in ranks]
    mine = sum(group == groups[0] for group in groups)
    numbers = [rank.rank for rank, _ in ranks]
    whole = bool(ranks) and not cut and len(ranks) == len(listed) and each is not None
    whole = whole and numbers == list(range(0, len(numbers) * (each or 1), each or 1))
    world_size = mine * (each or 1) if whole else Unread.UNKNOWN
    return Devices(
        ranks=tuple(rank for rank, _ in ranks),
        world_size=world_size,
        highest_rank=max(numbers) if numbers and not whole else Unread.UNKNOWN,
        hosts=tuple(dict.fromkeys(rank.host for rank, _ in ranks if isinstance(rank.host, str))),
        doubts=tuple(_doubts(listed, ranks, whole=whole, line=line)),
        inferred=tuple(_partial(len(ranks), each or 1, line=line) if whole else ()),
    )


def _doubts(listed: Sequence[object], ranks: Sequence[object], *, whole: bool, line: int) -> Iterator[Doubt]:
    if len(ranks) < len(listed):
        yield Doubt(line=line, text=f"{len(listed) - len(ranks)} devices without rank, host and number")
    elif listed and not whole:
        yield Doubt(line=line, text="the list of devices is not whole: the number of ranks is not known")


def _partial(processes: int, each: int, *, line: int) -> Iterator[Doubt]:
    if each > 1:
        told = f"{processes} x {each} ranks: this file lists the first device of each process only"
        yield Doubt(line=line, text=told)


def _product(config: Mapping[str, Any]) -> int | None:
    threads, gpus = config.get("nthreads"), config.get("ngpus")
    return threads * gpus if is_count(threads) and is_count(gpus) and threads and gpus else None


def _rank(entry: Mapping[str, Any]) -> LogRank | None:
    rank, host, device = entry.get("rank"), entry.get("hostname"), entry.get("device")
    if not is_count(rank) or not is_count(device) or not isinstance(host, str) or not host:
        return None
    return LogRank(
        rank=rank, host=host, device=device, bus=_word(entry.get("device_hex")), model=_word(entry.get("device_info"))
    )


def _word(value: object) -> str | Unread:
    return value.strip() if isinstance(value, str) and value.strip() else Unread.UNKNOWN


def is_count(value: object) -> TypeGuard[int]:
    """True for a whole number that is not negative."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
