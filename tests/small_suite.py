"""A small suite run by pytest inside pytest, over a fake node."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

SUITES = Path(__file__).resolve().parents[1] / "suites"
CONFTEST = """
from pathlib import Path

import pytest
from fakes import FakeRanks, FakeWires, Mismatch, seen_by_torch
from topologies import cpu_node, gpu_node
from wired import broken, hgx_node, silent_gpu, without_links

from gpuwire_checks.topology.formats import read_recorded

pytest_plugins = ["gpuwire_checks.plugin"]

NODE = {node}

def figure(case, attempt):
    usual = 100.0 if case.metric.name == "latency" else 2.0
    {figure}
    return usual

def pytest_gpuwire_topology(config):
    return NODE

def pytest_gpuwire_ranks(config, spec, folder):
    return FakeRanks(figure, slow_rank={slow_rank}, devices=seen_by_torch(NODE))

def pytest_gpuwire_watcher(config):
    return FakeWires(NODE, grows={grows})
"""

SUITE = """
def test_collective(measured, expect):
    expect.correct(measured)
    expect.within_baseline(measured)
"""

WIRING = """
def test_topology(wiring, expect):
    expect.present(wiring)

def test_required_hardware(required, expect):
    expect.present(required)
"""

POLICY = {
    "schema": 1,
    "false_alarms": {"per_week": 1, "nodes": 100, "runs_per_week": 7},
    "attempts": {"record": 3, "record_in_run": 3, "confirm": 20, "pause_seconds": 0},
    "tolerances": [{"min_effect": 0.10, "why": "tests"}],
    "tiers": {
        "nightly": {
            "description": "three sizes of everything",
            **{
                kind: {
                    "seconds_per_case": 0.05,
                    "dtypes": ["float32"],
                    "latency": ["8KiB"],
                    "bucket": ["1MiB"],
                    "peak": ["2MiB"],
                }
                for kind in ("cpu", "accelerator")
            },
        }
    },
}


class Suite:
    """A small suite over a fake node, in a folder of its own."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.site = pytester.path / "site"
        self.site.mkdir()
        self.policy(POLICY)
        pytester.makepyfile(test_suite=SUITE)

    def policy(self, content: dict[str, Any]) -> None:
        # Through JSON: what is used twice would become a YAML alias, which such files may not have.
        (self.site / "policy.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(content)), sort_keys=False))

    def node(
        self,
        figure: str = "",
        *,
        node: str = "cpu_node()",
        slow_rank: int | None = None,
        grows: dict[str, int] | None = None,
    ) -> None:
        """The fake node: ``figure`` is Python that may return something else than the usual.

        Args:
            grows: PCIe replays of a part between two looks at its counters.
        """
        self.pytester.makeconftest(
            CONFTEST.format(figure=figure or "pass", node=node, slow_rank=slow_rank, grows=grows or {})
        )

    def real(self) -> None:
        """Real ranks on this machine, in place of the fake node."""
        self.pytester.makeconftest('pytest_plugins = ["gpuwire_checks.plugin"]')

    def shipped(self) -> None:
        """The shipped suites in place of the small ones."""
        (self.pytester.path / "test_suite.py").unlink()
        for file in SUITES.glob("test_*.py"):
            shutil.copy(file, self.pytester.path)

    def wiring(self) -> None:
        self.pytester.makepyfile(test_wiring_suite=WIRING)

    def run(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess(f"--gpuwire-baselines={self.site}", *arguments)

    def record(self) -> None:
        """Give the node a baseline, from figures as usual."""
        self.node()
        result = self.run("--gpuwire-missing=record")
        assert result.ret == 0, result.outlines
        result.stdout.fnmatch_lines(["*recorded 28 bounds in *"])

    def record_all(self) -> None:
        """The same where other tests give results too."""
        self.node()
        result = self.run("--gpuwire-missing=record")
        assert result.ret == 0, result.outlines

    def document(self) -> dict[str, Any]:
        """The newest run.json."""
        loaded: dict[str, Any] = json.loads((self.newest_run() / "run.json").read_text())
        return loaded

    def newest_run(self) -> Path:
        return max((self.pytester.path / "gpuwire-runs").iterdir(), key=lambda folder: folder.stat().st_mtime_ns)

    def baseline_file(self) -> Path:
        (file,) = (path for path in self.site.rglob("*.yaml") if path.name != "policy.yaml")
        return file
