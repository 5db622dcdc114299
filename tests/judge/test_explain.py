"""How an accepted range came about: the whole text, for a rate, a latency, an unsteady case and one too noisy."""

from __future__ import annotations

import dataclasses
import math
from datetime import datetime, timezone
from pathlib import Path

import pytest
from gloo import case

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BoundEntry, CaseEntry, RecordedEntry, TailEntry
from gpuwire_checks.judge.explain import Decisions, Explanation, explain
from gpuwire_checks.judge.explain_words import explanation_lines, explanation_table
from gpuwire_checks.judge.limits import limits_of
from gpuwire_checks.judge.rule import make_rule
from gpuwire_checks.policy import Policy, load_policy
from gpuwire_checks.records import Case
from gpuwire_checks.statistics.level import detection_chance

MIB = 1 << 20
DECISIONS = Decisions(cases=37, tails=2, rolling=1)
POLICY = """\
schema: 1
false_alarms: {per_week: 1, nodes: 100, runs_per_week: 7}
attempts: {record: 5, confirm: 20, pause_seconds: 0}
noise: {disturbed: 0.05, night: 0.28}
deadlines: {start_seconds: 120, floor_seconds: 20, factor: 10}
bit_error_rates: {pcie: 1.0e-12}
overrides:
  - {case: "gather-*", max_slack: 0.1, unstable: fail, why: "this one must be held"}
tolerances:
  - {metric: busbw, min_effect: 0.05, max_slack: 0.3, tail: 0.5, why: "a lost link costs 5.6 %"}
  - {metric: latency, min_effect: 0.20, tail: 1.0, why: "a launch path got slower"}
  - {min_effect: 0.05, unstable: warn, why: "all the rest"}
tiers:
  nightly:
    description: "some"
    cpu: {seconds_per_case: 0.05, dtypes: [float32], latency: [8KiB], bucket: [1MiB], peak: []}
    accelerator: {seconds_per_case: 0.05, dtypes: [float32], latency: [8KiB], bucket: [1MiB], peak: []}
"""


def entry(collective: str, *, spread: float, size: int = MIB, attempts: int = 20, tail: bool = False) -> BoundEntry:
    small = size < MIB
    return BoundEntry(
        metric="latency" if small else "busbw",
        case=CaseEntry(collective=collective, size=size, dtype="float32", world_size=4, backend="gloo"),
        unit="us" if small else "GB/s",
        better="lower" if small else "higher",
        centre=100.0,
        spread=spread,
        attempts=attempts,
        nodes=1,
        tail=TailEntry(centre=1.5, spread=0.05) if tail else None,
    )


ENTRIES = (
    entry("all_reduce", spread=0.02, tail=True),
    entry("all_gather_into_tensor", spread=0.021),
    entry("reduce_scatter_tensor", spread=0.019),
    entry("broadcast", spread=0.02),
    entry("gather", spread=0.022),
    entry("reduce", spread=0.25),
    entry("all_reduce", spread=0.08, size=8 << 10, attempts=5),
)
BASELINE = Baseline(
    name="h100-8x",
    path=Path("site/nvidia/h100-8x.yaml"),
    sku="h100-8x",
    exact="0123",
    facts={},
    recorded=RecordedEntry(
        at=datetime(2026, 3, 4, 5, 6, tzinfo=timezone.utc), hosts=1, gpuwire="0.1.0", tier="nightly", software={}
    ),
    entries=ENTRIES,
    lines={one.key: 30 + index for index, one in enumerate(ENTRIES)},
    rolling=(ENTRIES[0].model_copy(update={"centre": 99.0, "attempts": 30, "runs": 6, "between": 0.004}),),
)


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Policy:
    monkeypatch.chdir(tmp_path)
    Path("site").mkdir()
    Path("site/policy.yaml").write_text(POLICY)
    return load_policy([Path("site")])


def explained(of: Case, policy: Policy, *, baseline: Baseline = BASELINE) -> Explanation:
    about = explain(of, baseline, policy, sku="h100-8x", decisions=DECISIONS)
    assert about is not None
    return about


def rate(collective: str) -> Case:
    return case(collective, size_bytes=MIB, world_size=4)


def fact(about: Explanation, label: str) -> str:
    """What is said under a label."""
    (line,) = [line for line in explanation_lines(about) if line.startswith(f"  {label}  ")]
    return line.removeprefix(f"  {label}").lstrip()


