"""Every collective on real ranks: measured, right, and seen when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from gloo import case, spec

from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.measure.faults import Fault
from gpuwire_checks.measure.ranks import Deadlines, Ranks

DTYPES = ["float32", "float16", "bfloat16"]
# Not a multiple of anything: the last elements and the shards must be right too.
ODD_SIZE = 100_012


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_collective_is_measured_and_right(ranks: Ranks, collective: str, dtype: str) -> None:
    measured = ranks.measure(case(collective, size_bytes=ODD_SIZE, dtype=dtype))
    assert measured.mismatches == ()
    only_root = collective in ("reduce", "gather")
    assert measured.checked_ranks == (1 if only_root else 2)
    assert len(measured.pipelined) == len(measured.per_call) == len(measured.arrival_lag) == 2
    assert all(len(repeats) >= 3 for repeats in measured.pipelined)
    assert all(second > 0 for repeats in measured.pipelined for second in repeats)
    assert 0 < measured.calls_seconds < measured.wall_seconds
    if collective != "barrier":
        item = {"float32": 4}.get(dtype, 2)
        assert 0 <= ODD_SIZE - measured.moved_bytes < 2 * item


def test_a_fresh_attempt_has_a_new_process_group(ranks: Ranks) -> None:
    first = ranks.measure(case())
    second = ranks.measure(case(), fresh=True)
    assert first.mismatches == second.mismatches == ()


def test_conditions_tell_what_it_was_measured_with(ranks: Ranks) -> None:
    conditions = ranks.measure(case()).conditions
    assert conditions["backend"] == "gloo"
    assert conditions["clock"] == "monotonic"
    assert conditions["torch"]
    assert int(conditions["pipelined_iterations"]) >= 1


@pytest.fixture(scope="module")
def corrupted(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    fault = Fault(kind="corrupt", rank=0)
    return Ranks(spec(), folder=tmp_path_factory.mktemp("corrupt"), deadlines=Deadlines(), fault=fault)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_one_wrong_element_is_seen_in_every_collective(corrupted: Ranks, collective: str) -> None:
    measured = corrupted.measure(case(collective))
    (mismatch,) = measured.mismatches
    assert (mismatch.rank, mismatch.count) == (0, 1)
    assert mismatch.expected != mismatch.got
    if collective == list(COLLECTIVES)[-1]:
        corrupted.close()


def test_a_slow_rank_makes_its_case_slow_and_arrives_late(folder: Path, ranks: Ranks) -> None:
    fault = Fault(kind="delay", rank=1, seconds=0.05, collective="broadcast")
    slowed = Ranks(spec(), folder=folder, deadlines=Deadlines(), fault=fault)
    try:
        struck, spared = slowed.measure(case("broadcast")), slowed.measure(case("all_reduce"))
    finally:
        slowed.close()
    assert struck.seconds > 0.05
    assert min(struck.arrival_lag[1]) > 0.04
    assert spared.seconds < 0.05
    assert ranks.measure(case("broadcast")).seconds < 0.05


def test_more_ranks_than_two(folder: Path) -> None:
    three = Ranks(spec(world_size=3), folder=folder, deadlines=Deadlines())
    try:
        for collective in COLLECTIVES:
            measured = three.measure(case(collective, size_bytes=ODD_SIZE, world_size=3))
            assert measured.mismatches == ()
    finally:
        three.close()
