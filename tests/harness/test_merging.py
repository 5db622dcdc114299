"""``gpuwire baseline merge``: runs of a fleet become one file, or a line says why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from commands import gpuwire
from recorded_runs import Figures, Made, cpu_case, put_run
from topologies import cpu_node
from wired import broken, hgx_node

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.store import load_baseline
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.harness.merging import merge_runs
from gpuwire_checks.harness.options import make_settings
from gpuwire_checks.records import Case, Outcome, SizeClass
from gpuwire_checks.topology.model import NodeTopology

ALL_REDUCE, BROADCAST, REDUCE = (cpu_case(name) for name in ("all_reduce", "broadcast", "reduce"))
STEADY = [2.00, 2.02, 1.98, 2.01, 1.99]
Cases = Mapping[Case, Figures | Sequence[float]]


class Site:
    """A folder with runs and the site's baselines, and what was said."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: list[str] = []

    def runs(self, *levels: float, made: Made | None = None, first_day: int = 0) -> list[Path]:
        """A run on each of several nodes, which measures two cases at so many times the usual."""
        made = made or Made()
        return [
            put_run(
                self.path / "runs",
                {case: [value * level for value in STEADY] for case in (ALL_REDUCE, BROADCAST, REDUCE)},
                replace(made, host=f"node-{number + 1}", day=first_day + number),
            )
            for number, level in enumerate(levels)
        ]

    def merge(self, paths: Sequence[Path], **options: object) -> Path | None:
        given = {"to": None, **options}
        settings = make_settings({"baselines": "site"}, root=self.path)
        return merge_runs(paths, settings, echo=self.said.append, **given)  # type: ignore[arg-type]  # any option

    def refused(self, paths: Sequence[Path], **options: object) -> str:
        with pytest.raises(BaselineError) as error:
            self.merge(paths, **options)
        return str(error.value)

    @property
    def baseline(self) -> Baseline:
        (file,) = (self.path / "site").rglob("*.yaml")
        return load_baseline(file)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


# What is written


def test_six_nodes_become_one_baseline(site: Site) -> None:
    path = site.merge(site.runs(1.0, 1.01, 0.99, 1.0, 1.0, 1.005))
    assert site.said == [f"gpuwire: merged 6 runs into {path}: 3 new bounds and 0 grown by counts, of 6 nodes"]
    entry = site.baseline.entries[0]
    assert (entry.nodes, entry.runs, entry.attempts) == (6, 6, 30)
    assert entry.centre == pytest.approx(2.0, rel=0.01)
    assert site.baseline.recorded is not None
    assert (site.baseline.recorded.hosts, site.baseline.recorded.tier) == (6, "nightly")
    assert site.baseline.wiring is not None


def test_a_bad_node_is_left_out_and_said_once(site: Site) -> None:
    site.merge(site.runs(1.0, 1.0, 0.5, 1.0, 1.0, 1.0))
    first, last = site.said
    assert first.startswith(
        "gpuwire: node-3 is left out of every case: it does not agree with the other nodes in 3 of 3 (slower in 3;"
        " 50.0 % in the median); the farthest is busbw "
    )
    assert first.endswith(": 1.00 GB/s is 50.0 % below the 2.00 GB/s of the others (slower; 25.0 % is allowed)")
    assert last.endswith("of 5 nodes")
    assert {entry.nodes for entry in site.baseline.entries} == {5}


def test_a_later_merge_adds_counts_and_keeps_the_trail(site: Site) -> None:
    site.merge(site.runs(1.0, 1.0))
    site.merge(site.runs(1.02, 1.02, 1.02, first_day=10))
    assert site.said[-1].endswith("0 new bounds and 3 grown by counts, of 3 nodes")
    entry = site.baseline.entries[0]
    assert (entry.attempts, entry.nodes) == (25, 5)
    assert 2.0 < entry.centre < 2.04
    assert [change.reason for change in site.baseline.changes] == [
        "merged by counts: 3 new, 0 grown",
        "merged by counts: 0 new, 3 grown",
    ]
    assert site.baseline.changes[1].run == "day10-node-1, day11-node-2, day12-node-3"
    assert site.baseline.recorded is not None
    assert site.baseline.recorded.hosts == 5


def test_the_same_run_counts_once(site: Site) -> None:
    runs = site.runs(1.0, 1.0)
    path = site.merge(runs)
    told = site.refused(runs[1:])
    assert told.startswith(f"{runs[1]} is in {path} already, since 20")
    assert told.endswith("(merged by counts: 3 new, 0 grown); leave it out")
    assert site.refused([runs[0], runs[0] / "run.json"]) == (
        f"{runs[0] / 'run.json'} is run day00-node-1, as is {runs[0]}; give each run once"
    )


