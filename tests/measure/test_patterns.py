"""Test data is exact, tells the ranks apart, and its comparison sees every kind of wrong."""

from __future__ import annotations

import pytest
import torch

from gpuwire_checks.measure.collectives import expected_regions
from gpuwire_checks.measure.patterns import (
    PERIOD,
    Region,
    contribution,
    fill,
    find_wrong,
    same_bits,
    sum_tile,
    tile,
)

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_every_order_of_adding_gives_the_same_bits(dtype: torch.dtype, world_size: int) -> None:
    tiles = [tile(rank, dtype=dtype, world_size=world_size, device=CPU)[:1000] for rank in range(world_size)]
    forward, backward = torch.zeros(1000, dtype=dtype), torch.zeros(1000, dtype=dtype)
    for rank in range(world_size):
        forward += tiles[rank]
        backward += tiles[-1 - rank]
    expected = sum_tile(dtype=dtype, world_size=world_size, device=CPU)[:1000]
    assert torch.equal(forward, expected)
    assert torch.equal(backward, expected)


def test_ranks_are_thinned_where_not_all_fit_the_significand() -> None:
    values = [contribution(torch.bfloat16, world_size=512, rank=rank) for rank in range(512)]
    assert sum(values) == 256
    assert set(values) == {0, 1}


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_hold_different_data(dtype: torch.dtype) -> None:
    first, second = (tile(rank, dtype=dtype, world_size=8, device=CPU) for rank in (0, 1))
    assert (first != second).float().mean() > 0.4


@pytest.mark.parametrize("numel", [1, 1000, PERIOD, PERIOD + 1, 3 * PERIOD + 17])
def test_what_was_filled_compares_equal(numel: int) -> None:
    buffer = torch.full((numel,), -1.0)
    fill(buffer, rank=1, world_size=2, shift=12345)
    whole = [Region(start=0, length=numel, offset=0, source=1)]
    assert find_wrong(buffer, whole, world_size=2, shift=12345) is None


def test_the_first_wrong_element_and_their_number_are_named() -> None:
    buffer = torch.empty(PERIOD + 100)
    fill(buffer, rank=0, world_size=2, shift=0)
    right = float(buffer[PERIOD + 7])
    buffer[PERIOD + 7] += 1
    buffer[PERIOD + 9] += 1
    wrong = find_wrong(buffer, [Region(start=0, length=PERIOD + 100, offset=0, source=0)], world_size=2, shift=0)
    assert wrong is not None
    assert (wrong.index, wrong.count) == (PERIOD + 7, 2)
    assert (wrong.expected, wrong.got) == (f"{right:.9g}", f"{right + 1:.9g}")


def test_swapped_chunks_show() -> None:
    shard = 4096
    gathered = torch.cat([tile(rank, dtype=torch.float32, world_size=2, device=CPU)[:shard] for rank in (1, 0)])
    regions = expected_regions("all_gather_into_tensor", numel=2 * shard, world_size=2, rank=0)
    assert find_wrong(gathered, regions, world_size=2, shift=0) is not None


def test_data_that_arrived_a_power_of_two_too_far_shows() -> None:
    numel = 1 << 20
    sent = torch.empty(2 * numel)
    fill(sent, rank=0, world_size=2, shift=0)
    region = [Region(start=0, length=numel, offset=0, source=0)]
    assert find_wrong(sent[:numel], region, world_size=2, shift=0) is None
    assert find_wrong(sent[numel:], region, world_size=2, shift=0) is not None


def test_a_result_of_an_earlier_check_does_not_pass_the_next() -> None:
    buffer = torch.empty(1000)
    fill(buffer, rank=0, world_size=2, shift=7919)
    region = [Region(start=0, length=1000, offset=0, source=0)]
    assert find_wrong(buffer, region, world_size=2, shift=2 * 7919) is not None


def test_not_a_number_is_wrong_and_is_told() -> None:
    buffer = torch.empty(10)
    fill(buffer, rank=0, world_size=2, shift=0)
    buffer[3] = float("nan")
    wrong = find_wrong(buffer, [Region(start=0, length=10, offset=0, source=0)], world_size=2, shift=0)
    assert wrong is not None
    assert (wrong.index, wrong.got, wrong.count) == (3, "nan", 1)


def test_bits_are_compared_not_values() -> None:
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert same_bits(torch.tensor([1.5, 2.0]), torch.tensor([1.5, 2.0]))


@pytest.mark.parametrize("collective", ["reduce", "gather"])
def test_only_the_root_of_a_reduction_or_gather_has_a_result(collective: str) -> None:
    assert expected_regions(collective, numel=8, world_size=2, rank=1) == []
    assert expected_regions(collective, numel=8, world_size=2, rank=0)


def test_a_barrier_has_no_output_to_compare() -> None:
    with pytest.raises(ValueError, match="barrier has no output to compare"):
        expected_regions("barrier", numel=8, world_size=2, rank=0)
