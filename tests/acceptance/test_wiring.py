"""The shipped wiring suite over a node with one fault: which test fails, and what a person reads."""

from __future__ import annotations

import json

import pytest
from small_suite import Suite

from gpuwire_checks.report.status import ExitStatus


@pytest.fixture
def hgx(suite: Suite) -> Suite:
    """Eight GPUs with a baseline, and the shipped suites."""
    suite.shipped()
    suite.node(node="hgx_node()")
    assert suite.run("--gpuwire-missing=record").ret == ExitStatus.NOT_RUN.GOOD
    return suite


def failed(result: pytest.RunResult) -> list[str]:
    """The tests that pytest lists as failed, without file and marks."""
    lines = [line for line in result.outlines if line.startswith("FAILED ")]
    return [line.split("::")[1].split(" ")[0] for line in lines]


def test_a_healthy_node_passes_everything(hgx: Suite) -> None:
    result = hgx.run()
    assert result.ret == ExitStatus.GOOD, result.outlines
    counts = hgx.document()["ending"]["counts"]
    assert set(counts) == {"PASS"}
    # 18 links of 8 GPUs, 28 pairs twice, and more.
    assert counts["PASS"] > 250


@pytest.mark.parametrize(
    ("fault", "test", "says"),
    [
        ("a link is down", "test_links[GPU0]", "MISSING GPU0 links: GPU0: NVLink 0 is down: 17 of 18 NVLinks are up*"),
        (
            "a link at half speed",
            "test_link_speed[GPU0-link0]",
            "REGRESSED GPU0 NVLink 0 speed: GPU0 NVLink 0: speed is 12.5 GB/s, the baseline says 25 GB/s*",
        ),
        ("x8", "test_pcie[GPU0]", "REGRESSED GPU0 PCIe: GPU0: PCIe is gen 5 x8, the baseline says gen 5 x16*"),
        ("a NIC at half rate", "test_nic_rate[mlx5_3]", "REGRESSED mlx5_3 rate: mlx5_3: rate is 200 Gbit/s*"),
        ("an unhealthy fabric route", "test_fabric[GPU0]", "REGRESSED GPU0 fabric: *route unhealthy*"),
        ("P2P off on one pair", "test_peer_access[GPU0-GPU1]", "REGRESSED GPU0-GPU1 peer access: *CNS*"),
    ],
)
def test_a_fault_fails_its_test_and_names_its_part(hgx: Suite, fault: str, test: str, says: str) -> None:
    hgx.node(node=f"broken({fault!r})")
    result = hgx.run()
    assert result.ret == ExitStatus.FAULT
    assert failed(result) == [test]
    result.stdout.fnmatch_lines([says])
    part = test.partition("[")[2].partition("-link")[0].rstrip("]")
    result.stdout.fnmatch_lines([f"gpuwire: FAULT on *: 1 of *, first {part}*"])


def test_the_whole_is_not_judged_again_where_a_part_explains_it(hgx: Suite) -> None:
    hgx.node(node="broken('a link is down')")
    hgx.run()
    (whole,) = (r["verdict"] for r in hgx.document()["results"] if "test_topology" in r["nodeid"])
    assert whole["outcome"] == "NOT RUN"
    assert whole["reason"].startswith("explained by GPU0 links")


def test_a_fabric_that_is_down_still_finds_the_baseline(hgx: Suite) -> None:
    """No GPU shows a link: the node looks like a PCIe one, for which there is no baseline, and is none."""
    hgx.node(node="without_links()")
    result = hgx.run()
    assert result.ret == ExitStatus.FAULT
    assert failed(result) == [f"test_links[GPU{at}]" for at in range(8)]
    result.stdout.fnmatch_lines(["MISSING GPU0 links: GPU0: NVLink 0-17 are down: 0 of 18 NVLinks are up*"])


def test_a_gpu_that_tells_nothing_of_itself_is_not_called_different(hgx: Suite) -> None:
    """What cannot be read may be good: the whole is NOT RUN, and not MISSING."""
    hgx.node(node="silent_gpu()")
    result = hgx.run("-k", "test_topology")
    assert result.ret == ExitStatus.NOT_RUN
    result.stdout.fnmatch_lines(["NOT RUN topology: the whole cannot be told: GPU2: model cannot be read here: *"])


