"""What references say of a GPU model: looked up by model and count, silent where its boards differ."""

from __future__ import annotations

import pytest
from known_boards import MODEL, reference

from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.inspect.references import References
from gpuwire_checks.topology.model import Unread


def floor(figure: str = "all_reduce", *, world_size: int = 8, size: int = 1 << 30) -> FloorEntry:
    return FloorEntry.model_validate(
        {
            "figure": figure,
            "size": size,
            "world_size": world_size,
            "kind": "floor",
            "value": 300e9,
            "source": "a page",
        }
    )


def test_the_links_of_a_model_and_where_they_are_from() -> None:
    known = References([reference("test-8x")]).links(MODEL, gpus=8)
    assert known is not None
    assert (known.links.per_gpu, known.source, known.bridged) == (18, "reference test-8x", False)


@pytest.mark.parametrize("model", ["NVIDIA Test 40GB", Unread.UNKNOWN, Unread.NOT_SUPPORTED])
def test_another_model_and_an_unread_one_have_none(model: str | Unread) -> None:
    assert References([reference("test-8x")]).links(model, gpus=8) is None


def test_the_reference_of_as_many_gpus_is_taken() -> None:
    looked_up = References([reference("test-8x"), reference("test-4x", gpus=4, links=12)])
    known = looked_up.links(MODEL, gpus=4)
    assert known is not None
    assert (known.links.per_gpu, known.source) == (12, "reference test-4x")


def test_boards_that_differ_say_nothing_of_another_number_of_gpus() -> None:
    assert References([reference("test-8x"), reference("test-4x", gpus=4, links=12)]).links(MODEL, gpus=3) is None


def test_boards_that_are_alike_say_it_of_any_number_of_gpus() -> None:
    known = References([reference("test-8x"), reference("test-4x", gpus=4)]).links(MODEL, gpus=1)
    assert known is not None
    assert known.links.per_gpu == 18


def test_a_number_for_each_gpu_says_nothing_of_another_number_of_gpus() -> None:
    looked_up = References([reference("test-2x", gpus=2, links=(4, 2))])
    assert looked_up.links(MODEL, gpus=3) is None
    known = looked_up.links(MODEL, gpus=2)
    assert known is not None
    assert [known.links.of(gpu) for gpu in (0, 1)] == [4, 2]


def test_two_boards_of_as_many_gpus_that_differ_say_nothing() -> None:
    assert References([reference("test-a"), reference("test-b", links=12)]).links(MODEL, gpus=8) is None


def test_a_reference_without_links_is_none() -> None:
    assert References([reference("test-pcie", links=None)]).links(MODEL, gpus=8) is None


@pytest.mark.parametrize(
    ("pairs", "bridged"),
    [
        ({"NV4": "0-1 2-3", "NODE": "rest"}, True),
        ({"NV4": "0-1"}, True),
        ({"NV4": "0-1 1-2", "NODE": "rest"}, False),
        ({"NV6": "all"}, False),
        ({"SYS": "all"}, False),
    ],
)
def test_bridges_join_two_boards_each(pairs: dict[str, str], bridged: bool) -> None:
    known = References([reference("test-4x", gpus=4, links=4, pairs=pairs)]).links(MODEL, gpus=4)
    assert known is not None
    assert known.bridged is bridged


def test_floors_are_of_the_model_the_collective_and_the_ranks() -> None:
    wanted = floor()
    others = (floor("all_gather_into_tensor"), floor(world_size=4))
    looked_up = References(
        [reference("test-8x", floors=(wanted, *others)), reference("other-8x", floors=(floor(),), model="Other")]
    )
    assert looked_up.floors(MODEL, figure="all_reduce", world_size=8) == [wanted]
    assert looked_up.floors(Unread.UNKNOWN, figure="all_reduce", world_size=8) == []
    assert looked_up.floors(MODEL, figure="broadcast", world_size=8) == []