def test_two_levels_have_none_between_them(site: Site) -> None:
    site.merge(site.runs(1.0, 1.0))
    before = site.baseline.entries
    told = site.refused(site.runs(0.5, 0.5, first_day=10))
    assert told.startswith(
        "nothing is merged: busbw all_reduce-1MiB-float32-ws2 on gloo: 1.00 GB/s is -50.0 % from the 2.00 GB/s that"
        " the baseline has: two levels, and none between them; find out which is right, then accept it with: gpuwire"
        " baseline accept (and 2 more, above); "
    )
    assert site.baseline.entries == before


def test_a_dry_run_says_what_would_change_and_writes_nothing(site: Site) -> None:
    assert site.merge(site.runs(1.0, 1.0), dry_run=True) is None
    assert not (site.path / "site").exists()
    assert "  only in B: busbw of all_reduce-1MiB-float32-ws2-gloo, 2.00 GB/s" in site.said
    assert site.said[-1] == (
        "gpuwire: would merge 2 runs: 3 new bounds and 0 grown by counts, of 2 nodes; nothing is written"
    )


def test_the_baseline_can_be_named(site: Site) -> None:
    site.merge(site.runs(1.0, 1.0))
    name = site.baseline.name
    site.merge(site.runs(1.0, first_day=5), to=name)
    assert site.baseline.entries[0].attempts == 15
    assert site.refused(site.runs(1.0, first_day=7), to="nothing").startswith("no baseline is named 'nothing'; known: ")


# What is not


def test_no_majority_is_refused_with_every_case(site: Site) -> None:
    told = site.refused(site.runs(1.0, 1.0, 1.0, 0.5, 0.5, 0.5))
    assert told.startswith(
        "nothing is merged: busbw all_reduce-1MiB-float32-ws2 on gloo: only 3 of 6 nodes agree within 25.0 %, and more"
        " than half must: node-"
    )
    assert told.endswith("(and 2 more, above); give other runs, or merge what stands with --leave-out")
    assert len(site.said) == 2
    assert not (site.path / "site").exists()


def test_what_stands_can_be_merged_without_the_rest(site: Site) -> None:
    figures: Cases = {ALL_REDUCE: STEADY, BROADCAST: [value / 3 for value in STEADY]}
    paths = [
        put_run(site.path / "runs", {**figures, BROADCAST: STEADY} if day else figures, Made(host=f"n{day}", day=day))
        for day in range(2)
    ]
    assert "only 1 of 2 nodes agree" in site.refused(paths)
    site.merge(paths, leave_out=True)
    assert [entry.case.collective for entry in site.baseline.entries] == ["all_reduce"]
    assert site.said[-2].startswith("gpuwire: left out: busbw broadcast-1MiB-float32-ws2 on gloo: only 1 of 2 nodes")


def test_runs_of_which_nothing_stands_are_refused_even_so(site: Site) -> None:
    told = site.refused(site.runs(1.0, 1.0, 0.5, 0.5), leave_out=True)
    assert told == "nothing is merged: no case of these runs stands"
    assert len(site.said) == 3
    assert not (site.path / "site").exists()


def test_a_drift_is_refused(site: Site) -> None:
    told = site.refused(site.runs(*[0.93**day for day in range(8)]))
    assert "figures drift by -39" in told
    assert "% over 8 runs from 2026-01-01 12:00 to 2026-01-08 12:00: there is no level to record" in told


def test_failed_and_wrong_results_never_enter_and_are_counted(site: Site) -> None:
    good: Cases = {ALL_REDUCE: Figures(values=STEADY, outcome=Outcome.PASS), REDUCE: STEADY}
    bad: Cases = {
        ALL_REDUCE: Figures(values=[1.0] * 5, outcome=Outcome.REGRESSED),
        BROADCAST: Figures(values=STEADY, wrong=True),
        REDUCE: Figures(values=[], outcome=Outcome.ERROR),
    }
    site.merge([put_run(site.path, good, Made(host="a")), put_run(site.path, bad, Made(host="b"))])
    assert site.said[0] == "gpuwire: left out 3 results: 1 ERROR, 1 NO BASELINE, 1 REGRESSED"
    assert {entry.case.collective: entry.nodes for entry in site.baseline.entries} == {"all_reduce": 1, "reduce": 1}


