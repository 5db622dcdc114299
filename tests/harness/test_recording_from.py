"""A recorded node is looked at, and its wiring recorded, without the node."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import gpuwire
from wired import broken, hgx_node

from gpuwire_checks.baseline.store import load_baseline
from gpuwire_checks.topology.snapshot import Snapshot, snapshot_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, node in (("before", hgx_node()), ("after", broken("a link is down"))):
        snapshot = Snapshot(gpuwire="0", taken_at="2026-01-01", topology=node, environment={})
        (tmp_path / f"{name}.json").write_text(snapshot_text(snapshot))
    return tmp_path


def test_the_wiring_before_maintenance_is_what_the_node_is_held_to_after_it(folder: Path) -> None:
    recorded = gpuwire(folder, "baseline", "record", "--from", "before.json", "--baselines", "site")
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stdout.startswith("gpuwire: recorded the wiring of ")
    assert recorded.stdout.endswith("h100-80gb-hbm3-8x-nv18.yaml, and no bounds: nothing was measured\n")
    baseline = load_baseline(next((folder / "site").rglob("*.yaml")))
    assert (baseline.entries, baseline.wiring is not None) == ((), True)
    before = gpuwire(folder, "run", "--from", "before.json", "--baselines", "site")
    assert before.returncode == 0, before.stdout
    after = gpuwire(folder, "run", "--from", "after.json", "--baselines", "site")
    assert after.returncode == 1
    assert "MISSING GPU0 links: GPU0: NVLink 0 is down: 17 of 18 NVLinks are up" in after.stdout


def test_a_broken_node_is_not_recorded_from_a_file_either(folder: Path) -> None:
    recorded = gpuwire(folder, "baseline", "record", "--from", "after.json", "--baselines", "site")
    assert recorded.returncode == 4
    assert "nothing is recorded: GPU0: NVLink 0 is down" in recorded.stderr
    assert not (folder / "site").exists()


def test_a_node_whose_gpus_are_not_named_is_not_recorded(folder: Path) -> None:
    matrix = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\t0-7\t0\nGPU1\tNV4\t X \t0-7\t0\n"
    (folder / "topo.txt").write_text(matrix)
    recorded = gpuwire(folder, "baseline", "record", "--from", "topo.txt", "--baselines", "site")
    assert recorded.returncode == 4
    assert "topo.txt: the model of its GPUs is not told, so that no node would find this baseline" in recorded.stderr


def test_doctor_looks_at_a_recorded_node(folder: Path) -> None:
    looked = gpuwire(folder, "doctor", "--from", "before.json", "--baselines", "site")
    assert "8 x NVIDIA H100 80GB HBM3" in looked.stdout, looked.stderr
    assert "h100-80gb-hbm3-8x-nv18 (" in looked.stdout
    assert "a reference that nobody recorded here" in looked.stdout


def test_a_recorded_node_that_is_not_there_is_a_line(folder: Path) -> None:
    for command in (("doctor",), ("baseline", "record")):
        done = gpuwire(folder, *command, "--from", "nowhere.json")
        assert done.returncode == 4
        assert done.stderr.startswith("gpuwire: cannot read ")
        assert "nowhere.json: No such file or directory" in done.stderr