def test_every_number_of_a_rate(policy: Policy) -> None:
    assert explanation_lines(explained(rate("all_reduce"), policy)) == [
        "busbw all_reduce-1MiB-float32-ws4 on gloo: accepted from 94.2 GB/s to 106 GB/s",
        "  bound        100 GB/s: the median of 20 attempts in 1 run on 1 node; last recorded 2026-03-04 05:06 UTC"
        " (site/nvidia/h100-8x.yaml:30)",
        "  own noise    2.0% between attempts, with 15 degrees of freedom",
        "  family       busbw on gloo, 1MiB to 4MiB: 5 others, typically 2.2% between attempts, with 76 degrees of"
        " freedom",
        "  noise used   2.2% between attempts, with 91 degrees of freedom: its own, drawn towards its family's",
        "  budget       1 false failure a week over 100 nodes of 7 runs each, and 40 decisions a run (37 cases,"
        " 2 of the spread within attempts, 1 of the last good runs): 1 in 28,000 a decision",
        "  disturbed    5% of a healthy node's attempts may be spoilt: 4 more outside than inside is a failure, 3 more"
        " inside a pass, neither in 20 attempts UNSTABLE",
        "  shared       0.51 spreads between the baseline and a whole night (in steps of 5%): the error of a median of"
        " 20 attempts is 0.28, what attempts of a night share 0.28, tonight and when recorded",
        "  noise limit  a drop of 5.8%: 2.77 spreads of 2.2%",
        '  min_effect   a drop of 5.0% (site/policy.yaml:10: "a lost link costs 5.6 %")',
        "  limit        a drop of 5.8%: noise decides, it can do more than min_effect",
        "  max_slack    a drop of 30.0% (site/policy.yaml:10): the limit is within it and can be enforced",
        "  screen       a first figure below 96.5 GB/s is measured again",
        "  tail         p95/p50 of single calls up to 2.25 (1.50 when recorded; site/policy.yaml:10)",
        "  last runs    accepted from 93.3 GB/s to 105 GB/s around 99.0 GB/s, the median of 30 attempts in 6 runs",
        "  seen         a drop of 9.2% is seen 99% of the time, a smaller one less often",
    ]


def test_the_numbers_are_those_that_the_judge_uses(policy: Policy) -> None:
    about = explained(rate("all_reduce"), policy)
    rule = make_rule(policy, policy.tolerance(about.case, sku="h100-8x"), decisions=40)
    bound = BASELINE.bound_for(about.case)
    assert bound is not None
    assert about.limits == limits_of(bound, rule)
    spreads = about.limits.width / about.limits.spread, about.seen / about.limits.spread
    assert detection_chance(*spreads, about.limits.uncertainty, rule.walk) == pytest.approx(0.99, abs=1e-3)


def test_a_latency_rises_and_few_attempts_are_its_own_alone(policy: Policy) -> None:
    about = explained(case(size_bytes=8 << 10, world_size=4), policy)
    assert explanation_lines(about)[0] == (
        "latency all_reduce-8KiB-float32-ws4 on gloo: accepted from 14.7 us to 681 us"
    )
    assert fact(about, "family") == "latency on gloo: no other case of it is recorded"
    assert fact(about, "noise used") == "8.3% between attempts, with 3 degrees of freedom: its own alone"
    assert fact(about, "noise limit") == "a rise of 581.2%: 23.98 spreads of 8.3%"
    assert fact(about, "min_effect") == 'a rise of 20.0% (site/policy.yaml:11: "a launch path got slower")'
    assert fact(about, "max_slack") == "none in the policy: any limit is enforced"
    assert fact(about, "screen") == "a first figure above 560 us is measured again"
    assert fact(about, "tail").startswith("the spread within attempts was not recorded: ")
    assert fact(about, "last runs") == "none are kept beside the bound"
    assert fact(about, "seen").startswith("a rise of 849.2% is seen 99% of the time")


def test_a_case_that_is_clearly_noisier_keeps_its_own_spread_and_cannot_be_enforced(policy: Policy) -> None:
    about = explained(rate("reduce"), policy)
    assert fact(about, "noise used") == (
        "28.4% between attempts, with 15 degrees of freedom: keeps its own, it is clearly noisier than its family"
    )
    assert fact(about, "max_slack") == (
        "a drop of 30.0% (site/policy.yaml:10): the limit is looser and cannot be enforced:"
        " inside it the case is UNSTABLE, a warning by policy"
    )


def test_an_override_is_told_with_its_line_and_may_make_it_a_fault(policy: Policy) -> None:
    noisy = BASELINE.entries[-2].model_copy(update={"case": ENTRIES[4].case})
    baseline = Baseline(
        name="h100-8x", path=BASELINE.path, sku="h100-8x", exact="0123", facts={}, recorded=None, entries=(noisy,)
    )
    about = explained(rate("gather"), policy, baseline=baseline)
    assert fact(about, "max_slack") == (
        "a drop of 10.0% (site/policy.yaml:8): the limit is looser and cannot be enforced:"
        " inside it the case is UNSTABLE, a fault"
    )
    assert "last recorded" not in fact(about, "bound")


