"""Counters are judged by how they grew under load, by what their wires may lose."""

from __future__ import annotations

from dataclasses import replace

import pytest
from topologies import gpu_node

from gpuwire_checks.baseline.observed import observed_wiring
from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.model import CounterValue, Link, NodeTopology, Unread
from gpuwire_checks.wiring.counters import COUNTER_RULES
from gpuwire_checks.wiring.held import Growth, Held, Watched

RULE = COUNTER_RULES["counters"]
RATES = {"pcie": 1e-12, "nvlink": 1e-12, "infiniband": 1e-12}


def node() -> NodeTopology:
    links = (Link(number=3, kind="nvlink", up=True, speed_bytes=25e9),)
    plain = gpu_node(gpus=2)
    counters = tuple(CounterValue(part=part, name="pcie replay", value=174) for part in ("GPU0", "GPU1", "eth0"))
    return replace(plain, gpus=tuple(replace(gpu, links=links) for gpu in plain.gpus), counters=counters)


def judge(*growth: tuple[str, str, int], seconds: float = 10.0, device: str = "GPU0") -> Verdict:
    grown = tuple(Growth(part=p, counter=c, grown=n, case="all_reduce-1GiB", seconds=seconds) for p, c, n in growth)
    watched = Watched(seconds=seconds, pcie={}, growth=grown, counted=frozenset({"GPU0", "GPU0 NVLink 3", "GPU1"}))
    held = Held(
        topology=node(), expected=observed_wiring(node()), where="b.yaml", watched=watched, bit_error_rates=RATES
    )
    return RULE.judge(held, device)


def test_a_count_that_stands_is_no_fault_whatever_it_stands_at() -> None:
    assert judge().outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("counter", "few", "many"),
    [
        # gen 5 x16 for 10 s: 5e12 bits, so 5 errors on average at the rate allowed.
        ("pcie replay", 10, 60),
        ("ecc uncorrected", 0, 1),
        ("remapped rows", 0, 1),
        ("hw thermal slowdown", 400_000, 600_000),
        ("hw power brake", 400_000, 600_000),
    ],
)
def test_growth_beyond_what_a_wire_may_is_a_fault(counter: str, few: int, many: int) -> None:
    assert judge(("GPU0", counter, few)).outcome is Outcome.PASS
    verdict = judge(("GPU0", counter, many))
    assert verdict.outcome is Outcome.REGRESSED
    assert verdict.reason.startswith(f"GPU0: {counter} grew by ")
    assert "most in all_reduce-1GiB" in verdict.reason


def test_a_link_is_named() -> None:
    verdict = judge(("GPU0 NVLink 3", "nvlink replay", 100))
    assert verdict.outcome is Outcome.REGRESSED
    assert verdict.reason.startswith("GPU0 NVLink 3: nvlink replay grew by 100 in 10.0 s of measuring")
    assert verdict.name == "GPU0 counters"


def test_growth_of_one_device_is_not_told_of_another() -> None:
    assert judge(("GPU0", "pcie replay", 1000), device="GPU1").outcome is Outcome.PASS


def test_many_cases_add_up_and_the_worst_is_named() -> None:
    grown = [("GPU0", "pcie replay", 20)] * 4
    assert judge(*grown).outcome is Outcome.REGRESSED


def test_growth_without_a_known_wire_is_told_at_one() -> None:
    """A rate that is not known allows nothing: it must not allow everything."""
    assert judge(("GPU0 NVLink 9", "nvlink crc", 1)).outcome is Outcome.REGRESSED


@pytest.mark.parametrize("counter", ["sw power cap", "sync boost", "ecc corrected"])
def test_what_is_no_matter_of_wires_stays_quiet(counter: str) -> None:
    assert judge(("GPU0", counter, 9_000_000)).outcome is Outcome.PASS


def test_nothing_measured_is_not_run() -> None:
    held = Held(topology=node(), expected=observed_wiring(node()), where="b.yaml")
    verdict = RULE.judge(held, "GPU0")
    assert verdict.outcome is Outcome.NOT_RUN
    assert "nothing was measured" in verdict.reason


def test_counters_that_cannot_be_read_are_not_run_and_no_pass() -> None:
    verdict = judge(device="eth0")
    assert (verdict.outcome, "cannot be read" in verdict.reason) == (Outcome.NOT_RUN, True)


def test_every_device_with_counters_is_a_part_but_not_a_shared_interface() -> None:
    """An Ethernet interface carries everybody's traffic: its errors are not those of what is measured."""
    held = Held(topology=node(), expected=observed_wiring(node()), where="")
    assert list(RULE.parts(held)) == ["GPU0", "GPU1"]
    assert list(RULE.parts(Held(topology=node(), expected=None, where=""))) == []


@pytest.mark.parametrize("unread", list(Unread))
def test_a_counter_that_cannot_be_read_is_no_counter_that_stood_still(unread: Unread) -> None:
    """What the part does not have is not missed."""
    counters = (*node().counters, CounterValue(part="GPU0 NVLink 3", name="nvlink crc", value=unread))
    for counted, outcome in (({"GPU0"}, Outcome.PASS), (set(), Outcome.NOT_RUN)):
        watched = Watched(seconds=10.0, pcie={}, growth=(), counted=frozenset(counted))
        held = Held(
            topology=replace(node(), counters=counters), expected=observed_wiring(node()), where="", watched=watched
        )
        verdict = RULE.judge(held, "GPU0")
        assert verdict.outcome is outcome
        said = verdict.reason.endswith(f"; {unread.value}: nvlink crc")
        assert said is (unread is not Unread.NOT_SUPPORTED)
