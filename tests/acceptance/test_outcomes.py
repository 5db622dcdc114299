"""Every outcome, as a user meets it: the text and the exit status."""

from __future__ import annotations

import pytest
from small_suite import POLICY, Suite

FAULT, NOT_MEASURED, NOTHING_TO_COMPARE, NOT_RUN = 1, 6, 7, 8


def outcomes(suite: Suite) -> dict[str, str]:
    return {
        result["nodeid"].partition("[")[2].rstrip("]"): result["verdict"]["outcome"]
        for result in suite.document()["results"]
    }


def test_pass(suite: Suite) -> None:
    suite.record()
    result = suite.run()
    assert result.ret == 0
    result.assert_outcomes(passed=28)
    result.stdout.fnmatch_lines(
        ["gpuwire * on *: *", "baseline: *recorded less than a minute ago*28 of 28 planned cases have a bound*"]
    )
    result.stdout.fnmatch_lines(["gpuwire: *is as its baseline * says: 28 of 28*", "*28 PASS*"])
    assert suite.document()["ending"]["counts"] == {"PASS": 28}


def test_improved_is_good_and_is_told(suite: Suite) -> None:
    suite.record()
    suite.node("if case.collective == 'broadcast' and case.size_bytes == 1 << 20: return usual * 2")
    result = suite.run()
    assert result.ret == 0
    result.assert_outcomes(passed=28)
    result.stdout.fnmatch_lines(["*broadcast-1MiB-float32-ws2*IMPROVED*4.00 GB/s*", "*1 IMPROVED*27 PASS*"])


def test_regressed_names_the_case_the_change_and_the_slowest_rank(suite: Suite) -> None:
    suite.record()
    suite.node("if case.collective == 'all_reduce' and case.size_bytes == 2 << 20: return usual * 0.6", slow_rank=1)
    result = suite.run()
    assert result.ret == FAULT
    result.assert_outcomes(passed=27, failed=1)
    result.stdout.fnmatch_lines(["*REGRESSED all_reduce-2MiB-float32-ws2: *1.20 GB/s is 40.0% below*rank 1*"])
    result.stdout.fnmatch_lines(["*attempts: 1.20 GB/s, 1.20 GB/s*"])
    result.stdout.fnmatch_lines(["gpuwire: FAULT on *1 of 28*REGRESSED*all_reduce-2MiB-float32-ws2*-40*"])
    (regressed,) = (r for r in suite.document()["results"] if r["verdict"]["outcome"] == "REGRESSED")
    assert regressed["verdict"]["slowest_rank"] == 1


def test_a_latency_that_grows_is_regressed(suite: Suite) -> None:
    suite.record()
    suite.node("if case.collective == 'barrier': return usual * 1.5")
    result = suite.run()
    assert result.ret == FAULT
    result.stdout.fnmatch_lines(["*REGRESSED barrier-ws2: *150 us is 50.0% above*"])


def test_one_slow_attempt_is_a_suspicion_and_not_a_verdict(suite: Suite) -> None:
    suite.record()
    suite.node("if case.collective == 'scatter' and attempt == 0: return usual * (3 if usual > 50 else 0.3)")
    result = suite.run()
    assert result.ret == 0
    result.assert_outcomes(passed=28)
    attempts = {r["nodeid"]: len(r["attempts"]) for r in suite.document()["results"]}
    # Three attempts more than were outside lead it to a pass.
    assert sorted(set(attempts.values())) == [1, 5]
    assert all((count == 5) == ("[scatter-" in nodeid) for nodeid, count in attempts.items())


COMES_AND_GOES = "if case.collective == 'gather' and case.size_bytes == 1 << 20 and attempt % 3 != 1: return usual / 2"


def test_unstable_when_a_fault_comes_and_goes(suite: Suite) -> None:
    suite.record()
    suite.node(COMES_AND_GOES)
    result = suite.run()
    assert result.ret == FAULT
    result.assert_outcomes(passed=27, failed=1)
    result.stdout.fnmatch_lines(["gpuwire: FAULT on *: 1 of 28 UNSTABLE, first gather-1MiB-float32-ws2 at -50%*"])
    result.stdout.fnmatch_lines(
        ["*UNSTABLE gather-1MiB-float32-ws2: * attempts outside: it comes and goes, * passed (*/cpu-*.yaml:*"]
    )


def test_a_suspicion_has_a_control_beside_it_that_tells_the_case_from_the_node(suite: Suite) -> None:
    suite.record()
    suite.node("if case.collective == 'gather' and case.size_bytes == 1 << 20: return usual / 2")
    result = suite.run()
    assert result.ret == FAULT
    result.stdout.fnmatch_lines(["*REGRESSED gather-1MiB-*; meanwhile * stayed inside its limits (?0.0%, * attempts*"])
    (found,) = (r for r in suite.document()["results"] if r["verdict"]["outcome"] == "REGRESSED")
    assert len(found["control"]) >= 2
    # Another collective: whatever is wrong with this one says nothing of its control.
    assert "gather" not in {attempt["case"]["collective"] for attempt in found["control"]}


