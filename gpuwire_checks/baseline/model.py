"""A baseline: what a topology is held to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuwire_checks.baseline.family import Spread, family_spreads
from gpuwire_checks.baseline.schema import BoundEntry, CaseKey, FloorEntry, RecordedEntry, case_key
from gpuwire_checks.baseline.wiring import Wiring
from gpuwire_checks.records import METRICS, Bound, Case
from gpuwire_checks.statistics import moderated


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a topology is held to.

    Attributes:
        exact: the hash of the graph it was recorded on; None for a reference, which states what it knows of a SKU.
        recorded: when and with what; None for a reference.
        expected_software: versions expected, by name, as ranges or patterns.
        sources, notes: of a reference, where it takes each thing from and what it leaves out.
        entries: the bounds, each with the line it stands on (0 before it is written).
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

    @property
    def software(self) -> Mapping[str, str | None]:
        """The versions it was recorded with."""
        return self.recorded.software if self.recorded else {}

    def bound_for(self, case: Case) -> Bound | None:
        """The bound of a case, its spread with the family's behind it; None when there is none."""
        for entry in self.entries:
            if entry.key == case_key(case):
                return self._bound(entry)
        return None

    def orphans(self, cases: Iterable[Case]) -> list[str]:
        """Bounds that none of these cases uses."""
        used = {case_key(case) for case in cases}
        return [str(entry.case) for entry in self.entries if entry.key not in used]

    def _bound(self, entry: BoundEntry) -> Bound:
        family = family_spreads(self.entries, without=entry).get(Spread.family_of(entry), Spread.none())
        spread, degrees = moderated(
            entry.spread,
            own_degrees=entry.attempts - 1,
            family=family.spread,
            family_degrees=family.degrees,
        )
        return Bound(
            metric=METRICS[entry.metric],
            centre=entry.centre,
            spread=spread,
            degrees=degrees,
            attempts=entry.attempts,
            nodes=entry.nodes,
            where=f"{self.path}:{self.lines.get(entry.key, 1)}",
        )
