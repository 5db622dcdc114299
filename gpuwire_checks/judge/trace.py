"""A trace: attempts at the same cases over and over on a node that nobody changed, in the order they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from gpuwire_checks.baseline.family import family_of
from gpuwire_checks.baseline.schema import BoundEntry, CaseEntry, TailEntry, round_figure
from gpuwire_checks.judge.families import family_words
from gpuwire_checks.records import Case, Measurement
from gpuwire_checks.statistics.robust import robust_spread

_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedAttempt:
    """One attempt: when it began (ISO 8601), its figure, and its tail where it has one."""

    at: str
    value: float
    tail: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCase:
    """All attempts at one case.

    Attributes:
        case: its name.
        family: whose noise it shares, in words.
        of: the case itself.
    """

    case: str
    metric: str
    unit: str
    better: Literal["higher", "lower"]
    family: str
    of: Case
    attempts: tuple[TracedAttempt, ...]

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(attempt.value for attempt in self.attempts)

    @property
    def tails(self) -> tuple[float, ...]:
        """The tail of every attempt; none at all where one has none."""
        tails = tuple(attempt.tail for attempt in self.attempts if attempt.tail is not None)
        return tails if len(tails) == len(self.attempts) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What was recorded, on what kind of host (no name of it) and with what.

    Attributes:
        recorded_at: when the first attempt began.
        software: versions by name.
    """

    schema: Literal[1] = 1
    host_kind: str
    recorded_at: str
    gpuwire: str
    sku: str
    software: Mapping[str, str | None]
    cases: tuple[TracedCase, ...]


def traced(case: Case, attempts: Sequence[Measurement]) -> TracedCase:
    """A case's attempts as a trace keeps them: figures with six digits."""
    metric = case.metric
    return TracedCase(
        case=case.id,
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        family=family_words(family_of(_entry(case, [1.0], [], attempts=1))),
        of=case,
        attempts=tuple(
            TracedAttempt(
                at=attempt.started_at,
                value=round_figure(attempt.value, _DIGITS),
                tail=None if attempt.tail is None else round_figure(attempt.tail, _DIGITS),
            )
            for attempt in attempts
        ),
    )


def entry_of(case: TracedCase, *, first: int | None = None, attempts: int | None = None) -> BoundEntry:
    """The bound that a trace's attempts at a case give.

    Args:
        first: only so many attempts, from the first on.
        attempts: as if the spread had been found with so many of them.
    """
    values, tails = case.values[:first], case.tails[:first]
    return _entry(case.of, values, tails, attempts=attempts or len(values))


def _entry(case: Case, values: Sequence[float], tails: Sequence[float], *, attempts: int) -> BoundEntry:
    tail = TailEntry(centre=median(tails), spread=robust_spread(tails)) if tails else None
    return BoundEntry(
        metric=case.metric.name,
        case=CaseEntry(
            collective=case.collective,
            size=case.size_bytes,
            dtype=case.dtype,
            world_size=case.world_size,
            backend=case.backend,
        ),
        unit=case.metric.unit,
        better=case.metric.better,
        centre=median(values),
        spread=robust_spread(values),
        attempts=attempts,
        nodes=1,
        tail=tail,
    )
