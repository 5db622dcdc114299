"""What is wrong with a baseline beyond its schema: bounds that nobody uses, figures that nobody can have measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpuwire_checks.baseline.floors import floor_for
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.planned import case_of, planned_cases, why_unused
from gpuwire_checks.baseline.schema import BaselineFile, BoundEntry, CaseKey, FloorEntry
from gpuwire_checks.policy import Policy
from gpuwire_checks.records import BUSBW, METRICS, Case
from gpuwire_checks.tolerance import as_logarithm
from gpuwire_checks.units import format_value
from gpuwire_checks.yamlfile import Loaded

_WIDEST = math.log(2)
"""A spread, as a logarithm, beyond which attempts differ by more than a factor of two: that is no level."""
_ENOUGH_ATTEMPTS = 5
"""So many figures of a clock are not all the same."""
_CLOCKS_DIFFER = timedelta(minutes=5)
_RECORD = "gpuwire baseline record"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """A baseline, and its file with the line of each key."""

    baseline: Baseline
    loaded: Loaded[BaselineFile]

    def line(self, *path: str | int) -> int:
        return self.loaded.line(*path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One thing that is wrong: the line of the file, and what is there and what to do."""

    line: int
    text: str


def complaints(file: CheckedFile, *, policy: Policy, references: Iterable[Baseline], now: datetime) -> list[Complaint]:
    """Everything wrong with one file, in the order of its lines.

    Args:
        references: baselines with published figures; those of the same SKU count.
    """
    baseline = file.baseline
    tier = baseline.recorded.tier if baseline.recorded else None
    planned = planned_cases(policy, baseline.entries, tier=tier)
    floors = [floor for other in references if other.sku == baseline.sku for floor in other.floors]
    found = list(_recorded(file, now))
    for index, entry in enumerate(baseline.entries):
        line = file.line("bounds", index)
        found += [Complaint(line=line, text=text) for text in _of_bound(entry, file, policy, planned, floors)]
    found += _rolling(file, policy, planned)
    return sorted(found, key=lambda complaint: complaint.line)


def same_names(files: Sequence[Baseline]) -> Iterator[tuple[int, Baseline]]:
    """Baselines, by their place, that have the name of an earlier one, with that one."""
    first: dict[str, Baseline] = {}
    for index, baseline in enumerate(files):
        if baseline.name in first:
            yield index, first[baseline.name]
        first.setdefault(baseline.name, baseline)


def _recorded(file: CheckedFile, now: datetime) -> Iterator[Complaint]:
    recorded = file.baseline.recorded
    if recorded is not None and recorded.at > now + _CLOCKS_DIFFER:
        text = (
            f"recorded {recorded.at.isoformat(timespec='seconds')}, which is in the future; set the clock of that node,"
            f" or this one's, and record it anew with: {_RECORD}"
        )
        yield Complaint(line=file.line("recorded", "at"), text=text)


def _of_bound(
    entry: BoundEntry,
    file: CheckedFile,
    policy: Policy,
    planned: Mapping[CaseKey, Case],
    floors: Sequence[FloorEntry],
) -> Iterator[str]:
    name = bound_name(entry)
    unused = why_unused(entry, file.baseline, planned)
    if unused is not None:
        yield f"{name} is never used: {unused}"
    if entry.spread == 0 and entry.attempts >= _ENOUGH_ATTEMPTS:
        yield (
            f"{name} has a spread of 0 over {entry.attempts} attempts, which no clock gives; record it anew with:"
            f" {_RECORD}"
        )
    if entry.spread > _WIDEST:
        yield (
            f"{name} varies by a factor of {math.exp(entry.spread):.1f} between attempts, so that nothing can be held"
            f" to it; find what disturbs such nodes, and record it anew with: {_RECORD}"
        )
    fewest = min(policy.attempts.record, policy.attempts.record_in_run)
    if entry.attempts < fewest:
        yield (
            f"{name} has {_count(entry.attempts, 'attempt')} behind it, and the policy asks for"
            f" {fewest} ({policy.path}); record it anew with: {_RECORD}"
        )
    yield from _below_floor(entry, name, floors)


def _below_floor(entry: BoundEntry, name: str, floors: Sequence[FloorEntry]) -> Iterator[str]:
    """A bound says nothing of NVLS when it was recorded: a figure that needs it holds for none."""
    case = entry.case
    if case.backend == "gloo" or entry.metric != BUSBW.name:
        return
    floor = floor_for(floors, collective=case.collective, size_bytes=case.size, world_size=case.world_size, nvls=None)
    if floor is not None and entry.centre < floor.value:
        yield (
            f"{name} is {format_value(entry.centre, entry.unit)}, below {floor.words}; that node was slow already when"
            f" it was recorded: find out why, and record it anew with: {_RECORD}"
        )


def _rolling(file: CheckedFile, policy: Policy, planned: Mapping[CaseKey, Case]) -> Iterator[Complaint]:
    frozen = {entry.key: entry for entry in file.baseline.entries}
    seen: dict[CaseKey, int] = {}
    for index, entry in enumerate(file.baseline.rolling):
        line, name = file.line("rolling", index), bound_name(entry)
        first = seen.setdefault(entry.key, line)
        if first != line:
            yield Complaint(line=line, text=f"{name} has last good runs already on line {first}; leave one")
        elif entry.key not in frozen:
            text = f"{name} has last good runs and no bound; remove the line, or record a bound with: {_RECORD}"
            yield Complaint(line=line, text=text)
        else:
            case = case_of(entry, planned)
            min_effect = policy.tolerance(case, sku=file.baseline.sku).min_effect
            drift = _drift(frozen[entry.key], entry, min_effect)
            if drift is not None:
                yield Complaint(line=line, text=f"{name} {drift}")


def _drift(frozen: BoundEntry, rolling: BoundEntry, min_effect: float) -> str | None:
    """How far the last good runs are from the recorded bound; None within what the policy calls no change."""
    ratio = rolling.centre / frozen.centre
    if abs(math.log(ratio)) <= as_logarithm(min_effect, METRICS[frozen.metric].better):
        return None
    old, new = (format_value(entry.centre, entry.unit) for entry in (frozen, rolling))
    return (
        f"has drifted by {ratio - 1:+.1%} since it was recorded, from {old} to {new}, and {100 * min_effect:g}% is"
        " worth a failure; find out why, or accept the new level with: gpuwire baseline accept"
    )


def bound_name(entry: BoundEntry) -> str:
    """``busbw of all_reduce-1MiB-float32-ws2-gloo``."""
    return f"{entry.metric} of {entry.case}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
