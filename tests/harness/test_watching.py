"""What wires show under load is kept case by case."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from fakes import FakeRanks
from gloo import case

from gpuwire_checks.errors import MeasurementError
from gpuwire_checks.harness.watching import Watch, WatchedRanks
from gpuwire_checks.topology.model import CounterValue, Pcie, Unread


class Wires:
    """Counters and a PCIe link that change with every look."""

    def __init__(self, *values: int | Unread, generations: tuple[int, ...] = (1,)) -> None:
        self.values = list(values)
        self.generations = list(generations)
        self.looks = 0

    def counters(self) -> tuple[CounterValue, ...]:
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        return (CounterValue(part="GPU0", name="pcie replay", value=value),)

    def close(self) -> None:
        """Nothing was opened."""

    def pcie(self) -> Mapping[str, Pcie]:
        self.looks += 1
        generation = self.generations.pop(0) if len(self.generations) > 1 else self.generations[0]
        return {"GPU0": Pcie(generation=generation, width=16)}


def test_growth_is_kept_with_the_case_that_it_came_in() -> None:
    watch = Watch(Wires(174, 174, 174, 181), has_gpus=False)
    with watch.window("all_reduce"):
        pass
    with watch.window("broadcast"):
        pass
    (growth,) = watch.watched.growth
    assert (growth.part, growth.counter, growth.grown, growth.case) == ("GPU0", "pcie replay", 7, "broadcast")
    assert watch.watched.counted == {"GPU0"}


def test_what_cannot_be_read_is_not_counted() -> None:
    watch = Watch(Wires(Unread.NO_PERMISSION), has_gpus=False)
    with watch.window("all_reduce"):
        pass
    assert (watch.watched.growth, watch.watched.counted) == ((), frozenset())


def test_a_counter_that_was_reset_did_not_grow() -> None:
    watch = Watch(Wires(174, 0), has_gpus=False)
    with watch.window("all_reduce"):
        pass
    assert watch.watched.growth == ()


def test_the_highest_generation_under_load_counts() -> None:
    wires = Wires(0, generations=(1, 5, 1))
    watch = Watch(wires, has_gpus=True)
    with watch.window("all_reduce"):
        time.sleep(0.2)
    assert wires.looks > 2
    assert watch.watched.pcie == {"GPU0": Pcie(generation=5, width=16)}


def test_without_a_gpu_no_thread_looks() -> None:
    wires = Wires(0)
    watch = Watch(wires, has_gpus=False)
    with watch.window("all_reduce"):
        pass
    assert wires.looks == 0


def test_ranks_are_watched_while_they_measure_and_errors_pass() -> None:
    watch = Watch(Wires(1, 2, 3), has_gpus=False)
    ranks = WatchedRanks(FakeRanks(lambda _case, attempt: "rank 1 died" if attempt else 1.0), watch)
    assert ranks.measure(case()).value == pytest.approx(1.0)
    assert watch.watched.growth[0].case == case().id
    with pytest.raises(MeasurementError, match="rank 1 died"):
        ranks.measure(case())
    assert watch.watched.seconds > 0
