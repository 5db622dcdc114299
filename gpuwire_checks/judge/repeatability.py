"""How well a node repeats itself: its noise floor, drift and disturbances, and the smallest change it could be held to.

A trace of a node that nobody changed is held to itself (A/A): whatever is found in it is noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.judge.explain import smallest_change
from gpuwire_checks.judge.limits import Limits, limits_of, tail_limits_of
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.standing import Standing, standing
from gpuwire_checks.judge.trace import Trace, TracedCase, entry_of
from gpuwire_checks.records import Bound
from gpuwire_checks.statistics.series import half_drift, shared_in_blocks

MANY = 20
"""Attempts of a well recorded baseline."""
FEWEST = 10
"""Attempts from which on a trace can be split and held to itself."""
OUTLIER = 4.0
"""Spreads to the bad side from which on an attempt counts as disturbed: of normal noise 1 in 30,000 is."""
_CLEAR_DRIFT = 4.0
"""Standard errors from which on a drift of the whole node is one; of a single case of many, half of one more."""
_LEAST_SPREAD = 1e-4
_FAILED = (Standing.WORSE, Standing.COMES_AND_GOES, Standing.UNDECIDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a baseline of so many attempts could hold a case to; ``seen`` is a logarithm, as widths are."""

    attempts: int
    limits: Limits
    seen: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstItself:
    """Decisions on attempts, by a baseline of those before them, and how many of them failed."""

    decisions: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseNoise:
    """How well one case repeats.

    Attributes:
        own: standard deviation between attempts, of logarithms.
        drift: of the second half to the bad side of the first, as a logarithm.
        drifts: whether that is more than chance explains.
        disturbed: attempts more than four spreads to the bad side.
        held: to a baseline of the policy's attempts, and to one of twenty.
        level, tails: figures, and spreads within attempts, against themselves; None of a short trace.
    """

    case: TracedCase
    centre: float
    own: float
    drift: float
    drifts: bool
    disturbed: int
    held: tuple[Held, Held]
    level: AgainstItself | None = None
    tails: AgainstItself | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeatability:
    """How well a node repeats itself.

    Attributes:
        drift: of the typical case, as a case's.
        shared: what five attempts in a row share, in spreads; None of a short trace.
        recorded: attempts behind the baseline that the others were held to.
    """

    trace: Trace
    cases: tuple[CaseNoise, ...]
    drift: float
    drifts: bool
    shared: float | None
    recorded: int

    @property
    def passes(self) -> int:
        return min(len(noise.case.attempts) for noise in self.cases)

    @property
    def attempts(self) -> int:
        return sum(len(noise.case.attempts) for noise in self.cases)


def analyse(trace: Trace, rules: Mapping[str, Rule], *, record: int) -> Repeatability:
    """How well the node of a trace repeats itself.

    Args:
        rules: of each case, by its name.
        record: attempts behind the bounds that the policy has recorded.
    """
    recorded = min(MANY, min(len(case.attempts) for case in trace.cases) // 2)
    long_enough = 2 * recorded >= FEWEST
    first = _baseline(trace, first=recorded, attempts=recorded) if long_enough else None
    few, many = _baseline(trace, attempts=record), _baseline(trace, attempts=MANY)
    noises = []
    for case in trace.cases:
        rule = rules[case.case]
        held = (_held(_bound(few, case), rule, record), _held(_bound(many, case), rule, MANY))
        noises.append(_noise(case, rule, held=held, first=first, recorded=recorded))
    falls = [[fall / max(noise.own, _LEAST_SPREAD) for fall in _falls(noise.case)] for noise in noises]
    typical = [median(together) for together in zip(*falls, strict=False)]
    return Repeatability(
        trace=trace,
        cases=tuple(noises),
        drift=median(noise.drift for noise in noises),
        drifts=long_enough and abs(half_drift(typical)[1]) > _CLEAR_DRIFT,
        shared=shared_in_blocks(falls),
        recorded=recorded,
    )


def against_itself(values: Sequence[float], limits: Limits, rule: Rule) -> AgainstItself:
    """Attempts judged one after the other by the sequential rule, a new decision after each that has settled.

    The last one does not count where the trace ends before it.
    """
    decisions = failed = at = 0
    while at < len(values):
        for end in range(at + 1, len(values) + 1):
            found = standing(values[at:end], limits, rule)
            if found is not Standing.OPEN:
                decisions += 1
                failed += found in _FAILED
                at = end
                break
        else:
            break
    return AgainstItself(decisions=decisions, failed=failed)


def _noise(
    case: TracedCase, rule: Rule, *, held: tuple[Held, Held], first: Baseline | None, recorded: int
) -> CaseNoise:
    entry, falls = entry_of(case), _falls(case)
    drift, errors = half_drift(falls) if first is not None else (0.0, 0.0)
    noise = CaseNoise(
        case=case,
        centre=entry.centre,
        own=entry.spread,
        drift=drift,
        drifts=abs(errors) > _CLEAR_DRIFT + 0.5,
        disturbed=sum(fall > OUTLIER * max(entry.spread, _LEAST_SPREAD) for fall in falls),
        held=held,
    )
    if first is None:
        return noise
    bound = _bound(first, case)
    tail_limits = tail_limits_of(bound, rule)
    return replace(
        noise,
        level=against_itself(case.values[recorded:], limits_of(bound, rule), rule),
        tails=None if tail_limits is None else against_itself(case.tails[recorded:], tail_limits, rule),
    )


def _falls(case: TracedCase) -> list[float]:
    """How far each attempt is to the bad side of the median, as a logarithm."""
    centre, sign = median(case.values), -1 if case.better == "higher" else 1
    return [sign * math.log(value / centre) for value in case.values]


def _held(bound: Bound, rule: Rule, attempts: int) -> Held:
    limits = limits_of(bound, rule)
    return Held(attempts=attempts, limits=limits, seen=smallest_change(limits, rule))


def _baseline(trace: Trace, *, attempts: int, first: int | None = None) -> Baseline:
    """A baseline as if of so many attempts, its figures from the ``first`` ones of a trace, or from all."""
    return Baseline(
        name="A/A",
        path=Path("trace"),
        sku=trace.sku,
        exact=None,
        facts={},
        recorded=None,
        entries=tuple(entry_of(case, first=first, attempts=attempts) for case in trace.cases),
    )


def _bound(baseline: Baseline, case: TracedCase) -> Bound:
    bound = baseline.bound_for(case.of)
    assert bound is not None
    return bound
