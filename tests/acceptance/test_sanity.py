"""What the topology says of figures by itself: what its wires cannot carry, and what was published of such nodes."""

from __future__ import annotations

from typing import Any

import pytest
from small_suite import POLICY, Suite

FAULT, NOT_MEASURED = 1, 6
HGX = "hgx_node()"
PEAK = "all_reduce-16GiB-float32-ws8"
GOOD = "if case.metric.name == 'busbw': usual = 400.0"
NVLS = "if case.collective == 'all_reduce' and case.size_bytes == 16 << 30: return 475.0"


def outcomes(suite: Suite) -> dict[str, str]:
    return {
        result["nodeid"].partition("[")[2].rstrip("]"): result["verdict"]["outcome"]
        for result in suite.document()["results"]
    }


def with_peak(suite: Suite) -> None:
    """A plan with the size that a floor was published for."""
    tiers: Any = POLICY["tiers"]
    tier = tiers["nightly"]
    sizes = {kind: {**tier[kind], "peak": ["16GiB"]} for kind in ("cpu", "accelerator")}
    suite.policy({**POLICY, "tiers": {"nightly": {**tier, **sizes}}})


def hgx(suite: Suite, *figures: str) -> None:
    suite.node("\n    ".join((GOOD, *figures)), node=HGX)


def test_faster_than_the_wires_is_an_error_and_not_an_improvement(suite: Suite) -> None:
    hgx(suite)
    assert suite.run("--gpuwire-missing=record").ret == 0
    hgx(suite, "if case.id == 'broadcast-1MiB-float32-ws8': return 900.0")
    result = suite.run()
    assert result.ret == NOT_MEASURED
    result.stdout.fnmatch_lines(
        [
            "*ERROR broadcast-1MiB-float32-ws8: busbw 900 GB/s is more than the 450 GB/s that 18 NVLinks carry one way:"
            " the measurement is wrong, not the node fast*"
        ]
    )
    (error,) = (r for r in suite.document()["results"] if r["verdict"]["outcome"] == "ERROR")
    assert error["verdict"]["value"] is None
    assert error["verdict"]["attempts"] == [pytest.approx(900.0)]
    assert len(error["attempts"]) == 1


def test_what_the_wires_cannot_carry_is_not_recorded(suite: Suite) -> None:
    hgx(suite, "if case.id == 'broadcast-1MiB-float32-ws8': return 900.0")
    result = suite.run("--gpuwire-missing=record")
    assert result.ret == NOT_MEASURED
    result.stdout.fnmatch_lines(["recorded 27 bounds in *"])
    assert "broadcast, size: 1MiB" not in suite.baseline_file().read_text()


def test_figures_that_the_wires_carry_are_left_in_peace(suite: Suite) -> None:
    hgx(suite)
    assert suite.run("--gpuwire-missing=record").ret == 0
    result = suite.run()
    assert result.ret == 0
    assert set(outcomes(suite).values()) == {"PASS"}
    result.stdout.no_fnmatch_line("*dips at*")
    result.stdout.no_fnmatch_line("*held to published*")


def test_without_a_bound_a_case_is_held_to_the_published_floor(suite: Suite) -> None:
    with_peak(suite)
    hgx(suite, NVLS)
    result = suite.run("--gpuwire-missing=warn")
    assert result.ret == 0
    assert outcomes(suite)[PEAK] == "PASS"
    assert outcomes(suite)["broadcast-16GiB-float32-ws8"] == "NO BASELINE"
    (held,) = (r for r in suite.document()["results"] if r["verdict"]["outcome"] == "PASS")
    assert held["verdict"]["reason"] == (
        "busbw 475 GB/s; held to the published floor of 460 GB/s (all_reduce at 16GiB on 8 ranks, NVLS;"
        " Azure/azurehpc-health-checks conf/nd96isr_h100_v5.conf): nothing was recorded here"
    )
    assert held["verdict"]["accepted"] == [460.0, None]
    assert held["bound"] is None
    result.stdout.fnmatch_lines([f"*{PEAK}*PASS*475 GB/s*>= 460 GB/s*"])
    result.stdout.fnmatch_lines(
        [f"gpuwire: 1 of 28 are held to published figures only, such as {PEAK}; record what this node reaches with: *"]
    )


def test_a_node_that_lost_nvls_is_below_the_published_floor(suite: Suite) -> None:
    with_peak(suite)
    hgx(suite, NVLS.replace("475", "367"))
    result = suite.run("--gpuwire-missing=warn")
    assert result.ret == FAULT
    assert outcomes(suite)[PEAK] == "REGRESSED"
    result.stdout.fnmatch_lines(
        [f"*REGRESSED {PEAK}: busbw 367 GB/s is below the published floor of 460 GB/s*attempts below*nothing was*"]
    )


def test_a_floor_is_no_bound_and_such_a_case_is_recorded(suite: Suite) -> None:
    with_peak(suite)
    hgx(suite, NVLS)
    result = suite.run("--gpuwire-missing=record")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["recorded 28 bounds in *"])


def test_with_nvls_switched_off_the_floor_of_nvls_is_not_asked_for(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    with_peak(suite)
    hgx(suite, NVLS.replace("475", "367"))
    assert suite.run("--gpuwire-missing=warn").ret == 0
    assert outcomes(suite)[PEAK] == "NO BASELINE"


def test_a_dip_over_sizes_is_a_warning_that_changes_no_status(suite: Suite) -> None:
    """It is inside its bound of 10 %, and yet 9 % slower per byte than the smaller size, which was not so before."""
    hgx(suite)
    assert suite.run("--gpuwire-missing=record").ret == 0
    hgx(suite, "if case.id == 'broadcast-2MiB-float32-ws8': return 364.0")
    result = suite.run()
    assert result.ret == 0
    assert set(outcomes(suite).values()) == {"PASS"}
    result.stdout.fnmatch_lines(
        [
            "gpuwire: broadcast float32 on 8 ranks dips at 2MiB: 364 GB/s is 9% less than the 400 GB/s at 1MiB;"
            " it was no slower when recorded"
        ]
    )
