"""A baseline: what a topology is held to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuwire_checks.baseline.family import level_noise, tail_noise
from gpuwire_checks.baseline.schema import BoundEntry, CaseKey, ChangeEntry, FloorEntry, RecordedEntry, case_key
from gpuwire_checks.baseline.wiring import Wiring
from gpuwire_checks.records import METRICS, TAIL, Bound, Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a topology is held to.

    Attributes:
        exact: the hash of the graph it was recorded on; None for a reference, which states what it knows of a SKU.
        recorded: when and with what; None for a reference.
        expected_software: versions expected, by name, as ranges or patterns.
        sources, notes: of a reference, where it takes each thing from and what it leaves out.
        entries: the bounds, each with the line it stands on (0 before it is written).
        rolling: the same of the last good runs.
        changes: what was accepted in place of earlier bounds.
    """

    name: str
    path: Path
    sku: str
    exact: str | None
    facts: Mapping[str, str | int]
    recorded: RecordedEntry | None
    entries: tuple[BoundEntry, ...] = ()
    lines: Mapping[CaseKey, int] = field(default_factory=dict)
    wiring: Wiring | None = None
    expected_software: Mapping[str, str] = field(default_factory=dict)
    floors: tuple[FloorEntry, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rolling: tuple[BoundEntry, ...] = ()
    changes: tuple[ChangeEntry, ...] = ()

    @property
    def software(self) -> Mapping[str, str | None]:
        """The versions it was recorded with."""
        return self.recorded.software if self.recorded else {}

    def bound_for(self, case: Case) -> Bound | None:
        """The bound of a case, its spread with the family's behind it; None when there is none."""
        entry = entry_for(self.entries, case)
        if entry is None:
            return None
        rolling = entry_for(self.rolling, case)
        return replace(
            self._bound(entry, self.entries, where=f"{self.path}:{self.lines.get(entry.key, 1)}"),
            rolling=None if rolling is None else self._bound(rolling, self.rolling, where=f"{self.path}, rolling"),
        )

    def orphans(self, cases: Iterable[Case]) -> list[str]:
        """Bounds that none of these cases uses."""
        used = {case_key(case) for case in cases}
        return [str(entry.case) for entry in self.entries if entry.key not in used]

    def _bound(self, entry: BoundEntry, entries: tuple[BoundEntry, ...], *, where: str) -> Bound:
        noise = level_noise(entry, entries).used
        return Bound(
            metric=METRICS[entry.metric],
            centre=entry.centre,
            spread=noise.spread,
            degrees=noise.degrees,
            attempts=entry.attempts,
            nodes=entry.nodes,
            runs=entry.runs,
            between=entry.between,
            where=where,
            tail=None if entry.tail is None else _tail_bound(entry, entries, where=where),
        )


def entry_for(entries: Iterable[BoundEntry], case: Case) -> BoundEntry | None:
    """The bound of a case among some; None when there is none."""
    key = case_key(case)
    return next((entry for entry in entries if entry.key == key), None)


def _tail_bound(entry: BoundEntry, entries: tuple[BoundEntry, ...], *, where: str) -> Bound:
    assert entry.tail is not None
    noise = tail_noise(entry, entries).used
    return Bound(
        metric=TAIL,
        centre=entry.tail.centre,
        spread=noise.spread,
        degrees=noise.degrees,
        attempts=entry.attempts,
        nodes=entry.nodes,
        where=where,
    )
