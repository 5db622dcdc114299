"""Traces as files: what is written is read back, and what is no trace is a line that says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import measurement
from gloo import case
from report_builders import head, result
from topologies import cpu_node, gpu_node
from traces import trace

from gpuwire_checks.errors import ConfigError, GpuwireError
from gpuwire_checks.judge.trace import Trace
from gpuwire_checks.judge.verdicts import judge_correctness
from gpuwire_checks.records import Measurement, Mismatch
from gpuwire_checks.report.document import RunDocument
from gpuwire_checks.report.trace import host_kind, make_trace, read_trace, trace_text, write_trace

RATE = case(size_bytes=1 << 20, world_size=2)
WRONG = Mismatch(rank=1, index=7, expected="4.0", got="3.0", count=2, total=16)


def made(*values: float) -> Trace:
    found = make_trace(
        {RATE: [measurement(RATE, value) for value in values]},
        topology=cpu_node(),
        gpuwire="0.1.0",
        sku="cpu-test-2c",
        software={"torch": "2.13.0", "nccl": None},
    )
    assert found is not None
    return found


def test_the_document_is_the_one_that_is_published() -> None:
    (one,) = (document := json.loads(trace_text(made(2.0, 2.1000004))))["cases"]
    assert list(document) == ["schema", "host_kind", "recorded_at", "gpuwire", "sku", "software", "cases"]
    assert document["schema"] == 1
    assert document["host_kind"] == "Test CPU / 2 cores / bare metal"
    assert document["recorded_at"] == "2026-01-01T00:00:00.000+00:00"
    assert document["software"] == {"torch": "2.13.0", "nccl": None}
    assert {name: one[name] for name in ("case", "metric", "unit", "better", "family", "attempts")} == {
        "case": "all_reduce-1MiB-float32-ws2",
        "metric": "busbw",
        "unit": "GB/s",
        "better": "higher",
        "family": "busbw on gloo, 1MiB to 4MiB",
        "attempts": [
            {"at": "2026-01-01T00:00:00.000+00:00", "value": 2.0, "tail": None},
            {"at": "2026-01-01T00:00:00.000+00:00", "value": 2.1, "tail": None},
        ],
    }


def test_what_is_written_is_read_back_a_case_a_line(tmp_path: Path) -> None:
    for number, written in enumerate((trace(), trace(tails=0.1, passes=3), made(1.0, 2.0))):
        path = tmp_path / f"{number}.json"
        write_trace(path, written)
        assert read_trace(path) == written
        assert len([line for line in path.read_text().splitlines() if '"case":' in line]) == len(written.cases)


def test_a_case_measured_once_is_left_out_and_nothing_is_no_trace() -> None:
    assert len(made(1.0, 2.0).cases) == 1
    for measured in ({}, {RATE: [measurement(RATE, 1.0)]}):
        assert make_trace(measured, topology=cpu_node(), gpuwire="0", sku="a", software={}) is None


def test_a_host_is_told_by_its_kind_and_not_by_its_name() -> None:
    virtual = replace(cpu_node(), virtualised="KVM")
    assert host_kind(virtual) == "Test CPU / 2 cores / virtual (KVM)"
    assert host_kind(gpu_node()) == "8 x NVIDIA H100 80GB HBM3 / Test CPU / 64 cores / bare metal"
    assert "node-1" not in host_kind(virtual)


def test_a_run_that_kept_its_attempts_is_a_trace(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    document = RunDocument.start(folder, head())
    for value in (1.0, 1.1, 1.2):
        document.append(_kept(measurement(RATE, value)))
    document.append(_kept(measurement(RATE, 9.0, (WRONG,))))
    for path in (folder, folder / "run.json"):
        found = read_trace(path)
        assert [one.values for one in found.cases] == [(1.0, 1.1, 1.2)]
        assert (found.sku, found.software["torch"]) == ("h100-sxm-8x", "2.13.0")


def _kept(attempt: Measurement) -> Any:
    return result(judge_correctness([attempt], where="A/A"), attempts=(attempt,))


def test_a_run_that_measured_nothing_twice_is_no_trace(tmp_path: Path) -> None:
    RunDocument.start(tmp_path / "run", head())
    with pytest.raises(GpuwireError, match=r"run: no case was measured twice in this run; give .* of gpuwire aa$"):
        read_trace(tmp_path / "run")


def _changed(change: dict[str, Any]) -> str:
    document = json.loads(trace_text(made(1.0, 2.0)))
    for key, value in change.items():
        at: Any = document
        *way, last = key.split(".")
        for step in way:
            at = at[int(step) if step.isdigit() else step]
        at[last] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON, or was cut"),
        ("[1, 2]", "is JSON, but not a trace; give what gpuwire aa --output wrote"),
        ("{}", "is JSON, but not a trace"),
        (_changed({"schema": 2}), "has schema 2, and this gpuwire reads 1"),
        (_changed({"cases": []}), "has no case"),
        (_changed({"cases.0.attempts.0.value": 0.0}), "all_reduce-1MiB-float32-ws2 has a figure that is none: 0.0"),
        (_changed({"cases.0.attempts.0.value": -1.0}), "has a figure that is none: -1.0"),
        (
            _changed({"cases.0.attempts.0.value": "much"}),
            r"cases\.0\.attempts\.0\.value: Input should be a valid number",
        ),
        (_changed({"cases.0.attempts.0.tail": 0.5}), r"has a figure that is none: 1.0, tail 0\.5"),
        (_changed({"cases.0.attempts.0.at": "noon"}), "noon"),
        (_changed({"cases.0.attempts": []}), "has 0 attempts: a spread takes two"),
        (_changed({"cases.0.unit": "us"}), "is not what its 'of' says: busbw all_reduce-1MiB-float32-ws2"),
        (_changed({"cases.0.of.collective": "sing"}), "is not what its 'of' says"),
    ],
)
def test_what_is_no_trace_is_a_line_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(GpuwireError, match=message) as problem:
        read_trace(path)
    assert str(path) in str(problem.value)


def test_a_file_that_cannot_be_written_or_read_is_a_line(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot write .*: No such file or directory; give another file with --output"
    ):
        write_trace(tmp_path / "nowhere" / "trace.json", made(1.0, 2.0))
    with pytest.raises(GpuwireError, match=r"cannot read .*trace\.json: No such file or directory"):
        read_trace(tmp_path / "trace.json")
