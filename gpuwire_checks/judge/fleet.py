"""Figures of many nodes against one baseline, in arrays: cell by cell what ``judge.standing`` says of them.

Of the level alone: the last good runs and the spread within attempts have limits, and so arrays, of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from gpuwire_checks.judge.limits import Limits
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.standing import standing
from gpuwire_checks.statistics.walk import Walk

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]

_CELLS = 1 << 17
"""Figures judged at a time: what is needed beside the result stays in a cache."""
_CLOSE = 1e-12
"""Distance from a limit at which numpy's logarithm and libm's may be on different sides of it."""
_RUNNING, _FAILED, _CLEARED, _DISAGREED = range(4)


class Code(IntEnum):
    """How a cell stands. The first is what an array of zeros holds: nothing passes by absence.

    TOO_LOOSE is inside a limit that noise makes too loose to be worth enforcing, which is no pass.
    """

    NOT_MEASURED = 0
    INSIDE = 1
    BETTER = 2
    OPEN = 3
    WORSE = 4
    COMES_AND_GOES = 5
    UNDECIDED = 6
    TOO_LOOSE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStanding:
    """How every node stands in every metric.

    Attributes:
        codes: members of ``Code``, shape [nodes, metrics].
        falls: how far the median attempt is to the bad side of the centre, as a logarithm; NaN where not measured;
            shape [nodes, metrics].
    """

    codes: Codes
    falls: Array

    def count(self, code: Code) -> int:
        """Cells that stand so."""
        return int(np.count_nonzero(self.codes == code))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCell:
    """A cell by its place, and how far it is to the bad side of the centre, as a logarithm."""

    node: int
    metric: int
    code: Code
    fall: float


def fleet_standing(values: Array, limits: Sequence[Limits], rule: Rule) -> FleetStanding:
    """How figures of many nodes stand to their limits.

    Args:
        values: in each metric's unit, shape [nodes, metrics], or [nodes, metrics, attempts] in the order they were
            made, NaN where there was no further attempt. A cell whose first figure is missing, that has a gap, or a
            figure that is not positive and finite, is not measured.
        limits: of each metric.
        rule: whose walk and first attempts count; what it says of widths is in the limits already.

    Raises:
        ValueError: the shape does not fit the limits.
    """
    if values.ndim not in (2, 3) or values.shape[1] != len(limits):
        raise ValueError(
            f"figures of shape {values.shape} for {len(limits)} metrics: expected [nodes, metrics(, attempts)]"
        )
    attempts = values[..., None] if values.ndim == 2 else values
    held = _Held.of(limits)
    codes = np.zeros(attempts.shape[:2], dtype=np.int8)
    falls = np.full(attempts.shape[:2], np.nan)
    step = max(1, _CELLS // max(1, attempts.shape[1] * attempts.shape[2]))
    for start in range(0, len(attempts), step):
        part = slice(start, start + step)
        codes[part], falls[part] = _standing(np.asarray(attempts[part], dtype=np.float64), held, limits, rule)
    return FleetStanding(codes=codes, falls=falls)


def worst_cells(found: FleetStanding, *, most: int = 20) -> list[WorstCell]:
    """The cells that are farthest to the bad side, the worst first; the lower node and metric where two are alike."""
    falls, codes, metrics = found.falls.ravel(), found.codes.ravel(), found.falls.shape[1]
    parts = [start + _worst(falls[start : start + _CELLS], most) for start in range(0, len(falls), _CELLS)]
    worst = np.concatenate([np.empty(0, dtype=np.intp), *parts])
    worst = worst[_worst(falls[worst], most)]
    return [
        WorstCell(node=cell // metrics, metric=cell % metrics, code=Code(int(codes[cell])), fall=float(falls[cell]))
        for cell in worst.tolist()
    ]


def _worst(falls: Array, most: int) -> NDArray[np.intp]:
    """Where the largest falls are, the largest first, NaN left out; the first where two are alike."""
    places = np.flatnonzero(~np.isnan(falls))
    if len(places) > most > 0:
        least = -np.partition(-falls[places], most - 1)[most - 1]
        places = places[falls[places] >= least]
    return places[np.argsort(-falls[places], kind="stable")][:most]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The limits of each metric, an array of each number."""

    centre: Array
    sign: Array
    width: Array
    screen: Array
    enforceable: Flags

    @classmethod
    def of(cls, limits: Sequence[Limits]) -> _Held:
        return cls(
            centre=np.array([one.centre for one in limits]),
            sign=np.array([-1.0 if one.better == "higher" else 1.0 for one in limits]),
            width=np.array([one.width for one in limits]),
            screen=np.array([one.screen for one in limits]),
            enforceable=np.array([one.enforceable for one in limits], dtype=bool),
        )


