"""One case on one rank: how often it is called, and the calls, timed both ways."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist

from gpuwire_checks.measure import collectives, faults, timing
from gpuwire_checks.measure.buffers import Arena, Slot
from gpuwire_checks.measure.faults import Fault
from gpuwire_checks.measure.timing import Call, Clock

# Share of a case's seconds spent on the calls it is gated on, and on the others; the rest is alignment and the check.
_GATED_SHARE = 0.6
_OTHER_SHARE = 0.25
_WARM_UP_SHARE = 0.05

# Many short repeats rather than few long ones: a disturbance then spoils a sample, and not the median.
_REPEATS_AT_MOST = 25
_CALLS_A_REPEAT = 4


@dataclass(slots=True, kw_only=True)
class RankState:
    """What a rank keeps between jobs; ``main_cpus`` and ``loop_cpus`` are where its threads go."""

    rank: int
    world_size: int
    backend: str
    device: torch.device
    clock: Clock
    arena: Arena
    store: dist.distributed_c10d.Store
    timeout: timedelta
    main_cpus: tuple[int, ...] = ()
    loop_cpus: tuple[int, ...] = ()
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often a case is called, from what one call takes."""

    repeats: int
    iterations: int
    single_calls: int
    warm_up: int

    @classmethod
    def within(cls, seconds: float, *, call_seconds: float, gate_single_calls: bool) -> Effort:
        """As many calls as fit ``seconds``, never fewer than 3 repeats and 3 single calls.

        Args:
            gate_single_calls: the case is gated on its single calls, so that most of the time is theirs.
        """
        affordable = seconds / max(call_seconds, 1e-7)
        gated, other = affordable * _GATED_SHARE, affordable * _OTHER_SHARE
        single, pipelined = (gated, other) if gate_single_calls else (other, gated)
        repeats = _clamp(pipelined / _CALLS_A_REPEAT, 3, _REPEATS_AT_MOST)
        return cls(
            repeats=repeats,
            iterations=_clamp(pipelined / repeats - 1, 1, 10_000),
            # Each has a barrier before it, which takes about as long as a small call.
            single_calls=_clamp(single / 2, 3, 200),
            warm_up=_clamp(affordable * _WARM_UP_SHARE, 0, 50),
        )


@dataclass(slots=True, kw_only=True)
class CaseRun:
    """A case's buffers on this rank, its fault if any, and the wall seconds spent inside calls of every kind."""

    state: RankState
    collective: str
    slots: tuple[Slot, ...]
    fault: Fault | None = None
    calls_seconds: float = field(default=0.0)

    def call(self) -> Call:
        """The call, rotating through the slots; nothing but the collective is in it."""
        function, slots, count = collectives.CALLS[self.collective], self.slots, len(self.slots)
        return lambda i: function(slots[i % count])

    def struck_call(self) -> Call:
        """The same, late where a fault says so."""
        before, call = faults.before_call(self.fault), self.call()
        if before is None:
            return call

        def late(i: int) -> None:
            before()
            call(i)

        return late

    def align(self) -> None:
        """Bring the ranks together."""
        self.tally(dist.barrier)

    def tally(self, function: Callable[[], object]) -> float:
        """Run calls, add their wall seconds, and return those."""
        start = time.perf_counter()
        function()
        spent = time.perf_counter() - start
        self.calls_seconds += spent
        return spent

    def warm_up(self, seconds: float, *, gate_single_calls: bool = False) -> Effort:
        """First calls build channels and touch memory; later ones tell how many fit into ``seconds``."""
        call = self.struck_call()
        self.align()
        self.tally(lambda: timing.pipelined(call, self.state.clock, iterations=1))
        call_seconds = self._agreed_seconds(call, iterations=1)
        if call_seconds < seconds * _WARM_UP_SHARE:
            # One short call says little: a single wake-up on a busy host takes ten times the median.
            call_seconds = self._agreed_seconds(call, iterations=5)
        effort = Effort.within(seconds, call_seconds=call_seconds, gate_single_calls=gate_single_calls)
        if effort.warm_up:
            self.tally(lambda: timing.pipelined(call, self.state.clock, iterations=effort.warm_up))
        return effort

    def pipelined_repeat(self, effort: Effort) -> float:
        """Seconds per call of calls back to back, after a barrier and one call that is dropped."""
        call = self.struck_call()
        self.align()
        self.tally(lambda: call(0))  # carries the skew of the barrier
        per_call: list[float] = []
        self.tally(lambda: per_call.append(timing.pipelined(call, self.state.clock, iterations=effort.iterations)))
        return per_call[0]

    def single_call(self, index: int) -> timing.SingleCall:
        """One call after a barrier."""
        before = faults.before_call(self.fault)
        self.align()
        singles: list[timing.SingleCall] = []
        self.tally(lambda: singles.append(timing.one_call(self.call(), self.state.clock, index=index, before=before)))
        return singles[0]

    def _agreed_seconds(self, call: Call, *, iterations: int) -> float:
        """Seconds per call on the slowest rank, the same on all."""
        spent = self.tally(lambda: timing.pipelined(call, self.state.clock, iterations=iterations))
        return collectives.agree(spent / iterations, device=self.state.device)


def _clamp(value: float, low: int, high: int) -> int:
    return max(low, min(high, int(value)))