def test_runs_without_a_good_figure_are_refused(site: Site) -> None:
    path = put_run(site.path, {ALL_REDUCE: Figures(values=STEADY, outcome=Outcome.REGRESSED)})
    assert site.refused([path]) == "nothing is merged: no run has a figure that may enter a baseline"


def test_the_run_of_a_broken_node_is_left_out(site: Site) -> None:
    runs = site.runs(1.0, 1.0)
    runs += [put_run(site.path, {ALL_REDUCE: STEADY}, Made(host="hurt", missing="GPU0: NVLink 0 is down"))]
    site.merge(runs)
    assert site.said[0] == f"gpuwire: {runs[2]} is left out, its node hurt is broken: GPU0: NVLink 0 is down"
    assert site.refused(runs[2:]).startswith("nothing is merged: ")


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Made(fault="slow_rank"), "was made with a fault on purpose (slow_rank): it is no baseline"),
        (Made(topology=cpu_node(cores=4)), ": cores is 4, the first run says 2; give runs of nodes that are wired"),
        (Made(options={"tier": "smoke"}), "is of tier smoke and "),
    ],
)
def test_runs_that_do_not_belong_together_are_refused(site: Site, made: Made, words: str) -> None:
    first = site.runs(1.0)
    other = put_run(site.path / "other", {ALL_REDUCE: STEADY}, replace(made, day=3))
    told = site.refused([*first, other])
    assert words in told
    assert str(other) in told


def test_runs_of_another_wiring_than_the_baseline_are_refused(site: Site) -> None:
    site.merge(site.runs(1.0))
    name = site.baseline.name
    other = put_run(site.path / "other", {ALL_REDUCE: STEADY}, Made(day=3, topology=cpu_node(cores=4)))
    told = site.refused([other], to=name)
    assert "is not wired as it says: cores is 4, the baseline says 2; give runs of such nodes, or name another" in told


def test_software_that_differs_among_the_runs_is_said(site: Site) -> None:
    node = cpu_node()
    newer = replace(node, software=replace(node.software, torch="2.14.0"))
    runs = [*site.runs(1.0, 1.0), *site.runs(1.0, made=Made(topology=newer), first_day=9)]
    site.merge(runs)
    assert site.said[0] == (
        "gpuwire: torch is not the same in all runs (2.13.0 in 2, 2.14.0 in 1): figures may differ by it"
    )
    assert site.baseline.software["torch"] == "2.13.0"


# Against what is published


PEAK = Case(
    collective="all_reduce",
    size_bytes=16 << 30,
    dtype="float32",
    world_size=8,
    size_class=SizeClass.PEAK,
    backend="nccl",
    device="cuda",
)


def gpu_runs(site: Site, value: float, topology: NodeTopology | None = None) -> list[Path]:
    topology = topology or hgx_node()
    return [
        put_run(
            site.path, {PEAK: [value, value * 1.002, value * 0.998]}, Made(host=f"g{day}", day=day, topology=topology)
        )
        for day in range(3)
    ]


def test_a_fleet_that_is_slower_than_published_is_not_recorded(site: Site) -> None:
    runs = gpu_runs(site, 400.0)
    assert site.refused(runs) == (
        "nothing is recorded: busbw all_reduce-16GiB-float32-ws8 on nccl: 400 GB/s is below the published floor of 460"
        " GB/s (all_reduce at 16GiB on 8 ranks, NVLS; Azure/azurehpc-health-checks conf/nd96isr_h100_v5.conf); a broken"
        " node must not become the norm: find out why it is slow, or, where it is meant to be so, record it with:"
        " gpuwire baseline merge --force"
    )
    site.merge(runs, force=True)
    assert site.baseline.entries[0].centre == 400.0


def test_a_fleet_that_reaches_it_is(site: Site) -> None:
    site.merge(gpu_runs(site, 478.0))
    assert site.baseline.sku == "h100-80gb-hbm3-8x-nv18"


def test_a_node_that_lost_a_link_is_left_out_by_the_reference(site: Site) -> None:
    told = site.refused(gpu_runs(site, 478.0, broken("a link is down")))
    assert "its node g0 is broken: GPU0: NVLink 0 is down" in told


# The command


def test_the_command_merges_and_says_what_is_wrong_in_a_line(site: Site) -> None:
    runs = [str(path) for path in site.runs(1.0, 1.01)]
    done = gpuwire(site.path, "baseline", "merge", *runs, "--baselines", "site")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("gpuwire: merged 2 runs into ")
    again = gpuwire(site.path, "baseline", "merge", *runs, "--baselines", "site")
    assert again.returncode == 4
    assert again.stderr.startswith(f"gpuwire: {runs[0]} is in ")
