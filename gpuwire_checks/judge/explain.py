"""How the accepted range of a case came about: every number behind it, in the order it is made in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from gpuwire_checks.baseline.family import Family, Noise, family_of, level_noise
from gpuwire_checks.baseline.model import Baseline, entry_for
from gpuwire_checks.judge.limits import Limits, limits_of, tail_limits_of
from gpuwire_checks.judge.rule import Rule, make_rule
from gpuwire_checks.policy import Policy
from gpuwire_checks.records import Bound, Case
from gpuwire_checks.statistics.level import smallest_seen
from gpuwire_checks.tolerance import Tolerance

SEEN = 0.99
"""How often a change has to be seen to count as one that is seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What a run of the plan decides: cases, limits to the spread within attempts, and to the last good runs."""

    cases: int
    tails: int
    rolling: int

    @property
    def total(self) -> int:
        return self.cases + self.tails + self.rolling


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Every number behind the accepted range of a case.

    Attributes:
        family: which one its noise is pooled with.
        tail, rolling: the limits beside the level; None where there are none.
        seen: the smallest change to the bad side that is seen 99 % of the time, as a logarithm.
        recorded_at: when the baseline was last recorded.
        left_out: markers whose rows would fit the case, and count only for tests that bear them.
    """

    case: Case
    bound: Bound
    noise: Noise
    family: Family
    policy: Policy
    tolerance: Tolerance
    rule: Rule
    decisions: Decisions
    limits: Limits
    tail: Limits | None
    rolling: Limits | None
    seen: float
    recorded_at: datetime | None
    left_out: tuple[str, ...]


def explain(case: Case, baseline: Baseline, policy: Policy, *, sku: str, decisions: Decisions) -> Explanation | None:
    """The explanation of a case's range; None where the baseline has no bound for it.

    Raises:
        ConfigError: the policy says nothing of the case.
    """
    bound, entry = baseline.bound_for(case), entry_for(baseline.entries, case)
    if bound is None or entry is None:
        return None
    tolerance = policy.tolerance(case, sku=sku)
    rule = make_rule(policy, tolerance, decisions=decisions.total)
    limits = limits_of(bound, rule)
    return Explanation(
        case=case,
        bound=bound,
        noise=level_noise(entry, baseline.entries),
        family=family_of(entry),
        policy=policy,
        tolerance=tolerance,
        rule=rule,
        decisions=decisions,
        limits=limits,
        tail=tail_limits_of(bound, rule),
        rolling=None if bound.rolling is None else limits_of(bound.rolling, rule),
        seen=smallest_change(limits, rule),
        recorded_at=baseline.recorded.at if baseline.recorded else None,
        left_out=_markers(case, policy, sku),
    )


def smallest_change(limits: Limits, rule: Rule) -> float:
    """The smallest change to the bad side that is seen 99 % of the time, as a logarithm; infinite where none is."""
    if limits.spread <= 0:
        return limits.width
    return limits.spread * smallest_seen(limits.width / limits.spread, limits.uncertainty, rule.walk, SEEN)


def lowest_unsuspicious(limits: Limits) -> float:
    """The figure beyond which a first attempt is looked at again, in the metric's unit."""
    return limits.centre * math.exp(-limits.screen if limits.better == "higher" else limits.screen)


def _markers(case: Case, policy: Policy, sku: str) -> tuple[str, ...]:
    marked = [row for row in policy.tolerances if row.marker is not None]
    return tuple(
        dict.fromkeys(row.marker for row in marked if row.marker and row.fits(case, sku=sku, markers=(row.marker,)))
    )
