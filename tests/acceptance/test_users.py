"""What pytest's and pytest-benchmark's users expect to work, works."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from small_suite import Suite

CASE = "test_suite.py::test_collective[all_reduce-1MiB-float32-ws2]"


def test_ids_can_be_read_and_selected(suite: Suite) -> None:
    suite.record()
    result = suite.run("-k", "all_reduce and 1MiB")
    assert result.ret == 0
    result.assert_outcomes(passed=1, deselected=27)
    result.stdout.fnmatch_lines(["plan: tier nightly, 1 tests on 2 gloo ranks (cpu)*"])


def test_cases_are_marked_with_the_hardware_they_use(suite: Suite) -> None:
    suite.record()
    suite.run("-m", "cpu").assert_outcomes(passed=28)
    assert suite.run("-m", "nvlink").ret == 5
    suite.node(node="gpu_node(gpus=8)")
    result = suite.run("--collect-only", "-q", "-m", "nvlink and nvswitch and hopper and not cpu")
    result.stdout.fnmatch_lines(["28 tests collected*"])


def test_markers_are_documented(suite: Suite) -> None:
    suite.node()
    result = suite.run("--markers")
    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.nvlink: needs at least one pair of GPUs joined by NVLink",
            "@pytest.mark.gpus(n): *",
            "@pytest.mark.soak: *",
        ]
    )


def test_junit_has_the_figures(suite: Suite) -> None:
    suite.record()
    suite.node("if case.collective == 'reduce' and case.size_bytes > 10000: return usual / 4", slow_rank=1)
    suite.run("--junitxml=junit.xml", "-k", "reduce-1MiB")
    cases = ET.parse(suite.pytester.path / "junit.xml").getroot().iter("testcase")
    found = {case.get("name", ""): {p.get("name"): p.get("value") for p in case.iter("property")} for case in cases}
    regressed = found["test_collective[reduce-1MiB-float32-ws2]"]
    assert regressed["gpuwire.outcome"] == "REGRESSED"
    assert float(regressed["gpuwire.value"] or 0) == pytest.approx(0.5)
    assert regressed["gpuwire.unit"] == "GB/s"
    assert float(regressed["gpuwire.centre"] or 0) == pytest.approx(2.0)
    assert float(regressed["gpuwire.limit_low"] or 0) == pytest.approx(1.8, abs=0.01)
    assert regressed["gpuwire.slowest_rank"] == "1"
    assert int(regressed["gpuwire.samples"] or 0) >= 3


def test_ini_options_are_the_twins_of_the_command_line(suite: Suite) -> None:
    suite.record()
    suite.pytester.makeini("[pytest]\ngpuwire_baselines = site\ngpuwire_budget = 0.01\n")
    result = suite.pytester.runpytest_subprocess()
    assert result.ret == 8
    result.stdout.fnmatch_lines(["*28 NOT RUN*"])
    assert suite.pytester.runpytest_subprocess("--gpuwire-budget=10m").ret == 0


def benchmarks(suite: Suite, file: str = "bench.json") -> dict[str, dict[str, Any]]:
    data = json.loads((suite.pytester.path / file).read_text())
    return {entry["name"]: entry for entry in data["benchmarks"]}


def test_every_case_is_a_benchmark_of_the_seconds_that_ranks_measured(suite: Suite) -> None:
    suite.record()
    assert suite.run("--benchmark-json=bench.json").ret == 0
    entries = benchmarks(suite)
    assert len(entries) == 28
    entry = entries["test_collective[all_reduce-1MiB-float32-ws2]"]
    seconds = (1 << 20) / 2.0 / 1e9
    assert entry["stats"]["median"] == pytest.approx(seconds)
    assert entry["stats"]["rounds"] == 3
    assert entry["extra_info"]["busbw"] == pytest.approx(2.0)
    assert entry["extra_info"]["outcome"] == "PASS"
    assert entry["extra_info"]["case"] == {
        "collective": "all_reduce",
        "size_bytes": 1 << 20,
        "dtype": "float32",
        "world_size": 2,
        "backend": "gloo",
        "device": "cpu",
        "size_class": "bucket",
    }
    assert entry["group"] == "busbw/bucket/gloo"


def test_saved_benchmarks_are_compared(suite: Suite) -> None:
    suite.record()
    assert suite.run("--benchmark-autosave").ret == 0
    suite.node("if case.collective == 'scatter' and case.size_bytes == 1 << 20: return usual * 0.95")
    result = suite.run("--benchmark-compare", "--benchmark-compare-fail=mean:3%")
    assert result.ret != 0
    text = "\n".join([*result.outlines, *result.errlines])
    assert "Performance has regressed" in text
    assert "scatter-1MiB-float32-ws2" in text


def test_benchmark_disable_still_measures_and_judges(suite: Suite) -> None:
    suite.record()
    result = suite.run("--benchmark-disable")
    assert result.ret == 0
    result.assert_outcomes(passed=28)


def test_benchmark_skip_measures_nothing_and_nothing_is_green(suite: Suite) -> None:
    suite.record()
    runs = len(list((suite.pytester.path / "gpuwire-runs").iterdir()))
    suite.run("--benchmark-skip").assert_outcomes(passed=0, skipped=28)
    assert len(list((suite.pytester.path / "gpuwire-runs").iterdir())) == runs


def test_benchmark_only_selects_the_cases(suite: Suite) -> None:
    suite.record()
    suite.pytester.makepyfile(test_other="def test_other():\n    assert False\n")
    result = suite.run("--benchmark-only")
    assert result.ret == 0
    result.assert_outcomes(passed=28, skipped=1)


def test_a_cprofile_of_the_benchmark_does_not_run_out_of_samples(suite: Suite) -> None:
    suite.record()
    assert suite.run("--benchmark-cprofile=cumtime", "-k", "barrier").ret == 0


def test_verbose_keeps_pytest_s_own_lines(suite: Suite) -> None:
    suite.record()
    result = suite.run("-v", "-k", "all_reduce-1MiB")
    assert f"{CASE} PASSED" in result.stdout.str()


def test_quiet_says_the_verdict_and_no_line_a_case(suite: Suite) -> None:
    suite.record()
    result = suite.run("-q")
    assert result.ret == 0
    assert "[ 1/28]" not in result.stdout.str()
    result.stdout.fnmatch_lines(["gpuwire: *is as its baseline*"])


def test_a_site_can_label_its_runs(suite: Suite) -> None:
    suite.record()
    conftest = suite.pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text() + "\ndef pytest_gpuwire_labels(config):\n    return {'rack': 'r7'}\n")
    suite.run("-k", "barrier")
    assert suite.document()["run"]["labels"] == {"rack": "r7"}


def test_a_pytest_run_that_measures_nothing_is_left_alone(suite: Suite) -> None:
    suite.node()
    suite.pytester.makepyfile(test_suite="def test_plain():\n    pass\n")
    result = suite.run()
    assert result.ret == 0
    assert "gpuwire" not in result.stdout.str().replace(str(suite.pytester.path), "")
    assert not (suite.pytester.path / "gpuwire-runs").exists()
