"""The sequential rule: attempts vote, and a lead decides.

An attempt outside its limit is a step up, one inside a step down. A lead of ``lead`` steps is a failure, a lead of
``clear`` steps the other way a pass; where neither comes within ``most`` attempts, they disagree. One bad attempt never
decides, one good attempt never excuses, and a handful of disturbed attempts cannot make the lead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Chances = TypeVar("Chances", float, NDArray[np.float64])

End = Literal["failed", "cleared", "disagree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The rule's three numbers.

    Attributes:
        lead: by which attempts outside lead those inside when it has failed.
        clear: by which those inside lead when it has passed.
        most: attempts after which it has neither failed nor passed.
    """

    lead: int
    clear: int
    most: int


def walk_end(outside: Sequence[bool], walk: Walk) -> End | None:
    """How attempts end, in the order they were made; None while they have not.

    Attempts after the end do not count.
    """
    height = 0
    for is_outside in outside[: walk.most]:
        height += 1 if is_outside else -1
        if height >= walk.lead:
            return "failed"
        if height <= -walk.clear:
            return "cleared"
    return "disagree" if len(outside) >= walk.most else None


def failure_chance(outside: Chances, suspicious: Chances, walk: Walk) -> Chances:
    """Chance that independent attempts fail or disagree, exactly: every path of the walk is counted.

    Args:
        outside: chance of each attempt to be outside its limit.
        suspicious: chance of the first attempt to be beyond the screen, which is at least as large: only then is
            there a walk.
    """
    inside = 1 - outside
    heights = {1: outside, -1: suspicious - outside}
    failed = heights.pop(walk.lead, 0 * outside)
    heights.pop(-walk.clear, None)
    for _ in range(walk.most - 1):
        reached: dict[int, Chances] = {}
        for height, chance in heights.items():
            for step, odds in ((1, outside), (-1, inside)):
                there = height + step
                reached[there] = reached.get(there, 0) + chance * odds
        failed = failed + reached.pop(walk.lead, 0)
        reached.pop(-walk.clear, None)
        heights = reached
    return failed + sum(heights.values(), start=0 * outside)
