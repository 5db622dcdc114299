"""What every benchmark ends with: its figures, its targets, and whether they were met."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure and the range it must be in; an open side is None."""

    name: str
    figure: float
    low: float | None = None
    high: float | None = None

    @property
    def met(self) -> bool:
        return (self.low is None or self.figure >= self.low) and (self.high is None or self.figure <= self.high)

    def __str__(self) -> str:
        wanted = " to ".join(f"{side:g}" for side in (self.low, self.high) if side is not None)
        word = "within" if None not in (self.low, self.high) else "at most" if self.low is None else "at least"
        return f"{'met   ' if self.met else 'MISSED'} {self.name}: {self.figure:.4g} ({word} {wanted})"


def finish(benchmark: str, targets: Sequence[Target], **details: object) -> int:
    """Print each target and, last, one JSON line; returns the exit status."""
    print()
    for target in targets:
        print(target)
    met = all(target.met for target in targets)
    figures = {target.name: target.figure for target in targets}
    wanted = {target.name: [target.low, target.high] for target in targets}
    print(json.dumps({"benchmark": benchmark, "met": met, "figures": figures, "targets": wanted, **details}))
    return 0 if met else 1
