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

    MAX_SLOTS = 1024

    def __init__(self, device: torch.device, *, rotate_bytes: int) -> None:
        self._device = device
        self._rotate_bytes = rotate_bytes
        self._dtype: torch.dtype | None = None
        self._storage = self._touched(rotate_bytes + 2 * _ALIGNMENT)

    def slots(
        self, collective: str, *, moved_bytes: int, dtype: torch.dtype, world_size: int, rank: int
    ) -> tuple[Slot, ...]:
        """Buffer sets for one case, at least one."""
        row = COLLECTIVES[collective]
        send, receive = (_held_bytes(what, row, moved_bytes, world_size, rank) for what in ("send", "receive"))
        stride = _aligned(send) + (0 if row.in_place else _aligned(receive))
        count = max(1, min(self.MAX_SLOTS, self._rotate_bytes // max(stride, 1)))
        self._reserve(count * stride, dtype)
        return tuple(
            self._slot(row, at * stride, send=send, receive=receive, dtype=dtype, world_size=world_size, rank=rank)
            for at in range(count)
        )

    def _touched(self, size_bytes: int) -> torch.Tensor:
        return torch.empty(size_bytes, dtype=torch.uint8, device=self._device).zero_()

    def _reserve(self, needed_bytes: int, dtype: torch.dtype) -> None:
        if self._storage.numel() < needed_bytes:
            # Free the old storage first: the two together may not fit.
            self._storage = torch.empty(0, dtype=torch.uint8, device=self._device)
            self._storage = self._touched(needed_bytes)
        elif self._dtype is not dtype:
            # Another dtype's bits can read as denormals, on which a CPU adds a hundred times slower.
            self._storage.zero_()
        self._dtype = dtype

    def _slot(
        self,
        row: Collective,
        offset: int,
        *,
        send: int,
        receive: int,
        dtype: torch.dtype,
        world_size: int,
        rank: int,
    ) -> Slot:
        sent = self._view(offset, send, dtype)
        received = sent if row.in_place else self._view(offset + _aligned(send), receive, dtype)
        at_root = row.rooted and rank == 0
        return Slot(
            send=sent,
            receive=received,
            send_chunks=list(sent.chunk(world_size)) if row.name == "scatter" and at_root else None,
            receive_chunks=list(received.chunk(world_size)) if row.name == "gather" and at_root else None,
        )

    def _view(self, offset: int, size_bytes: int, dtype: torch.dtype) -> torch.Tensor:
        return self._storage[offset : offset + size_bytes].view(dtype)


def _held_bytes(what: str, row: Collective, moved_bytes: int, world_size: int, rank: int) -> int:
    holds: Holds = row.sends if what == "send" else row.receives
    if row.rooted and rank != 0 and not row.in_place and holds == "array":
        return 0  # only the root holds the whole array of a gather or scatter
    if holds == "array":
        return moved_bytes
    return moved_bytes // world_size if holds == "shard" else 0


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
