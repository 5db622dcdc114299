"""Rules on traces of healthy nodes: the same cases measured again and again by ``gpuwire aa``, kept in data/.

The first 20 attempts are the baseline; what follows is judged night after night, in the order it was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

import numpy as np
from verdict_drawn import FAULTS, Count, night
from verdict_rules import ROUNDS

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.judge.limits import Limits, limits_of
from gpuwire_checks.judge.rule import Rule, make_rule
from gpuwire_checks.judge.standing import Standing
from gpuwire_checks.judge.trace import Trace, TracedCase, entry_of
from gpuwire_checks.policy import Policy
from gpuwire_checks.report.trace import read_trace

FOLDER = Path(__file__).parent / "data"
RECORDED = 20
"""Attempts of each case that are its baseline."""
DRAWN = 2000
"""Nights drawn of each trace, from the attempts after its baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A case of a trace: its first attempts, those after them, what they are held to and by what rule."""

    better: str
    first: tuple[float, ...]
    later: tuple[float, ...]
    limits: Limits
    rule: Rule

    def dropped(self, drop: float) -> Held:
        """The same with all that is after the baseline worse by this share of the rate."""
        factor = 1 - drop if self.better == "higher" else 1 / (1 - drop)
        return replace(self, later=tuple(value * factor for value in self.later))

    def rates(self, values: Sequence[float]) -> list[float]:
        """Figures that fall where they get worse."""
        return list(values) if self.better == "higher" else [1 / value for value in values]


def traces(folder: Path = FOLDER) -> Mapping[str, Trace]:
    """Every recorded trace, by its file's name."""
    return {path.name: read_trace(path) for path in sorted(folder.glob("aa-*.json"))}


def held_to(trace: Trace, policy: Policy, *, min_effect: float | None = None) -> list[Held]:
    """Each case, and what its first attempts hold it to; with another smallest effect, where given."""
    long_enough = [case for case in trace.cases if len(case.attempts) >= RECORDED + ROUNDS]
    baseline = _baseline(trace.sku, long_enough)
    held = []
    for case in long_enough:
        bound = baseline.bound_for(case.of)
        assert bound is not None
        rule = make_rule(policy, policy.tolerance(case.of, sku=trace.sku), decisions=200)
        rule = rule if min_effect is None else replace(rule, min_effect=min_effect)
        first, later = case.values[:RECORDED], case.values[RECORDED:]
        held.append(Held(better=case.better, first=first, later=later, limits=limits_of(bound, rule), rule=rule))
    return held


def in_order(cases: Sequence[Held]) -> Mapping[str, Count]:
    """Failures of every rule, each night beginning where the one before ended; one that is cut off does not count."""
    nights: dict[str, list[tuple[bool, int]]] = {}
    for one in cases:
        start = 0
        while start < len(one.later):
            found, made = night(one.later[start:].__getitem__, one.limits, one.rule, most=len(one.later) - start)
            start += made
            if found is not Standing.OPEN:
                nights.setdefault("gpuwire", []).append((found in FAULTS, made))
        for name, ends in _others(one):
            nights.setdefault(name, []).extend(ends)
    return {
        name: Count(failed=sum(failed for failed, _ in ends), nights=len(ends), attempts=sum(made for _, made in ends))
        for name, ends in nights.items()
    }


def drawn_nights(cases: Sequence[Held], *, drop: float) -> Count:
    """Failures of nights that begin at an attempt drawn by lot and go on in the order measured, round the end."""
    lot = np.random.default_rng(23)
    nights = max(1, DRAWN // len(cases))
    failed = attempts = 0
    for one in (case.dropped(drop) for case in cases):
        for start in lot.integers(0, len(one.later), nights).tolist():
            found, made = night((one.later[start:] + one.later * 2).__getitem__, one.limits, one.rule)
            failed += found in FAULTS
            attempts += made
    return Count(failed=failed, nights=nights * len(cases), attempts=attempts)


def others_seen(cases: Sequence[Held], *, drop: float) -> Mapping[str, float]:
    """Share of nights, in order, that each of the other rules fails."""
    seen: dict[str, list[bool]] = {}
    for one in cases:
        for name, ends in _others(one.dropped(drop)):
            seen.setdefault(name, []).extend(failed for failed, _ in ends)
    return {name: fmean(failed) for name, failed in seen.items()}


def _baseline(sku: str, cases: Sequence[TracedCase]) -> Baseline:
    return Baseline(
        name="A/A",
        path=Path("trace"),
        sku=sku,
        exact=None,
        facts={},
        recorded=None,
        entries=tuple(entry_of(case, first=RECORDED) for case in cases),
    )


def _others(one: Held) -> Iterator[tuple[str, list[tuple[bool, int]]]]:
    base, later = one.rates(one.first), one.rates(one.later)
    middle, mean = median(base), fmean(base)
    yield "5 % below", [(rate < 0.95 * middle, 1) for rate in later]
    yield "10 % below", [(rate < 0.90 * middle, 1) for rate in later]
    yield "5 %, any of 3", list(_retried(later, 0.95 * middle))
    yield "(v-b)/b < -5 %", [((rate - mean) / mean < -0.05, 1) for rate in later]
    # Nobody knows the true figure: what the baseline says, in two digits, as a person would write it down.
    yield "0.95 x expected", [(rate < 0.95 * float(f"{middle:.2g}"), 1) for rate in later]
    saved = fmean(1 / rate for rate in base)
    rounds = [later[start : start + ROUNDS] for start in range(0, len(later) - ROUNDS + 1, ROUNDS)]
    yield "mean:5 %", [(fmean(1 / rate for rate in run) > 1.05 * saved, ROUNDS) for run in rounds]


def _retried(rates: Sequence[float], least: float) -> Iterator[tuple[bool, int]]:
    """Nights of up to three attempts, any of which may pass."""
    start = 0
    while start + 3 <= len(rates):
        made = next((index + 1 for index, rate in enumerate(rates[start : start + 3]) if rate >= least), 3)
        yield all(rate < least for rate in rates[start : start + made]), made
        start += made
