"""One baseline from many runs of many nodes: nodes that do not agree are left out by name, or there is no baseline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

from gpuwire_checks.baseline.agreement import Agreement, Unit, agreement
from gpuwire_checks.baseline.drift import Drift, drift_of
from gpuwire_checks.baseline.groups import Figures, Node, error_of, nodes_of, spread_within
from gpuwire_checks.baseline.record import case_entry
from gpuwire_checks.baseline.schema import BoundEntry, TailEntry, round_figure
from gpuwire_checks.records import Case
from gpuwire_checks.statistics.robust import pooled_spread, spread_of_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A node, or a run of the only node, that does not agree with the others at one case.

    Attributes:
        figure, others: its figure and that of those that agree, in the case's unit.
        allowed: the distance that would have been allowed, as a logarithm.
        drift: where its own runs have no level.
    """

    name: str
    case: Case
    figure: float
    others: float
    allowed: float
    drift: Drift | None = None

    @property
    def change(self) -> float:
        """Its figure over the others', minus one."""
        return self.figure / self.others - 1

    @property
    def is_slower(self) -> bool:
        return (self.change < 0) == (self.case.metric.better == "higher")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A case of which nothing is recorded: no majority agrees, or figures drift, or nothing tells their spread.

    Attributes:
        agreeing, total: nodes, or runs of the only node.
        figures: of each by name, in the case's unit.
        allowed: the distance that nodes may have from each other, as a logarithm.
    """

    case: Case
    drift: Drift | None = None
    agreeing: int = 0
    total: int = 0
    figures: tuple[tuple[str, float], ...] = ()
    allowed: float = 0.0
    of_one_node: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What the figures of one case come to: a bound, or why there is none."""

    case: Case
    entry: BoundEntry | None = None
    left_out: tuple[LeftOut, ...] = ()
    refused: Refused | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What the figures of all cases come to.

    Attributes:
        whole: nodes that are left out of every case because they do not agree in most of theirs, and in how many of
            how many they do not.
        nodes: names of the nodes behind the bounds.
    """

    cases: tuple[Merged, ...]
    whole: dict[str, tuple[int, int]]
    nodes: frozenset[str]

    @property
    def entries(self) -> list[BoundEntry]:
        return [merged.entry for merged in self.cases if merged.entry is not None]

    @property
    def refused(self) -> list[Refused]:
        return [merged.refused for merged in self.cases if merged.refused is not None]

    @property
    def left_out(self) -> list[LeftOut]:
        return [left for merged in self.cases for left in merged.left_out]


def merge_fleet(cases: Sequence[Figures]) -> Fleet:
    """Bounds of a fleet. A node that does not agree in most of its cases is left out of all: it is broken, or better.

    The order in which cases and runs are given does not matter; only the time of runs does.
    """
    first = [merge_case(figures) for figures in cases]
    judged = [(figures, merged) for figures, merged in zip(cases, first, strict=True) if merged.refused is None]
    of = Counter(host for figures, _ in judged for host in {group.host for group in figures.groups})
    odd = Counter(left.name for _, merged in judged for left in merged.left_out if left.name in of)
    whole = {host: (odd[host], of[host]) for host in sorted(odd) if 2 * odd[host] > of[host]}
    found = first if not whole else [merge_case(figures, without=whole) for figures in cases]
    hosts = {
        group.host
        for figures, merged in zip(cases, found, strict=True)
        if merged.entry is not None
        for group in figures.groups
        if group.host not in {left.name for left in merged.left_out}
    }
    return Fleet(cases=tuple(found), whole=whole, nodes=frozenset(hosts))


def merge_case(figures: Figures, *, without: Collection[str] = ()) -> Merged:
    """The bound of one case: the median of the nodes that agree, each node being the median of its runs.

    Args:
        without: nodes that are left out whatever they show here; they count as nodes that do not agree.
    """
    nodes = nodes_of(figures.groups)
    spread = spread_within(nodes)
    if spread is None:
        return Merged(case=figures.case, refused=Refused(case=figures.case))
    drifts = {node.host: _drift_of_node(node, figures, spread) for node in nodes}
    steady = [node for node in nodes if drifts[node.host] is None and node.host not in without]
    moving = [drift for drift in drifts.values() if drift is not None]
    drift = max(moving, key=lambda found: abs(found.change)) if 2 * len(moving) >= len(nodes) else None
    drift = drift or _drift_of_fleet(steady, figures, spread)
    if drift is not None:
        return Merged(case=figures.case, refused=Refused(case=figures.case, drift=drift))
    units = _units(nodes if len(nodes) == 1 else steady, figures, spread)
    found = agreement(units, allowed=figures.allowed) if units else None
    total = len(units) if len(nodes) == 1 else len(nodes)
    if found is None or 2 * len(found.inside) <= total:
        return Merged(case=figures.case, refused=_disagree(figures, nodes, found, total))
    kept = _kept(nodes, found)
    if spread_within(kept) is None:
        return Merged(case=figures.case, refused=Refused(case=figures.case))
    outside = [unit for unit in units if unit.name not in found.inside]
    left = [_left_out(figures, unit.name, unit.centre, found) for unit in outside]
    left += [
        _left_out(figures, node.host, node.centre, found, drift=drifts[node.host])
        for node in nodes
        if node not in steady and len(nodes) > 1
    ]
    return Merged(case=figures.case, entry=_entry(figures, kept), left_out=tuple(left))


def _units(nodes: Sequence[Node], figures: Figures, spread: float) -> list[Unit]:
    """The nodes; of one node its runs."""
    if len(nodes) > 1:
        return [
            Unit(name=node.host, centre=node.centre, error=error_of(node.groups, spread=spread, night=figures.night))
            for node in nodes
        ]
    return [
        Unit(name=group.run, centre=group.centre, error=error_of([group], spread=spread, night=figures.night))
        for node in nodes
        for group in node.groups
    ]


def _kept(nodes: Sequence[Node], found: Agreement) -> list[Node]:
    """The nodes that agree; of one node, that node with the runs that do."""
    if len(nodes) > 1:
        return [node for node in nodes if node.host in found.inside]
    (node,) = nodes
    return [Node(host=node.host, groups=tuple(group for group in node.groups if group.run in found.inside))]


def _drift_of_node(node: Node, figures: Figures, spread: float) -> Drift | None:
    points = [(group.started_at, group.centre) for group in node.groups]
    error = error_of(node.groups[:1], spread=spread, night=figures.night)
    return drift_of(points, error=error, allowed=figures.allowed)


def _drift_of_fleet(nodes: Sequence[Node], figures: Figures, spread: float) -> Drift | None:
    """Nodes that differ by when they were recorded, or that all move alike from run to run."""
    if len(nodes) < 2:
        return None
    error = max(error_of(node.groups, spread=spread, night=figures.night) for node in nodes)
    between = [(node.groups[len(node.groups) // 2].started_at, node.centre) for node in nodes]
    alike = [
        (group.started_at, group.centre - node.centre)
        for node in nodes
        if len(node.groups) > 1
        for group in node.groups
    ]
    return drift_of(between, error=error, allowed=figures.allowed) or drift_of(
        alike, error=error, allowed=figures.allowed
    )


def _left_out(figures: Figures, name: str, centre: float, found: Agreement, *, drift: Drift | None = None) -> LeftOut:
    return LeftOut(
        name=name,
        case=figures.case,
        figure=math.exp(centre),
        others=math.exp(found.centre),
        allowed=found.allowed.get(name, figures.allowed),
        drift=drift,
    )


def _disagree(figures: Figures, nodes: Sequence[Node], found: Agreement | None, total: int) -> Refused:
    one = len(nodes) == 1
    named = [(group.run, group.centre) for group in nodes[0].groups] if one else [(n.host, n.centre) for n in nodes]
    return Refused(
        case=figures.case,
        agreeing=len(found.inside) if found else 0,
        total=total,
        figures=tuple((name, math.exp(centre)) for name, centre in sorted(named, key=lambda pair: pair[1])),
        allowed=max(found.allowed.values(), default=figures.allowed) if found else figures.allowed,
        of_one_node=one,
    )


def _entry(figures: Figures, nodes: Sequence[Node]) -> BoundEntry:
    case = figures.case
    spread = spread_within(nodes)
    centres = [node.centre for node in nodes]
    runs = [group.centre for group in nodes[0].groups] if nodes[0].runs > 1 else []
    apart = centres if len(nodes) > 1 else runs
    return BoundEntry(
        metric=case.metric.name,
        case=case_entry(case),
        unit=case.metric.unit,
        better=case.metric.better,
        centre=round_figure(math.exp(median(centres))),
        spread=round_figure(spread or 0.0, 3),
        attempts=sum(node.attempts for node in nodes),
        nodes=len(nodes),
        runs=sum(node.runs for node in nodes),
        between=round_figure(spread_of_logs(apart), 3) if len(apart) > 1 else None,
        tail=_tail(nodes),
    )


def _tail(nodes: Sequence[Node]) -> TailEntry | None:
    """The spread within attempts; None where one of them has too few single calls to tell."""
    if any(len(group.tails) < len(group.values) for node in nodes for group in node.groups):
        return None
    samples = [sample for node in nodes for sample in node.tail_samples]
    if not any(len(sample) > 1 for sample in samples):
        return None
    centre = median(median(tail for group in node.groups for tail in group.tails) for node in nodes)
    return TailEntry(centre=round_figure(centre, 4), spread=round_figure(pooled_spread(samples), 3))
