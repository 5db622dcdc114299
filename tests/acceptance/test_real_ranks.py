"""The suite on real ranks: recorded, judged, and a rank that is slow on purpose."""

from __future__ import annotations

import json

import pytest
from small_suite import POLICY, Suite

SIZES = {"seconds_per_case": 0.02, "dtypes": ["float32"], "latency": ["8KiB"], "bucket": ["256KiB"], "peak": []}
# A busy machine moves a small call by a factor of twenty, from 0.2 to 4 ms; what is injected is 300 ms a call.
REAL_POLICY = {
    **POLICY,
    # A level at which noise hardly widens the limits: the smallest effect alone decides here.
    "false_alarms": {"per_week": 1000, "nodes": 1, "runs_per_week": 1},
    "tolerances": [
        {"metric": "busbw", "min_effect": 0.98, "why": "a factor of 50"},
        {"metric": "latency", "min_effect": 49, "why": "a factor of 50"},
    ],
    "tiers": {"nightly": {"description": "two sizes of everything", "cpu": SIZES, "accelerator": SIZES}},
}


@pytest.fixture
def real(suite: Suite) -> Suite:
    suite.policy(REAL_POLICY)
    suite.real()
    result = suite.run("--gpuwire-missing=record")
    assert result.ret == 0, result.outlines
    result.stdout.fnmatch_lines(["*recorded 19 bounds in *"])
    return suite


def verdicts(suite: Suite) -> dict[str, dict[str, object]]:
    return {result["verdict"]["name"]: result["verdict"] for result in suite.document()["results"]}


def test_a_healthy_node_passes(real: Suite) -> None:
    result = real.run()
    assert result.ret == 0, result.outlines
    result.assert_outcomes(passed=19)
    logs = sorted(path.name for path in real.newest_run().glob("rank-*.log"))
    assert logs == ["rank-0.log", "rank-1.log"]


def test_one_slow_rank_regresses_its_cases_and_no_other_and_is_named(
    real: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = {"kind": "delay", "rank": 1, "seconds": 0.3, "collective": "broadcast"}
    monkeypatch.setenv("GPUWIRE_FAULT", json.dumps(fault))
    result = real.run()
    assert result.ret == 1, result.outlines
    found = verdicts(real)
    regressed = {name for name, verdict in found.items() if verdict["outcome"] == "REGRESSED"}
    assert regressed == {"broadcast-8KiB-float32-ws2", "broadcast-256KiB-float32-ws2"}
    assert {found[name]["slowest_rank"] for name in regressed} == {1}
    result.stdout.fnmatch_lines(["*REGRESSED broadcast-8KiB-float32-ws2: *slowest is rank 1: it enters 3?? ms after*"])
    result.stdout.fnmatch_lines(["FAULT INJECTED: *this run says nothing about the node"])


def test_wrong_data_in_one_rank_is_wrong_and_names_it(real: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = {"kind": "corrupt", "rank": 1, "collective": "all_gather_into_tensor"}
    monkeypatch.setenv("GPUWIRE_FAULT", json.dumps(fault))
    result = real.run("-k", "all_gather or scatter")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*WRONG all_gather_into_tensor-8KiB-float32-ws2: rank 1 got * instead of * at index *"]
    )


def test_a_rank_that_dies_is_an_error_and_the_run_goes_on(real: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWIRE_FAULT", json.dumps({"kind": "exit", "rank": 1, "collective": "gather"}))
    result = real.run("-k", "gather-256KiB or scatter-256KiB")
    assert result.ret == 6
    found = verdicts(real)
    assert found["gather-256KiB-float32-ws2"]["outcome"] == "ERROR"
    assert "rank 1 ended with status 17" in str(found["gather-256KiB-float32-ws2"]["reason"])
    assert found["scatter-256KiB-float32-ws2"]["outcome"] == "PASS"
    assert "Traceback" not in result.stdout.str()
