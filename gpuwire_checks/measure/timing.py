"""Clocks, and the two ways of timing a call: back to back, and one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

Call = Callable[[int], object]
"""Issues call ``i``; which buffers it uses follows from ``i``."""


class Clock(Protocol):
    """Marks moments in the stream of work, and reads the seconds between two marks once the work is done."""

    name: str

    def mark(self) -> Any:
        """This moment in the stream of work, as something ``seconds`` understands."""

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds of work between two marks; waits for the work where it runs on a device."""


class HostClock:
    """The monotonic clock: on a CPU a call has ended when it returns."""

    name = "monotonic"

    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, start: float, end: float) -> float:
        return end - start


class DeviceClock:
    """Events on the current stream of an accelerator, so that the host's launch overhead is not in the figure."""

    name = "device events"

    def mark(self) -> torch.Event:
        event = torch.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: torch.Event, end: torch.Event) -> float:
        end.synchronize()
        return start.elapsed_time(end) / 1e3


def clock_for(device: torch.device) -> Clock:
    """The clock that sees the work of a device."""
    return HostClock() if device.type == "cpu" else DeviceClock()


def pipelined(call: Call, clock: Clock, *, iterations: int) -> float:
    """Seconds per call of ``iterations`` calls back to back: total over count."""
    start = clock.mark()
    for i in range(iterations):
        call(i)
    end = clock.mark()
    return clock.seconds(start, end) / iterations


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleCall:
    """One call: its seconds, and when it was entered on the host's monotonic clock."""

    seconds: float
    entered: float


def one_call(call: Call, clock: Clock, *, index: int, before: Callable[[], None] | None = None) -> SingleCall:
    """Time one call. ``before`` runs inside the interval, ahead of the call, as a late rank's own work would."""
    start = clock.mark()
    if before is not None:
        before()
    # Comparable between the ranks of one host: CLOCK_MONOTONIC is the kernel's, not the process's.
    entered = time.monotonic()
    call(index)
    end = clock.mark()
    return SingleCall(seconds=clock.seconds(start, end), entered=entered)