def test_where_min_effect_decides_it_is_said(policy: Policy) -> None:
    steady = tuple(one.model_copy(update={"spread": 0.002}) for one in ENTRIES)
    baseline = Baseline(
        name="h100-8x", path=BASELINE.path, sku="h100-8x", exact="0123", facts={}, recorded=None, entries=steady
    )
    about = explained(rate("all_reduce"), policy, baseline=baseline)
    assert fact(about, "limit") == "a drop of 5.0%: min_effect decides, noise does less"
    assert about.limits.accepted[0] == pytest.approx(95)


def test_nodes_that_differ_are_what_is_shared(policy: Policy) -> None:
    fleet = tuple(one.model_copy(update={"nodes": 6, "runs": 6, "between": 0.06}) for one in ENTRIES)
    baseline = Baseline(
        name="h100-8x", path=BASELINE.path, sku="h100-8x", exact="0123", facts={}, recorded=None, entries=fleet
    )
    about = explained(rate("all_reduce"), policy, baseline=baseline)
    assert "of 20 attempts in 6 runs on 6 nodes" in fact(about, "bound")
    assert fact(about, "shared").endswith(": its 6 nodes differ by 6.2%, which is more than chance and a night explain")


def test_one_attempt_of_its_own_is_its_family_s_and_none_at_all_is_min_effect_alone(policy: Policy) -> None:
    once = ENTRIES[0].model_copy(update={"attempts": 1, "spread": 0.0})
    alike = Baseline(
        name="a", path=BASELINE.path, sku="a", exact=None, facts={}, recorded=None, entries=(once, *ENTRIES[1:5])
    )
    about = explained(rate("all_reduce"), policy, baseline=alike)
    assert fact(about, "own noise") == "none: it takes two attempts to tell"
    assert fact(about, "noise used").endswith(": its family's, it has none of its own")
    alone = Baseline(name="a", path=BASELINE.path, sku="a", exact=None, facts={}, recorded=None, entries=(once,))
    about = explained(rate("all_reduce"), policy, baseline=alone)
    assert fact(about, "noise used").startswith("nothing is known of it, and min_effect alone decides: ")
    assert fact(about, "seen").startswith("a drop of 5.0% is seen")
    assert not any(line.startswith("  noise limit") for line in explanation_lines(about))


def test_rows_for_markers_are_left_out_and_said(policy: Policy, tmp_path: Path) -> None:
    text = POLICY.replace("overrides:", 'overrides:\n  - {marker: nvlink, min_effect: 0.01, why: "wires"}')
    Path("site/policy.yaml").write_text(text)
    about = explained(rate("all_reduce"), load_policy([Path("site")]))
    assert fact(about, "min_effect").startswith("a drop of 5.0%")
    assert fact(about, "left out") == (
        "rows for the marker nvlink: they count for tests that bear it, and no test is run here"
    )
    assert not any(line.startswith("  left out") for line in explanation_lines(explained(rate("reduce"), policy)))


def test_nodes_so_unlike_that_no_change_is_seen(policy: Policy) -> None:
    about = explained(rate("all_reduce"), policy)
    unseen = dataclasses.replace(about, seen=math.inf)
    assert fact(unseen, "seen") == (
        "no change, however great, is seen 99% of the time: record it on more nodes, or more often"
    )
    assert " never " in explanation_table([unseen])[1]


def test_without_a_bound_there_is_nothing_to_explain(policy: Policy) -> None:
    assert explain(rate("scatter"), BASELINE, policy, sku="h100-8x", decisions=DECISIONS) is None


def test_many_cases_are_a_table(policy: Policy) -> None:
    cases = (rate("all_reduce"), rate("reduce"), case(size_bytes=8 << 10, world_size=4))
    assert explanation_table([explained(one, policy) for one in cases]) == [
        "case                         decided by          centre  noise    limit  seen 99%        figure",
        "all_reduce-1MiB-float32-ws4  noise             100 GB/s   2.2%    -5.8%     -9.2%  >= 94.2 GB/s",
        "reduce-1MiB-float32-ws4      noise, too loose  100 GB/s  28.4%   -59.5%    -73.7%  >= 40.5 GB/s",
        "all_reduce-8KiB-float32-ws4  noise               100 us   8.3%  +581.2%   +849.2%     <= 681 us",
    ]
