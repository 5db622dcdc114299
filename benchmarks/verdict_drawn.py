"""Nights that are drawn attempt by attempt, and judged by ``judge.standing`` itself.

Where attempts are not independent there is no formula; and where there is one, this is its check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv
from verdict_noise import Array, Noise
from verdict_rules import ROUNDS, TRUE, Recorded

from gpuwire_checks.judge.fleet import Code, fleet_standing
from gpuwire_checks.judge.limits import Limits
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.standing import Standing, standing

TOGETHER = 50
"""Nights drawn at a time."""
FAULTS = (Standing.WORSE, Standing.COMES_AND_GOES, Standing.UNDECIDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Failures among drawn or recorded nights, and the attempts these took."""

    failed: int
    nights: int
    attempts: int

    @property
    def rate(self) -> float:
        return self.failed / self.nights if self.nights else float("nan")

    @property
    def at_most(self) -> float:
        """95 % upper limit of the chance of a failure (Clopper and Pearson; of none, 3 over the nights)."""
        if self.failed >= self.nights:
            return 1.0
        return float(betaincinv(self.failed + 1, self.nights - self.failed, 0.95))

    @property
    def at_least(self) -> float:
        """95 % lower limit."""
        return float(betaincinv(self.failed, self.nights - self.failed + 1, 0.05)) if self.failed else 0.0


def night(attempt: Callable[[int], float], limits: Limits, rule: Rule, *, most: int = 10**6) -> tuple[Standing, int]:
    """How one night ends, and its attempts; OPEN where there are no more to be had."""
    values: list[float] = []
    found = Standing.OPEN
    while found is Standing.OPEN and len(values) < most:
        values.append(attempt(len(values)))
        found = standing(values, limits, rule)
    return found, len(values)


def drawn(
    noise: Noise, recorded: Recorded, rule: Rule, *, nights: int, drop: float = 0.0, present: float = 1.0
) -> Mapping[str, Count]:
    """Failures of every rule, over so many nights of each recorded case."""
    chance = np.random.default_rng([17, nights])
    totals: dict[str, list[int]] = {}
    for begin in range(0, nights, TOGETHER):
        together = min(TOGETHER, nights - begin)
        falls = noise.draw(chance, together * len(recorded.limits), rule.most)
        falls = falls - np.log1p(-drop) * (chance.random(falls.shape) < present)
        falls = falls.reshape(together, len(recorded.limits), rule.most)
        for name, (failed, attempts) in {"gpuwire": _ours(falls, recorded, rule), **_others(falls, recorded)}.items():
            total = totals.setdefault(name, [0, 0])
            total[0] += failed
            total[1] += attempts
    count = nights * len(recorded.limits)
    return {name: Count(failed=failed, nights=count, attempts=made) for name, (failed, made) in totals.items()}


def _ours(falls: Array, recorded: Recorded, rule: Rule) -> tuple[int, int]:
    values = TRUE * np.exp(-falls)
    # What one attempt decides, arrays tell: as standing() would, cell by cell.
    once = fleet_standing(values[:, :, 0], recorded.limits, rule).codes
    failed, attempts = 0, int(np.count_nonzero(once != Code.OPEN))
    for row, case in np.argwhere(once == Code.OPEN).tolist():
        found, made = night(values[row, case].tolist().__getitem__, recorded.limits[case], rule)
        failed += found in FAULTS
        attempts += made
    return failed, attempts


def _others(falls: Array, recorded: Recorded) -> Mapping[str, tuple[int, int]]:
    first = falls[:, :, 0]
    cases = first.size
    low = falls[:, :, :3] > -np.log(0.95 * recorded.middles / TRUE)[:, None]
    retries = low[:, :, 0].sum() + (low[:, :, 0] & low[:, :, 1]).sum()
    slower = np.exp(falls[:, :, :ROUNDS]).mean(axis=2) > 1.05 * recorded.mean_times
    failed = {
        "5 % below": low[:, :, 0],
        "10 % below": first > -np.log(0.90 * recorded.middles / TRUE),
        "(v-b)/b < -5 %": first > -np.log(0.95 * recorded.means / TRUE),
        "0.95 x expected": first > -np.log(0.95),
        "5 %, any of 3": low.all(axis=2),
        "mean:5 %": slower,
    }
    attempts = {"5 %, any of 3": cases + int(retries), "mean:5 %": ROUNDS * cases}
    return {name: (int(flags.sum()), attempts.get(name, cases)) for name, flags in failed.items()}