def test_a_node_that_slowed_as_a_whole_within_the_run_is_told_by_its_control(suite: Suite) -> None:
    suite.record()
    suite.node(
        "global slow; slow = globals().get('slow') or case.collective == 'gather'\n"
        "    if slow: usual = usual * 2 if usual > 50 else usual / 2"
    )
    result = suite.run()
    assert result.ret == FAULT
    result.stdout.fnmatch_lines(["*REGRESSED gather-*; meanwhile *, which passed at 20*is outside its limits too*"])


def test_when_most_cases_are_down_by_one_factor_that_is_confirmed_once(suite: Suite) -> None:
    suite.record()
    suite.node("usual *= 1.5 if usual > 50 else 1 / 1.5")
    result = suite.run()
    assert result.ret == FAULT
    result.assert_outcomes(failed=28)
    attempts = [len(r["attempts"]) for r in suite.document()["results"]]
    assert sum(count > 1 for count in attempts) == 5
    result.stdout.fnmatch_lines(
        ["*REGRESSED *; 5 of 5 cases before it are down by one factor, about 33% of the speed: that was confirmed on *"]
    )


def test_a_case_that_fell_by_another_factor_is_confirmed_by_itself(suite: Suite) -> None:
    suite.record()
    suite.node(
        "usual *= 1.5 if usual > 50 else 1 / 1.5\n    if case.id == 'send_recv-2MiB-float32-ws2': return usual / 4"
    )
    suite.run()
    attempts = {r["nodeid"]: len(r["attempts"]) for r in suite.document()["results"]}
    (alone,) = (count for nodeid, count in attempts.items() if "[send_recv-2MiB-" in nodeid)
    assert alone > 1


NOISY = "return usual * (1.0, 1.9, 0.6)[attempt % 3]"


def policy_with(**row: object) -> dict[str, object]:
    return {**POLICY, "tolerances": [{"min_effect": 0.10, "max_slack": 0.15, "why": "tests", **row}]}


def test_unstable_when_the_noise_is_wider_than_what_may_be_enforced(suite: Suite) -> None:
    suite.policy(policy_with())
    suite.node(NOISY)
    assert suite.run("--gpuwire-missing=record").ret == 0
    suite.node()
    result = suite.run()
    assert result.ret == FAULT
    result.assert_outcomes(failed=28)
    result.stdout.fnmatch_lines(["*UNSTABLE *but its noise is too wide to hold it to that: it varies by *"])


def test_an_unstable_case_that_the_policy_makes_a_warning_is_no_pass(suite: Suite) -> None:
    suite.policy(policy_with(unstable="warn"))
    suite.node(NOISY)
    assert suite.run("--gpuwire-missing=record").ret == 0
    suite.node()
    result = suite.run()
    assert result.ret == 0
    result.assert_outcomes(skipped=28)
    result.stdout.fnmatch_lines(["gpuwire: *0 of 28 inside their bounds, 28 UNSTABLE, a warning by policy: *"])


def test_an_override_by_marker_holds_a_test_to_a_limit_of_its_own(suite: Suite) -> None:
    suite.record()
    overrides = [{"marker": "cpu", "min_effect": 0.9, "why": "the only marker that a CPU node's tests have"}]
    suite.policy({**POLICY, "overrides": overrides})
    suite.node("if case.collective == 'gather': return usual / 2")
    assert suite.run().ret == 0


def test_wrong_names_rank_index_expected_and_got(suite: Suite) -> None:
    suite.record()
    suite.node(
        "if case.id == 'gather-1MiB-float32-ws2':"
        " return Mismatch(rank=1, index=77, expected='5', got='6', count=1, total=262144)"
    )
    result = suite.run()
    assert result.ret == FAULT
    result.assert_outcomes(passed=27, failed=1)
    result.stdout.fnmatch_lines(["*WRONG gather-1MiB-float32-ws2: *rank 1 got 6 instead of 5 at index 77*"])


def test_missing_when_a_link_is_lost(suite: Suite) -> None:
    suite.wiring()
    suite.node(node="gpu_node(gpus=8)")
    assert suite.run("--gpuwire-missing=record").ret == 0
    suite.node(node="gpu_node(gpus=8, lost_link=3)")
    result = suite.run("test_wiring_suite.py")
    assert result.ret == FAULT
    result.stdout.fnmatch_lines(["*MISSING topology: *NV17*NV18*"])


def test_missing_when_required_hardware_is_not_here(suite: Suite) -> None:
    suite.wiring()
    suite.record_all()
    result = suite.run("--gpuwire-require=cpu,nvlink")
    assert result.ret == FAULT
    result.stdout.fnmatch_lines(["*MISSING nvlink: --gpuwire-require nvlink: this node has no nvlink*"])
    assert outcomes(suite)["cpu"] == "PASS"


