"""How often is the judge wrong, and how often are the rules that others use, on the same noise?

False failures of healthy cases, detection of faults, and the attempts both take: on simulated nodes, on traces of
healthy ones, and what judging a fleet costs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from reporting import Target, finish
from verdict_fleet import Cost, fleet_costs
from verdict_study import NORMAL, OURS, Flaky, Study, flaky, studies
from verdict_tables import (
    DECISIONS,
    PER_NODE_WEEKS,
    say_check,
    say_false_failures,
    say_flaky,
    say_fleet,
    say_rule,
    say_seen,
    say_spread,
    say_trace,
    say_upside_down,
)
from verdict_traces import traces

from gpuwire_checks.judge.rule import Rule, make_rule
from gpuwire_checks.policy import Policy, load_policy
from gpuwire_checks.records import Case, SizeClass

RECORDED = (20, 5)
SECONDS = 60.0
FLEET_SECONDS, FLEET_MB, FLEET_GROWTH = 5.0, 1000.0, 1.5


def main() -> int:
    start = time.perf_counter()
    policy = load_policy([Path(__file__).parents[1] / "baselines"])
    rule = accelerator_rule(policy)
    say_rule(rule)
    say_spread()
    checked = say_check(rule)
    found = studies(rule, recorded=RECORDED)
    for of_count in found.values():
        say_false_failures(of_count)
        say_seen(of_count)
    say_upside_down()
    flakies = {noise.name: flaky(noise, rule, recorded=20) for noise in NORMAL[1:3]}
    for name, one in flakies.items():
        say_flaky(name, one)
    table_seconds = time.perf_counter() - start
    recorded_traces = traces()
    contradicted = sum(say_trace(name, trace, policy) for name, trace in recorded_traces.items())
    if not recorded_traces:
        print("\nA/A traces: none in benchmarks/data/, so nothing is said of real nodes; record some with: gpuwire aa")
    costs = fleet_costs()
    say_fleet(costs)
    seconds = time.perf_counter() - start
    print(f"\nsimulations {table_seconds:.0f} s, all {seconds:.0f} s")
    return finish(
        "verdicts",
        [
            *simulated_targets(found[20], list(flakies.values())),
            Target(name="exact_chances_off_by_errors", figure=checked, high=4.0),
            Target(name="aa_traces", figure=float(len(recorded_traces)), low=1.0),
            Target(name="aa_traces_that_contradict_their_policy's_level", figure=float(contradicted), high=0.0),
            *fleet_targets(costs),
            Target(name="seconds", figure=seconds, high=SECONDS),
        ],
        level=rule.level,
        lead=rule.walk.lead,
        rows=[row_of(one) for of_count in found.values() for one in of_count],
    )


def accelerator_rule(policy: Policy) -> Rule:
    """The shipped policy's, for a bandwidth between accelerators."""
    case = Case(
        collective="all_reduce",
        size_bytes=1 << 20,
        dtype="float32",
        world_size=8,
        size_class=SizeClass.BUCKET,
        backend="nccl",
        device="cuda",
    )
    return make_rule(policy, policy.tolerance(case, sku="simulated"), decisions=DECISIONS)


def simulated_targets(found: Sequence[Study], flakies: Sequence[Flaky]) -> list[Target]:
    """Of baselines of 20 attempts and normal noise, at the default budget."""
    normal = [one for one in found if one.noise in NORMAL]
    by_sigma = {one.noise.sigma: one for one in normal}
    return [
        Target(
            name="false_failures_per_100_node_weeks_at_most",
            figure=max(one.healthy[OURS].at_most for one in normal) * PER_NODE_WEEKS,
            high=1.0,
        ),
        Target(name="seen_of_drops_from_5_percent_at_1_percent_noise", figure=_seen(by_sigma[0.01], 0.05), low=0.99),
        Target(name="seen_of_drops_from_10_percent_at_2_percent_noise", figure=_seen(by_sigma[0.02], 0.10), low=0.99),
        Target(
            name="seen_in_a_night_of_a_fault_in_70_percent_of_attempts_at_3_cases_of_a_node",
            figure=min(one.by_cases[3] for one in flakies),
            low=0.9,
        ),
        Target(name="attempts_per_healthy_case", figure=max(one.healthy[OURS].attempts for one in normal), high=1.3),
    ]


def fleet_targets(costs: Sequence[Cost]) -> list[Target]:
    large = next(cost for cost in costs if cost.nodes == 10_000)
    largest = max(costs, key=lambda cost: cost.nodes)
    growth = largest.microseconds_a_node / large.microseconds_a_node
    return [
        Target(name="fleet_10000_nodes_seconds", figure=large.seconds, high=FLEET_SECONDS),
        Target(name="fleet_10000_nodes_peak_mb", figure=large.peak_mb, high=FLEET_MB),
        Target(name="fleet_seconds_a_node_50000_over_10000", figure=growth, high=FLEET_GROWTH),
    ]


def _seen(one: Study, least: float) -> float:
    return min(seen[OURS] for drop, seen in one.seen.items() if drop >= least)


def row_of(one: Study) -> Mapping[str, object]:
    """A study for the JSON line, in chances of one decision; of the other rules what the table prints."""
    mine = one.healthy[OURS]
    return {
        "noise": one.noise.name,
        "recorded": one.recorded,
        "false_failures": {name: float(f"{healthy.chance:.3g}") for name, healthy in one.healthy.items()},
        "at_most": float(f"{mine.at_most:.3g}"),
        "seen": {f"{drop:g}": round(of[OURS], 4) for drop, of in one.seen.items()},
        "seen_by": {f"{drop:g}": rounded(one.seen[drop]) for drop in (0.05, 0.10)},
        "intermittent": rounded(one.intermittent),
        "attempts": {"0": round(mine.attempts, 3), **{f"{drop:g}": round(of, 2) for drop, of in one.attempts.items()}},
        "enforceable": round(one.enforceable, 4),
    }


def rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(share, 4) for name, share in shares.items()}


if __name__ == "__main__":
    sys.exit(main())
