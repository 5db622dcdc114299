"""The tables of verdicts.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pytest_benchmark.utils import PercentageRegressionCheck
from verdict_drawn import Count, drawn
from verdict_fleet import METRICS, Cost
from verdict_rules import ROUNDS, ours, record
from verdict_study import DROPS, FAMILIES, NORMAL, OTHER, OURS, RULES, Flaky, Healthy, Study
from verdict_traces import drawn_nights, held_to, in_order, others_seen

from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.trace import Trace
from gpuwire_checks.policy import Policy
from gpuwire_checks.statistics.robust import robust_spread

DECISIONS = 200
"""Cases judged on a node each night."""
NODE_WEEKS = 100
PER_NODE_WEEKS = NODE_WEEKS * 7 * DECISIONS
_WIDE = 32


def say_rule(rule: Rule) -> None:
    print(
        f"{DECISIONS} decisions a night; level {rule.level:.2g}, that is {rule.level * PER_NODE_WEEKS:g} false failure"
        f" per {NODE_WEEKS} node-weeks ({PER_NODE_WEEKS:,} decisions); min_effect {rule.min_effect:.0%}, max_slack"
        f" {rule.max_slack:.0%}; a lead of {rule.walk.lead} fails, of {rule.clear} clears, {rule.most} attempts at most"
    )


def say_spread() -> None:
    """Whether the robust spread of a few normal attempts has the right size."""
    chance, ratios = np.random.default_rng(2), []
    for count in (4, 5, 10, 20):
        squares = [robust_spread(np.exp(row).tolist()) ** 2 for row in chance.standard_normal((1000, count))]
        ratios.append(f"{np.mean(squares):.3f} of {count}")
    print(f"mean square of the robust spread of normal attempts, 1 is right: {', '.join(ratios)} attempts")


def say_check(rule: Rule) -> float:
    """Exact chances beside those of nights drawn and judged one by one; returns the largest error, in standard ones."""
    print(f"\n{'Chances of a failure':<52}{'exact':>10}{'drawn':>10}{'errors':>8}{'attempts':>10}{'drawn':>8}")
    lax = Rule(min_effect=0.001, level=0.01, disturbed=0.01)
    one, two = NORMAL[1], NORMAL[2]
    away = next(noise for noise in OTHER if noise.nights and not noise.step)
    largest = 0.0
    for name, noise, how, drop, present in (
        ("healthy", one, rule, 0.0, 1.0),
        ("healthy, at a level of 0.01", one, lax, 0.0, 1.0),
        ("healthy, nights apart, at a level of 0.01", away, lax, 0.0, 1.0),
        ("a drop of 3 %", one, rule, 0.03, 1.0),
        ("a drop of 5 %", two, rule, 0.05, 1.0),
        ("a drop of 10 % in 70 % of attempts", one, rule, 0.1, 0.7),
    ):
        baseline = record(noise, how, families=FAMILIES, attempts=20, seed=1)
        exact = ours(noise, baseline, how, drop=drop, present=present)
        count = drawn(noise, baseline, how, nights=16 if how is lax else 2, drop=drop, present=present)[OURS]
        chance = float(exact.failing.mean())
        errors = abs(count.rate - chance) / (max(chance * (1 - chance), 1 / count.nights) / count.nights) ** 0.5
        largest = max(largest, errors)
        label = f"{name}, {noise.sigma:.0%} noise"
        attempts = f"{exact.attempts.mean():>10.3f}{count.attempts / count.nights:>8.3f}"
        print(f"{label:<52}{chance:>10.5f}{count.rate:>10.5f}{errors:>8.1f}{attempts}")
    return largest


def say_false_failures(found: Sequence[Study]) -> None:
    head = f"Baselines of {found[0].recorded} attempts: false failures per {NODE_WEEKS} node-weeks"
    print(f"\n{head}\n{'noise of an attempt':<{_WIDE}}" + "".join(f"{name:>17}" for name in RULES) + f"{'+-':>10}")
    for one in found:
        cells = [_per_weeks(one.healthy[name]) for name in RULES]
        mine = one.healthy[OURS]
        error = "drawn" if one.noise.step else _rate(mine.error * PER_NODE_WEEKS)
        print(f"{one.noise.name:<{_WIDE}}" + "".join(f"{cell:>17}" for cell in cells) + f"{error:>10}")
    print("+- is this judge's standard error, from the baselines drawn; < is the 95 % limit of nights drawn one by one")


def say_seen(found: Sequence[Study]) -> None:
    drops = "".join(f"{drop:>8.0%}" for drop in DROPS)
    print(f"\nBaselines of {found[0].recorded} attempts: share of drops that this judge sees, and attempts")
    print(f"{'noise of an attempt':<{_WIDE}}{drops}{'healthy':>10}{'10 % down':>11}{'too noisy to enforce':>22}")
    for one in found:
        seen = "".join(f"{one.seen[drop][OURS]:>8.3f}" for drop in DROPS)
        attempts = f"{one.healthy[OURS].attempts:>10.2f}{one.attempts[0.10]:>11.2f}"
        print(f"{one.noise.name:<{_WIDE}}{seen}{attempts}{1 - one.enforceable:>22.0%}")
    print("\nthe same: 5 % down, 10 % down, and 10 % down in 70 % of attempts, one case alone, by every rule")
    print(f"{'noise of an attempt':<{_WIDE}}" + "".join(f"{name:>17}" for name in RULES))
    for one in found:
        cells = [
            f"{one.seen[0.05][name]:.2f} {one.seen[0.10][name]:.2f} {one.intermittent[name]:.2f}" for name in RULES
        ]
        print(f"{one.noise.name:<{_WIDE}}" + "".join(f"{cell:>17}" for cell in cells))
    print(f"attempts of the others: 1; 1 to 3 of any of 3; {ROUNDS} of mean:5 %")


def say_upside_down() -> None:
    """What pytest-benchmark makes of a bandwidth."""
    check = PercentageRegressionCheck("mean", 5)  # type: ignore[no-untyped-call]
    for now in (3.0, 370.0):
        failed = check.fails({"mean": now}, {"mean": 350.0})  # type: ignore[no-untyped-call]
        verdict = "fails" if failed else "passes"
        print(f"mean:5% of pytest-benchmark, given a bandwidth of {now:g} GB/s after 350: {verdict}")


def say_flaky(name: str, found: Flaky) -> None:
    print(f"\nA fault of 10 % in 70 % of attempts, {name}, baselines of 20 attempts")
    for count, seen in found.by_cases.items():
        cases = "one case alone" if count == 1 else f"{count} cases of the node"
        ceiling = " (with 1.3 attempts per healthy case no rule can see more than 0.763)" if count == 1 else ""
        print(f"  {cases + ', one night':<34}{seen:8.3f}{ceiling}")
    print(f"  {'one case alone, a week of nights':<34}{found.week:8.3f}")
    for first, (seen, attempts) in found.by_first.items():
        print(f"  one case alone, attempts.first {first}  {seen:8.3f} at {attempts:.2f} attempts per healthy case")


def say_trace(name: str, trace: Trace, policy: Policy) -> bool:
    """Print what every rule makes of a trace; returns whether it contradicts the level that was promised."""
    contradicts = False
    cases = held_to(trace, policy)
    later = sum(len(case.later) for case in cases)
    print(f"\n{name}: {trace.host_kind}, {len(cases)} cases, {later} attempts after their baselines of 20")
    print(f"{'rule':<30}{'failed':>14}{'95 % limit':>12}{'attempts':>10}" + "".join(f"{drop:>8.0%}" for drop in DROPS))
    for label, min_effect in (("this host's policy", None), ("min_effect 3 %", 0.03)):
        held = held_to(trace, policy, min_effect=min_effect)
        counts = in_order(held)
        mine = counts[OURS]
        # What ships is the policy; the other shows what a host of this noise would do to a strict one.
        contradicts |= min_effect is None and mine.at_least > held[0].rule.level
        loose = sum(not case.limits.enforceable for case in held)
        seen = [drawn_nights(held, drop=drop).rate for drop in DROPS]
        say_trace_row(f"{OURS}, {label}", mine, seen)
        again = drawn_nights(held, drop=0.0)
        print(f"  {again.failed} of {again.nights} nights drawn from it; {loose} cases too noisy to enforce")
    by_drop = [others_seen(cases, drop=drop) for drop in DROPS]
    for rule in RULES[1:]:
        say_trace_row(rule, counts[rule], [seen[rule] for seen in by_drop])
    return contradicts


def say_trace_row(name: str, count: Count, seen: Sequence[float]) -> None:
    failed = f"{count.failed} of {count.nights}"
    each = f"{count.at_most:>12.2%}{count.attempts / max(1, count.nights):>10.2f}"
    print(f"{name:<30}{failed:>14}{each}" + "".join(f"{share:>8.2f}" for share in seen))


def say_fleet(costs: Sequence[Cost]) -> None:
    print(f"\nA fleet judged in one process, {METRICS} metrics a node")
    for cost in costs:
        attempts = "first attempts" if cost.attempts == 1 else f"{cost.attempts} attempts each"
        print(
            f"{cost.nodes:>7} nodes, {attempts:<15}{cost.seconds:>8.2f} s{cost.microseconds_a_node:>8.1f} us a node"
            f"{cost.peak_mb:>7.0f} MB at most; {cost.found['OPEN']} to confirm"
        )


def _per_weeks(one: Healthy) -> str:
    if one.chance < one.finest:
        return f"<{_rate(one.at_most * PER_NODE_WEEKS)}"
    return _rate(one.chance * PER_NODE_WEEKS)


def _rate(value: float) -> str:
    if value < 0.0005:
        return "<0.0005"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
