"""``gpuwire baseline diff``, ``show`` and ``check`` as a user meets them: the text and the exit status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bound_builders import gpu_baseline, gpu_bound, put_baseline

from gpuwire_checks.baseline.schema import ChangeEntry
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.harness.baseline_checking import check_baselines
from gpuwire_checks.harness.baseline_reading import diff_baselines, show_baseline
from gpuwire_checks.harness.options import Settings, make_settings

BOUND = gpu_bound()
SMALL = gpu_bound("8KiB", latency=True, collective="broadcast")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "site").mkdir()
    return make_settings({"baselines": "site"}, root=tmp_path)


def said(command: Callable[[Callable[[str], object]], int | None]) -> tuple[int | None, list[str]]:
    """The exit status and the lines of a command."""
    lines: list[str] = []
    status = command(lines.append)
    return status, lines


def diff(a: Path | str, b: Path | str, settings: Settings) -> tuple[int | None, list[str]]:
    return said(lambda echo: diff_baselines(str(a), str(b), settings, echo=echo))


def show(name: Path | str, settings: Settings, *patterns: str) -> list[str]:
    return said(lambda echo: show_baseline(str(name), settings, patterns=patterns, echo=echo))[1]


def check(settings: Settings, *, alone: bool = True) -> tuple[int | None, list[str]]:
    return said(lambda echo: check_baselines(settings, alone=alone, echo=echo))


def test_diff_says_what_would_change(settings: Settings) -> None:
    before = put_baseline(settings.site / "a.yaml", gpu_baseline(BOUND, SMALL, name="a"))
    slower = BOUND.model_copy(update={"centre": 180.0, "attempts": 40})
    after = put_baseline(settings.site / "b.yaml", gpu_baseline(slower, name="b"))
    status, lines = diff(before, after, settings)
    assert status == 1
    (row,) = (line for line in lines if "all_reduce-64MiB" in line)
    assert "200 GB/s -> 180 GB/s" in row
    assert "-10.0%" in row
    assert "20/1/1 -> 40/1/1" in row
    assert any(line.strip().startswith("only in A: latency of broadcast-8KiB-") for line in lines)
    assert diff("a", "b", settings) == (status, lines)


def test_diff_of_what_is_alike_is_a_line_and_no_change(settings: Settings) -> None:
    put_baseline(settings.site / "a.yaml", gpu_baseline(BOUND, name="a"))
    put_baseline(settings.site / "b.yaml", gpu_baseline(BOUND, name="b"))
    status, (line,) = diff("a", "b", settings)
    assert status == 0
    assert line.startswith("gpuwire: nothing differs between ")
    assert line.endswith(": 1 bound, wiring and software")


def test_a_baseline_that_there_is_not_is_named_with_those_that_there_are(settings: Settings) -> None:
    put_baseline(settings.site / "a.yaml", gpu_baseline(BOUND, name="a"))
    with pytest.raises(BaselineError, match="no baseline is named 'c'; known: a, "):
        diff("a", "c", settings)


def test_show_says_where_bounds_come_from_and_what_they_accept(settings: Settings) -> None:
    change = ChangeEntry(at=gpu_baseline().recorded.at, reason="new switch firmware", run="r1", cases=("a", "b"))  # type: ignore[union-attr]  # it is recorded
    what = replace(gpu_baseline(BOUND, SMALL, name="pod"), changes=(change,), rolling=(BOUND,))
    path = put_baseline(settings.site / "pod.yaml", what)
    lines = show("pod", settings)
    assert lines[0] == f"pod ({path})"
    head = "\n".join(lines)
    assert 'accepted  2026-01-01 12:00 UTC: 2 cases of run r1: "new switch firmware"' in head
    assert "bounds    2; the last good runs are kept beside 1 of them" in head
    assert "in a run of all these bounds: 3 decisions" in head
    (row,) = (line for line in lines if line.startswith("busbw all_reduce-64MiB-"))
    assert "200 GB/s" in row
    assert ">= 1" in row
    assert show("pod", settings, "all_reduce-*")[-1].split() == row.split()
    assert not any("broadcast" in line for line in show(path, settings, "all_reduce-*"))


def test_show_of_a_case_that_there_is_not_names_the_nearest(settings: Settings) -> None:
    put_baseline(settings.site / "pod.yaml", gpu_baseline(BOUND, name="pod"))
    with pytest.raises(BaselineError) as caught:
        show("pod", settings, "all_reduce-32MiB-float32-ws8")
    assert "no bound of its 1 is for a case 'all_reduce-32MiB-float32-ws8'; the nearest: all_reduce-64MiB" in str(
        caught.value
    )


def test_show_of_a_reference_has_what_was_published(settings: Settings) -> None:
    lines = show("h100-80gb-hbm3-8x-nv18", settings)
    assert any("by nobody: a reference, of what was published" in line for line in lines)
    assert any(line.startswith("all_reduce") and "460 GB/s" in line for line in lines)


def test_check_of_sound_files_has_nothing_to_complain_of(settings: Settings) -> None:
    put_baseline(settings.site / "pod.yaml", gpu_baseline(BOUND, name="pod"))
    assert check(settings) == (0, ["gpuwire: 1 file, 1 bound: nothing to complain of"])


def test_check_says_all_that_is_wrong_of_all_files(settings: Settings) -> None:
    few = put_baseline(settings.site / "few.yaml", gpu_baseline(gpu_bound(attempts=2), name="pod"))
    twice = put_baseline(settings.site / "twice.yaml", gpu_baseline(BOUND, name="pod"))
    broken = settings.site / "broken.yaml"
    broken.write_text(few.read_text().replace("spread: 0.01", "spread: -1"))
    status, lines = check(settings)
    assert status == 1
    assert lines[-1] == "gpuwire: 3 files, 2 bounds, 1 not readable: 3 complaints"
    told = "\n".join(lines)
    assert f"{broken}:" in told
    assert "bounds.0.spread: Input should be greater than or equal to 0, not -1" in told
    assert f"{few}:" in told
    assert "has 2 attempts behind it, and the policy asks for 5" in told
    assert f"{twice}:3: the name 'pod' is that of {few} too, and only that one is found by it" in told


def test_check_of_an_empty_site_says_what_to_do(settings: Settings) -> None:
    with pytest.raises(BaselineError) as caught:
        check(settings)
    assert str(caught.value) == (
        f"no baseline is in {settings.site}; give another directory with --baselines, or record one with: gpuwire"
        " baseline record"
    )


def test_the_shipped_baselines_have_nothing_to_complain_of(settings: Settings) -> None:
    status, (line,) = check(settings, alone=False)
    assert (status, line) == (0, "gpuwire: 48 files, 0 bounds: nothing to complain of")
