"""Was the result right? Asked after timing, on refilled buffers, of every rank that has a result."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist

from gpuwire_checks.measure import collectives, timing
from gpuwire_checks.measure.buffers import Slot
from gpuwire_checks.measure.case_run import CaseRun


def check(run: CaseRun, *, shift: int) -> tuple[dict[str, Any] | None, bool]:
    """The mismatch on this rank, if any, and whether this rank had a result to compare."""
    if run.collective == "barrier":
        return _check_barrier(run), True
    state, slot = run.state, run.slots[0]
    collectives.refill(slot, rank=state.rank, world_size=state.world_size, shift=shift)
    function = collectives.CALLS[run.collective]
    run.tally(lambda: timing.pipelined(lambda _: function(slot), state.clock, iterations=1))
    regions = collectives.expected_regions(
        run.collective, numel=_whole_numel(run, slot), world_size=state.world_size, rank=state.rank
    )
    if not regions:
        return None, False
    if _is_corrupted(run):
        slot.receive[slot.receive.numel() // 2] += 1
    mismatch = collectives.compare(slot, regions, rank=state.rank, world_size=state.world_size, shift=shift)
    return (asdict(mismatch) if mismatch else None), True


def _whole_numel(run: CaseRun, slot: Slot) -> int:
    """Elements of the whole array, from whichever buffer of this rank holds all or a shard of it."""
    held = max(slot.send.numel(), slot.receive.numel())
    only_shards = run.collective in ("gather", "scatter") and run.state.rank != collectives.ROOT
    return held * run.state.world_size if only_shards else held


def _check_barrier(run: CaseRun) -> dict[str, Any] | None:
    """Nobody may leave a barrier before the last rank has entered it. One host: its ranks share a clock."""
    state = run.state
    if state.rank == state.world_size - 1:
        time.sleep(0.002)
    entered = time.monotonic_ns()
    run.align()
    left = entered if _is_corrupted(run) else time.monotonic_ns()
    own = torch.tensor([entered], dtype=torch.int64, device=state.device)
    every = [torch.empty_like(own) for _ in range(state.world_size)]
    run.tally(lambda: dist.all_gather(every, own))
    last_entered = max(int(of_rank.item()) for of_rank in every)
    if left >= last_entered:
        return None
    return {
        "rank": state.rank,
        "index": 0,
        "expected": "to leave after the last rank had entered",
        "got": f"out {(last_entered - left) / 1e6:g} ms before it",
        "count": 1,
        "total": 1,
    }


def _is_corrupted(run: CaseRun) -> bool:
    return run.fault is not None and run.fault.kind == "corrupt"
