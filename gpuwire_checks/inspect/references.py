"""What shipped references say of a GPU model: its links, and published figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.baseline.wiring import ExpectedLinks
from gpuwire_checks.topology.model import Unread


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLinks:
    """The links that a reference gives each GPU.

    Attributes:
        source: the reference, for a person.
        bridged: they run over bridges that join two boards; a board without its bridge is sold as well, and has none.
    """

    links: ExpectedLinks
    source: str
    bridged: bool


class References:
    """Baselines to look things up in; the site's before the shipped ones."""

    def __init__(self, baselines: Sequence[Baseline]) -> None:
        self._baselines = tuple(baselines)

    def links(self, model: str | Unread, *, gpus: int) -> KnownLinks | None:
        """The links that each GPU of a model has; None where boards of it differ."""
        of_model = [
            (baseline, baseline.wiring, baseline.wiring.links)
            for baseline in self._of_model(model)
            if baseline.wiring is not None and baseline.wiring.links is not None
        ]
        known = [
            KnownLinks(links=links, source=f"reference {baseline.name}", bridged=wiring.is_bridged)
            for baseline, wiring, links in of_model
        ]
        of_count = [one for one, (baseline, _, _) in zip(known, of_model, strict=True) if _gpus(baseline) == gpus]
        if len(of_count) == 1:
            return of_count[0]
        alike = len({one.links for one in known}) == 1 and isinstance(known[0].links.per_gpu, int)
        return known[0] if alike else None

    def floors(self, model: str | Unread, *, figure: str, world_size: int) -> list[FloorEntry]:
        """Published figures of a collective for so many GPUs of a model."""
        return [
            floor
            for baseline in self._of_model(model)
            for floor in baseline.floors
            if floor.figure == figure and floor.world_size == world_size
        ]

    def _of_model(self, model: str | Unread) -> list[Baseline]:
        if isinstance(model, Unread):
            return []
        return [baseline for baseline in self._baselines if baseline.facts.get("gpu_model") == model]


def _gpus(baseline: Baseline) -> object:
    return baseline.facts.get("gpus")