def test_no_baseline_fails_by_default(suite: Suite) -> None:
    suite.node()
    result = suite.run()
    assert result.ret == NOTHING_TO_COMPARE
    result.assert_outcomes(failed=28)
    result.stdout.fnmatch_lines(["baseline: none for this node*"])
    result.stdout.fnmatch_lines(
        ["*NO BASELINE all_reduce-1MiB-float32-ws2: no bound for busbw all_reduce*gpuwire baseline record*"]
    )
    result.stdout.fnmatch_lines(["gpuwire: *could not be judged: 28 of 28*NO BASELINE*record*"])


def test_no_baseline_is_never_green_where_it_only_warns(suite: Suite) -> None:
    suite.node()
    result = suite.run("--gpuwire-missing=warn")
    assert result.ret == 0
    result.assert_outcomes(skipped=28)
    result.stdout.fnmatch_lines(["*28 NO BASELINE*"])


def test_first_run_records_and_says_so(suite: Suite) -> None:
    suite.node()
    result = suite.run("--gpuwire-missing=record")
    assert result.ret == 0
    result.assert_outcomes(skipped=28)
    result.stdout.fnmatch_lines(
        ["gpuwire: * has 28 new bounds, and nothing was judged by them yet: run again to judge"]
    )
    result.stdout.fnmatch_lines([f"recorded 28 bounds in {suite.site}*from now on this node is held to them"])
    assert suite.baseline_file().parent.name == "cpu"


def test_not_run_when_the_budget_is_spent(suite: Suite) -> None:
    suite.record()
    result = suite.run("--gpuwire-budget=0.01")
    assert result.ret == NOT_RUN
    result.assert_outcomes(skipped=28)
    result.stdout.fnmatch_lines(["*28 NOT RUN*"])
    reasons = {r["verdict"]["reason"] for r in suite.document()["results"]}
    assert all("left of the budget of 0.01 s" in reason for reason in reasons)


def test_not_run_when_the_session_ends_first(suite: Suite) -> None:
    suite.record()
    suite.node("if case.collective == 'barrier': return usual * 9")
    result = suite.run("-x")
    assert result.ret in (FAULT, 2)
    assert suite.document()["ending"]["counts"] == {"REGRESSED": 1, "NOT RUN": 27}


def test_error_is_not_a_verdict_about_the_node(suite: Suite) -> None:
    suite.record()
    suite.node("if case.id == 'reduce-8KiB-float32-ws2': return 'rank 1 was ended by SIGKILL'")
    result = suite.run()
    assert result.ret == NOT_MEASURED
    result.assert_outcomes(passed=27, errors=1)
    result.stdout.fnmatch_lines(["*ERROR reduce-8KiB-float32-ws2: rank 1 was ended by SIGKILL*", "*1 ERROR*27 PASS*"])
    assert "Traceback" not in result.stdout.str()


def test_a_fault_outranks_what_could_not_be_measured(suite: Suite) -> None:
    suite.record()
    suite.node(
        "if case.collective == 'reduce': return 'rank 1 is gone'\n"
        "    if case.collective == 'gather': return usual * (3 if usual > 50 else 0.3)"
    )
    assert suite.run().ret == FAULT


def test_a_failing_test_of_the_site_keeps_its_exit_status(suite: Suite) -> None:
    suite.record()
    suite.pytester.makepyfile(test_site="def test_site():\n    assert False\n")
    result = suite.run()
    result.assert_outcomes(passed=28, failed=1)
    assert result.ret == 1


def test_a_site_s_own_assertion_on_a_good_figure_is_a_failure(suite: Suite) -> None:
    suite.record()
    suite.pytester.makepyfile(test_suite="def test_collective(measured):\n    assert measured.verdict.value > 1e9\n")
    result = suite.run("-k", "barrier")
    result.assert_outcomes(failed=1)
    assert result.ret == FAULT


def test_attempts_before_an_error_are_kept(suite: Suite) -> None:
    suite.record()
    suite.node("if case.collective == 'barrier': return usual * 9 if attempt == 0 else 'rank 0 is gone'")
    assert suite.run("-k", "barrier").ret == NOT_MEASURED
    (result,) = suite.document()["results"]
    assert result["verdict"]["outcome"] == "ERROR"
    assert result["verdict"]["attempts"] == [900.0]
    assert len(result["attempts"]) == 1


@pytest.mark.parametrize("argument", ["--collect-only", "--markers", "--help"])
def test_looking_leaves_nothing_behind(suite: Suite, argument: str) -> None:
    suite.node()
    assert suite.run(argument).ret == 0
    assert not (suite.pytester.path / "gpuwire-runs").exists()
