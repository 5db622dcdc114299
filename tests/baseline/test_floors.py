"""Which published figure a case is held to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuwire_checks.baseline.floors import AppliedFloor, floor_for, floor_of_case
from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.baseline.store import load_baselines
from gpuwire_checks.records import Case, SizeClass
from gpuwire_checks.shipped import shipped_baselines

GIB = 1 << 30


def entry(value: str = "460 GB/s", **more: object) -> FloorEntry:
    content = {
        "figure": "all_reduce",
        "size": "16GiB",
        "world_size": 8,
        "kind": "floor",
        "source": "somebody",
        "value": value,
    }
    return FloorEntry.model_validate({**content, **more})


def applied(*floors: FloorEntry, size: int = 16 * GIB, ranks: int = 8, nvls: bool | None = True) -> AppliedFloor | None:
    return floor_for(floors, collective="all_reduce", size_bytes=size, world_size=ranks, nvls=nvls)


def test_a_floor_is_taken_as_it_is_and_says_whose_it_is() -> None:
    floor = applied(entry())
    assert floor is not None
    assert floor.value == 460.0
    assert floor.words == "the published floor of 460 GB/s (all_reduce at 16GiB on 8 ranks; somebody)"


def test_a_figure_of_one_machine_is_taken_by_a_share() -> None:
    floor = applied(entry("463.58 GB/s", kind="measured", size="1GiB", condition="NVLS"))
    assert floor is not None
    assert floor.value == pytest.approx(0.8 * 463.58)
    assert floor.words == (
        "371 GB/s, 80% of the 464 GB/s that were measured on one machine"
        " (all_reduce at 1GiB on 8 ranks, NVLS; somebody)"
    )


def test_a_floor_is_of_its_own_size_and_of_larger_ones() -> None:
    assert applied(entry(), size=8 * GIB) is None
    assert applied(entry(), size=32 * GIB) is not None


def test_one_without_a_size_is_of_the_peak_only() -> None:
    assert applied(entry(size=None), size=GIB) is not None
    assert applied(entry(size=None), size=64 << 20) is None


def test_one_of_another_world_size_or_collective_is_none() -> None:
    assert applied(entry(), ranks=4) is None
    assert applied(entry(figure="broadcast")) is None
    assert applied(entry(figure="device_to_device", world_size=None)) is None


@pytest.mark.parametrize(
    ("condition", "nvls", "holds"),
    [
        (None, None, True),
        ("NVLS", True, True),
        ("NVLS", False, False),
        ("NVLS", None, False),
        ("NVLS off", True, True),
        ("NVLS off", None, True),
        ("best of 1 to 8 GiB", True, False),
        ("A100 PCIe of untold memory size", True, False),
    ],
)
def test_a_condition_has_to_hold_for_certain(condition: str | None, nvls: bool | None, holds: bool) -> None:
    assert (applied(entry(condition=condition), nvls=nvls) is not None) == holds


def test_the_strictest_of_those_that_hold_is_taken() -> None:
    floor = applied(entry("431 GB/s"), entry("482 GB/s", kind="measured"), entry("470 GB/s", condition="on Tuesdays"))
    assert floor is not None
    assert floor.value == 431.0


def test_sockets_and_latencies_have_none() -> None:
    case = Case(
        collective="all_reduce",
        size_bytes=16 * GIB,
        dtype="float32",
        world_size=8,
        size_class=SizeClass.PEAK,
        backend="nccl",
        device="cuda",
    )
    assert floor_of_case([entry()], case, nvls=True) is not None
    assert floor_of_case([entry()], replace(case, device="cpu", backend="gloo"), nvls=True) is None
    assert floor_of_case([entry()], replace(case, size_class=SizeClass.LATENCY), nvls=True) is None


def test_shipped_references_hold_what_a_nightly_run_measures() -> None:
    """8 x H200 at the nightly peak of 1 GiB: a node that lost NVLS (about 360 GB/s) is below, a good one is not."""
    references = {baseline.name: baseline for baseline in load_baselines([shipped_baselines()])}
    floor = applied(*references["h200-8x-nv18"].floors, size=GIB)
    assert floor is not None
    assert 360 < floor.value < 463
    without = applied(*references["h200-8x-nv18"].floors, size=8 * GIB, nvls=False)
    assert without is not None
    assert without.value == pytest.approx(0.8 * 365.6)
