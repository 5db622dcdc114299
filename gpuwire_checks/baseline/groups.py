"""Figures of many runs, sorted by case and node: what the baseline of a fleet is made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from gpuwire_checks.records import Case
from gpuwire_checks.statistics.robust import centre_error, pooled_spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The attempts at one case in one run on one node.

    Attributes:
        values: the figure of each attempt, in the case's unit.
        tails: p95 over p50 of the single calls of each attempt; empty where an attempt has too few to tell.
    """

    host: str
    run: str
    started_at: datetime
    values: tuple[float, ...]
    tails: tuple[float, ...] = ()

    @property
    def centre(self) -> float:
        """The logarithm of the median attempt."""
        return math.log(median(self.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Every run's attempts at one case.

    Attributes:
        allowed: smallest change worth a failure, as a natural logarithm: the policy's ``min_effect``.
        night: standard deviation, in spreads, of what the attempts of one run have in common: the policy's.
    """

    case: Case
    groups: tuple[Group, ...]
    allowed: float
    night: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The runs of one node at one case, in the order of time."""

    host: str
    groups: tuple[Group, ...]

    @property
    def centre(self) -> float:
        """The median of the logarithms of its runs' medians: a run that went wrong does not move it."""
        return median(group.centre for group in self.groups)

    @property
    def attempts(self) -> int:
        return sum(len(group.values) for group in self.groups)

    @property
    def together(self) -> bool:
        """Whether its runs are taken as one, because each has a single attempt: their spread has nights in it."""
        return all(len(group.values) == 1 for group in self.groups)

    @property
    def runs(self) -> int:
        return 1 if self.together else len(self.groups)

    @property
    def samples(self) -> list[tuple[float, ...]]:
        """Values that have a spread: the attempts of each run, or single attempts of all runs taken together."""
        if self.together:
            return [tuple(group.values[0] for group in self.groups)]
        return [group.values for group in self.groups]

    @property
    def tail_samples(self) -> list[tuple[float, ...]]:
        if self.together:
            return [tuple(tail for group in self.groups for tail in group.tails)]
        return [group.tails for group in self.groups]


def nodes_of(groups: Iterable[Group]) -> tuple[Node, ...]:
    """Runs by node; nodes by name, and a node's runs by time, in whatever order they are given."""
    hosts: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda group: (group.host, group.started_at, group.run)):
        hosts.setdefault(group.host, []).append(group)
    return tuple(Node(host=host, groups=tuple(some)) for host, some in hosts.items())


def spread_within(nodes: Sequence[Node]) -> float | None:
    """Spread between attempts of one run, over all runs; None where no run, and no node, has two attempts."""
    samples = [sample for node in nodes for sample in node.samples]
    return pooled_spread(samples) if any(len(sample) > 1 for sample in samples) else None


def error_of(groups: Sequence[Group], *, spread: float, night: float) -> float:
    """Standard error of the centre of some runs of a node: of their attempts, and of what each night has in common."""
    attempts = sum(len(group.values) for group in groups)
    return spread * math.hypot(centre_error(attempts), night / math.sqrt(len(groups)))
