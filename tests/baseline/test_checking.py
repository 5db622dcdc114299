"""What is wrong with a baseline beyond its schema: each rule with the fault that it names, and where it is quiet."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from bound_builders import RECORDED_AT, gpu_baseline, gpu_bound, put_baseline, recorded

from gpuwire_checks.baseline.checking import CheckedFile, complaints, same_names
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.planned import case_of, planned_cases
from gpuwire_checks.baseline.schema import BoundEntry, FloorEntry, case_key
from gpuwire_checks.baseline.store import load_baselines, load_with_lines
from gpuwire_checks.baseline.wiring import Wiring
from gpuwire_checks.plan import make_plan
from gpuwire_checks.policy import load_policy
from gpuwire_checks.records import SizeClass
from gpuwire_checks.shipped import shipped_baselines
from gpuwire_checks.world import World

POLICY = load_policy([shipped_baselines()])
NOW = datetime(2026, 2, 1, tzinfo=timezone.utc)
RECORD = "gpuwire baseline record"


def said(tmp_path: Path, what: Baseline, *references: Baseline) -> list[str]:
    """Complaints as ``line text: complaint``, where the line is that of the file."""
    path = put_baseline(tmp_path / "a.yaml", what)
    baseline, loaded = load_with_lines(path)
    found = complaints(
        CheckedFile(baseline=baseline, loaded=loaded), policy=POLICY, references=[baseline, *references], now=NOW
    )
    lines = path.read_text().splitlines()
    places = [lines[complaint.line - 1].split()[0:2] for complaint in found]
    assert all(places), "a complaint is of a line that says something"
    assert [complaint.line for complaint in found] == sorted(complaint.line for complaint in found)
    return [complaint.text for complaint in found]


def of_bound(tmp_path: Path, *entries: BoundEntry) -> list[str]:
    return said(tmp_path, gpu_baseline(*entries))


def test_a_sound_baseline_is_quiet(tmp_path: Path) -> None:
    entries = (gpu_bound(), gpu_bound("8KiB", latency=True), gpu_bound(collective="barrier"), gpu_bound("8GiB"))
    assert said(tmp_path, replace(gpu_baseline(*entries), rolling=entries)) == []


def test_the_shipped_references_are_quiet(tmp_path: Path) -> None:
    known = load_baselines([shipped_baselines()])
    assert len(known) > 40
    for baseline in known:
        loaded = load_with_lines(baseline.path)[1]
        file = CheckedFile(baseline=baseline, loaded=loaded)
        assert complaints(file, policy=POLICY, references=known, now=NOW) == [], baseline.path


# Bounds that nobody uses


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        (gpu_bound("48MiB"), "busbw of all_reduce-48MiB-float32-ws8-nccl"),
        (gpu_bound("32MiB"), "busbw of all_reduce-32MiB-float32-ws8-nccl"),
        (gpu_bound("16GiB"), "busbw of all_reduce-16GiB-float32-ws8-nccl"),
        (gpu_bound("16KiB", latency=True), "latency of all_reduce-16KiB-float32-ws8-nccl"),
        (gpu_bound("8KiB"), "busbw of all_reduce-8KiB-float32-ws8-nccl"),
        (gpu_bound(collective="broadcast", dtype="bfloat16"), "busbw of broadcast-64MiB-bfloat16-ws8-nccl"),
        (
            gpu_bound("64MiB", backend="gloo", collective="send_recv", dtype="float16"),
            "busbw of send_recv-64MiB-float16",
        ),
    ],
)
def test_a_bound_that_no_tier_plans_is_never_used(tmp_path: Path, entry: BoundEntry, name: str) -> None:
    (text,) = of_bound(tmp_path, entry)
    assert text.startswith(name)
    assert text.endswith(" is never used: no tier of the policy plans it; remove the line, or add its size to a tier")


@pytest.mark.parametrize(
    "entry",
    [
        gpu_bound("4MiB"),  # of acceptance alone
        gpu_bound("64KiB", latency=True),
        gpu_bound("512MiB"),  # the peak of a slice of a GPU
        gpu_bound("16MiB", dtype="float16"),  # with --dtypes
        gpu_bound("1MiB", world_size=4),  # with --world-size
        gpu_bound("256MiB", backend="gloo", world_size=64),
    ],
)
def test_what_some_tier_plans_on_some_such_node_is_used(tmp_path: Path, entry: BoundEntry) -> None:
    assert of_bound(tmp_path, entry) == []


def test_every_size_that_memory_leads_to_is_used() -> None:
    from topologies import gpu_node

    world = World(size=8, device="cuda", backend="nccl")
    planned = planned_cases(POLICY, [gpu_bound()], tier="nightly")
    node = gpu_node(gpus=8)
    for gib in (1, 2, 5, 10, 24, 80, 192):
        gpus = tuple(replace(gpu, memory_bytes=gib << 30) for gpu in node.gpus)
        for tier in POLICY.tiers.values():
            for case in make_plan(replace(node, gpus=gpus), tier, world, extra_dtypes=("float16",)).cases:
                assert case_key(case) in planned, (gib, tier.name, case.id)


def test_more_ranks_than_gpus_are_never_used(tmp_path: Path) -> None:
    text = (
        "busbw of all_reduce-64MiB-float32-ws16-nccl is never used: it is of 16 ranks, and such a node has {}; remove"
        " the line"
    )
    entry = gpu_bound(world_size=16)
    assert of_bound(tmp_path, entry) == [text.format("8 GPUs")]
    assert said(tmp_path, gpu_baseline(entry, wiring=Wiring(gpus=1))) == [text.format("1 GPU")]
    assert said(tmp_path, gpu_baseline(entry, wiring=Wiring(gpus=0))) == [text.format("no GPU")]
    assert said(tmp_path, gpu_baseline(entry, facts={"gpu_vendor": "nvidia"})) == []


def test_a_bound_is_of_the_class_that_its_own_tier_gives_its_size() -> None:
    entry = gpu_bound("64MiB", backend="gloo")
    assert case_of(entry, planned_cases(POLICY, [entry], tier="nightly")).size_class is SizeClass.PEAK
    entry = gpu_bound("1MiB")
    assert case_of(entry, planned_cases(POLICY, [entry], tier="nightly")).size_class is SizeClass.BUCKET


def test_a_bound_that_nobody_plans_is_of_the_class_of_its_size() -> None:
    classes = [
        case_of(entry, {}).size_class
        for entry in (gpu_bound("48MiB"), gpu_bound("3GiB"), gpu_bound("1KiB", latency=True))
    ]
    assert classes == [SizeClass.BUCKET, SizeClass.PEAK, SizeClass.LATENCY]


# Figures that nobody can have measured


def test_a_spread_of_nothing_over_five_attempts_is_no_measurement(tmp_path: Path) -> None:
    (text,) = of_bound(tmp_path, gpu_bound(spread=0.0, attempts=5))
    assert text == (
        "busbw of all_reduce-64MiB-float32-ws8-nccl has a spread of 0 over 5 attempts, which no clock gives; record it"
        f" anew with: {RECORD}"
    )
    (few,) = of_bound(tmp_path, gpu_bound(spread=0.0, attempts=4))
    assert few.startswith("busbw of all_reduce-64MiB-float32-ws8-nccl has 4 attempts behind it")
    assert of_bound(tmp_path, gpu_bound(spread=0.0001)) == []


def test_a_spread_of_more_than_a_factor_of_two_is_no_level(tmp_path: Path) -> None:
    assert of_bound(tmp_path, gpu_bound(spread=0.7)) == [
        "busbw of all_reduce-64MiB-float32-ws8-nccl varies by a factor of 2.0 between attempts, so that nothing can be"
        f" held to it; find what disturbs such nodes, and record it anew with: {RECORD}"
    ]
    assert of_bound(tmp_path, gpu_bound(spread=0.69)) == []


def test_too_few_attempts_are_told_with_what_the_policy_asks_for(tmp_path: Path) -> None:
    wanted = POLICY.attempts.record_in_run
    assert of_bound(tmp_path, gpu_bound(attempts=1)) == [
        f"busbw of all_reduce-64MiB-float32-ws8-nccl has 1 attempt behind it, and the policy asks for {wanted}"
        f" ({POLICY.path}); record it anew with: {RECORD}"
    ]
    assert len(of_bound(tmp_path, gpu_bound(attempts=wanted - 1))) == 1
    assert of_bound(tmp_path, gpu_bound(attempts=wanted)) == []


def floor(**more: object) -> FloorEntry:
    content = {
        "figure": "all_reduce",
        "size": "1GiB",
        "world_size": 8,
        "kind": "floor",
        "value": "228 GB/s",
        "source": "somebody",
    }
    return FloorEntry.model_validate({**content, **more})


def reference(*floors: FloorEntry, **more: object) -> Baseline:
    return replace(gpu_baseline(name="reference", **more), recorded=None, floors=floors)  # type: ignore[arg-type]  # any field


def test_a_bound_below_what_was_published_of_its_kind_is_of_a_slow_node(tmp_path: Path) -> None:
    slow = gpu_baseline(gpu_bound("8GiB", centre=200.0))
    assert said(tmp_path, slow, reference(floor())) == [
        "busbw of all_reduce-8GiB-float32-ws8-nccl is 200 GB/s, below the published floor of 228 GB/s (all_reduce at"
        " 1GiB on 8 ranks; somebody); that node was slow already when it was recorded: find out why, and record it anew"
        f" with: {RECORD}"
    ]


@pytest.mark.parametrize(
    ("entry", "of"),
    [
        (gpu_bound("8GiB", centre=228.0), reference(floor())),
        (gpu_bound("8GiB"), reference(floor(), sku="a100-sxm4-80gb-4x-nv4")),
        (gpu_bound("8GiB"), reference(floor(condition="NVLS"))),  # nobody knows whether it had it
        (gpu_bound("64MiB"), reference(floor())),
        (gpu_bound("256MiB", backend="gloo", centre=2.0), reference(floor(size="1MiB"))),
    ],
)
def test_a_bound_is_not_held_to_another_figure(tmp_path: Path, entry: BoundEntry, of: Baseline) -> None:
    assert said(tmp_path, gpu_baseline(entry), of) == []


def test_nothing_is_recorded_in_the_future(tmp_path: Path) -> None:
    def at(when: datetime) -> list[str]:
        return said(tmp_path, gpu_baseline(gpu_bound(), recorded=recorded(at=when)))

    assert at(datetime(2099, 1, 1, tzinfo=timezone.utc)) == [
        "recorded 2099-01-01T00:00:00+00:00, which is in the future; set the clock of that node, or this one's, and"
        f" record it anew with: {RECORD}"
    ]
    # Clocks of hosts differ, and a time has its zone.
    assert at(NOW + timedelta(minutes=4)) == []
    assert at(NOW.astimezone(timezone(timedelta(hours=9)))) == []
    assert at(RECORDED_AT) == []


# The last good runs


def test_last_good_runs_that_went_away_from_the_bound_have_drifted(tmp_path: Path) -> None:
    what = replace(gpu_baseline(gpu_bound()), rolling=(gpu_bound(centre=190.0),))
    assert said(tmp_path, what) == [
        "busbw of all_reduce-64MiB-float32-ws8-nccl has drifted by -5.0% since it was recorded, from 200 GB/s to 190"
        " GB/s, and 3% is worth a failure; find out why, or accept the new level with: gpuwire baseline accept"
    ]


@pytest.mark.parametrize(
    ("entry", "centre", "drifted"),
    [
        (gpu_bound(), 194.5, False),
        (gpu_bound(), 193.9, True),
        (gpu_bound(), 205.5, False),
        (gpu_bound(), 207.0, True),
        (gpu_bound("8KiB", latency=True), 35.9, False),
        (gpu_bound("8KiB", latency=True), 36.1, True),
        (gpu_bound("8KiB", latency=True), 25.1, False),
        (gpu_bound("8KiB", latency=True), 24.9, True),
        (gpu_bound("1MiB", backend="gloo"), 160.0, False),
    ],
)
def test_a_drift_is_held_to_the_policy_of_its_case(
    tmp_path: Path, entry: BoundEntry, centre: float, drifted: bool
) -> None:
    what = replace(gpu_baseline(entry), rolling=(entry.model_copy(update={"centre": centre}),))
    assert len(said(tmp_path, what)) == drifted


def test_last_good_runs_without_a_bound_are_told(tmp_path: Path) -> None:
    what = replace(gpu_baseline(gpu_bound()), rolling=(gpu_bound("16MiB"),))
    assert said(tmp_path, what) == [
        "busbw of all_reduce-16MiB-float32-ws8-nccl has last good runs and no bound; remove the line, or record a bound"
        f" with: {RECORD}"
    ]


def test_last_good_runs_that_stand_twice_are_told(tmp_path: Path) -> None:
    what = replace(gpu_baseline(gpu_bound()), rolling=(gpu_bound(), gpu_bound(spread=0.02)))
    (text,) = said(tmp_path, what)
    lines = (tmp_path / "a.yaml").read_text().splitlines()
    first = lines.index("rolling:") + 2
    assert text == f"busbw of all_reduce-64MiB-float32-ws8-nccl has last good runs already on line {first}; leave one"


# Names


def test_a_name_that_two_have_is_told_with_the_first() -> None:
    a, b, c = gpu_baseline(name="a"), gpu_baseline(name="b"), gpu_baseline(name="a", path=Path("c.yaml"))
    assert list(same_names([a, b, c])) == [(2, a)]
    assert list(same_names([a, b])) == []
