"""What shipped references say of a GPU model: its links, and published figures."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.baseline.store import Baseline
from gpuwire_checks.baseline.wiring import ExpectedLinks
from gpuwire_checks.topology.model import Unread


class References:
    """Baselines to look things up in; the site's before the shipped ones."""

    def __init__(self, baselines: Sequence[Baseline]) -> None:
        self._baselines = tuple(baselines)

    def links(self, model: str | Unread, *, gpus: int) -> tuple[ExpectedLinks, str] | None:
        """The links that each GPU of a model has, and the file that says so; None where boards of it differ."""
        of_model = [b for b in self._of_model(model) if b.wiring is not None and b.wiring.links is not None]
        found = {b.wiring.links: b.name for b in of_model if b.wiring is not None and b.wiring.links is not None}
        of_count = [b for b in of_model if b.facts.get("gpus") == gpus]
        if len(of_count) == 1 and of_count[0].wiring is not None and of_count[0].wiring.links is not None:
            return of_count[0].wiring.links, f"reference {of_count[0].name}"
        if len(found) != 1:
            return None
        ((links, name),) = found.items()
        return (links, f"reference {name}") if isinstance(links.per_gpu, int) else None

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
