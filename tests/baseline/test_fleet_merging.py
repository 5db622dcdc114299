"""Poisoned fleets: the recorded centre, or the refusal, is right each time, and says who and why."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import median

import pytest
from fleets import CENTRE, fleet, fleet_case, group, scaled

from gpuwire_checks.baseline.fleet import Merged, merge_case, merge_fleet
from gpuwire_checks.baseline.fleet_words import left_out_lines, refused_line
from gpuwire_checks.baseline.groups import Figures
from gpuwire_checks.baseline.schema import BoundEntry
from gpuwire_checks.statistics.robust import robust_spread

SEEDS = range(150)
NOISES = [0.003, 0.01]


def left(merged: Merged) -> list[str]:
    return sorted(one.name for one in merged.left_out)


def entry(merged: Merged) -> BoundEntry:
    assert merged.entry is not None, merged.refused
    return merged.entry


def why(figures: Figures) -> str:
    merged = merge_case(figures)
    assert merged.entry is None
    assert merged.refused is not None
    return refused_line(merged.refused)


def near(merged: Merged, noise: float) -> bool:
    """The centre is the healthy nodes', within what their noise allows of the median of three of them."""
    return abs(math.log(entry(merged).centre / CENTRE)) < 2 * noise


# Nodes that do not agree


@pytest.mark.parametrize("noise", NOISES)
def test_six_healthy_nodes_are_all_behind_the_bound(noise: float) -> None:
    for seed in SEEDS:
        merged = merge_case(fleet(noise=noise, seed=seed))
        assert left(merged) == []
        assert near(merged, noise)
        assert (entry(merged).nodes, entry(merged).runs, entry(merged).attempts) == (6, 6, 30)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("factor", [0.5, 0.9, 0.93, 1.1, 1.5])
def test_one_of_six_that_is_slow_or_fast_is_left_out_and_named(noise: float, factor: float) -> None:
    found = [merge_case(fleet(noise=noise, factors={2: factor}, seed=seed)) for seed in SEEDS]
    assert all("node-3" in left(merged) and near(merged, noise) for merged in found)
    # 3 standard errors are allowed to a healthy node: now and then one is left out beside it, which moves no median.
    assert sum(left(merged) == ["node-3"] for merged in found) >= 0.97 * len(found)
    slower = {one.is_slower for merged in found for one in merged.left_out if one.name == "node-3"}
    assert slower == {factor < 1}


@pytest.mark.parametrize("noise", NOISES)
def test_three_of_six_that_lost_the_same_are_no_majority_on_either_side(noise: float) -> None:
    for seed in SEEDS:
        merged = merge_case(fleet(noise=noise, factors={1: 0.9, 3: 0.9, 4: 0.9}, seed=seed))
        assert merged.refused is not None
        assert (merged.refused.agreeing, merged.refused.total) == (3, 6)


def test_three_of_six_that_each_lost_something_else_are_refused_too() -> None:
    found = [merge_case(fleet(noise=0.003, factors={1: 0.95, 3: 0.9, 4: 0.8}, seed=seed)) for seed in SEEDS]
    assert all(merged.refused is not None for merged in found)


@pytest.mark.parametrize("noise", NOISES)
def test_two_of_twelve_are_left_out(noise: float) -> None:
    for seed in SEEDS:
        merged = merge_case(fleet(12, noise=noise, factors={4: 0.9, 7: 0.6}, seed=seed))
        assert {"node-5", "node-8"} <= set(left(merged))
        assert near(merged, noise)
        assert entry(merged).nodes >= 9


def test_two_nodes_that_agree_are_a_baseline_and_two_that_do_not_are_none() -> None:
    for seed in SEEDS:
        assert entry(merge_case(fleet(2, seed=seed))).nodes == 2
        assert merge_case(fleet(2, factors={1: 0.9}, seed=seed)).refused is not None


def test_two_of_three_are_a_majority() -> None:
    for seed in SEEDS:
        assert left(merge_case(fleet(3, noise=0.003, factors={1: 0.9}, seed=seed))) == ["node-2"]
        assert merge_case(fleet(3, noise=0.003, factors={1: 0.9, 2: 0.8}, seed=seed)).refused is not None


