"""The nouns that travel from stage to stage: what is measured, what was measured, and what was made of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import Literal

from gpuwire_checks.collectives import busbw
from gpuwire_checks.units import format_size

Samples = tuple[tuple[float, ...], ...]
"""Seconds, indexed [rank][sample]. Ranks take samples together: sample i is the same call on every rank."""


class Outcome(str, Enum):
    """How a case ended. The words are used unchanged in the terminal, JUnit and run.json.

    CHANGED is software that is not the baseline's: figures may differ by it, and not by a wire. UNSTABLE is a figure
    that comes and goes, or whose own noise is wider than what its limit could enforce.
    """

    PASS = "PASS"  # noqa: S105 - not a password
    IMPROVED = "IMPROVED"
    REGRESSED = "REGRESSED"
    WRONG = "WRONG"
    MISSING = "MISSING"
    UNSTABLE = "UNSTABLE"
    CHANGED = "CHANGED"
    NO_BASELINE = "NO BASELINE"
    NOT_RUN = "NOT RUN"
    ERROR = "ERROR"

    @property
    def is_fault(self) -> bool:
        return self in (Outcome.REGRESSED, Outcome.WRONG, Outcome.MISSING, Outcome.UNSTABLE, Outcome.CHANGED)

    @property
    def is_good(self) -> bool:
        return self in (Outcome.PASS, Outcome.IMPROVED)


class SizeClass(str, Enum):
    """What a size is there to show; each class is gated on its own."""

    LATENCY = "latency"
    """At most 64 KiB: median microseconds."""
    BUCKET = "bucket"
    """About 1-64 MiB: what DDP and FSDP send."""
    PEAK = "peak"
    """What saturates the wire of this node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A figure's name, unit and good side."""

    name: str
    unit: str
    better: Literal["higher", "lower"]


BUSBW = Metric(name="busbw", unit="GB/s", better="higher")
LATENCY = Metric(name="latency", unit="us", better="lower")
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in (BUSBW, LATENCY)}
TAIL = Metric(name="tail", unit="p95/p50", better="lower")
"""How far single calls spread within one attempt: their 95th percentile over their median."""
TAIL_CALLS = 20
"""Single calls from which on a tail is told: the 95th percentile of fewer is their maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing to measure: a collective at one size, dtype and world size, on one backend.

    Attributes:
        collective: a key of ``COLLECTIVES``.
        size_bytes: of the whole array, as asked for; 0 for barrier.
        dtype: torch's name (``float32``); None for barrier, which carries no data.
        device: torch's device type, ``cpu`` or ``cuda``.
        seconds: time to spend on its timed calls, as far as the fewest calls allow.
        predicted_seconds: what it will take, from which the budget and the deadline are computed.
    """

    collective: str
    size_bytes: int
    dtype: str | None
    world_size: int
    size_class: SizeClass
    backend: str
    device: str
    seconds: float = field(default=0.2, compare=False)
    predicted_seconds: float = field(default=0.5, compare=False)

    @property
    def id(self) -> str:
        """``all_reduce-64MiB-bfloat16-ws8``: what a person reads and selects with ``-k``."""
        parts = [self.collective]
        if self.dtype is not None:
            parts += [format_size(self.size_bytes), self.dtype]
        return "-".join([*parts, f"ws{self.world_size}"])

    @property
    def metric(self) -> Metric:
        """The figure this case is held to its baseline by."""
        return LATENCY if self.size_class is SizeClass.LATENCY else BUSBW

    @property
    def family(self) -> str:
        """Cases that share their noise: same metric, size class and backend."""
        return f"{self.metric.name}/{self.size_class.value}/{self.backend}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A wrong result: where it starts, and how much of it there is.

    Attributes:
        index: the first wrong element of the rank's output.
        expected: what that element had to be, as text: it may be a NaN, which JSON cannot carry.
        got: what it was, likewise.
        count: wrong elements, of ``total``.
    """

    rank: int
    index: int
    expected: str
    got: str
    count: int
    total: int

    def __str__(self) -> str:
        return (
            f"rank {self.rank} got {self.got} instead of {self.expected} at index {self.index}"
            f" ({self.count} of {self.total} elements are wrong)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One attempt at a case: every sample of every rank.

    Attributes:
        moved_bytes: bytes of the whole array really moved, after rounding to elements and shards.
        pipelined: seconds per call of each repeat of calls back to back.
        per_call: seconds of single calls, each after a barrier.
        arrival_lag: seconds by which each rank entered each of those single calls after the first rank did.
        mismatches: wrong results of the correctness check, empty when every rank was right.
        checked_ranks: ranks whose results were compared; 0 would mean that nothing was.
        calls_seconds: wall seconds inside collective calls on the busiest rank, warm-up and check included.
        wall_seconds: from asking the ranks to having their answers.
        conditions: what it was measured under (library versions, clock, algorithm), as text.
    """

    case: Case
    moved_bytes: int
    pipelined: Samples
    per_call: Samples
    arrival_lag: Samples
    mismatches: tuple[Mismatch, ...]
    checked_ranks: int
    calls_seconds: float
    wall_seconds: float
    started_at: str
    conditions: Mapping[str, str]

    @property
    def samples(self) -> tuple[float, ...]:
        """Seconds per call on the slowest rank, of each sample of the kind that this case is gated on.

        Single calls in the latency class, where one late wake-up would spoil a whole repeat; repeats of calls back to
        back in the others, as they are sent by training. The two are never compared with each other.
        """
        gate = self.per_call if self.case.size_class is SizeClass.LATENCY else self.pipelined
        return slowest_of_ranks(gate)

    @property
    def seconds(self) -> float:
        """Seconds per call: the median sample. Time first, bandwidth last: a mean of rates hides slow samples."""
        return median(self.samples)

    @property
    def value(self) -> float:
        """The case's own metric: bus bandwidth in GB/s, or latency in microseconds."""
        if self.case.metric is LATENCY:
            return self.seconds * 1e6
        return busbw(
            self.case.collective,
            size_bytes=self.moved_bytes,
            seconds=self.seconds,
            world_size=self.case.world_size,
        )

    @property
    def tail(self) -> float | None:
        """95th percentile of its single calls over their median, on the slowest rank of each; None of too few calls.

        A link that flaps keeps its median, and shows here.
        """
        calls = sorted(slowest_of_ranks(self.per_call))
        if len(calls) < TAIL_CALLS:
            return None
        return calls[math.ceil(0.95 * len(calls)) - 1] / median(calls)


