"""Baselines as lines: one by itself, and what differs between two. Pure: records in, words out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuwire_checks.baseline.checking import bound_name
from gpuwire_checks.baseline.comparing import BoundChanges, ChangedBound, Comparison, Statement
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BoundEntry, FloorEntry
from gpuwire_checks.judge.bound_table import log_percent
from gpuwire_checks.judge.columns import aligned
from gpuwire_checks.units import format_rate, format_size, format_value

_FIRST = 5
"""Differences of wiring or software that are told; one cause makes many."""
_INDENT = "  "


def head_lines(baseline: Baseline, *, policy: Path, decisions: int) -> list[str]:
    """What a baseline is of, when and how it was recorded, what was accepted since, and what limits are computed by.

    Args:
        decisions: taken in a run of all its bounds.
    """
    title = f"{baseline.name} ({baseline.path})"
    facts = _head(baseline, policy, decisions)
    return [title, *aligned([(f"{_INDENT}{label}", text) for label, text in facts], left=2)]


def _head(baseline: Baseline, policy: Path, decisions: int) -> Iterator[tuple[str, str]]:
    exact = "as every such node is" if baseline.exact is None else f"exactly {baseline.exact}"
    yield "sku", f"{baseline.sku}, wired {exact}"
    yield "recorded", _recorded(baseline)
    for change in baseline.changes:
        when, cases = f"{change.at:%Y-%m-%d %H:%M} {change.at.tzname()}", counted(len(change.cases), "case")
        yield "accepted", f'{when}: {cases} of run {change.run}: "{change.reason}"'
    if not baseline.entries:
        yield "bounds", "none: nothing was measured, and cases are held to published figures where there are any"
        return
    rolling = f"kept beside {len(baseline.rolling)} of them" if baseline.rolling else "not kept"
    yield "bounds", f"{len(baseline.entries)}; the last good runs are {rolling}"
    yield "limits", f"by {policy}, in a run of all these bounds: {counted(decisions, 'decision')}"


def _recorded(baseline: Baseline) -> str:
    recorded = baseline.recorded
    if recorded is None:
        return "by nobody: a reference, of what was published"
    versions = ", ".join(f"{name} {version}" for name, version in recorded.software.items() if version is not None)
    return (
        f"{recorded.at:%Y-%m-%d %H:%M} {recorded.at.tzname()} on {counted(recorded.hosts, 'host')}, tier"
        f" {recorded.tier}, with gpuwire {recorded.gpuwire}{f', {versions}' if versions else ''}"
    )


def floor_lines(floors: Sequence[FloorEntry]) -> list[str]:
    """Published figures: a heading, and a line a figure."""
    return aligned([("published", "size", "ranks", "figure", "kind", "source"), *map(_floor, floors)], left=6)


def _floor(floor: FloorEntry) -> tuple[str, ...]:
    under = f" ({floor.condition})" if floor.condition else ""
    return (
        floor.figure,
        format_size(floor.size) if floor.size else "-",
        str(floor.world_size or "-"),
        format_rate(floor.value, "GB/s"),
        floor.kind,
        f"{floor.source}{under}",
    )


def comparison_lines(found: Comparison, before: Baseline, after: Baseline) -> list[str]:
    """What differs between two baselines, A and B; one line where nothing does."""
    if found.nothing:
        what = counted(found.bounds.same, "bound")
        return [f"gpuwire: nothing differs between {before.path} and {after.path}: {what}, wiring and software"]
    lines = [f"A: {_title(before)}", f"B: {_title(after)}"]
    lines += _bounds("bounds", found.bounds)
    lines += _bounds("last good runs", found.rolling)
    lines += _statements("wiring", found.wiring)
    lines += _statements("expected software", found.software)
    lines += _statements("published figures", found.published)
    return lines


def _title(baseline: Baseline) -> str:
    recorded = baseline.recorded
    when = f"recorded {recorded.at:%Y-%m-%d %H:%M} {recorded.at.tzname()}" if recorded else "a reference"
    return f"{baseline.name} ({baseline.path}), {when}, {counted(len(baseline.entries), 'bound')}"


def _bounds(what: str, found: BoundChanges) -> Iterator[str]:
    if found.nothing:
        return
    yield f"{what}: {len(found.changed)} changed, {found.same} the same"
    if found.changed:
        heading = (f"{_INDENT}case", "centre", "change", "spread", "attempts/runs/nodes", "between", "tail")
        yield from aligned([heading, *map(_changed, found.changed)], left=1)
    for side, entries in (("A", found.only_before), ("B", found.only_after)):
        for entry in entries:
            yield f"{_INDENT}only in {side}: {bound_name(entry)}, {format_value(entry.centre, entry.unit)}"


def _changed(bound: ChangedBound) -> tuple[str, ...]:
    a, b = bound.before, bound.after
    return (
        f"{_INDENT}{bound_name(a)}",
        _to(format_value(a.centre, a.unit), format_value(b.centre, b.unit)),
        f"{bound.change:+.1%}",
        _to(log_percent(a.spread), log_percent(b.spread)),
        _to(_counts(a), _counts(b)),
        _to(_between(a), _between(b)),
        _to(_tail(a), _tail(b)),
    )


def _to(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _counts(entry: BoundEntry) -> str:
    return f"{entry.attempts}/{entry.runs}/{entry.nodes}"


def _between(entry: BoundEntry) -> str:
    return "-" if entry.between is None else log_percent(entry.between)


def _tail(entry: BoundEntry) -> str:
    return "-" if entry.tail is None else f"{entry.tail.centre:.2f}"


def _statements(what: str, found: Sequence[Statement]) -> Iterator[str]:
    if not found:
        return
    yield f"{what}: {counted(len(found), 'difference')}"
    for statement in found[:_FIRST]:
        yield f"{_INDENT}{statement.what}: {statement.before or 'not stated'} -> {statement.after or 'not stated'}"
    if len(found) > _FIRST:
        yield f"{_INDENT}... and {len(found) - _FIRST} more"


def counted(number: int, what: str) -> str:
    """``1 bound``, ``3 bounds``."""
    return f"{number} {what}{'' if number == 1 else 's'}"