def test_a_wide_fleet_of_many_nodes_keeps_most_of_them() -> None:
    """Nodes that differ by 2 %, where 3 % is worth a failure: from ten on, their own spread widens what is allowed."""
    found = [merge_case(fleet(16, noise=0.003, between=0.02, seed=seed)) for seed in SEEDS]
    assert all(merged.entry is not None for merged in found)
    assert sum(len(merged.left_out) for merged in found) < 0.05 * 16 * len(found)


def test_half_of_a_large_fleet_is_no_majority_however_far_its_nodes_are_apart() -> None:
    for seed in SEEDS:
        merged = merge_case(fleet(12, noise=0.003, factors=dict.fromkeys(range(0, 12, 2), 0.92), seed=seed))
        assert merged.refused is not None


def test_a_noisy_node_is_allowed_what_its_noise_explains() -> None:
    """5 attempts at 5 % noise tell their centre to 3 %: a node that is 3.5 % away is no other."""
    kept = [merge_case(fleet(noise=0.05, factors={0: 0.965}, seed=seed)) for seed in SEEDS]
    assert sum(left(merged) == [] for merged in kept) > 0.9 * len(kept)


def test_latencies_are_slower_where_they_are_higher() -> None:
    figures = fleet(case=fleet_case(size_bytes=8 << 10), factors={2: 1.5}, allowed=0.2)
    (one,) = merge_case(figures).left_out
    assert (one.name, one.is_slower) == ("node-3", True)


# Drift


@pytest.mark.parametrize("noise", NOISES)
def test_a_fleet_whose_figures_drift_has_no_level(noise: float) -> None:
    for seed in SEEDS:
        merged = merge_case(fleet(12, noise=noise, drift=-0.01, seed=seed))
        assert merged.refused is not None
        assert merged.refused.drift is not None


def test_a_drift_that_no_night_shows_is_refused_by_its_sum() -> None:
    """0.5 % a run is within the noise of each, and 5.4 % from the first to the last."""
    for seed in SEEDS:
        merged = merge_case(fleet(1, runs=12, noise=0.005, drift=-0.005, seed=seed))
        assert merged.refused is not None
        assert merged.refused.drift is not None
        assert math.expm1(merged.refused.drift.change) == pytest.approx(-0.054, abs=0.02)


def test_nodes_that_all_move_alike_from_run_to_run_drift() -> None:
    for seed in range(30):
        merged = merge_case(fleet(4, runs=6, noise=0.003, drift=-0.003, seed=seed))
        assert merged.refused is not None
        assert merged.refused.drift is not None


