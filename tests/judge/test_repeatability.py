"""How well a node repeats: what is said of a steady trace, of one that drifts, is disturbed, short or too noisy."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest
from traces import Fall, trace

from gpuwire_checks.judge.limits import limits_of
from gpuwire_checks.judge.repeatability import AgainstItself, Repeatability, against_itself, analyse
from gpuwire_checks.judge.repeatability_words import headline, repeatability_lines
from gpuwire_checks.judge.rule import Rule, make_rule
from gpuwire_checks.judge.trace import Trace, entry_of
from gpuwire_checks.policy import Policy, load_policy
from gpuwire_checks.records import BUSBW, Bound

POLICY = """\
schema: 1
false_alarms: {per_week: 1, nodes: 100, runs_per_week: 7}
attempts: {record: 5, confirm: 20, pause_seconds: 0}
noise: {disturbed: 0.05, night: 0.28}
deadlines: {start_seconds: 120, floor_seconds: 20, factor: 10}
bit_error_rates: {pcie: 1.0e-12}
overrides: []
tolerances:
  - {metric: busbw, min_effect: 0.03, max_slack: 0.15, tail: 0.5, why: "a lost link costs 5.6 %"}
  - {min_effect: 0.05, why: "all the rest"}
tiers:
  nightly:
    description: "some"
    cpu: {seconds_per_case: 0.05, dtypes: [float32], latency: [8KiB], bucket: [1MiB], peak: []}
    accelerator: {seconds_per_case: 0.05, dtypes: [float32], latency: [8KiB], bucket: [1MiB], peak: []}
