"""``gpuwire aa`` over fake ranks: what is measured, kept, printed and returned."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml
from commands import gpuwire
from fakes import FakeRanks, Script
from small_suite import POLICY
from topologies import cpu_node

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.harness import repeating
from gpuwire_checks.harness.options import Settings, make_settings
from gpuwire_checks.records import Case, Measurement, Mismatch
from gpuwire_checks.report.reading import read_run
from gpuwire_checks.report.trace import read_trace

WRONG = Mismatch(rank=1, index=7, expected="4.0", got="3.0", count=2, total=16)
PASSES = 12


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A site over a fake node of two CPUs."""
    monkeypatch.setenv("GPUWIRE_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(repeating, "observed", lambda source: cpu_node())
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "policy.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(POLICY)), sort_keys=False))
    return make_settings({"baselines": "site", "world-size": "2"}, root=tmp_path)


def noisy(case: Case, attempt: int) -> float:
    return (100.0 if case.metric.name == "latency" else 2.0) * random.Random(f"{case.id} {attempt}").gauss(1, 0.02)


def repeat(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    *,
    figure: Script = noisy,
    passes: int = PASSES,
    patterns: tuple[str, ...] = (),
    output: Path | None = None,
) -> tuple[list[str], int]:
    monkeypatch.setattr(repeating, "local_ranks", lambda topology, world, folder: FakeRanks(figure))
    lines: list[str] = []
    status = repeating.repeat(settings, passes=passes, patterns=patterns, output=output, echo=lines.append)
    return lines, status


def test_all_cases_are_measured_kept_and_summed_up(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines, status = repeat(settings, monkeypatch, output=tmp_path / "trace.json")
    assert status == 0
    assert lines[0].startswith("gpuwire: measuring 28 cases of cpu-test-2c against themselves, 12 passes, about ")
    assert [line.split(" done ")[0] for line in lines[1:13]] == [f"gpuwire: pass {n} of 12" for n in range(1, 13)]
    assert lines[13].startswith("gpuwire: this node repeats within 1.9% (median of 28 cases); with")
    assert any(line.startswith("gpuwire: 0 of 28 cases failed against themselves") for line in lines)
    assert lines[-1].endswith(f"print this again with: gpuwire aa --from {tmp_path / 'trace.json'}")
    (folder,) = settings.run_dir.iterdir()
    assert len(read_run(folder).results) == 28 * PASSES
    # Of the run itself and of the file the same is read; what a rank saw of its software is in the file alone.
    assert read_trace(folder).cases == read_trace(tmp_path / "trace.json").cases


def test_a_recorded_trace_gives_the_same_lines_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines, _ = repeat(settings, monkeypatch, output=tmp_path / "trace.json")
    again: list[str] = []
    assert repeating.show_again(tmp_path / "trace.json", settings, echo=again.append) == 0
    assert again[0] == (
        "gpuwire: recorded 2026-01-01T00:00:00.000+00:00 on Test CPU / 2 cores / bare metal (cpu-test-2c; kernel"
        " 6.1.0, torch 2.13.0, python 3.11.7)"
    )
    assert again[1:] == lines[13:-1]


def test_only_the_cases_asked_for(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, _ = repeat(settings, monkeypatch, passes=3, patterns=("all_reduce-*", "barrier-ws2"))
    assert lines[0].startswith("gpuwire: measuring 4 cases of ")
    with pytest.raises(ConfigError, match="no case 'all_reduced' among the 28 of tier nightly"):
        repeat(settings, monkeypatch, patterns=("all_reduced",))


def test_every_pass_has_a_process_group_of_its_own(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    class Watched(FakeRanks):
        def measure(self, case: Case, *, fresh: bool = False) -> Measurement:
            asked.append(fresh)
            return super().measure(case, fresh=fresh)

    monkeypatch.setattr(repeating, "local_ranks", lambda topology, world, folder: Watched(noisy))
    repeating.repeat(settings, passes=3, patterns=("all_reduce-*",), output=None, echo=lambda line: None)
    assert asked == [False, False, False, True, False, False, True, False, False]


def test_what_was_measured_before_a_failure_is_summed_up(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, status = repeat(settings, monkeypatch, figure=lambda case, n: noisy(case, n) if n < 11 else "rank 1 is gone")
    assert status == 6
    assert "gpuwire: measuring ended early: rank 1 is gone" in lines
    assert any(line.startswith("gpuwire: 11 passes over 28 cases in ") for line in lines)


def test_a_wrong_result_ends_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, status = repeat(settings, monkeypatch, figure=lambda case, n: noisy(case, n) if n < 5 else WRONG)
    assert status == 6
    assert any("measuring ended early: barrier-ws2 is WRONG" in line for line in lines)


def test_nothing_measured_is_said_and_is_no_success(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, status = repeat(settings, monkeypatch, figure=lambda case, n: "no ranks")
    assert status == 6
    assert lines[1] == "gpuwire: measuring ended early: no ranks"
    assert lines[2].startswith(
        "gpuwire: nothing was measured twice, so nothing can be said; what the ranks said is in "
    )


def test_the_command_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("{}")
    done = gpuwire(tmp_path, "aa", "--from", "trace.json")
    assert done.returncode == 4
    assert done.stderr.startswith("gpuwire: trace.json is JSON, but not a trace; give what gpuwire aa --output wrote")
    assert done.stdout == ""


def test_real_ranks_once(tmp_path: Path) -> None:
    done = gpuwire(
        tmp_path, "aa", "--passes", "3", "--tier", "smoke", "--device", "cpu", "--world-size", "2",
        "--case", "all_reduce-*", "--output", "trace.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "gpuwire: pass 3 of 3 done after " in done.stdout
    assert "gpuwire: this node repeats within " in done.stdout
    assert len(read_trace(tmp_path / "trace.json").cases) == 2
    again = gpuwire(tmp_path, "aa", "--from", "trace.json")
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("gpuwire: recorded ")
