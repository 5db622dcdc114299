"""The accepted range of a case, and where each number in it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.records import Bound
from gpuwire_checks.statistics.level import Uncertainty, multiplier, screen
from gpuwire_checks.statistics.robust import centre_error
from gpuwire_checks.tolerance import as_logarithm

_MOST_DEGREES = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far from its centre a figure may be. Every width is a natural logarithm, towards either side.

    Attributes:
        centre: in the metric's unit.
        spread: between attempts.
        multiplier: spreads from the centre to ``noise``, from the false-alarm budget.
        noise: what noise can do, as seldom as the budget allows.
        min_effect, max_slack: the policy's, on the bad side.
        uncertainty: what the multiplier allows for.
        better: the good side.
    """

    centre: float
    spread: float
    multiplier: float
    min_effect: float
    max_slack: float
    uncertainty: Uncertainty
    better: str

    @property
    def noise(self) -> float:
        return self.multiplier * self.spread

    @property
    def width(self) -> float:
        """From the centre to the limit: the larger of what matters and what noise can do."""
        return max(self.min_effect, self.noise)

    @property
    def screen(self) -> float:
        """From the centre to where a first attempt is looked at again."""
        if self.spread <= 0:
            return self.width
        return self.spread * screen(self.width / self.spread, shared=self.uncertainty.shared)

    @property
    def enforceable(self) -> bool:
        """Whether the limit is tight enough to be worth holding the node to."""
        return self.width <= self.max_slack

    @property
    def accepted(self) -> tuple[float, float]:
        """Lowest and highest figure accepted, in the metric's unit."""
        return self.centre * math.exp(-self.width), self.centre * math.exp(self.width)

    @property
    def worst(self) -> float:
        """The limit on the bad side, in the metric's unit."""
        return self.accepted[0 if self.better == "higher" else 1]

    def fall(self, value: float) -> float:
        """How far a figure is to the bad side of the centre, as a logarithm; negative on the good side."""
        change = math.log(value / self.centre)
        return -change if self.better == "higher" else change


def limits_of(bound: Bound, rule: Rule) -> Limits:
    """The limits that a bound has under a rule."""
    return _limits(bound, rule, min_effect=rule.min_effect, max_slack=rule.max_slack)


def tail_limits_of(bound: Bound, rule: Rule) -> Limits | None:
    """The limits of the spread within attempts; None where the bound or the rule says nothing of it."""
    if bound.tail is None or math.isinf(rule.tail):
        return None
    return _limits(bound.tail, rule, min_effect=rule.tail, max_slack=math.inf)


def uncertainty_of(bound: Bound, rule: Rule) -> Uncertainty:
    """What a bound's limit has to allow for: few attempts behind its spread and centre, nights and nodes that differ.

    What all attempts of a night have in common is the error of the recorded centre and the policy's ``night``, which
    the recorded runs had as well, each its own; it is what was seen between several runs or nodes, where that is more.
    """
    counted = math.hypot(centre_error(bound.attempts), rule.night * math.sqrt(1 + 1 / bound.groups))
    shared, degrees = counted, math.inf
    if bound.between is not None and bound.groups > 1 and bound.spread > 0:
        seen = bound.between * math.sqrt(1 + 1 / bound.groups) / bound.spread
        if seen > counted:
            shared, degrees = seen, float(bound.groups - 1)
    return Uncertainty(
        degrees=_coarse(min(bound.degrees, _MOST_DEGREES), up=False),
        shared=_coarse(shared, up=True),
        shared_degrees=degrees,
        disturbed=rule.disturbed,
    )


def _limits(bound: Bound, rule: Rule, *, min_effect: float, max_slack: float) -> Limits:
    uncertainty = uncertainty_of(bound, rule)
    known = bound.degrees > 0 and bound.spread > 0
    return Limits(
        centre=bound.centre,
        spread=bound.spread if known else 0.0,
        multiplier=multiplier(rule.each_level, uncertainty, rule.walk) if known else 0.0,
        min_effect=as_logarithm(min_effect, bound.metric.better),
        max_slack=as_logarithm(max_slack, bound.metric.better),
        uncertainty=uncertainty,
        better=bound.metric.better,
    )


def _coarse(value: float, *, up: bool) -> float:
    """A number in steps of 5 %, to the careful side: cases that are nearly alike share one multiplier."""
    if value <= 0:
        return 0.0
    steps = math.log(value) / math.log(1.05)
    return float(1.05 ** (math.ceil(steps - 1e-9) if up else math.floor(steps + 1e-9)))