"""


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Policy:
    monkeypatch.chdir(tmp_path)
    Path("site").mkdir()
    Path("site/policy.yaml").write_text(POLICY)
    return load_policy([Path("site")])


def analysed(of: Trace, policy: Policy) -> Repeatability:
    rules = {
        case.case: make_rule(policy, policy.tolerance(case.of, sku=of.sku), decisions=len(of.cases))
        for case in of.cases
    }
    return analyse(of, rules, record=policy.attempts.record)


def facts(of: Trace, policy: Policy) -> list[str]:
    """What is said below the table."""
    lines = repeatability_lines(analysed(of, policy), policy)
    return [line.removeprefix("gpuwire: ") for line in lines[1:] if line.startswith("gpuwire: ")]


def slows(by: float, *, first: int = 20) -> Fall:
    """All cases, from a pass on."""
    return lambda draw, index, number: by if index >= first else 0.0


def disturbs(share: float, *, only: int | None = None) -> Fall:
    """So many attempts take half as long again, or those of one case."""

    def fall(draw: random.Random, index: int, number: int) -> float:
        return 0.4 if draw.random() < share and only in (None, number) else 0.0

    return fall


def test_a_steady_node_is_told_its_noise_and_nothing_else(policy: Policy) -> None:
    lines = repeatability_lines(analysed(trace(), policy), policy)
    assert lines[:3] == [
        "gpuwire: this node repeats within 2.0% (median of 12 cases); with 20 attempts recorded, what is seen 99%"
        " of the time is a drop of 8.6% for busbw, a rise of 9.0% for latency",
        "case                                        centre  noise  pooled  drift  disturbed  limit (5)  limit (20)"
        "  seen 99%",
        "all_reduce-1MiB-float32-ws2              99.5 GB/s   1.9%    2.1%  +0.5%                 -8.2%       -4.9%"
        "     -8.5%",
    ]
    assert len(lines) == 2 + 12 + 5
    assert facts(trace(), policy) == [
        "40 passes over 12 cases in 196 s",
        "no drift: the second half is 0.2% faster than the first (median of cases), which noise explains",
        "5 attempts in a row share 0.00 spreads; the policy allows 0.28 for a night (noise.night). Other nights may"
        " share more: record a trace at another hour to see",
        "0 of 480 attempts (0.0%) are disturbed, more than 4 spreads to the bad side; the policy allows 5%"
        " (noise.disturbed)",
        "0 of 12 cases failed against themselves by their figures (0 of 218 decisions; baseline: the first 20"
        " attempts)",
    ]


@pytest.mark.parametrize("seed", range(2, 8))
def test_steady_nodes_are_quiet(policy: Policy, seed: int) -> None:
    for line in facts(trace(seed=seed, tails=0.1), policy):
        assert "MORE" not in line
        assert "DRIFT" not in line
        assert "failed" not in line or line.startswith("0 of ")


def test_a_node_that_slows_half_way_drifts_and_fails_against_itself(policy: Policy) -> None:
    said = facts(trace(fall=slows(0.1)), policy)
    assert said[1] == (
        "it DRIFTS: the second half is 10.3% slower than the first (median of cases), which noise does not explain;"
        " find what changed meanwhile before recording a baseline"
    )
    assert said[2].endswith(" spreads; the policy allows 0.28 for a night, and the drift is in that")
    assert said[-1].startswith("12 of 12 cases failed against themselves by their figures (59 of 59 decisions; ")
    assert "all_reduce-1MiB-float32-ws2 (5 of 5), " in said[-1]
    assert said[-1].endswith(", ...; unless the node changed, these are false failures")
    assert "the second half is 10.7% faster than the first" in facts(trace(fall=slows(-0.1)), policy)[1]


def test_a_slow_drift_is_one_too(policy: Policy) -> None:
    said = facts(trace(fall=lambda draw, index, number: 0.002 * index), policy)
    assert said[1].startswith("it DRIFTS: the second half is 4.")


def test_one_case_of_many_that_drifts_is_named(policy: Policy) -> None:
    said = facts(trace(fall=lambda draw, index, number: 0.1 if number == 3 and index >= 20 else 0.0), policy)
    assert said[1] == "1 case DRIFTS from the first half to the second: broadcast-1MiB-float32-ws2 (-10.7%)"


def test_disturbed_attempts_are_counted_and_held_to_the_policy(policy: Policy) -> None:
    said = facts(trace(fall=disturbs(0.1)), policy)
    assert said[3] == (
        "45 of 480 attempts (9.4%) are disturbed, more than 4 spreads to the bad side; the policy allows 5%: MORE than"
        " it allows, most at gather-1MiB-float32-ws2 (9 of 40); find what else runs here, or raise noise.disturbed in"
        " site/policy.yaml"
    )
    assert said[-1].startswith("0 of 12 cases failed against themselves")
    few = facts(trace(fall=disturbs(0.02)), policy)
    assert few[3].endswith("the policy allows 5% (noise.disturbed)")
    assert not few[3].startswith("0 of")


def test_what_attempts_close_in_time_share_is_held_to_the_policy(policy: Policy) -> None:
    def nights(draw: random.Random, index: int, number: int) -> float:
        return 0.03 * random.Random(f"{index // 5} {number}").gauss(0, 1)

    said = facts(trace(fall=nights), policy)
    assert said[2] == (
        "5 attempts in a row share 1.58 spreads; the policy allows 0.28 for a night: MORE than it allows; record the"
        " baseline in several runs, which tells how far they differ, or raise noise.night in site/policy.yaml"
    )


def test_a_node_too_noisy_for_the_policy_is_told_what_cannot_be_enforced(policy: Policy) -> None:
    said = facts(trace(noise=0.2), policy)
    assert (
        "6 of 12 cases cannot be enforced even with 20 attempts recorded, such as all_reduce-1MiB-float32-ws2: their"
        " limits, in brackets, are looser than the policy's max_slack"
    ) in said
    row = repeatability_lines(analysed(trace(noise=0.2), policy), policy)[2]
    assert "  (-57.4%)    (-39.6%)    -59.1%" in row
    more = facts(trace(noise=0.05), policy)
    assert (
        "6 of 12 cases cannot be enforced with the policy's 5 attempts recorded: record more, with gpuwire baseline"
        " record --attempts 20"
    ) in more


def test_a_short_trace_is_a_first_look(policy: Policy) -> None:
    said = facts(trace(passes=5), policy)
    assert said == [
        "5 passes over 12 cases in 21.1 s",
        "5 passes give no more than a first look: limits, drift and verdicts take 10 (--passes)",
        "0 of 60 attempts (0.0%) are disturbed, more than 4 spreads to the bad side; the policy allows 5%"
        " (noise.disturbed)",
    ]
    noisy = trace(passes=5, noise=0.2)
    assert headline(analysed(noisy, policy)) == (
        "gpuwire: this node repeats within 18.4% as far as 5 passes tell (median of 12 cases)"
    )
    assert len(facts(noisy, policy)) == 3  # what cannot be enforced is not told of five attempts
    said = facts(trace(passes=12), policy)
    assert said[2] == "too few passes to tell what attempts close in time share: that needs 15"
    assert said[-1].endswith("baseline: the first 6 attempts)")


def test_spreads_within_attempts_are_held_to_themselves_too(policy: Policy) -> None:
    said = facts(trace(tails=0.1), policy)
    # Only rates have a limit to it in this policy.
    assert said[-1] == (
        "0 of 6 cases failed against themselves by their spreads within attempts (0 of 120 decisions; baseline: the"
        " first 20 attempts)"
    )


def test_one_case_alone_is_named_in_the_finding(policy: Policy) -> None:
    whole = trace()
    one = dataclasses.replace(whole, cases=whole.cases[:1])
    assert headline(analysed(one, policy)).startswith(
        "gpuwire: this node repeats within 1.9% (all_reduce-1MiB-float32-ws2); with 20 attempts recorded,"
    )


def test_figures_that_never_move_are_no_fault(policy: Policy) -> None:
    still = trace(noise=0.0)
    found = analysed(still, policy)
    assert (found.drifts, found.shared, found.drift) == (False, None, 0.0)
    assert headline(found).startswith("gpuwire: this node repeats within 0.0%")


def test_cases_that_were_measured_less_often_count_as_far_as_they_go(policy: Policy) -> None:
    whole = trace()
    short = dataclasses.replace(whole.cases[0], attempts=whole.cases[0].attempts[:30])
    found = analysed(dataclasses.replace(whole, cases=(short, *whole.cases[1:])), policy)
    assert (found.passes, found.recorded, found.attempts) == (30, 15, 470)


def test_decisions_follow_one_another() -> None:
    rule = Rule(min_effect=0.1, level=1e-4)
    bound = Bound(metric=BUSBW, centre=100.0, spread=0.0, degrees=0.0, attempts=20, nodes=1, where="a:1")
    limits = limits_of(bound, rule)
    bad = [50.0] * rule.walk.lead
    assert against_itself([100.0] * 5, limits, rule) == AgainstItself(decisions=5, failed=0)
    assert against_itself([100.0, *bad, 100.0], limits, rule) == AgainstItself(decisions=3, failed=1)
    # A suspicion that the trace ends before is no decision.
    assert against_itself([100.0, 50.0, 50.0], limits, rule) == AgainstItself(decisions=1, failed=0)
    assert against_itself([50.0, 100.0, 100.0, 100.0, 100.0], limits, rule) == AgainstItself(decisions=1, failed=0)
    assert against_itself([], limits, rule) == AgainstItself(decisions=0, failed=0)


def test_the_limits_are_those_of_a_baseline_of_so_many_attempts(policy: Policy) -> None:
    found = analysed(trace(), policy)
    first = found.cases[0]
    assert [held.attempts for held in first.held] == [5, 20]
    assert first.own == pytest.approx(entry_of(first.case).spread)
    few, many = (held.limits for held in first.held)
    assert few.uncertainty.degrees < many.uncertainty.degrees
    assert few.width > many.width
    assert all(held.seen > held.limits.width for held in first.held)
