"""``gpuwire policy explain`` on a node: which cases it takes, what it says without a bound, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from commands import gpuwire
from small_suite import POLICY
from topologies import cpu_node

from gpuwire_checks.baseline.schema import BoundEntry, CaseEntry
from gpuwire_checks.baseline.store import load_baselines, merge_new, save_baseline
from gpuwire_checks.errors import ConfigError
from gpuwire_checks.harness import explaining
from gpuwire_checks.harness.node import Node, survey
from gpuwire_checks.harness.options import Settings, make_settings
from gpuwire_checks.harness.recording import save_recorded
from gpuwire_checks.world import choose_world


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A site over a fake node of two CPUs."""
    monkeypatch.setattr(explaining, "observed", lambda source: cpu_node())
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "policy.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(POLICY)), sort_keys=False))
    return make_settings({"baselines": "site", "world-size": "2"}, root=tmp_path)


def surveyed(settings: Settings) -> Node:
    world = choose_world(cpu_node(), device=settings.device, world_size=settings.world_size)
    return survey(settings, topology=cpu_node(), world=world)


def record(settings: Settings, *collectives: str) -> None:
    """Bounds of 1 MiB for these."""
    save_recorded(surveyed(settings), [], software={})
    (baseline,) = load_baselines([settings.site])
    entries = [
        BoundEntry(
            metric="busbw",
            case=CaseEntry(collective=name, size=1 << 20, dtype="float32", world_size=2, backend="gloo"),
            unit="GB/s",
            better="higher",
            centre=2.0,
            spread=0.02,
            attempts=20,
            nodes=1,
        )
        for name in collectives
    ]
    save_baseline(settings.site, merge_new(baseline, entries))


def said(pattern: str, settings: Settings) -> tuple[list[str], int]:
    lines: list[str] = []
    status = explaining.explain_cases(pattern, settings, echo=lines.append)
    return lines, status


def test_a_few_cases_are_explained_one_after_the_other(settings: Settings) -> None:
    record(settings, "all_reduce", "reduce")
    lines, status = said("*reduce-1MiB-float32-ws2", settings)
    assert status == 0
    titles = [line for line in lines if not line.startswith("  ")]
    assert [title.partition(":")[0] for title in titles] == [
        "busbw all_reduce-1MiB-float32-ws2 on gloo",
        "",
        "busbw reduce-1MiB-float32-ws2 on gloo",
    ]


def test_many_are_a_table_that_says_how_to_get_the_rest(settings: Settings) -> None:
    record(settings, "all_reduce", "reduce", "broadcast", "gather", "scatter", "send_recv")
    lines, status = said("*1MiB*", settings)
    assert len(lines) == 7 + 1 + 3, lines  # heading and rows, the pointer, and three without a bound
    assert lines[7] == (
        "gpuwire: 6 cases; each number of one comes with: gpuwire policy explain all_reduce-1MiB-float32-ws2"
    )
    assert status == 1


def test_a_case_without_a_bound_is_said_with_what_to_do(settings: Settings) -> None:
    lines, status = said("all_reduce-1MiB-float32-ws2", settings)
    assert lines == [
        "gpuwire: no bound for busbw all_reduce-1MiB-float32-ws2 on gloo (no baseline for cpu-test-2c); record one"
        " with: gpuwire baseline record"
    ]
    assert status == 1
    lines, status = said("*", settings)
    assert (len(lines), lines[-1], status) == (6, "gpuwire: ... and 23 more without a bound", 1)


def test_an_unknown_case_names_those_most_like_it(settings: Settings) -> None:
    with pytest.raises(ConfigError) as problem:
        said("all_reduce-1MB-float32", settings)
    assert str(problem.value) == (
        "no case 'all_reduce-1MB-float32' among the 28 of tier nightly with 2 ranks; the nearest:"
        " all_reduce-1MiB-float32-ws2, all_reduce-2MiB-float32-ws2, all_reduce-8KiB-float32-ws2; a pattern such as"
        " 'all_reduce-*' takes several, --tier and --world-size plan others"
    )


def test_decisions_are_those_of_a_run(settings: Settings) -> None:
    record(settings, "all_reduce")
    node = surveyed(settings)
    assert explaining.decisions_of(node).total == node.decisions


def test_a_baseline_of_another_wiring_is_said(settings: Settings) -> None:
    record(settings, "all_reduce")
    (file,) = (path for path in settings.site.rglob("*.yaml") if path.name != "policy.yaml")
    exact = yaml.safe_load(file.read_text())["topology"]["exact"]
    file.write_text(file.read_text().replace(exact, "f" * len(exact)))
    lines, _ = said("all_reduce-1MiB-float32-ws2", settings)
    assert lines[0] == "gpuwire: this node differs from cpu-test-2c: the same parts are joined differently"


def test_the_command_itself(tmp_path: Path) -> None:
    done = gpuwire(tmp_path, "policy", "explain", "all_reduce-1MiB-float32-ws2", "--device", "cpu", "--world-size", "2")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("gpuwire: no bound for busbw all_reduce-1MiB-float32-ws2 on gloo (")
    unknown = gpuwire(tmp_path, "policy", "explain", "nothing", "--device", "cpu", "--world-size", "2")
    assert unknown.returncode == 4
    assert unknown.stderr.startswith("gpuwire: no case 'nothing' among the ")
