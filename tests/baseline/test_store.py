"""Baselines on disk: which one a node is held to, what is written, and what never is overwritten."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Literal

import pytest
from gloo import case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuwire_checks.baseline.finding import find_baseline, named_baseline, unknown_name
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BoundEntry, CaseEntry, ChangeEntry, FloorEntry, RecordedEntry, TailEntry
from gpuwire_checks.baseline.store import baseline_text, load_baseline, load_baselines, merge_new, save_baseline
from gpuwire_checks.baseline.wiring import ExpectedLinks, Wiring
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.statistics.pooling import Spread, family_spread
from gpuwire_checks.topology.model import Unread

MIB = 1 << 20
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
FACTS: dict[str, str | int] = {"gpu_vendor": "nvidia", "gpus": 8, "nvlinks": 18}


def bound(
    size: int = MIB,
    *,
    collective: str = "all_reduce",
    centre: float = 2.0,
    spread: float = 0.02,
    attempts: int = 5,
    world_size: int = 2,
) -> BoundEntry:
    dtype: Literal["float32"] | None = "float32" if size else None
    of_case = CaseEntry(collective=collective, size=size, dtype=dtype, world_size=world_size, backend="gloo")
    if size > 64 << 10:
        return BoundEntry(
            metric="busbw",
            case=of_case,
            unit="GB/s",
            better="higher",
            centre=centre,
            spread=spread,
            attempts=attempts,
            nodes=1,
        )
    return BoundEntry(
        metric="latency",
        case=of_case,
        unit="us",
        better="lower",
        centre=centre,
        spread=spread,
        attempts=attempts,
        nodes=1,
    )


def baseline(
    *entries: BoundEntry,
    name: str = "node",
    sku: str = "h100-8",
    exact: str = "0123",
    facts: dict[str, str | int] | None = None,
    wiring: Wiring | None = None,
) -> Baseline:
    return Baseline(
        name=name,
        path=Path("node.yaml"),
        sku=sku,
        exact=exact,
        facts=FACTS if facts is None else facts,
        recorded=recorded(),
        entries=entries,
        wiring=wiring,
    )


def recorded(*, at: datetime = NOON, software: dict[str, str | None] | None = None) -> RecordedEntry:
    versions = {"torch": "2.13.0", "nccl": None} if software is None else software
    return RecordedEntry(at=at, gpuwire="0.1.0", tier="nightly", hosts=1, software=versions)


def put(path: Path, what: Baseline) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(baseline_text(what))
    return path


# Which one a node is held to


def test_a_node_is_held_to_the_baseline_of_its_sku(tmp_path: Path) -> None:
    put(tmp_path / "a.yaml", baseline(name="other", sku="a100-8"))
    put(tmp_path / "nvidia" / "deeper" / "b.yaml", baseline(bound(), name="mine"))
    match = find_baseline([tmp_path], sku="h100-8", exact="0123", facts=FACTS, expect=None)
    assert match.baseline is not None
    assert (match.baseline.name, match.exact, match.difference) == ("mine", True, None)


def test_the_same_sku_wired_otherwise_says_the_first_difference(tmp_path: Path) -> None:
    put(tmp_path / "a.yaml", baseline())
    match = find_baseline([tmp_path], sku="h100-8", exact="9999", facts={**FACTS, "nvlinks": 17}, expect=None)
    assert match.baseline is not None
    assert (match.exact, match.difference) == (False, "nvlinks is 17, the baseline says 18")


def test_of_one_sku_the_baseline_wired_alike_is_preferred_wherever_it_is(tmp_path: Path) -> None:
    put(tmp_path / "site" / "a.yaml", baseline(name="site", exact="1111"))
    put(tmp_path / "shipped" / "a.yaml", baseline(name="shipped", exact="2222"))
    directories = [tmp_path / "site", tmp_path / "shipped"]
    match = find_baseline(directories, sku="h100-8", exact="2222", facts=FACTS, expect=None)
    assert match.baseline is not None
    assert (match.baseline.name, match.exact) == ("shipped", True)


@pytest.mark.parametrize("exact", ["0123", "9999"])
def test_the_sites_baseline_comes_before_the_shipped_one(tmp_path: Path, exact: str) -> None:
    put(tmp_path / "site" / "z.yaml", baseline(name="site"))
    put(tmp_path / "shipped" / "a.yaml", baseline(name="shipped"))
    directories = [tmp_path / "site", tmp_path / "shipped"]
    match = find_baseline(directories, sku="h100-8", exact=exact, facts=FACTS, expect=None)
    assert match.baseline is not None
    assert match.baseline.name == "site"


def test_the_baseline_expected_is_taken_whatever_the_node_looks_like(tmp_path: Path) -> None:
    put(tmp_path / "a.yaml", baseline(name="mine"))
    put(tmp_path / "b.yaml", baseline(name="other", sku="a100-8", exact="7777", facts={**FACTS, "nvlinks": 12}))
    match = find_baseline([tmp_path], sku="h100-8", exact="0123", facts=FACTS, expect="other")
    assert match.baseline is not None
    assert (match.baseline.name, match.exact) == ("other", False)
    assert match.difference == "nvlinks is 18, the baseline says 12"


def test_an_unknown_baseline_expected_lists_the_names_known(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"^no baseline is named 'x'; there is none at all$"):
        find_baseline([tmp_path], sku="h100-8", exact="0123", facts=FACTS, expect="x")
    put(tmp_path / "a.yaml", baseline(name="two"))
    put(tmp_path / "b.yaml", baseline(name="one"))
    with pytest.raises(BaselineError, match=r"^no baseline is named 'x'; known: two, one$"):
        find_baseline([tmp_path], sku="h100-8", exact="0123", facts=FACTS, expect="x")


def test_of_many_names_what_was_recorded_comes_first_and_then_what_is_most_alike() -> None:
    references = [replace(baseline(name=f"a100-{count}x-nv12"), recorded=None) for count in range(2, 16)]
    known = [*references, replace(baseline(name="h100-80gb-8x-nv18"), recorded=None), baseline(name="rack-7")]
    said = str(unknown_name("h100-sxm-8x", known))
    assert "known: rack-7, h100-80gb-8x-nv18, a100-8x-nv12, " in said
    assert said.endswith(" and 8 more")


def test_a_baseline_is_named_by_its_file_or_its_name(tmp_path: Path) -> None:
    path = put(tmp_path / "a.yaml", baseline(name="one"))
    assert named_baseline(str(path), []).name == "one"
    assert named_baseline("one", load_baselines([tmp_path])).path == path
    with pytest.raises(BaselineError, match="no baseline is named 'two'; known: one"):
        named_baseline("two", load_baselines([tmp_path]))


def test_with_no_baseline_of_its_sku_the_nearest_and_the_first_difference_are_said(tmp_path: Path) -> None:
    put(tmp_path / "far.yaml", baseline(name="far", sku="a", facts={"gpu_vendor": "amd", "gpus": 4, "nvlinks": 0}))
    put(tmp_path / "near.yaml", baseline(name="near", sku="b", facts={**FACTS, "gpus": 4}))
    match = find_baseline([tmp_path], sku="h100-8", exact="0123", facts=FACTS, expect=None)
    assert match.baseline is None
    assert match.nearest is not None
    assert (match.nearest.name, match.difference) == ("near", "gpus is 8, the baseline says 4")


def test_no_baseline_at_all_has_no_nearest(tmp_path: Path) -> None:
    match = find_baseline([tmp_path, tmp_path / "absent"], sku="h100-8", exact="0123", facts=FACTS, expect=None)
    assert (match.baseline, match.nearest, match.difference) == (None, None, None)


def test_a_broken_file_is_an_error_even_beside_the_right_one(tmp_path: Path) -> None:
    put(tmp_path / "a.yaml", baseline())
    broken = tmp_path / "z.yaml"
    broken.write_text("schema: [\n")
    with pytest.raises(BaselineError, match=f"^{re.escape(str(broken))}:2: not YAML"):
        find_baseline([tmp_path], sku="h100-8", exact="0123", facts=FACTS, expect=None)


def test_the_policy_beside_the_baselines_is_none(tmp_path: Path) -> None:
    put(tmp_path / "a.yaml", baseline())
    (tmp_path / "policy.yaml").write_text("schema: 1\n")
    (tmp_path / "README.md").write_text("not a baseline")
    assert find_baseline([tmp_path], sku="h100-8", exact="0123", facts=FACTS, expect=None).exact


# What is written


words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
bounds = st.builds(
    bound,
    st.sampled_from([8 << 10, MIB, 3 * MIB, 5 << 30, 1_000_003]),
    collective=st.sampled_from(["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"]),
    centre=st.floats(min_value=1e-6, max_value=1e7),
    spread=st.floats(min_value=0, max_value=3),
    attempts=st.integers(1, 10_000),
    world_size=st.integers(2, 4096),
)
baselines = st.builds(
    replace,
    st.just(baseline()),
    name=words,
    exact=words,
    facts=st.dictionaries(words, st.integers() | words, max_size=5),
    recorded=st.builds(
        recorded,
        at=st.sampled_from([NOON, NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))]),
        software=st.dictionaries(words, words | st.none(), max_size=5),
    ),
    entries=st.lists(bounds, unique_by=lambda entry: entry.key, max_size=6).map(tuple),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(baselines)
def test_what_is_saved_loads_as_it_was(tmp_path: Path, what: Baseline) -> None:
    loaded = load_baseline(save_baseline(tmp_path, replace(what, facts={**what.facts, "gpu_vendor": "nvidia"})))
    assert dict(loaded.facts) == {**what.facts, "gpu_vendor": "nvidia"}
    assert (loaded.name, loaded.exact, dict(loaded.software)) == (what.name, what.exact, dict(what.software))
    assert loaded.recorded == what.recorded
    assert sorted(map(str, loaded.entries)) == sorted(map(str, what.entries))
    assert baseline_text(loaded) == baseline_text(load_baseline(save_baseline(tmp_path, loaded)))


def test_a_value_that_ends_in_a_no_break_space_is_kept(tmp_path: Path) -> None:
    what = replace(baseline(), recorded=recorded(software={"driver": "550\u00a0"}))
    assert load_baseline(save_baseline(tmp_path, what)).software == {"driver": "550\u00a0"}


def test_the_file_is_named_by_vendor_and_sku(tmp_path: Path) -> None:
    assert save_baseline(tmp_path, baseline()) == tmp_path / "nvidia" / "h100-8.yaml"
    assert save_baseline(tmp_path, baseline(facts={"cores": 2})) == tmp_path / "cpu" / "h100-8.yaml"


def test_a_file_has_one_bound_a_line_in_an_order_of_its_own(tmp_path: Path) -> None:
    some = [bound(2 * MIB), bound(MIB), bound(0, collective="barrier"), bound(MIB, collective="all_gather_into_tensor")]
    text = baseline_text(baseline(*some))
    assert text == baseline_text(baseline(*reversed(some)))
    rows = [line for line in text.splitlines() if line.startswith("  - ")]
    assert len(rows) == 4
    assert rows[1] == (
        "  - {metric: busbw, case: {collective: all_reduce, size: 1MiB, dtype: float32, world_size: 2, backend: gloo},"
        " unit: GB/s, better: higher, centre: 2.0, spread: 0.02, attempts: 5, nodes: 1}"
    )


def test_bounds_of_one_case_on_two_backends_have_an_order_too() -> None:
    gloo = bound(MIB)
    nccl = gloo.model_copy(update={"case": gloo.case.model_copy(update={"backend": "nccl"})})
    assert baseline_text(baseline(gloo, nccl)) == baseline_text(baseline(nccl, gloo))


def test_every_bound_knows_the_line_it_stands_on(tmp_path: Path) -> None:
    loaded = load_baseline(save_baseline(tmp_path, baseline(bound(MIB), bound(2 * MIB, centre=7.5))))
    found = loaded.bound_for(case(size_bytes=2 * MIB))
    assert found is not None
    path, _, line = found.where.rpartition(":")
    assert "centre: 7.5" in Path(path).read_text().splitlines()[int(line) - 1]


def test_a_baseline_is_readable_by_everyone(tmp_path: Path) -> None:
    assert save_baseline(tmp_path, baseline()).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("a bug")])
def test_a_file_is_never_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException) -> None:
    path = save_baseline(tmp_path, baseline(bound()))
    before = path.read_text()

    def fails(self: Path, target: Path) -> Path:
        raise failure

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises((BaselineError, KeyboardInterrupt, ValueError)):
        save_baseline(tmp_path, baseline(bound(), bound(2 * MIB)))
    assert path.read_text() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_directory_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    wanted = (
        r"^cannot write .*/file/nvidia/h100-8\.yaml: Not a directory; give a directory that can be written with"
        r" --baselines \(pytest: --gpuwire-baselines\)$"
    )
    with pytest.raises(BaselineError, match=wanted):
        save_baseline(tmp_path / "file", baseline())


# What never is overwritten, and what a case is held to


def test_merging_adds_bounds_and_overwrites_none() -> None:
    merged = merge_new(baseline(bound(centre=2.0)), [bound(centre=9.0), bound(2 * MIB, centre=3.0)])
    assert [(entry.case.size, entry.centre) for entry in merged.entries] == [(MIB, 2.0), (2 * MIB, 3.0)]


def test_merging_nothing_changes_nothing() -> None:
    start = baseline(bound())
    assert merge_new(start, []) == start


def test_a_bound_that_no_case_uses_is_an_orphan() -> None:
    some = baseline(bound(MIB), bound(2 * MIB), bound(MIB, world_size=8))
    assert some.orphans([case(size_bytes=MIB)]) == [
        "all_reduce-2MiB-float32-ws2-gloo",
        "all_reduce-1MiB-float32-ws8-gloo",
    ]
    assert baseline(bound(MIB)).orphans([case(size_bytes=MIB), case("barrier")]) == []


def test_a_case_is_held_to_the_bound_of_all_its_parts() -> None:
    some = baseline(bound(MIB, centre=1.0), bound(MIB, world_size=4, centre=2.0), bound(2 * MIB, centre=3.0))
    found = some.bound_for(case(size_bytes=MIB, world_size=4))
    assert found is not None
    assert (found.centre, found.metric.name, found.attempts) == (2.0, "busbw", 5)
    assert some.bound_for(case(size_bytes=MIB, dtype="bfloat16")) is None
    assert some.bound_for(case("barrier")) is None


def test_a_bound_of_another_metric_is_none() -> None:
    entry = bound(MIB)
    rate = entry.model_copy(update={"case": entry.case.model_copy(update={"size": 8192})})
    assert baseline(rate).bound_for(case(size_bytes=8192)) is None


def test_a_bound_alone_has_its_own_spread() -> None:
    found = baseline(bound(spread=0.03)).bound_for(case(size_bytes=MIB))
    assert found is not None
    # Of four degrees a robust spread has 3.2.
    assert [found.spread, found.degrees] == pytest.approx([0.03, 3.2])


def test_a_bound_has_its_familys_spread_behind_it() -> None:
    steady = [
        bound(collective=name, spread=0.02) for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "broadcast")
    ]
    found = baseline(bound(spread=0.01), *steady).bound_for(case(size_bytes=MIB))
    assert found is not None
    # Variances by their degrees of freedom: 3.2 of its own, 3.2 of each of the three others.
    family = family_spread([Spread(spread=0.02, degrees=3.2)] * 3)
    assert found.spread == pytest.approx(math.sqrt((0.01**2 + 3 * family.spread**2) / 4))
    assert found.degrees == pytest.approx(4 * 3.2)


def test_another_size_or_metric_is_another_family() -> None:
    others = [bound(64 * MIB, spread=0.5), bound(8192, spread=0.5), bound(0, collective="barrier", spread=0.5)]
    found = baseline(bound(spread=0.01), *others).bound_for(case(size_bytes=MIB))
    assert found is not None
    assert [found.spread, found.degrees] == pytest.approx([0.01, 3.2])


def test_a_power_of_four_is_in_the_family_of_the_sizes_up_to_the_next() -> None:
    for power in range(9, 20):
        size = 4**power
        found = baseline(bound(size, spread=0.01), bound(3 * size, spread=0.01)).bound_for(case(size_bytes=size))
        assert found is not None
        assert found.degrees == pytest.approx(6.4), size


def test_an_unsteady_bound_keeps_its_spread_and_does_not_loosen_the_others() -> None:
    names = ("all_gather_into_tensor", "reduce_scatter_tensor", "broadcast", "reduce", "scatter")
    others = [bound(collective=name, spread=0.02, attempts=20) for name in names]
    some = baseline(bound(spread=0.3, attempts=20), *others)
    unsteady = some.bound_for(case(size_bytes=MIB))
    steady = some.bound_for(case("all_gather_into_tensor", size_bytes=MIB))
    assert unsteady is not None
    assert steady is not None
    assert [unsteady.spread, unsteady.degrees] == pytest.approx([0.3, 15.2])
    assert steady.spread < 0.03


def test_a_bound_of_one_attempt_leans_on_its_family() -> None:
    found = baseline(bound(spread=0.0, attempts=1), bound(collective="all_gather_into_tensor", spread=0.02)).bound_for(
        case(size_bytes=MIB)
    )
    assert found is not None
    assert found.degrees == pytest.approx(3.2)
    assert found.spread > 0.02


def test_a_bound_carries_its_tail_its_counts_and_the_last_good_runs() -> None:
    tail = TailEntry(centre=1.3, spread=0.05)
    entry = bound(attempts=20).model_copy(update={"tail": tail, "between": 0.004, "nodes": 4, "runs": 6})
    rolling = bound(centre=1.9, attempts=15)
    found = replace(baseline(entry), rolling=(rolling,)).bound_for(case(size_bytes=MIB))
    assert found is not None
    assert (found.nodes, found.runs, found.between, found.groups) == (4, 6, 0.004, 4)
    assert found.tail is not None
    assert (found.tail.centre, found.tail.spread, found.tail.metric.better) == (1.3, 0.05, "lower")
    # Each of six runs takes a degree of freedom for a centre of its own.
    assert found.degrees == found.tail.degrees == pytest.approx(0.8 * (20 - 6))
    assert found.rolling is not None
    assert (found.rolling.centre, found.rolling.attempts, found.rolling.tail) == (1.9, 15, None)
    assert "rolling" in found.rolling.where


def test_what_was_added_to_a_bound_is_written_and_read_back(tmp_path: Path) -> None:
    tail = TailEntry(centre=1.3, spread=0.05)
    entry = bound(attempts=20).model_copy(update={"tail": tail, "between": 0.004, "nodes": 4, "runs": 6})
    change = ChangeEntry(at=NOON, reason="new driver", run="20260101-120000-n1", cases=("all_reduce-1MiB",))
    what = replace(baseline(entry), rolling=(bound(centre=1.9),), changes=(change,))
    loaded = load_baseline(save_baseline(tmp_path, what))
    assert (loaded.entries, loaded.rolling, loaded.changes) == (what.entries, what.rolling, what.changes)
    row = next(line for line in baseline_text(loaded).splitlines() if "nodes: 4" in line)
    assert row.endswith("nodes: 4, runs: 6, between: 0.004, tail: {centre: 1.3, spread: 0.05}}")


def test_a_site_s_node_that_shows_fewer_gpus_has_lost_some(tmp_path: Path) -> None:
    site = tmp_path / "site"
    put(site / "a.yaml", baseline(name="eight", sku="h100-8x-nv18"))
    found = find_baseline([site], sku="h100-7x-nv18", exact="1", facts={"gpus": 7}, expect=None, site=site)
    assert found.baseline is not None
    assert found.baseline.name == "eight"
    hidden = find_baseline([site], sku="h100-7x-nv18", exact="1", facts={"gpus": 7}, expect=None)
    assert hidden.baseline is None
    other = find_baseline([site], sku="h200-7x-nv18", exact="1", facts={"gpus": 7}, expect=None, site=site)
    assert other.baseline is None


def test_a_shipped_reference_does_not_claim_a_node_with_fewer_gpus(tmp_path: Path) -> None:
    put(tmp_path / "shipped" / "a.yaml", baseline(name="eight", sku="l40s-8x-pcie"))
    directories = [tmp_path / "site", tmp_path / "shipped"]
    match = find_baseline(
        directories, sku="l40s-4x-pcie", exact="1", facts={"gpus": 4}, expect=None, site=tmp_path / "site"
    )
    assert match.baseline is None


def test_a_baseline_with_nothing_in_common_is_no_nearest(tmp_path: Path) -> None:
    put(tmp_path / "a.yaml", baseline(name="far", sku="a", facts={"gpu_vendor": "amd"}))
    match = find_baseline([tmp_path], sku="cpu-2c", exact="1", facts={"cores": 2}, expect=None)
    assert (match.baseline, match.nearest) == (None, None)


def test_wiring_software_floors_and_sources_are_written_and_read_again(tmp_path: Path) -> None:
    what = replace(
        baseline(),
        wiring=Wiring.model_validate(
            {
                "gpus": 2,
                "links": {"kind": "nvlink", "per_gpu": [4, 4], "speed": "14.062 GB/s"},
                "pairs": {"NV4": "all"},
                "nics": [{"name": "mlx5_0", "kind": "infiniband", "rate": "400 Gbit/s"}],
            }
        ),
        expected_software={"driver": ">=535,<580"},
        floors=(FloorEntry(figure="host_to_device", kind="floor", value=25e9, source="a data sheet: 25"),),
        sources={"links": "another: data sheet"},
        notes=("PCIe is left out: it is the chassis'.",),
    )
    loaded = load_baseline(save_baseline(tmp_path, what))
    assert loaded.wiring == what.wiring
    assert loaded.expected_software == {"driver": ">=535,<580"}
    assert (loaded.floors, loaded.sources, loaded.notes) == (what.floors, what.sources, what.notes)


MESH = Wiring(
    gpus=8,
    model="NVIDIA H100 80GB HBM3",
    links=ExpectedLinks(kind="nvlink", per_gpu=18, speed=25e9),
    pairs={"NV18": "all"},
)
BRIDGED = Wiring(
    gpus=2,
    model="NVIDIA RTX A6000",
    links=ExpectedLinks(kind="nvlink", per_gpu=4, speed=14e9),
    pairs={"NV4": "all"},
)


@pytest.mark.parametrize(("here", "links"), [("h100-8x-pcie", 0), ("h100-8x-nv13", 13)])
def test_gpus_that_all_lost_links_are_no_other_sku(tmp_path: Path, here: str, links: int) -> None:
    """A fabric that is down, or one dead switch: every GPU shows fewer links alike."""
    put(tmp_path / "a.yaml", baseline(name="mesh", sku="h100-8x-nv18", wiring=MESH))
    found = find_baseline([tmp_path], sku=here, exact="1", facts={"gpus": 8}, expect=None, links=links)
    assert found.baseline is not None
    assert found.baseline.name == "mesh"


@pytest.mark.parametrize(
    ("here", "links"),
    [
        ("h100-8x-nv18x", 18),
        ("h100-8x-pcie", Unread.UNKNOWN),
        ("h100-4x-pcie", 0),
        ("h200-8x-pcie", 0),
    ],
)
def test_as_many_links_or_other_gpus_are_another_sku(tmp_path: Path, here: str, links: int | Unread) -> None:
    put(tmp_path / "a.yaml", baseline(name="mesh", sku="h100-8x-nv18", wiring=MESH))
    found = find_baseline([tmp_path], sku=here, exact="1", facts={"gpus": 8}, expect=None, links=links)
    assert found.baseline is None


def test_boards_without_a_bridge_are_held_to_the_site_s_baseline_and_to_no_reference(tmp_path: Path) -> None:
    put(tmp_path / "a.yaml", baseline(name="bridge", sku="a6000-2x-nvlink", wiring=BRIDGED))
    asked = {"sku": "a6000-2x-pcie", "exact": "1", "facts": {"gpus": 2}, "expect": None, "links": 0}
    assert find_baseline([tmp_path], **asked).baseline is None  # type: ignore[arg-type]
    assert find_baseline([tmp_path], **asked, site=tmp_path).baseline is not None  # type: ignore[arg-type]
