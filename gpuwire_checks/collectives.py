"""The collectives this suite knows: torch name, bus bandwidth factor, and which buffers a rank holds.

``S`` is always the size of the whole array, as in nccl-tests. Source of the factors: NVIDIA/nccl-tests
doc/PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Holds = Literal["array", "shard", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One row of the table.

    Attributes:
        name: as in ``torch.distributed``.
        busbw_factor: ``busbw = algbw * busbw_factor(world_size)``.
        sends: what a rank puts in: the whole array of ``S`` bytes, or its shard of ``S / world_size``.
        receives: what a rank gets out, in the same words. Equal to ``sends`` and in place where ``in_place``.
        in_place: the one buffer is both input and output.
        reduces: does arithmetic, so that its speed and exactness depend on the dtype.
        rooted: one rank (0) plays a part of its own.
    """

    name: str
    busbw_factor: Callable[[int], float]
    sends: Holds
    receives: Holds
    in_place: bool = False
    reduces: bool = False
    rooted: bool = False

    @property
    def sharded(self) -> bool:
        """Whether the array is cut into ``world_size`` equal shards."""
        return "shard" in (self.sends, self.receives) or self.name == "all_to_all_single"


def _one(_world_size: int) -> float:
    return 1.0


def _ring_once(world_size: int) -> float:
    return (world_size - 1) / world_size


def _ring_twice(world_size: int) -> float:
    return 2 * (world_size - 1) / world_size


_ROWS = (
    Collective(
        name="all_reduce", busbw_factor=_ring_twice, sends="array", receives="array", in_place=True, reduces=True
    ),
    Collective(name="all_gather_into_tensor", busbw_factor=_ring_once, sends="shard", receives="array"),
    Collective(name="reduce_scatter_tensor", busbw_factor=_ring_once, sends="array", receives="shard", reduces=True),
    Collective(name="all_to_all_single", busbw_factor=_ring_once, sends="array", receives="array"),
    Collective(name="broadcast", busbw_factor=_one, sends="array", receives="array", in_place=True, rooted=True),
    Collective(
        name="reduce", busbw_factor=_one, sends="array", receives="array", in_place=True, reduces=True, rooted=True
    ),
    Collective(name="gather", busbw_factor=_ring_once, sends="shard", receives="array", rooted=True),
    Collective(name="scatter", busbw_factor=_ring_once, sends="array", receives="shard", rooted=True),
    Collective(name="send_recv", busbw_factor=_one, sends="array", receives="array"),
    Collective(name="barrier", busbw_factor=_one, sends="nothing", receives="nothing"),
)

COLLECTIVES: Mapping[str, Collective] = MappingProxyType({row.name: row for row in _ROWS})


def algbw(*, size_bytes: int, seconds: float) -> float:
    """Algorithm bandwidth of one call, in GB/s (1 GB = 1e9 bytes): ``S / t``."""
    if seconds <= 0:
        raise ValueError(f"seconds must be positive, not {seconds}")
    return size_bytes / seconds / 1e9


def busbw(collective: str, *, size_bytes: int, seconds: float, world_size: int) -> float:
    """Bus bandwidth of one call, in GB/s (1 GB = 1e9 bytes): comparable with a link's peak for any world size.

    Args:
        collective: a key of ``COLLECTIVES``.
        size_bytes: bytes of the whole array ``S``: the gathered output of all_gather_into_tensor and gather, the
            full input of reduce_scatter_tensor, all_to_all_single and scatter, the one message of send_recv.
        seconds: one call on the slowest rank.
        world_size: ranks in the process group, at least 2.

    Raises:
        ValueError: ``world_size`` below 2, or ``seconds`` not positive.

    Source: NVIDIA/nccl-tests doc/PERFORMANCE.md.
    """
    if world_size < 2:
        raise ValueError(f"bus bandwidth needs at least 2 ranks, not {world_size}: one rank moves nothing")
    return algbw(size_bytes=size_bytes, seconds=seconds) * COLLECTIVES[collective].busbw_factor(world_size)


def moved_bytes(collective: str, *, size_bytes: int, world_size: int, item_bytes: int) -> int:
    """Bytes of the whole array after rounding down to whole elements, and to equal shards where it is cut.

    Args:
        item_bytes: bytes of one element.

    Raises:
        ValueError: nothing is left to move.
    """
    if collective == "barrier":
        return 0
    step = item_bytes * (world_size if COLLECTIVES[collective].sharded else 1)
    moved = size_bytes // step * step
    if moved == 0:
        raise ValueError(f"{collective}: {size_bytes} bytes cannot be cut into {step // item_bytes} shards")
    return moved
