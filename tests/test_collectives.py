"""The table of collectives: factors, shards and what is refused."""

from __future__ import annotations

import pytest

from gpuwire_checks.collectives import COLLECTIVES, algbw, busbw, moved_bytes


@pytest.mark.parametrize(
    ("collective", "world_size", "factor"),
    [
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("all_gather_into_tensor", 8, 0.875),
        ("reduce_scatter_tensor", 8, 0.875),
        ("all_to_all_single", 8, 0.875),
        ("gather", 8, 0.875),
        ("scatter", 8, 0.875),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
        ("send_recv", 8, 1.0),
    ],
)
def test_busbw_is_algbw_times_the_factor_of_nccl_tests(collective: str, world_size: int, factor: float) -> None:
    figure = busbw(collective, size_bytes=2_000_000_000, seconds=0.5, world_size=world_size)
    assert figure == pytest.approx(4.0 * factor)


def test_a_published_row_gives_its_rank_count_back() -> None:
    # busbw / algbw of all_reduce is 2 (n - 1) / n.
    ratio = busbw("all_reduce", size_bytes=1, seconds=1, world_size=16) / algbw(size_bytes=1, seconds=1)
    assert 2 / (2 - ratio) == pytest.approx(16)


def test_one_rank_has_no_bus_bandwidth() -> None:
    with pytest.raises(ValueError, match="at least 2 ranks, not 1"):
        busbw("all_reduce", size_bytes=1024, seconds=1.0, world_size=1)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_time_is_no_bandwidth(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds must be positive"):
        algbw(size_bytes=1024, seconds=seconds)


@pytest.mark.parametrize("name", [name for name, row in COLLECTIVES.items() if row.sharded])
def test_a_sharded_array_is_rounded_down_to_equal_shards(name: str) -> None:
    assert moved_bytes(name, size_bytes=1000, world_size=3, item_bytes=4) == 996


def test_an_unsharded_array_is_rounded_down_to_elements_only() -> None:
    assert moved_bytes("all_reduce", size_bytes=1002, world_size=3, item_bytes=4) == 1000


def test_a_barrier_moves_nothing() -> None:
    assert moved_bytes("barrier", size_bytes=0, world_size=8, item_bytes=4) == 0


def test_a_size_too_small_to_share_is_refused() -> None:
    with pytest.raises(ValueError, match="all_to_all_single: 8 bytes cannot be cut into 8 shards"):
        moved_bytes("all_to_all_single", size_bytes=8, world_size=8, item_bytes=4)
