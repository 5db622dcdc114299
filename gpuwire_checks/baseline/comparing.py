"""What differs between two baselines: bounds, wiring, software and published figures. Pure: records in, records out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BoundEntry, FloorEntry
from gpuwire_checks.baseline.wiring import Wiring
from gpuwire_checks.units import format_rate, format_size

_TABLES = ("pairs", "peers", "nic_paths")
"""Tables that say the same in several ways: they are compared pair by pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedBound:
    """A bound that both have, and that is not the same."""

    before: BoundEntry
    after: BoundEntry

    @property
    def change(self) -> float:
        """The new centre over the old one, minus one."""
        return self.after.centre / self.before.centre - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundChanges:
    """What differs between two lists of bounds; ``same`` counts those that do not."""

    changed: tuple[ChangedBound, ...]
    only_before: tuple[BoundEntry, ...]
    only_after: tuple[BoundEntry, ...]
    same: int

    @property
    def nothing(self) -> bool:
        return not (self.changed or self.only_before or self.only_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Something that is stated otherwise; None where it is not stated."""

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that differs between two baselines."""

    bounds: BoundChanges
    rolling: BoundChanges
    wiring: tuple[Statement, ...]
    software: tuple[Statement, ...]
    published: tuple[Statement, ...]

    @property
    def nothing(self) -> bool:
        stated = (*self.wiring, *self.software, *self.published)
        return self.bounds.nothing and self.rolling.nothing and not stated


def compare(before: Baseline, after: Baseline) -> Comparison:
    """What a node would be held to otherwise; who recorded it and when, and its name, are no difference."""
    return Comparison(
        bounds=_bounds(before.entries, after.entries),
        rolling=_bounds(before.rolling, after.rolling),
        wiring=(*_statements(_topology(before), _topology(after)), *_statements(_wiring(before), _wiring(after))),
        software=_statements(before.expected_software, after.expected_software),
        published=_statements(_published(before.floors), _published(after.floors)),
    )


def _bounds(before: Iterable[BoundEntry], after: Iterable[BoundEntry]) -> BoundChanges:
    of_before, of_after = ({entry.key: entry for entry in entries} for entries in (before, after))
    both = [(of_before[key], of_after[key]) for key in of_before if key in of_after]
    changed = tuple(ChangedBound(before=a, after=b) for a, b in both if a != b)
    return BoundChanges(
        changed=changed,
        only_before=tuple(entry for key, entry in of_before.items() if key not in of_after),
        only_after=tuple(entry for key, entry in of_after.items() if key not in of_before),
        same=len(both) - len(changed),
    )


def _statements(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Statement, ...]:
    return tuple(
        Statement(what=what, before=before.get(what), after=after.get(what))
        for what in dict.fromkeys((*before, *after))
        if before.get(what) != after.get(what)
    )


def _topology(baseline: Baseline) -> dict[str, str]:
    exact = {} if baseline.exact is None else {"topology.exact": baseline.exact}
    return {**exact, **{f"topology.facts.{name}": str(value) for name, value in baseline.facts.items()}}


def _wiring(baseline: Baseline) -> dict[str, str]:
    """What a baseline states of its wiring, a part at a time, by its place in the file."""
    wiring = baseline.wiring
    if wiring is None:
        return {}
    stated = wiring.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude=set(_TABLES))
    return {**dict(_parts(stated, "wiring")), **_paths(wiring)}


def _parts(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Innermost values; those of a list by their name, or else by their place."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _parts(part, f"{where}.{name}")
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            name = part.get("name", index) if isinstance(part, Mapping) else index
            yield from _parts(part, f"{where}.{name}")
    else:
        yield where, str(value)


def _paths(wiring: Wiring) -> dict[str, str]:
    gpus = {f"path GPU{a}-GPU{b}": path for (a, b), path in wiring.path_of.items()}
    peers = {f"peer access GPU{a}-GPU{b}": status for (a, b), status in wiring.peer_of.items()}
    nics = {f"path GPU{gpu}-{nic}": path for (gpu, nic), path in wiring.nic_path_of.items()}
    return {**gpus, **peers, **nics}


def _published(floors: Iterable[FloorEntry]) -> dict[str, str]:
    return {_figure(floor): format_rate(floor.value, "GB/s") for floor in floors}


def _figure(floor: FloorEntry) -> str:
    """``all_reduce at 1GiB on 8 ranks (floor, SOURCE)``."""
    size = f" at {format_size(floor.size)}" if floor.size else ""
    ranks = f" on {floor.world_size} ranks" if floor.world_size else ""
    under = f"{floor.condition}, " if floor.condition else ""
    return f"{floor.figure}{size}{ranks} ({floor.kind}, {under}{floor.source})"
