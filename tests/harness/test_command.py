"""The ``gpuwire`` command: what it prints, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from commands import gpuwire
from small_suite import POLICY

from gpuwire_checks.harness.running import pytest_arguments
from gpuwire_checks.shipped import shipped_suites

MATRIX = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\tPIX\t0-15\t0
GPU1\tNV4\t X \tSYS\t0-15\t0
NIC0\tPIX\tSYS\t X
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site whose nightly tier is one small size of everything."""
    sizes = {"seconds_per_case": 0.02, "dtypes": ["float32"], "latency": ["8KiB"], "bucket": [], "peak": []}
    tiers = {"nightly": {"description": "one size", "cpu": sizes, "accelerator": sizes}}
    # Far beyond what a busy machine does to a small call.
    effects = [{"min_effect": 99, "why": "tests"}]
    policy = {
        **POLICY,
        "tolerances": effects,
        "tiers": tiers,
        "attempts": {"record": 2, "confirm": 20, "pause_seconds": 0},
    }
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "policy.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(policy)), sort_keys=False))
    return tmp_path


def test_doctor_says_what_is_here_what_is_missing_and_what_would_run(tmp_path: Path) -> None:
    done = gpuwire(tmp_path, "doctor", "--device", "cpu")
    assert done.returncode == 1  # nothing can be judged yet
    for text in ("here:", "cpu: ", "missing:", "baseline:", "none for ", "record one with: gpuwire baseline record"):
        assert text in done.stdout
    assert "tier nightly: the default" in done.stdout
    assert "gloo ranks (cpu), about" in done.stdout
    assert done.stderr == ""


def test_record_then_run_then_nothing_is_left_to_record(site: Path) -> None:
    recorded = gpuwire(site, "baseline", "record", "--baselines", "site", "--device", "cpu", "--world-size", "2")
    assert recorded.returncode == 0, recorded.stderr
    assert "recording 10 cases of " in recorded.stdout
    assert "recorded 10 bounds in " in recorded.stdout
    judged = gpuwire(site, "run", "--baselines", "site", "--device", "cpu", "--world-size", "2")
    assert judged.returncode == 0, judged.stdout
    # Collectives, topology, versions, and as many tests as this machine has NICs.
    planned = re.search(r"gpuwire: (\d+) PASS of (\d+) planned", judged.stdout)
    assert planned is not None, judged.stdout
    assert int(planned[1]) == int(planned[2]) >= 14
    again = gpuwire(
        site, "baseline", "record", "--if-missing", "--baselines", "site", "--device", "cpu", "--world-size", "2"
    )
    assert again.returncode == 0
    assert "nothing to record" in again.stdout
    healthy = gpuwire(site, "doctor", "--baselines", "site", "--device", "cpu", "--world-size", "2")
    assert healthy.returncode == 0
    assert "10 of 10 planned cases have a bound" in healthy.stdout
    documents = [json.loads(path.read_text()) for path in sorted((site / "gpuwire-runs").glob("*/run.json"))]
    assert sorted(len(document["results"]) for document in documents) == [int(planned[2]), 20]


def test_a_wrong_result_is_never_recorded(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWIRE_FAULT", '{"kind": "corrupt", "rank": 0, "collective": "all_reduce"}')
    done = gpuwire(site, "baseline", "record", "--baselines", "site", "--device", "cpu", "--world-size", "2")
    assert done.returncode == 4
    assert "all_reduce-8KiB-float32-ws2 is WRONG, nothing is recorded: rank 0 got" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in (site / "site").rglob("*.yaml")] == ["policy.yaml"]


def test_another_wiring_s_baseline_is_not_overwritten(site: Path) -> None:
    arguments = ("baseline", "record", "--baselines", "site", "--device", "cpu", "--world-size", "2")
    assert gpuwire(site, *arguments).returncode == 0
    (file,) = (path for path in (site / "site").rglob("*.yaml") if path.name != "policy.yaml")
    text = file.read_text()
    exact = yaml.safe_load(text)["topology"]["exact"]
    file.write_text(text.replace(exact, "f" * len(exact)))
    done = gpuwire(site, *arguments)
    assert done.returncode == 4
    assert "this node is not wired as it says" in done.stderr
    assert "a broken node must not become the norm" in done.stderr


def test_topology_of_recorded_output(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text(MATRIX)
    done = gpuwire(tmp_path, "topology", "--from", "topo.txt")
    assert done.returncode == 0, done.stderr
    assert "NV4" in done.stdout
    assert "2 GPUs" in done.stdout


def test_topology_as_json(tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text(MATRIX)
    done = gpuwire(tmp_path, "topology", "--from", "topo.txt", "--json")
    topology = json.loads(done.stdout)
    assert [gpu["index"] for gpu in topology["gpus"]] == [0, 1]
    assert ("GPU0", "GPU1", "NV4") in [(pair["a"], pair["b"], pair["path"]) for pair in topology["paths"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read dump.txt: No such file or directory"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "dump.txt:1: not UTF-8 text (byte 0)"),
        (b"x" * (17 << 20), "dump.txt: more than 16777216 bytes; such a file is not read"),
        (b"hello\nworld\n", "dump.txt:"),
        (b"", "dump.txt:"),
    ],
)
def test_an_unreadable_dump_is_a_line_and_no_traceback(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "dump.txt").write_bytes(content)
    done = gpuwire(tmp_path, "topology", "--from", "dump.txt")
    assert done.returncode == 4
    assert done.stderr.startswith(f"gpuwire: {message}")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_version(tmp_path: Path) -> None:
    assert gpuwire(tmp_path, "--version").stdout.startswith("gpuwire ")


def test_run_is_pytest_with_the_right_arguments(tmp_path: Path) -> None:
    arguments = pytest_arguments({"tier": "smoke", "budget": None}, ["-k", "barrier"], cwd=tmp_path)
    assert arguments == [str(shipped_suites()), "--gpuwire-tier=smoke", "-k", "barrier"]


def test_a_path_takes_the_place_of_the_shipped_suites(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert pytest_arguments({}, ["mine"], cwd=tmp_path) == ["mine"]


def test_an_installed_wheel_brings_its_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwire_checks.harness.running.shipped_root", lambda: tmp_path)
    arguments = pytest_arguments({}, [], cwd=tmp_path)
    assert f"--rootdir={tmp_path}" in arguments
    assert "--strict-markers" in arguments
