"""Identical parts of one node are each other's controls tonight: eight links, 28 pairs, eight GPUs, with no history.

The part farthest from the mean is taken out, then the next, up to just under half of them; each is held to the mean and
the spread of those that are left, by Student's t with a share of the level for each part that it was the farthest of.
The last one that stands out settles how many do: a bad one may be hidden by others until they are out (Rosner 1983,
"Percentage points for a generalized ESD many-outlier procedure").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

_LOOKS = 3
"""Among how many steps the level is shared: small groups false alarm in every one of them, large ones hardly more often
than in one (measured in tests/judge/test_peers.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """A part that is worse than its peers.

    Attributes:
        usual: the typical figure of the peers that do not stand out, in the unit of ``figure``.
    """

    name: str
    figure: float
    usual: float

    @property
    def change(self) -> float:
        """The figure over the usual one, minus one: -0.12 is 12 % less."""
        return self.figure / self.usual - 1


def odd_ones(
    figures: Mapping[str, float], *, better: Literal["higher", "lower"], level: float, min_effect: float
) -> tuple[Odd, ...]:
    """The parts that are worse than the others, the worst first; none where half of them are, or where it is two.

    Of two parts that differ nobody can say which is at fault; of three the odd one needs the other two to agree.

    Args:
        figures: by the part's name, all of one kind, positive.
        level: chance that any part of a healthy group is called odd, with normal noise of factors.
        min_effect: smallest difference to the usual figure that is worth a word, as a fraction.
    """
    logs = {name: math.log(figure) for name, figure in figures.items()}
    out = _taken_out(sorted(logs, key=lambda name: (logs[name], name)), logs, level=level)
    peers = [logs[name] for name in logs if name not in out]
    if not out or not peers:
        return ()
    usual = math.fsum(peers) / len(peers)
    least = -math.log1p(-min_effect) if better == "higher" else math.log1p(min_effect)
    worse = {name: usual - logs[name] if better == "higher" else logs[name] - usual for name in out}
    found = sorted((name for name in worse if worse[name] >= least), key=lambda name: (-worse[name], name))
    return tuple(Odd(name=name, figure=figures[name], usual=math.exp(usual)) for name in found)


def shared_part(pairs: Iterable[tuple[str, str]]) -> str | None:
    """The one part that two or more pairs all have in common: it, rather than each of them, is what is odd."""
    ends = [frozenset(pair) for pair in pairs]
    if len(ends) < 2:
        return None
    common = frozenset.intersection(*ends)
    return next(iter(common)) if len(common) == 1 else None


def _taken_out(ordered: Sequence[str], logs: Mapping[str, float], *, level: float) -> frozenset[str]:
    """The parts that stand out to either side, of all in the order of their logarithms."""
    from scipy.special import stdtrit  # noqa: PLC0415 - 0.2 s that only a run that compares parts pays for

    most = (len(ordered) - 1) // 2
    middle = logs[ordered[len(ordered) // 2]] if ordered else 0.0
    values = [logs[name] - middle for name in ordered]
    low, high = 0, len(values) - 1
    total, squares = math.fsum(values), math.fsum(value * value for value in values)
    taken: list[str] = []
    standing_out = 0
    for _ in range(most):
        mean = total / (high - low + 1)
        at = low if mean - values[low] > values[high] - mean else high
        low, high = (low + 1, high) if at == low else (low, high - 1)
        total, squares = total - values[at], squares - values[at] ** 2
        left = high - low + 1
        taken.append(ordered[at])
        spread = math.sqrt(max(0.0, squares - total * total / left) / (left - 1))
        quantile = float(stdtrit(left - 1, 1 - level / min(most, _LOOKS) / (left + 1)))
        if abs(values[at] - total / left) > quantile * spread * math.sqrt(1 + 1 / left):
            standing_out = len(taken)
    return frozenset(taken[:standing_out])
