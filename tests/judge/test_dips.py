"""A larger size that is slower per byte than a smaller one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuwire_checks.judge.dips import find_dips
from gpuwire_checks.records import BUSBW, Bound, Case, Outcome, SizeClass, Verdict

MIB = 1 << 20
Judged = tuple[Verdict, Bound | None]


def judged(
    mib: int,
    value: float | None,
    centre: float | None = None,
    *,
    spread: float = 0.005,
    outcome: Outcome = Outcome.PASS,
    device: str = "cuda",
    **case: object,
) -> Judged:
    of = Case(
        collective="all_reduce",
        size_bytes=mib * MIB,
        dtype="float32",
        world_size=8,
        size_class=SizeClass.BUCKET,
        backend="gloo" if device == "cpu" else "nccl",
        device=device,
    )
    of = replace(of, **case)  # type: ignore[arg-type]
    verdict = Verdict(outcome=outcome, case=of, name=of.id, metric="busbw", unit="GB/s", value=value)
    bound = None
    if centre is not None:
        bound = Bound(
            metric=BUSBW, centre=centre, spread=spread, degrees=20.0, attempts=5, nodes=1, where="nodes/a.yaml:12"
        )
    return verdict, bound


def said(*points: Judged) -> list[str]:
    return [dip.words for dip in find_dips(points)]


def test_a_dip_that_was_not_recorded_is_said() -> None:
    assert said(judged(1, 50, 50), judged(16, 231, 230), judged(64, 180, 260)) == [
        "all_reduce float32 on 8 ranks dips at 64MiB: 180 GB/s is 22% less than the 231 GB/s at 16MiB;"
        " it was no slower when recorded"
    ]


def test_a_dip_that_grew_says_how_it_was() -> None:
    assert said(judged(16, 200, 200), judged(64, 150, 190)) == [
        "all_reduce float32 on 8 ranks dips at 64MiB: 150 GB/s is 25% less than the 200 GB/s at 16MiB;"
        " it was 5% slower when recorded"
    ]


def test_a_dip_that_was_recorded_too_is_how_the_node_is() -> None:
    assert said(judged(16, 200, 200), judged(64, 160, 160)) == []


def test_figures_that_rise_or_fall_a_little_are_no_dip() -> None:
    assert said(judged(1, 50, 50), judged(16, 200, 200), judged(64, 195, 200), judged(1024, 230, 230)) == []


def test_noise_is_no_dip() -> None:
    assert said(judged(16, 200, 200, spread=0.02), judged(64, 180, 200, spread=0.02)) == []
    assert said(judged(16, 200, 200), judged(64, 180, 200)) != []


def test_without_bounds_a_dip_between_devices_is_said() -> None:
    assert said(judged(16, 200), judged(64, 188)) == [
        "all_reduce float32 on 8 ranks dips at 64MiB: 188 GB/s is 6% less than the 200 GB/s at 16MiB;"
        " nothing is recorded of it"
    ]
    assert said(judged(16, 200), judged(64, 191)) == []
    assert said(judged(16, 200, 200), judged(64, 180)) != []


def test_sockets_dip_by_nature_where_nothing_says_otherwise() -> None:
    assert said(judged(1, 2.0, device="cpu"), judged(16, 1.0, device="cpu")) == []
    assert said(judged(1, 2.0, 2.0, device="cpu"), judged(16, 1.0, 2.0, device="cpu")) != []


@pytest.mark.parametrize("other", [{"collective": "broadcast"}, {"dtype": "bfloat16"}, {"world_size": 4}])
def test_only_sizes_of_one_kind_are_compared(other: dict[str, object]) -> None:
    assert said(judged(16, 200, 200), judged(64, 100, 200, **other)) == []  # type: ignore[arg-type]


def test_what_is_a_fault_already_or_was_not_measured_is_left_out() -> None:
    assert said(judged(16, 200, 200), judged(64, 100, 200, outcome=Outcome.REGRESSED)) == []
    assert said(judged(16, 200, 200), judged(64, None, 200, outcome=Outcome.ERROR)) == []
    assert said(judged(16, 200, 200), judged(64, 100, 200, size_class=SizeClass.LATENCY)) == []
    assert find_dips([(Verdict(outcome=Outcome.PASS, case=None, name="x", metric="wiring", unit=""), None)]) == []


def test_the_worst_comes_first_and_each_case_once() -> None:
    dips = find_dips(
        [
            *(judged(1, 210, 210), judged(4, 205, 205), judged(16, 190, 206), judged(64, 100, 207)),
            *(judged(16, 50, 50, collective="broadcast"), judged(64, 30, 60, collective="broadcast")),
        ]
    )
    assert [dip.larger[0].id for dip in dips] == [
        "all_reduce-64MiB-float32-ws8",
        "broadcast-64MiB-float32-ws8",
        "all_reduce-16MiB-float32-ws8",
    ]
    assert dips[0].smaller[0].size_bytes == MIB
