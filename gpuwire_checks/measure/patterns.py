"""Integer-valued test data whose sums are exact, and the comparison of results with it.

Element ``index`` of a rank's array is a hash of (rank, index), bounded so that every partial sum is exact in the dtype
in whatever order it is formed. Ranks have different sequences, so a permuted or missing chunk shows. The sequence
repeats with a prime period, which no power-of-two chunk is a multiple of, so misplaced data shows too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

PERIOD = 262_139
"""Elements after which the pattern repeats: the largest prime below 2**18, so that a tile stays in a core's cache."""

_SIGNIFICAND_BITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """``length`` elements of an output from ``start`` on: the elements from ``offset`` on of one rank's array.

    ``source`` None means the sum over all ranks' arrays.
    """

    start: int
    length: int
    offset: int
    source: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """The first wrong element of an output, and how many there are."""

    index: int
    expected: str
    got: str
    count: int


def contribution(dtype: torch.dtype, *, world_size: int, rank: int) -> int:
    """Largest value a rank may hold so that the sum over all ranks is exact in ``dtype``.

    Beyond 2**significand ranks some ranks hold zeros only: the non-zero ones are thinned.
    """
    exact = 1 << _SIGNIFICAND_BITS[dtype]
    stride = -(-world_size // exact)
    return exact // world_size if stride == 1 else int(rank % stride == 0)


@lru_cache(maxsize=256)
def tile(rank: int, *, dtype: torch.dtype, world_size: int, device: torch.device) -> torch.Tensor:
    """Two periods of a rank's pattern, shape ``[2 * PERIOD]``: any stretch of up to one period is a slice of it."""
    index = torch.arange(PERIOD, dtype=torch.int64)
    x = (index * 0x9E3779B1 + (rank + 1) * 0x85EBCA77) & 0xFFFFFFFF
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39)):
        x = ((x ^ (x >> shift)) * factor) & 0xFFFFFFFF
    values = (x ^ (x >> 15)) % (contribution(dtype, world_size=world_size, rank=rank) + 1)
    return values.repeat(2).to(dtype).to(device)


@lru_cache(maxsize=32)
def sum_tile(*, dtype: torch.dtype, world_size: int, device: torch.device) -> torch.Tensor:
    """Two periods of the sum of all ranks' patterns, shape ``[2 * PERIOD]``; exact by the bound on each."""
    total = torch.zeros(2 * PERIOD, dtype=torch.float32)
    for rank in range(world_size):
        total += tile(rank, dtype=dtype, world_size=world_size, device=torch.device("cpu")).float()
    return total.to(dtype).to(device)


def fill(buffer: torch.Tensor, *, rank: int, world_size: int, shift: int) -> None:
    """Write a rank's pattern into a flat buffer of shape ``[numel]``, starting ``shift`` elements into it."""
    source = tile(rank, dtype=buffer.dtype, world_size=world_size, device=buffer.device)
    start = shift % PERIOD
    one = source[start : start + PERIOD]
    whole = buffer.numel() // PERIOD
    if whole:
        buffer[: whole * PERIOD].view(whole, PERIOD).copy_(one.expand(whole, PERIOD))
    rest = buffer[whole * PERIOD :]
    rest.copy_(one[: rest.numel()])


def find_wrong(output: torch.Tensor, regions: Sequence[Region], *, world_size: int, shift: int) -> Wrong | None:
    """What is wrong in an output of shape ``[numel]``; None when every region is right to the bit."""
    first: Wrong | None = None
    count = 0
    for region in regions:
        for begin in range(0, region.length, PERIOD):
            length = min(PERIOD, region.length - begin)
            got = output[region.start + begin : region.start + begin + length]
            expected = _expected(region, begin, length, like=output, world_size=world_size, shift=shift)
            if same_bits(got, expected):
                continue
            differs = torch.nonzero(got != expected).flatten()
            count += differs.numel()
            at = int(differs[0])
            first = first or Wrong(
                index=region.start + begin + at,
                expected=f"{float(expected[at]):.9g}",
                got=f"{float(got[at]):.9g}",
                count=0,
            )
    if first is None:
        return None
    return Wrong(index=first.index, expected=first.expected, got=first.got, count=count)


def same_bits(got: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two flat tensors of one dtype are equal to the bit."""
    if got.device.type != "cpu":
        return torch.equal(got, expected)
    # The same comparison on the bytes: torch.equal takes twice as long for float32 and six times for bfloat16, and
    # the check would cost more than the calls it checks.
    return np.array_equal(got.view(torch.uint8).numpy(), expected.view(torch.uint8).numpy())


def _expected(
    region: Region, begin: int, length: int, *, like: torch.Tensor, world_size: int, shift: int
) -> torch.Tensor:
    if region.source is None:
        source = sum_tile(dtype=like.dtype, world_size=world_size, device=like.device)
    else:
        source = tile(region.source, dtype=like.dtype, world_size=world_size, device=like.device)
    start = (shift + region.offset + begin) % PERIOD
    return source[start : start + length]
