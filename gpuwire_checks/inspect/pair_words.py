"""Words for GPUs, pairs of them, ranges of figures, and the tests that measured them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuwire_checks.recorded.model import PairMatrix

_NAMED = 8
_SHARES = ((1 / 4, "a quarter"), (1 / 3, "a third"), (1 / 2, "half"), (2 / 3, "two thirds"), (3 / 4, "three quarters"))
_NEAR = 0.13
"""Relative distance at which a share is still called by its fraction: 9.9 of 22.2 is about half."""


def percent(share: float) -> str:
    """``41 %`` for 0.41; one decimal below one percent."""
    return f"{100 * share:.1f} %" if 0 < abs(share) < 0.01 else f"{100 * share:.0f} %"


def gpus_words(count: int) -> str:
    """``1 GPU``, ``6 GPUs``."""
    return f"{count} GPU{'' if count == 1 else 's'}"


def group_words(devices: Sequence[int]) -> str:
    """``GPU0-GPU2`` for neighbours, else the names."""
    if len(devices) > 2 and tuple(devices) == tuple(range(devices[0], devices[0] + len(devices))):
        return f"GPU{devices[0]} to GPU{devices[-1]}"
    return ", ".join(f"GPU{device}" for device in devices)


def pairs_words(pairs: Sequence[tuple[int, int]]) -> str:
    """``GPU0->GPU1, GPU2->GPU3 and 4 more``."""
    named = ", ".join(f"GPU{a}->GPU{b}" for a, b in pairs[:_NAMED])
    return f"{named} and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else named


def range_words(figures: Iterable[float], unit: str) -> str:
    """``26.34 to 26.35 GB/s``, two decimals as the tools print."""
    every = list(figures)
    low, high = min(every), max(every)
    return f"{low:.2f} {unit}" if low == high else f"{low:.2f} to {high:.2f} {unit}"


def share_words(share: float) -> str:
    """``half``, ``two thirds``, or a percentage where no such fraction is near."""
    fraction, name = min(_SHARES, key=lambda known: abs(share / known[0] - 1))
    return name if abs(share / fraction - 1) <= _NEAR else percent(share)


def sides(matrix: PairMatrix) -> tuple[str, str]:
    """What the row and the column of a GPU are: the device of the row starts the copies.

    Source: NVIDIA/nvbandwidth testcases_ce.cpp (DeviceToDeviceReadCE, DeviceToDeviceWriteCE) and NVIDIA/cuda-samples
    p2pBandwidthLatencyTest.cu (performP2PCopy).
    """
    test = matrix.test.lower()
    if "read" in test:
        return "reads by", "reads from"
    return ("writes from", "writes to") if "write" in test else ("copies from", "copies to")


def is_one_way(matrix: PairMatrix) -> bool:
    """Whether the figures are bandwidths of copies in one direction at a time."""
    test = matrix.test.lower()
    crowded = any(word in test for word in ("bidirectional", "<->", "all_to", "to_all", "multicast", "total"))
    return matrix.unit == "GB/s" and not crowded


def is_local(matrix: PairMatrix) -> bool:
    """Whether it is of copies within a device, over no wire."""
    return "local" in matrix.test


def is_host(matrix: PairMatrix) -> bool:
    """Whether it is between host and devices; the test's name tells, or its title."""
    return "host" in matrix.test or "CPU(row)" in matrix.test


def is_staged(matrix: PairMatrix) -> bool:
    """Whether its copies between devices go through the host, because P2P is off."""
    return "P2P=Disabled" in matrix.test
