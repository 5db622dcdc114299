"""Bad input: a message that says what, where and what to do; no traceback; nothing lost."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from filelock import FileLock
from small_suite import POLICY, Suite

USAGE = 4


def says(result: pytest.RunResult, *patterns: str) -> None:
    """One clear error, whichever stream it came on, and no traceback."""
    text = "\n".join([*result.outlines, *result.errlines])
    assert result.ret == USAGE, text
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    for pattern in patterns:
        assert pattern in text


def edit(suite: Suite, change: Callable[[str], str]) -> str:
    """Change the recorded baseline file; returns its path."""
    file = suite.baseline_file()
    text = file.read_text()
    assert change(text) != text
    file.write_text(change(text))
    return str(file)


def line_of(suite: Suite, text: str) -> int:
    lines = suite.baseline_file().read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_a_broken_yaml(suite: Suite) -> None:
    suite.record()
    file = edit(suite, lambda text: text.replace("unit: us", "unit: [us", 1))
    says(suite.run(), f"{file}:", "not YAML")


def test_an_unknown_key(suite: Suite) -> None:
    suite.record()
    file = edit(suite, lambda text: text.replace(", spread:", ", sprad:", 1))
    says(suite.run(), f"{file}:", "sprad", "did you mean 'spread'?")


def test_a_bound_in_the_wrong_unit(suite: Suite) -> None:
    suite.record()
    line = line_of(suite, "unit: GB/s")
    file = edit(suite, lambda text: text.replace("unit: GB/s", "unit: GiB/s", 1))
    says(suite.run(), f"{file}:{line}: ", "busbw is in GB/s, not 'GiB/s'")


def test_a_baseline_of_another_topology_is_not_used_and_tells_the_first_difference(suite: Suite) -> None:
    suite.wiring()
    suite.record_all()
    suite.node(node="cpu_node(cores=8)")
    result = suite.run("test_wiring_suite.py")
    assert result.ret == 7
    result.stdout.fnmatch_lines(
        ["*NO BASELINE topology: no baseline for cpu-test-8c; nearest is cpu-test-2c: cores is 8*2*"]
    )


def test_a_baseline_that_is_expected_and_not_there(suite: Suite) -> None:
    suite.record()
    says(suite.run("--gpuwire-expect=h100-sxm-8x"), "no baseline is named 'h100-sxm-8x'", "known: cpu-test-2c")


def test_a_baseline_that_is_expected_and_is_another_node_s(suite: Suite) -> None:
    suite.wiring()
    suite.record_all()
    suite.node(node="cpu_node(cores=8)")
    result = suite.run("--gpuwire-expect=cpu-test-2c", "test_wiring_suite.py")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*MISSING topology: cores is 8*"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--gpuwire-world-size=1", "'1' is not a world size; collectives need at least 2 ranks"),
        ("--gpuwire-world-size=two", "'two' is not a world size"),
        ("--gpuwire-tier=weekly", "'weekly' is none of nightly"),
        ("--gpuwire-budget=soon", "--gpuwire-budget: 'soon' is not a duration; write seconds or units"),
        ("--gpuwire-missing=ignore", "'ignore' is none of fail, record, warn"),
        ("--gpuwire-require=nvlink6", "unknown hardware 'nvlink6'; known: cpu, pcie, nvlink"),
        ("--gpuwire-device=tpu", "unknown device 'tpu'; one of auto, cpu, cuda, xpu"),
        ("--gpuwire-device=cuda", "cuda needs at least 2 GPUs, and 0 are visible here"),
        ("--gpuwire-dtypes=int8", "'int8' is none of float16, bfloat16, float32"),
    ],
)
def test_an_option_that_means_nothing_here(suite: Suite, option: str, message: str) -> None:
    suite.node()
    says(suite.run(option), message)
    assert not list((suite.pytester.path / "gpuwire-runs").glob("*"))


def test_a_baselines_directory_that_is_a_file(suite: Suite) -> None:
    suite.node()
    (suite.pytester.path / "file").write_text("")
    says(suite.pytester.runpytest_subprocess("--gpuwire-baselines=file"), "--gpuwire-baselines file: not a directory")


def test_a_policy_with_an_unknown_key(suite: Suite) -> None:
    suite.node()
    suite.policy({**POLICY, "tolerence": []})
    says(suite.run(), f"{suite.site / 'policy.yaml'}:", "tolerence", "did you mean 'tolerances'?")


def test_a_policy_that_promises_what_its_attempts_cannot_keep(suite: Suite) -> None:
    suite.node()
    suite.policy({**POLICY, "noise": {"disturbed": 0.2, "night": 0.4}})
    says(
        suite.run(),
        f"{suite.site / 'policy.yaml'}: at most 1 false failure in 19,600 decisions (false_alarms) cannot be promised:",
        "with 20% of attempts disturbed (noise), 20 attempts are too few to tell; raise attempts.confirm",
    )


def test_a_run_folder_that_cannot_be_made(suite: Suite) -> None:
    suite.node()
    (suite.pytester.path / "file").write_text("")
    says(
        suite.run("--gpuwire-run-dir=file/runs"),
        "cannot make the run folder",
        "choose another place with --gpuwire-run-dir",
    )


FULL_DISK = """
import errno, os
real, writes = os.pwrite, []
def pwrite(file, data, offset):
    writes.append(offset)
    if len(writes) > 5:
        raise OSError(errno.ENOSPC, "No space left on device")
    return real(file, data, offset)
