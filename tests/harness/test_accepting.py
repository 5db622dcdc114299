"""``gpuwire baseline accept``: a new level is taken because somebody says why, and never by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from commands import gpuwire
from recorded_runs import Figures, Made, cpu_case, put_run

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.store import load_baseline, save_baseline
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.harness.accepting import accept_runs
from gpuwire_checks.harness.merging import merge_runs
from gpuwire_checks.harness.options import Settings, make_settings
from gpuwire_checks.records import Outcome

ALL_REDUCE, BROADCAST, REDUCE = (cpu_case(name) for name in ("all_reduce", "broadcast", "reduce"))
STEADY = [2.00, 2.02, 1.98, 2.01, 1.99]
BETTER = [3.00, 3.03, 2.97]
WHY = "new switch firmware"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A site with a baseline of three cases."""
    settings = make_settings({"baselines": "site"}, root=tmp_path)
    recorded = put_run(tmp_path, {case: STEADY for case in (ALL_REDUCE, BROADCAST, REDUCE)})  # noqa: C420 - a list each
    merge_runs([recorded], settings, to=None, echo=lambda _: None)
    return settings


def baseline(settings: Settings) -> Baseline:
    (file,) = settings.site.rglob("*.yaml")
    return load_baseline(file)


def improved_run(parent: Path, *, other: Outcome = Outcome.PASS, day: int = 5, host: str = "node-1") -> Path:
    """A run that found all_reduce IMPROVED, and something of broadcast."""
    return put_run(
        parent,
        {
            ALL_REDUCE: Figures(values=BETTER, outcome=Outcome.IMPROVED),
            BROADCAST: Figures(values=[1.0, 1.01, 0.99], outcome=other),
        },
        Made(day=day, host=host),
    )


def accept(
    settings: Settings, *runs: Path, reason: str = WHY, patterns: Sequence[str] = (), force: bool = False
) -> list[str]:
    said: list[str] = []
    accept_runs(runs, settings, reason=reason, patterns=patterns, echo=said.append, force=force)
    return said


def refused(settings: Settings, *runs: Path, reason: str = WHY, patterns: Sequence[str] = ()) -> str:
    before = baseline(settings)
    with pytest.raises(BaselineError) as error:
        accept(settings, *runs, reason=reason, patterns=patterns)
    assert baseline(settings) == before
    return str(error.value)


def test_improved_cases_replace_their_bounds_and_the_reason_is_kept(tmp_path: Path, settings: Settings) -> None:
    said = accept(settings, improved_run(tmp_path))
    assert said[0] == (
        "gpuwire: busbw all_reduce-1MiB-float32-ws2 on gloo: 2.00 GB/s -> 3.00 GB/s (+50.0 %), 3 attempts, spread 0.78%"
    )
    assert said[1].startswith("gpuwire: accepted 1 bounds in ")
    now = baseline(settings)
    assert {entry.case.collective: entry.centre for entry in now.entries} == {
        "all_reduce": 3.0,
        "broadcast": 2.0,
        "reduce": 2.0,
    }
    change = now.changes[-1]
    assert (change.reason, change.run, change.cases) == (WHY, "day05-node-1", ("all_reduce-1MiB-float32-ws2-gloo",))


def test_the_last_good_runs_of_the_old_level_go_with_it(tmp_path: Path, settings: Settings) -> None:
    old = baseline(settings)
    save_baseline(settings.site, replace(old, rolling=old.entries))
    accept(settings, improved_run(tmp_path))
    assert sorted(entry.case.collective for entry in baseline(settings).rolling) == ["broadcast", "reduce"]


def test_runs_of_several_nodes_are_taken_together_and_an_odd_one_is_named(tmp_path: Path, settings: Settings) -> None:
    odd = put_run(tmp_path, {ALL_REDUCE: Figures(values=[9.0, 9.1], outcome=Outcome.IMPROVED)}, Made(host="x", day=9))
    runs = [improved_run(tmp_path, host=host, day=day) for day, host in ((5, "a"), (6, "b"), (7, "c"))]
    said = accept(settings, *runs, odd)
    assert said[0].startswith("gpuwire: x is left out of every case: ")
    assert next(entry for entry in baseline(settings).entries if entry.centre == 3.0).nodes == 3