def _standing(values: Array, held: _Held, limits: Sequence[Limits], rule: Rule) -> tuple[Codes, Array]:
    """Codes and median falls of figures [nodes, metrics, attempts]."""
    made = ~np.isnan(values)
    in_order = (made[:, :, 1:] <= made[:, :, :-1]).all(axis=2)
    usable = made[:, :, 0] & in_order & ((values > 0) & (values < np.inf) | ~made).all(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        falls = held.sign[:, None] * np.log(values / held.centre[:, None])
    bad = _walk_ends(falls, begin=held.screen, limit=held.width, walk=rule.walk)
    good = _walk_ends(-falls, begin=held.width, limit=held.width, walk=rule.walk)
    codes = np.where(good == _FAILED, np.int8(Code.BETTER), np.int8(Code.INSIDE))
    codes[~np.broadcast_to(held.enforceable, codes.shape)] = Code.TOO_LOOSE
    attempts = made.sum(axis=2)
    spent = attempts >= rule.most
    codes[((bad == _RUNNING) | (good == _RUNNING)) & ~spent | (attempts < rule.first)] = Code.OPEN
    codes[(bad == _DISAGREED) | (bad == _RUNNING) & spent] = Code.UNDECIDED
    codes[bad == _FAILED] = Code.WORSE
    one_by_one = usable & ((bad == _FAILED) & ~_all_outside(falls, made, held) | _close(falls, held))
    for node, metric in zip(*np.nonzero(one_by_one), strict=True):
        cell = values[node, metric]
        codes[node, metric] = _code(cell[made[node, metric]].tolist(), limits[metric], rule)
    codes[~usable] = Code.NOT_MEASURED
    return codes, _middle(falls, usable)


def _walk_ends(falls: Array, *, begin: Array, limit: Array, walk: Walk) -> Codes:
    """How the walk of each cell ends that starts with the first fall beyond ``begin``; cleared where none is."""
    begun = np.zeros(falls.shape[:2], dtype=bool)
    ends = np.full(falls.shape[:2], _CLEARED, dtype=np.int8)
    height = np.zeros(falls.shape[:2], dtype=np.int16)
    steps = np.zeros(falls.shape[:2], dtype=np.int16)
    for index in range(falls.shape[2]):
        fall = falls[:, :, index]
        begins = ~begun & (fall > begin)
        ends[begins] = _RUNNING
        begun |= begins
        # Where there is no further attempt the fall is NaN, and no step.
        steps_now = (ends == _RUNNING) & ~np.isnan(fall)
        steps += steps_now
        height += np.where(steps_now, np.where(fall > limit, 1, -1), 0).astype(np.int16)
        ends[steps_now & (steps >= walk.most)] = _DISAGREED
        ends[steps_now & (height >= walk.lead)] = _FAILED
        ends[steps_now & (height <= -walk.clear)] = _CLEARED
    return ends


def _all_outside(falls: Array, made: Flags, held: _Held) -> Flags:
    """Whether all attempts from the first are outside: then they do not disagree."""
    outside: Flags = np.all((falls > held.width[:, None]) | ~made, axis=2)
    return outside


def _close(falls: Array, held: _Held) -> Flags:
    """Whether a fall is so close to a limit that the logarithm's last digit decides."""
    near = np.zeros(falls.shape[:2], dtype=bool)
    for edge in (held.screen, held.width, -held.width):
        near |= (np.abs(falls - edge[:, None]) < _CLOSE).any(axis=2)
    return near


def _code(values: Sequence[float], limits: Limits, rule: Rule) -> Code:
    found = Code[standing(values, limits, rule).name]
    return Code.TOO_LOOSE if found in (Code.INSIDE, Code.BETTER) and not limits.enforceable else found


def _middle(falls: Array, usable: Flags) -> Array:
    """Median fall of the attempts of each cell; NaN where there is none to be used."""
    middle: Array = np.full(usable.shape, np.nan)
    middle[usable] = falls[usable, 0] if falls.shape[2] == 1 else np.nanmedian(falls[usable], axis=1)
    return middle
