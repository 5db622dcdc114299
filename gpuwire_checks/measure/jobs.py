"""The jobs a rank can be asked for. A message names one of them; nothing else can be run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gpuwire_checks.collectives import moved_bytes
from gpuwire_checks.measure import collectives, faults, timing
from gpuwire_checks.measure.buffers import Arena, Slot
from gpuwire_checks.measure.faults import Fault
from gpuwire_checks.measure.timing import Call, Clock

# Shares of a case's seconds; the rest is warm-up, alignment and the check.
_PIPELINED_SHARE = 0.6
_PER_CALL_SHARE = 0.25
_WARM_UP_SHARE = 0.05


@dataclass(slots=True, kw_only=True)
class RankState:
    """What a rank keeps between jobs."""

    rank: int
    world_size: int
    backend: str
    device: torch.device
    clock: Clock
    arena: Arena
    store: dist.Store
    timeout: timedelta
    generation: int = 0


@dataclass(slots=True, kw_only=True)
class Tally:
    """Wall seconds spent inside collective calls, by every kind of call a case makes."""

    seconds: float = 0.0

    def run(self, function: Callable[[], object]) -> float:
        """Run calls, add their wall seconds, and return those."""
        start = time.perf_counter()
        function()
        spent = time.perf_counter() - start
        self.seconds += spent
        return spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often a case is called, from what one call takes."""

    repeats: int
    iterations: int
    single_calls: int
    warm_up: int

    @classmethod
    def within(cls, seconds: float, *, call_seconds: float) -> Effort:
        """As many calls as fit ``seconds``, never fewer than 3 repeats and 3 single calls."""
        affordable = seconds / max(call_seconds, 1e-7)
        repeats = _clamp(affordable * _PIPELINED_SHARE / 2, 3, 9)
        return cls(
            repeats=repeats,
            iterations=_clamp(affordable * _PIPELINED_SHARE / repeats - 1, 1, 10_000),
            single_calls=_clamp(affordable * _PER_CALL_SHARE, 3, 50),
            warm_up=_clamp(affordable * _WARM_UP_SHARE, 0, 50),
        )


@dataclass(slots=True, kw_only=True)
class CaseRun:
    """One case on one rank: its buffers, its fault if any, and the tally of its calls."""

    state: RankState
    collective: str
    slots: tuple[Slot, ...]
    fault: Fault | None
    tally: Tally = field(default_factory=Tally)

    def call(self) -> Call:
        """The call as it is timed: rotating through the slots, late where a fault says so."""
        function, slots, count = collectives.CALLS[self.collective], self.slots, len(self.slots)
        before = faults.before_call(self.fault)
        if before is None:
            return lambda i: function(slots[i % count])

        def late(i: int) -> None:
            before()
            function(slots[i % count])

        return late

    def align(self) -> None:
        self.tally.run(dist.barrier)


