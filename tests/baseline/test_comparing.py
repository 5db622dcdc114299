"""What would change from one baseline to another, and what is no change."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from bound_builders import RECORDED_AT, gpu_baseline, gpu_bound, recorded

from gpuwire_checks.baseline.comparing import Statement, compare
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.baseline.wiring import Wiring

WIRED = gpu_baseline(gpu_bound(), wiring=Wiring(gpus=3, model="A100", pairs={"NV12": "all"}))


def wired(**more: object) -> Baseline:
    return replace(WIRED, wiring=Wiring.model_validate({"gpus": 3, "model": "A100", "pairs": {"NV12": "all"}, **more}))


def test_a_baseline_does_not_differ_from_itself() -> None:
    assert compare(WIRED, WIRED).nothing
    assert compare(WIRED, WIRED).bounds.same == 1


def test_who_recorded_it_and_when_and_its_name_are_no_change() -> None:
    later = replace(WIRED, name="other", path=Path("b.yaml"), recorded=recorded(at=RECORDED_AT + timedelta(days=1)))
    assert compare(WIRED, later).nothing


def test_the_order_of_bounds_is_no_change() -> None:
    a, b = gpu_bound(), gpu_bound("16MiB")
    assert compare(gpu_baseline(a, b), gpu_baseline(b, a)).nothing


def test_a_centre_that_moved_is_a_change_in_parts_of_the_old_one() -> None:
    found = compare(gpu_baseline(gpu_bound()), gpu_baseline(gpu_bound(centre=150.0))).bounds
    (changed,) = found.changed
    assert changed.change == pytest.approx(-0.25)
    assert (found.same, found.nothing) == (0, False)


@pytest.mark.parametrize(
    "more",
    [
        {"spread": 0.02},
        {"attempts": 21},
        {"nodes": 2},
        {"runs": 2},
        {"runs": 2, "between": 0.01},
        {"tail": {"centre": 1.2, "spread": 0.01}},
    ],
)
def test_noise_and_counts_are_changes_too(more: dict[str, object]) -> None:
    (changed,) = compare(gpu_baseline(gpu_bound()), gpu_baseline(gpu_bound(**more))).bounds.changed  # type: ignore[arg-type]  # any field
    assert changed.change == 0


def test_cases_that_only_one_has_are_told_apart() -> None:
    both, old, new = gpu_bound(), gpu_bound("16MiB"), gpu_bound(world_size=4)
    found = compare(gpu_baseline(both, old), gpu_baseline(new, both)).bounds
    assert (found.only_before, found.only_after, found.same, found.changed) == ((old,), (new,), 1, ())


def test_the_last_good_runs_are_compared_by_themselves() -> None:
    found = compare(WIRED, replace(WIRED, rolling=(gpu_bound(centre=199.0),)))
    assert found.bounds.nothing
    assert len(found.rolling.only_after) == 1
    assert not found.nothing


def test_one_pair_that_is_joined_otherwise_is_one_difference() -> None:
    found = compare(WIRED, wired(pairs={"NV10": "0-2", "NV12": "rest"}))
    assert found.wiring == (Statement(what="path GPU0-GPU2", before="NV12", after="NV10"),)


def test_the_same_paths_in_other_words_are_no_difference() -> None:
    assert compare(WIRED, wired(pairs={"NV12": "0-1 0-2 1-2"})).nothing


def test_parts_are_told_by_their_place_in_the_file() -> None:
    nic = {"name": "mlx5_0", "kind": "infiniband", "rate": "400 Gbit/s"}
    found = compare(wired(nics=[nic]), wired(model="H100", nics=[{**nic, "rate": "200 Gbit/s"}], vbios=["1", "1", "2"]))
    assert [(each.what, each.before, each.after) for each in found.wiring] == [
        ("wiring.model", "A100", "H100"),
        ("wiring.nics.mlx5_0.rate", "400 Gbit/s", "200 Gbit/s"),
        ("wiring.vbios.0", None, "1"),
        ("wiring.vbios.1", None, "1"),
        ("wiring.vbios.2", None, "2"),
    ]


def test_another_graph_of_the_same_facts_is_a_difference() -> None:
    found = compare(WIRED, replace(WIRED, exact="9999", facts={**WIRED.facts, "cores": 64}))
    assert [each.what for each in found.wiring] == ["topology.exact", "topology.facts.cores"]


def test_expected_software_and_published_figures_are_told() -> None:
    floor = FloorEntry.model_validate(
        {"figure": "all_reduce", "size": "1GiB", "world_size": 8, "kind": "floor", "value": "228 GB/s", "source": "a"}
    )
    found = compare(
        replace(WIRED, expected_software={"driver": ">=535"}),
        replace(WIRED, expected_software={"driver": ">=580"}, floors=(floor,)),
    )
    assert found.software == (Statement(what="driver", before=">=535", after=">=580"),)
    assert found.published == (
        Statement(what="all_reduce at 1GiB on 8 ranks (floor, a)", before=None, after="228 GB/s"),
    )
    assert not found.nothing
