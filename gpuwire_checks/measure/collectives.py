"""How each collective is called, and what each rank must hold afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from gpuwire_checks.measure import patterns
from gpuwire_checks.measure.buffers import Slot
from gpuwire_checks.measure.patterns import Region
from gpuwire_checks.records import Mismatch

ROOT = 0


def _all_reduce(slot: Slot) -> None:
    dist.all_reduce(slot.send)


def _all_gather_into_tensor(slot: Slot) -> None:
    dist.all_gather_into_tensor(slot.receive, slot.send)


def _reduce_scatter_tensor(slot: Slot) -> None:
    dist.reduce_scatter_tensor(slot.receive, slot.send)


def _all_to_all_single(slot: Slot) -> None:
    dist.all_to_all_single(slot.receive, slot.send)


def _broadcast(slot: Slot) -> None:
    dist.broadcast(slot.send, src=ROOT)


def _reduce(slot: Slot) -> None:
    dist.reduce(slot.send, dst=ROOT)


def _gather(slot: Slot) -> None:
    dist.gather(slot.send, slot.receive_chunks, dst=ROOT)


def _scatter(slot: Slot) -> None:
    dist.scatter(slot.receive, slot.send_chunks, src=ROOT)


def _send_recv(slot: Slot) -> None:
    """A ring: to rank + 1, from rank - 1."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, slot.send, (rank + 1) % world_size),
            dist.P2POp(dist.irecv, slot.receive, (rank - 1) % world_size),
        ]
    )
    for work in works:
        work.wait()


def _barrier(_slot: Slot) -> None:
    dist.barrier()


CALLS: dict[str, Callable[[Slot], None]] = {
    "all_reduce": _all_reduce,
    "all_gather_into_tensor": _all_gather_into_tensor,
    "reduce_scatter_tensor": _reduce_scatter_tensor,
    "all_to_all_single": _all_to_all_single,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
    "send_recv": _send_recv,
    "barrier": _barrier,
}


def expected_regions(collective: str, *, numel: int, world_size: int, rank: int) -> list[Region]:
    """What a rank's output must be after the call, as stretches of the ranks' patterns.

    Args:
        numel: elements of the whole array ``S``.

    Returns:
        Regions in units of elements; none where the collective leaves a rank's output undefined.
    """
    shard = numel // world_size
    if collective in ("reduce", "gather") and rank != ROOT:
        return []
    whole, one_shard = {"start": 0, "length": numel}, {"start": 0, "length": shard}
    by_collective = {
        "all_reduce": [Region(**whole, offset=0, source=None)],
        "reduce": [Region(**whole, offset=0, source=None)],
        "reduce_scatter_tensor": [Region(**one_shard, offset=rank * shard, source=None)],
        "all_gather_into_tensor": _from_every_rank(shard, world_size, offset=0),
        "gather": _from_every_rank(shard, world_size, offset=0),
        "all_to_all_single": _from_every_rank(shard, world_size, offset=rank * shard),
        "broadcast": [Region(**whole, offset=0, source=ROOT)],
        "scatter": [Region(**one_shard, offset=rank * shard, source=ROOT)],
        "send_recv": [Region(**whole, offset=0, source=(rank - 1) % world_size)],
    }
    if collective not in by_collective:
        raise ValueError(f"{collective} has no output to compare")
    return by_collective[collective]


def _from_every_rank(shard: int, world_size: int, *, offset: int) -> list[Region]:
    return [Region(start=rank * shard, length=shard, offset=offset, source=rank) for rank in range(world_size)]


def refill(slot: Slot, *, rank: int, world_size: int, shift: int) -> None:
    """Put fresh inputs in place and spoil the output, so that a call that does nothing cannot pass."""
    if slot.receive is not slot.send:
        slot.receive.fill_(-1)
    patterns.fill(slot.send, rank=rank, world_size=world_size, shift=shift)


def compare(slot: Slot, regions: Sequence[Region], *, rank: int, world_size: int, shift: int) -> Mismatch | None:
    """Compare a rank's output with what it must be, bit for bit; None when it is right."""
    wrong = patterns.find_wrong(slot.receive, regions, world_size=world_size, shift=shift)
    if wrong is None:
        return None
    return Mismatch(
        rank=rank,
        index=wrong.index,
        expected=wrong.expected,
        got=wrong.got,
        count=wrong.count,
        total=slot.receive.numel(),
    )


def agree(seconds: float, *, device: torch.device) -> float:
    """The largest of the ranks' figures, so that all take the same decision from it."""
    # float32: some accelerators have no float64.
    tensor = torch.tensor([seconds], dtype=torch.float32, device=device)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor.item())
