"""Software that changed since the last run of this host is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from topologies import SOFTWARE, cpu_node

from gpuwire_checks.harness.last_run import software_changes
from gpuwire_checks.topology.model import NodeTopology


def node(driver: str | None = "570.86", kernel: str = "6.1.0") -> NodeTopology:
    return replace(cpu_node(), software=replace(SOFTWARE, driver=driver, kernel=kernel))


def ran(folder: Path, driver: str, *, host: str = "node-1") -> None:
    folder.mkdir()
    head = {"host": host, "topology": {"software": {"driver": driver, "kernel": "6.1.0", "cuda": None}}}
    (folder / "run.json").write_text(json.dumps({"run": head})[:-1] + ',\n"results":[\n]}\n')


def changes(run_dir: Path, topology: NodeTopology) -> list[str]:
    return software_changes(run_dir, topology, host="node-1", but=run_dir / "now")


def test_a_change_since_the_newest_run_is_told(tmp_path: Path) -> None:
    ran(tmp_path / "20260101-1", "550.54")
    ran(tmp_path / "20260102-1", "570.86")
    assert changes(tmp_path, node("575.51")) == ["driver 570.86 -> 575.51"]


def test_the_same_software_is_quiet(tmp_path: Path) -> None:
    ran(tmp_path / "20260101-1", "570.86")
    assert changes(tmp_path, node()) == []


def test_the_run_that_asks_and_runs_of_other_hosts_do_not_count(tmp_path: Path) -> None:
    ran(tmp_path / "now", "1")
    ran(tmp_path / "20260101-1", "2", host="node-2")
    assert changes(tmp_path, node()) == []


def test_a_run_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    ran(tmp_path / "20260101-1", "550.54")
    (tmp_path / "20260102-1").mkdir()
    (tmp_path / "20260102-1" / "run.json").write_text('{"run":{"host": "no')
    (tmp_path / "20260103-1").mkdir()
    (tmp_path / "20260103-1" / "run.json").write_text('{"run": 5,\n"results":[\n]}')
    assert changes(tmp_path, node()) == ["driver 550.54 -> 570.86"]


def test_no_run_yet_is_quiet(tmp_path: Path) -> None:
    assert changes(tmp_path / "none", node()) == []