def measure_collective(state: RankState, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Time one collective both ways, then check its results on refilled buffers.

    Parameters: ``collective``, ``size_bytes``, ``dtype``, ``seconds``, ``shift`` (where in the pattern the check
    starts, new for each attempt so that a stale result cannot pass) and ``fault`` (tests only).
    """
    run, moved = _prepare(state, parameters)
    faults.strike_at_start(run.fault)
    effort = _warm_up(run, float(parameters["seconds"]))
    repeats = [_pipelined_repeat(run, effort) for _ in range(effort.repeats)]
    singles = [_single_call(run, i) for i in range(effort.single_calls)]
    mismatch, checked = _check(run, shift=int(parameters["shift"]))
    return {
        "moved_bytes": moved,
        "pipelined": repeats,
        "per_call": [single.seconds for single in singles],
        "entered": [single.entered for single in singles],
        "mismatch": mismatch,
        "checked": checked,
        "calls_seconds": run.tally.seconds,
        "conditions": {
            "clock": state.clock.name,
            "backend": state.backend,
            "pipelined_iterations": str(effort.iterations),
            "buffer_sets": str(len(run.slots)),
        },
    }


def renew(state: RankState, _parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A fresh process group on the same ranks: new connections or channels, no new processes."""
    dist.destroy_process_group()
    state.generation += 1
    init_process_group(state)
    return {"generation": state.generation}


JOBS: dict[str, Callable[[RankState, Mapping[str, Any]], dict[str, Any]]] = {
    "measure_collective": measure_collective,
    "renew": renew,
}


def init_process_group(state: RankState) -> None:
    """Join the world under this generation's names in the store."""
    dist.init_process_group(
        state.backend,
        store=dist.PrefixStore(f"generation-{state.generation}", state.store),
        rank=state.rank,
        world_size=state.world_size,
        timeout=state.timeout,
        device_id=None if state.device.type == "cpu" else state.device,
    )


def _prepare(state: RankState, parameters: Mapping[str, Any]) -> tuple[CaseRun, int]:
    collective = str(parameters["collective"])
    dtype = getattr(torch, str(parameters["dtype"])) if parameters["dtype"] is not None else torch.float32
    moved = moved_bytes(
        collective,
        size_bytes=int(parameters["size_bytes"]),
        world_size=state.world_size,
        item_bytes=dtype.itemsize,
    )
    slots = state.arena.slots(
        collective, moved_bytes=moved, dtype=dtype, world_size=state.world_size, rank=state.rank
    )
    fault = faults.fault_here(parameters.get("fault"), rank=state.rank, collective=collective)
    return CaseRun(state=state, collective=collective, slots=slots, fault=fault), moved


def _warm_up(run: CaseRun, seconds: float) -> Effort:
    """First calls build channels and touch memory; later ones tell how many fit."""
    call, clock = run.call(), run.state.clock
    run.align()
    run.tally.run(lambda: timing.pipelined(call, clock, iterations=1))
    call_seconds = _agreed_seconds(run, call, iterations=1)
    if call_seconds < seconds * _WARM_UP_SHARE:
        # One short call says little: a single wake-up on a busy host takes ten times the median.
        call_seconds = _agreed_seconds(run, call, iterations=5)
    effort = Effort.within(seconds, call_seconds=call_seconds)
    if effort.warm_up:
        run.tally.run(lambda: timing.pipelined(call, clock, iterations=effort.warm_up))
    return effort


def _agreed_seconds(run: CaseRun, call: Call, *, iterations: int) -> float:
    """Seconds per call on the slowest rank, the same on all."""
    spent = run.tally.run(lambda: timing.pipelined(call, run.state.clock, iterations=iterations))
    return collectives.agree(spent / iterations, device=run.state.device)


def _pipelined_repeat(run: CaseRun, effort: Effort) -> float:
    call = run.call()
    run.align()
    run.tally.run(lambda: call(0))  # the first call after a barrier carries its skew: dropped
    per_call = 0.0

    def timed() -> None:
        nonlocal per_call
        per_call = timing.pipelined(call, run.state.clock, iterations=effort.iterations)

    run.tally.run(timed)
    return per_call


def _single_call(run: CaseRun, index: int) -> timing.SingleCall:
    bare = CaseRun(state=run.state, collective=run.collective, slots=run.slots, fault=None).call()
    before = faults.before_call(run.fault)
    run.align()
    start = time.perf_counter()
    single = timing.one_call(bare, run.state.clock, index=index, before=before)
    run.tally.seconds += time.perf_counter() - start
    return single


def _check(run: CaseRun, *, shift: int) -> tuple[dict[str, Any] | None, bool]:
    """The mismatch on this rank, if any, and whether this rank had a result to compare."""
    if run.collective == "barrier":
        return _check_barrier(run), True
    state, slot = run.state, run.slots[0]
    collectives.refill(slot, rank=state.rank, world_size=state.world_size, shift=shift)
    function = collectives.CALLS[run.collective]
    run.tally.run(lambda: timing.pipelined(lambda _: function(slot), state.clock, iterations=1))
    if run.fault is not None and run.fault.kind == "corrupt" and slot.receive.numel():
        slot.receive[slot.receive.numel() // 2] += 1
    numel = _whole_numel(run, slot)
    regions = collectives.expected_regions(
        run.collective, numel=numel, world_size=state.world_size, rank=state.rank
    )
    if not regions:
        return None, False
    mismatch = collectives.compare(slot, regions, rank=state.rank, world_size=state.world_size, shift=shift)
    return (asdict(mismatch) if mismatch else None), True


def _whole_numel(run: CaseRun, slot: Slot) -> int:
    """Elements of the whole array, from whichever buffer of this rank holds all or a shard of it."""
    held = max(slot.send.numel(), slot.receive.numel())
    only_shards = run.collective in ("gather", "scatter") and run.state.rank != collectives.ROOT
    return held * run.state.world_size if only_shards else held


def _check_barrier(run: CaseRun) -> dict[str, Any] | None:
    """Nobody may leave a barrier before the last rank has entered it."""
    state = run.state
    if state.rank == state.world_size - 1:
        time.sleep(0.002)
    entered = time.monotonic_ns()
    run.align()
    left = time.monotonic_ns()
    own = torch.tensor([entered, left], dtype=torch.int64, device=state.device)
    every = [torch.empty_like(own) for _ in range(state.world_size)]
    dist.all_gather(every, own)
    last_entered = max(int(times[0]) for times in every)
    if run.fault is not None and run.fault.kind == "corrupt":
        left = entered
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


def _clamp(value: float, low: int, high: int) -> int:
    return max(low, min(high, int(value)))


def software() -> dict[str, str]:
    """Versions of what the ranks run on, as the framework sees them."""
    versions = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        versions["cuda"] = str(torch.version.cuda)
    if dist.is_nccl_available() and torch.cuda.is_available():
        versions["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    versions["omp_num_threads"] = os.environ.get("OMP_NUM_THREADS", "")
    return versions