os.pwrite = pwrite
"""


def test_a_disk_that_fills_up_costs_no_figure(suite: Suite) -> None:
    suite.record()
    conftest = suite.pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text() + FULL_DISK)
    result = suite.run()
    assert result.ret == 6
    result.assert_outcomes(passed=28)
    result.stdout.fnmatch_lines(["*28 PASS of 28 planned*", "run.json is not complete: *No space left on device"])
    kept = suite.document()
    assert len(kept["results"]) == 4
    assert kept.get("ending") is None


def test_a_site_directory_that_cannot_be_written_costs_no_figure(suite: Suite) -> None:
    suite.node()
    (suite.site / "cpu").write_text("a file where a directory must be")
    result = suite.run("--gpuwire-missing=record")
    assert result.ret == 6
    result.stdout.fnmatch_lines(["nothing was recorded: cannot write *give a directory that can be written*"])
    assert len(suite.document()["results"]) == 28


def test_two_runs_on_a_node_exclude_each_other(suite: Suite) -> None:
    suite.record()
    lock = suite.pytester.path / "lock"
    owner = suite.pytester.path / f"lock.owner-{os.getpid()}"
    owner.write_text(f'{{"pid": {os.getpid()}, "started": "2026-01-01T00:00:00+00:00", "run": "runs/one"}}')
    with FileLock(lock):
        says(suite.run(), f"another gpuwire run is on this node: pid {os.getpid()}, started 2026-01-01", "wait for it")
    assert suite.run().ret == 0


def test_more_than_one_xdist_worker_is_refused(suite: Suite) -> None:
    suite.record()
    result = suite.run("-n", "2")
    text = "\n".join([*result.outlines, *result.errlines])
    assert result.ret not in (0, 1)
    assert "gpuwire does not run on more than one xdist worker" in text
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text


def test_one_xdist_worker_is_no_distribution(suite: Suite) -> None:
    suite.record()
    result = suite.run("-n", "1")
    assert result.ret == 0
    result.assert_outcomes(passed=28)
    result.stdout.fnmatch_lines(["*28 PASS of 28 planned*"])


def test_a_fault_that_is_none(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.node()
    suite.real()
    monkeypatch.setenv("GPUWIRE_FAULT", '{"kind": "gremlin", "rank": 0}')
    says(suite.run(), "GPUWIRE_FAULT: unknown kind 'gremlin'; one of delay, corrupt, exit, hang")


@pytest.mark.parametrize("marker", ["gpus('two')", "gpus(0)", "gpus()", "hosts(1, 2)"])
def test_a_marker_that_is_used_wrongly(suite: Suite, marker: str) -> None:
    suite.node()
    suite.pytester.makepyfile(
        test_marked=f"import pytest\n@pytest.mark.{marker}\ndef test_it(measured, expect):\n    pass\n"
    )
    says(suite.run(), f"marker {marker.partition('(')[0]} takes one positive number, such as")


def test_hardware_that_is_not_here_is_skipped_with_its_reason(suite: Suite) -> None:
    suite.record()
    suite.pytester.makepyfile(
        test_marked="import pytest\n@pytest.mark.nvlink\ndef test_it(measured, expect):\n    assert False\n"
    )
    result = suite.run("test_marked.py", "-rs")
    assert result.ret == 0
    result.assert_outcomes(skipped=28)
    result.stdout.fnmatch_lines(
        ["SKIPPED*needs nvlink (at least one pair of GPUs joined by NVLink), which this node does not have"]
    )


def test_a_test_of_a_higher_tier_waits_for_it(suite: Suite) -> None:
    suite.record()
    suite.pytester.makepyfile(
        test_marked="import pytest\n@pytest.mark.soak\ndef test_it(measured, expect):\n    assert False\n"
    )
    result = suite.run("test_marked.py")
    assert result.ret == 5
    result.stdout.fnmatch_lines(["*28 deselected*"])