def test_one_node_of_six_that_drifts_is_left_out_with_its_drift() -> None:
    steady = fleet(6, runs=6, noise=0.003)
    groups = tuple(
        replace(one, values=tuple(value * 0.99 ** (index // 6) for value in one.values))
        if one.host == "node-2"
        else one
        for index, one in enumerate(steady.groups)
    )
    merged = merge_case(replace(steady, groups=groups))
    assert left(merged) == ["node-2"]
    fleet_of_one = merge_fleet([replace(steady, groups=groups)])
    assert "its figures drift by -" in left_out_lines(fleet_of_one)[0]


@pytest.mark.parametrize(("nodes", "runs"), [(1, 12), (12, 1), (6, 6)])
def test_steady_figures_do_not_drift(nodes: int, runs: int) -> None:
    found = [merge_case(fleet(nodes, runs=runs, seed=seed)) for seed in range(60)]
    assert sum(merged.refused is not None for merged in found) == 0


def test_a_bad_node_that_is_recorded_last_is_no_drift() -> None:
    assert left(merge_case(fleet(6, factors={5: 0.8}))) == ["node-6"]


# What the bound says


def test_each_node_counts_once_however_many_runs_it_has() -> None:
    many = [group("node-1", [110.0, 110.5, 109.5], day=day) for day in range(4)]
    few = [group(f"node-{number}", [100.0, 100.5, 99.5], day=number) for number in (2, 3)]
    figures = Figures(case=fleet_case(), groups=(*many, *few), allowed=0.2, night=0.4)
    assert entry(merge_case(figures)).centre == 100.0


def test_the_counts_and_spreads_are_those_of_the_nodes_that_agree() -> None:
    figures = fleet(6, noise=0.01, factors={2: 0.5}, seed=3)
    merged = merge_case(figures)
    kept = [one for one in figures.groups if one.host != "node-3"]
    assert (entry(merged).nodes, entry(merged).runs, entry(merged).attempts) == (5, 5, 25)
    assert entry(merged).between == pytest.approx(robust_spread([median(one.values) for one in kept]), rel=0.01)
    assert 0.004 < entry(merged).spread < 0.02


def test_of_one_node_the_runs_are_compared_and_a_run_that_went_wrong_is_left_out() -> None:
    runs = [group("node-1", [100.0, 100.4, 99.6], run=f"run-{day}", day=day) for day in range(5)]
    merged = merge_case(
        Figures(case=fleet_case(), groups=(*runs, group("node-1", [80, 81, 79], run="bad")), allowed=0.03, night=0.4)
    )
    assert left(merged) == ["bad"]
    assert (entry(merged).nodes, entry(merged).runs, entry(merged).attempts) == (1, 5, 15)
    assert entry(merged).between is not None


def test_one_run_has_nothing_between() -> None:
    assert entry(merge_case(fleet(1))).between is None


def test_single_attempts_of_a_node_are_taken_together_and_tell_its_spread() -> None:
    merged = merge_case(fleet(1, runs=8, attempts=1))
    assert (entry(merged).runs, entry(merged).attempts, entry(merged).between) == (1, 8, None)
    assert entry(merged).spread > 0


def test_single_attempts_of_different_nodes_tell_no_spread() -> None:
    assert why(fleet(6, attempts=1)) == (
        "busbw all_reduce-1GiB-float32-ws8 on nccl: no run has two attempts at it, and no node two runs: nothing tells"
        " how far attempts spread"
    )


def test_tails_are_kept_where_every_attempt_has_one() -> None:
    told = [group(f"node-{n}", [100.0, 101.0], tails=[1.1, 1.2], day=n) for n in range(3)]
    figures = Figures(case=fleet_case(), groups=tuple(told), allowed=0.03, night=0.4)
    tail = entry(merge_case(figures)).tail
    assert tail is not None
    assert tail.centre == pytest.approx(1.15)
    untold = replace(figures, groups=(*told[:2], replace(told[2], tails=())))
    assert entry(merge_case(untold)).tail is None


# The same figures in another order, or another unit


def test_the_order_in_which_runs_are_given_does_not_matter() -> None:
    for seed in range(20):
        figures = fleet(6, runs=2, noise=0.02, between=0.01, factors={seed % 6: 0.95}, seed=seed)
        shuffled = list(figures.groups)
        random.Random(seed).shuffle(shuffled)
        assert merge_case(replace(figures, groups=tuple(shuffled))) == merge_case(figures)


@pytest.mark.parametrize("factor", [1e-3, 0.7, 1e3])
def test_scaling_all_values_changes_no_decision(factor: float) -> None:
    for seed in range(40):
        figures = fleet(6, noise=0.02, between=0.02, factors={2: 0.94}, drift=-0.004, seed=seed)
        was, now = merge_case(figures), merge_case(scaled(figures, factor))
        assert left(was) == left(now)
        assert (was.refused is None) == (now.refused is None)
        if was.entry is not None and now.entry is not None:
            assert now.entry.centre == pytest.approx(was.entry.centre * factor, rel=1e-4)
            assert now.entry.spread == pytest.approx(was.entry.spread, rel=0.01)


# Over all cases


CASES = [fleet_case(name) for name in ("all_reduce", "broadcast", "reduce", "send_recv", "all_to_all_single")]


def fleet_of(*factors: dict[int, float]) -> list[Figures]:
    return [
        fleet(6, case=case, noise=0.003, factors=of_case, seed=number)
        for number, (case, of_case) in enumerate(zip(CASES, factors, strict=False))
    ]


def test_a_node_that_is_odd_in_most_of_its_cases_is_left_out_of_all_and_said_once() -> None:
    slow = {3: 0.9}
    found = merge_fleet(fleet_of(slow, slow, slow, {}, {}))
    assert found.whole == {"node-4": (3, 5)}
    assert {one.nodes for one in found.entries} == {5}
    assert "node-4" not in found.nodes
    (line,) = left_out_lines(found)
    assert line.startswith(
        "node-4 is left out of every case: it does not agree with the other nodes in 3 of 5 (slower in 3; "
    )
    assert "% in the median); the farthest is busbw " in line


def test_a_node_that_is_odd_in_one_case_is_left_out_of_that_one() -> None:
    found = merge_fleet(fleet_of({3: 0.9}, {}, {}, {}, {}))
    assert found.whole == {}
    assert [one.nodes for one in found.entries] == [5, 6, 6, 6, 6]
    assert len(found.nodes) == 6
    (line,) = left_out_lines(found)
    assert line.startswith("node-4 is left out of busbw all_reduce-1GiB-float32-ws8 on nccl: ")
    assert line.endswith("(slower; 3.0 % is allowed)")
    assert "% below the " in line


def test_a_node_that_is_left_out_of_all_counts_as_one_that_does_not_agree() -> None:
    slow = {3: 0.9}
    found = merge_fleet(fleet_of(slow, slow, slow, {0: 0.8, 1: 0.7}, {}))
    assert [one.case.collective for one in found.refused] == ["send_recv"]
    assert (found.refused[0].agreeing, found.refused[0].total) == (3, 6)


def test_the_order_of_cases_does_not_matter() -> None:
    cases = fleet_of({3: 0.9}, {3: 0.9}, {3: 0.9}, {1: 1.2}, {})
    forwards, backwards = merge_fleet(cases), merge_fleet(cases[::-1])
    assert sorted(map(str, forwards.entries)) == sorted(map(str, backwards.entries))
    assert sorted(left_out_lines(forwards)) == sorted(left_out_lines(backwards))


# Words


def test_a_fast_node_is_named_as_fast() -> None:
    (line,) = left_out_lines(merge_fleet(fleet_of({0: 1.2}, {}, {})))
    assert "node-1 is left out of busbw all_reduce-1GiB-float32-ws8 on nccl: 120 GB/s is 19." in line
    assert "above the 99.9 GB/s of the others (faster; 3.0 % is allowed)" in line


def test_a_node_that_is_odd_in_many_cases_has_three_lines_and_a_count() -> None:
    cases = [fleet(6, case=fleet_case(size_bytes=size << 20), noise=0.003, factors={0: f}, seed=size) for size, f in
             [(1, 0.9), (2, 0.8), (4, 0.7), (8, 0.6), (16, 1), (32, 1), (64, 1), (128, 1)]]  # fmt: skip
    lines = left_out_lines(merge_fleet(cases))
    assert len(lines) == 4
    assert "all_reduce-8MiB" in lines[0]
    assert lines[3] == "node-1 is left out of 1 more cases, by less"


def test_nodes_that_disagree_are_told_with_their_figures() -> None:
    groups = tuple(group(f"node-{n}", [value] * 3, day=n) for n, value in enumerate([367.0, 366.0, 331.0, 330.0]))
    assert why(Figures(case=fleet_case(), groups=groups, allowed=-math.log1p(-0.03), night=0.4)) == (
        "busbw all_reduce-1GiB-float32-ws8 on nccl: only 2 of 4 nodes agree within 3.0 %, and more than half must:"
        " node-3 330 GB/s, node-2 331 GB/s, node-1 366 GB/s, node-0 367 GB/s"
    )


def test_runs_of_one_node_that_disagree_are_told_as_runs() -> None:
    groups = tuple(group("node", [value] * 3, run=f"r{n}", day=n) for n, value in enumerate([367.0, 331.0]))
    assert "only 1 of 2 runs agree within 3.0 %, and more than half must: r1 331 GB/s, r0 367 GB/s" in why(
        Figures(case=fleet_case(), groups=groups, allowed=-math.log1p(-0.03), night=0.4)
    )


def test_of_many_nodes_that_disagree_eight_are_told() -> None:
    assert why(fleet(12, noise=0.003, factors=dict.fromkeys(range(0, 12, 2), 0.9))).endswith(" and 4 more")


def test_a_drift_is_told_with_its_sum_and_its_time() -> None:
    groups = tuple(group("node", [100 - n, 100 - n + 0.01], day=n) for n in range(6))
    assert why(Figures(case=fleet_case(), groups=groups, allowed=0.03, night=0.4)) == (
        "busbw all_reduce-1GiB-float32-ws8 on nccl: figures drift by -5.0 % over 6 runs from 2026-01-01 12:00 to"
        " 2026-01-06 12:00: there is no level to record"
    )