def test_a_gpu_that_is_gone_is_named_and_no_collective_waits_for_it(hgx: Suite) -> None:
    hgx.node("raise AssertionError('measured')", node="broken('a GPU is gone')")
    result = hgx.run()
    assert result.ret == ExitStatus.FAULT
    assert failed(result) == ["test_gpu[GPU1]"]
    result.stdout.fnmatch_lines(["MISSING GPU1: GPU1 (0000:11:00.0) is gone: 7 of 8 GPUs are here*"])
    collectives = [r["verdict"] for r in hgx.document()["results"] if "test_collective" in r["nodeid"]]
    assert {verdict["outcome"] for verdict in collectives} == {"NOT RUN"}
    assert all("GPU1 (0000:11:00.0) is gone" in verdict["reason"] for verdict in collectives)


def test_another_driver_is_told_before_any_figure(hgx: Suite) -> None:
    hgx.node(node="broken('another driver')")
    result = hgx.run()
    assert result.ret == ExitStatus.FAULT
    assert failed(result) == ["test_version[driver]"]
    lines = result.outlines
    told = next(at for at, line in enumerate(lines) if "driver is 575.51.03, the baseline says 570.86.15" in line)
    figures = next(at for at, line in enumerate(lines) if "GB/s  PASS" in line)
    assert told < figures
    result.stdout.fnmatch_lines(["CHANGED since the last run here: driver 570.86.15 -> 575.51.03*"])


def test_replays_that_grow_under_load_are_told_with_the_case(hgx: Suite) -> None:
    hgx.node(node="hgx_node()", grows={"GPU2": 5})
    result = hgx.run()
    assert failed(result) == ["test_counters[GPU2]"]
    result.stdout.fnmatch_lines(["REGRESSED GPU2 counters: GPU2: pcie replay grew by * of measuring, most in *"])
    growth = hgx.document()["ending"]["watched"]["growth"]
    assert {entry["part"] for entry in growth} == {"GPU2"}


def test_a_node_is_judged_again_from_its_snapshot(hgx: Suite) -> None:
    """On another machine, from the file alone: the same faults, and nothing is measured."""
    from wired import broken

    from gpuwire_checks.topology.snapshot import Snapshot, snapshot_text

    file = hgx.pytester.path / "node.json"
    taken = Snapshot(gpuwire="0", taken_at="2026-01-01", topology=broken("a link is down"), environment={})
    file.write_text(snapshot_text(taken))
    hgx.node("raise AssertionError('measured')", node="cpu_node()")
    result = hgx.run(f"--gpuwire-from={file}")
    assert failed(result) == ["test_links[GPU0]"]
    assert "test_collective" not in json.dumps(hgx.document())


def test_a_baseline_that_is_asked_for_by_name_makes_absence_a_fault(hgx: Suite) -> None:
    """A runner that should have eight GPUs, and has none at all."""
    hgx.node(node="cpu_node()")
    result = hgx.run("--gpuwire-expect=h100-80gb-hbm3-8x-nv18", "--gpuwire-require=nvlink,h100")
    assert result.ret == ExitStatus.FAULT
    assert "test_required_hardware[h100]" in failed(result)
    result.stdout.fnmatch_lines(["MISSING h100: --gpuwire-require h100: this node has no h100 *"])
    result.stdout.fnmatch_lines(["MISSING 8 of 8 GPUs: 8 of 8 GPUs gone*"])


def test_what_the_baseline_does_not_state_is_no_baseline(hgx: Suite) -> None:
    file = hgx.baseline_file()
    text = "".join(line for line in file.read_text().splitlines(True) if not line.startswith("  numa_nodes:"))
    file.write_text(text)
    result = hgx.run("-k", "test_numa")
    assert result.ret == ExitStatus.NOTHING_TO_COMPARE
    result.stdout.fnmatch_lines(["NO BASELINE GPU0 NUMA node: *the baseline does not say*"])


def test_what_neither_has_is_skipped_with_the_reason(suite: Suite) -> None:
    suite.shipped()
    suite.node()
    assert suite.run("--gpuwire-missing=record").ret == ExitStatus.GOOD
    result = suite.run("-rs")
    assert result.ret == ExitStatus.GOOD
    result.stdout.fnmatch_lines(["SKIPPED*neither this node nor its baseline has NVLink or xGMI links"])


def test_a_marker_that_names_no_rule_is_a_usage_error(hgx: Suite) -> None:
    hgx.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.rule("cables")
        def test_cables(judged, expect):
            expect.met(judged)
        """
    )
    result = hgx.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*marker rule takes one name of gpu, pcie,*"])
