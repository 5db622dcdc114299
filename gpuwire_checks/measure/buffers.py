"""The memory that calls work on: one arena a rank, cut into as many sets of buffers as keep the caches cold."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gpuwire_checks.collectives import COLLECTIVES, Collective, Holds

_ALIGNMENT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Buffers of one call, flat: ``send`` and ``receive`` are the same tensor where the collective is in place."""

    send: torch.Tensor
    receive: torch.Tensor
    send_chunks: list[torch.Tensor] | None
    receive_chunks: list[torch.Tensor] | None


class Arena:
    """A rank's memory, kept from case to case: pages are touched once, not once a case.

    Args:
        rotate_bytes: small buffers are rotated through at least this much, twice the last-level cache, because
            buffers that stay in cache flatter the figure.
    """

    MAX_SLOTS = 512

    def __init__(self, device: torch.device, *, rotate_bytes: int) -> None:
        self._device = device
        self._rotate_bytes = rotate_bytes
        self._dtype: torch.dtype | None = None
        self._storage = torch.empty(0, dtype=torch.uint8, device=device)  # made when a case needs it

    def slots(
        self, collective: str, *, moved_bytes: int, dtype: torch.dtype, world_size: int, rank: int
    ) -> tuple[Slot, ...]:
        """Buffer sets for one case, at least one."""
        row = COLLECTIVES[collective]
        send, receive = (_held_bytes(holds, row, moved_bytes, world_size, rank) for holds in (row.sends, row.receives))
        stride = _aligned(send) + (0 if row.in_place else _aligned(receive))
        if stride == 0:
            nothing = torch.empty(0, dtype=dtype, device=self._device)
            return (_slot(row, nothing, nothing, world_size, rank),)
        count = max(1, min(self.MAX_SLOTS, self._rotate_bytes // stride))
        self._reserve(count * stride, dtype)
        # One row a set, cut by unbind: making hundreds of views one by one takes longer than the calls do.
        rows = self._storage[: count * stride].view(dtype).view(count, stride // dtype.itemsize)
        sent = rows[:, : send // dtype.itemsize].unbind(0)
        begin = _aligned(send) // dtype.itemsize
        received = sent if row.in_place else rows[:, begin : begin + receive // dtype.itemsize].unbind(0)
        return tuple(_slot(row, s, r, world_size, rank) for s, r in zip(sent, received, strict=True))

    def _touched(self, size_bytes: int) -> torch.Tensor:
        return torch.empty(size_bytes, dtype=torch.uint8, device=self._device).zero_()

    def _reserve(self, needed_bytes: int, dtype: torch.dtype) -> None:
        if self._storage.numel() < needed_bytes:
            # Free the old storage first: the two together may not fit.
            self._storage = torch.empty(0, dtype=torch.uint8, device=self._device)
            self._storage = self._touched(max(needed_bytes, self._rotate_bytes))
        elif self._dtype is not dtype:
            # Another dtype's bits can read as denormals, on which a CPU adds a hundred times slower.
            self._storage.zero_()
        self._dtype = dtype


def _slot(row: Collective, send: torch.Tensor, receive: torch.Tensor, world_size: int, rank: int) -> Slot:
    at_root = row.rooted and rank == 0
    return Slot(
        send=send,
        receive=receive,
        send_chunks=list(send.chunk(world_size)) if row.name == "scatter" and at_root else None,
        receive_chunks=list(receive.chunk(world_size)) if row.name == "gather" and at_root else None,
    )


def _held_bytes(holds: Holds, row: Collective, moved_bytes: int, world_size: int, rank: int) -> int:
    if row.rooted and rank != 0 and not row.in_place and holds == "array":
        return 0  # only the root holds the whole array of a gather or scatter
    if holds == "array":
        return moved_bytes
    return moved_bytes // world_size if holds == "shard" else 0


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