def slowest_of_ranks(samples: Samples) -> tuple[float, ...]:
    """Seconds of each sample on the rank that took longest, from samples [rank][sample]."""
    return tuple(max(together) for together in zip(*samples, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a baseline says of one case.

    Attributes:
        centre: the recorded median, in ``metric.unit``.
        spread: standard deviation between attempts of the figure's natural logarithm, its family's behind it.
        degrees: degrees of freedom behind ``spread``.
        attempts: attempts behind ``centre``.
        nodes, runs: how many are behind it.
        between: standard deviation between the centres of those nodes, or of one node's runs; None of one run.
        where: file and line, for messages.
        tail: the same of the spread within attempts; None where it was not recorded.
        rolling: the same of the last good runs; None where nobody keeps it.
    """

    metric: Metric
    centre: float
    spread: float
    degrees: float
    attempts: int
    nodes: int
    where: str
    runs: int = 1
    between: float | None = None
    tail: Bound | None = None
    rolling: Bound | None = None

    @property
    def groups(self) -> int:
        """What ``between`` is the spread of: nodes, or runs of the one node."""
        return self.nodes if self.nodes > 1 else self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDevice:
    """An accelerator as the framework sees it, under its number there.

    Attributes:
        uuid: as the framework writes it, without the driver's ``GPU-``; None where it does not tell.
        pci_address: ``0000:1b:00.0``; None where it does not tell.
    """

    model: str
    uuid: str | None = None
    pci_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the judge made of one case.

    Attributes:
        value: the figure judged: the median of ``attempts``. None when nothing was measured.
        accepted: lowest and highest figure accepted, in ``unit``; a published floor has no highest. None without a
            bound or a floor.
        attempts: the figure of every attempt made, in order.
        slowest_rank: the rank that held the others up, None when no rank stands out.
        reason: one sentence with the evidence.
        warned: an UNSTABLE that the policy makes a warning of, and no fault.
    """

    outcome: Outcome
    case: Case | None
    name: str
    metric: str
    unit: str
    value: float | None = None
    centre: float | None = None
    accepted: tuple[float, float | None] | None = None
    attempts: tuple[float, ...] = ()
    slowest_rank: int | None = None
    reason: str = ""
    warned: bool = False

    @property
    def is_fault(self) -> bool:
        return self.outcome.is_fault and not self.warned

    @property
    def change(self) -> float | None:
        """The figure over the baseline's centre, minus one: -0.12 is 12 % less. None without both."""
        if self.value is None or self.centre is None:
            return None
        return self.value / self.centre - 1