def test_nothing_is_accepted_without_a_reason(tmp_path: Path, settings: Settings) -> None:
    told = refused(settings, improved_run(tmp_path), reason="  ")
    assert told == "nothing is accepted without a reason: say what changed with --reason"


def test_a_run_without_an_improved_case_needs_names(tmp_path: Path, settings: Settings) -> None:
    run = put_run(tmp_path, {BROADCAST: Figures(values=STEADY, outcome=Outcome.PASS)}, Made(day=5))
    assert refused(settings, run) == f"no case of {run} is IMPROVED: name the cases that are meant with --case"
    accept(settings, run, patterns=["broadcast-*"])


@pytest.mark.parametrize("outcome", [Outcome.REGRESSED, Outcome.UNSTABLE])
def test_a_fault_is_accepted_only_by_its_full_name_and_says_so(
    tmp_path: Path, settings: Settings, outcome: Outcome
) -> None:
    run = improved_run(tmp_path, other=outcome)
    assert refused(settings, run, patterns=["broadcast-*"]) == (
        f"nothing is accepted: busbw broadcast-1MiB-float32-ws2 on gloo is {outcome.value}; a fault must not become the"
        " norm: repair it, or name each such case in full: --case broadcast-1MiB-float32-ws2"
    )
    said = accept(settings, run, patterns=["broadcast-1MiB-float32-ws2"])
    assert said[0].endswith(f"; it is {outcome.value}, and accepted because it was named")


def test_a_wrong_result_is_never_accepted(tmp_path: Path, settings: Settings) -> None:
    wrong = Figures(values=BETTER, outcome=Outcome.WRONG, wrong=True)
    told = refused(
        settings, put_run(tmp_path, {ALL_REDUCE: wrong}, Made(day=5)), patterns=["all_reduce-1MiB-float32-ws2"]
    )
    assert told == (
        "busbw all_reduce-1MiB-float32-ws2 on gloo is WRONG: a wrong result is no baseline, however it was reached"
    )


def test_one_attempt_is_too_few(tmp_path: Path, settings: Settings) -> None:
    one = Figures(values=[3.0], outcome=Outcome.PASS)
    told = refused(settings, put_run(tmp_path, {ALL_REDUCE: one}, Made(day=5)), patterns=["all_reduce-*"])
    assert told == (
        "nothing is accepted: busbw all_reduce-1MiB-float32-ws2 on gloo: no run has two attempts at it, and no node two"
        " runs: nothing tells how far attempts spread; run it again, or name other cases with --case"
    )


def test_a_case_that_was_not_measured_is_said(tmp_path: Path, settings: Settings) -> None:
    none = Figures(values=[], outcome=Outcome.NOT_RUN)
    told = refused(settings, put_run(tmp_path, {ALL_REDUCE: none}, Made(day=5)), patterns=["all_reduce-*"])
    assert "busbw all_reduce-1MiB-float32-ws2 on gloo was not measured: it is NOT RUN" in told


def test_a_pattern_that_fits_nothing_is_refused(tmp_path: Path, settings: Settings) -> None:
    run = improved_run(tmp_path)
    assert refused(settings, run, patterns=["gather-*"]) == (
        f"no case of {run} is 'gather-*'; its run.json has 2 others"
    )


def test_a_site_without_such_a_baseline_has_nothing_to_replace(tmp_path: Path) -> None:
    settings = make_settings({"baselines": "empty"}, root=tmp_path)
    with pytest.raises(BaselineError, match=r"has no baseline of .* whose bounds could be replaced; record one with: "):
        accept(settings, improved_run(tmp_path))


def test_the_command_accepts(tmp_path: Path, settings: Settings) -> None:
    run = improved_run(tmp_path)
    done = gpuwire(tmp_path, "baseline", "accept", str(run), "--reason", WHY, "--baselines", "site")
    assert done.returncode == 0, done.stderr
    assert "2.00 GB/s -> 3.00 GB/s (+50.0 %)" in done.stdout
    assert baseline(settings).changes[-1].reason == WHY
