"""A GPU's condition: what slowed it down, what all GPUs share under load, and what is no fault."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from topologies import gpu_node

from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.inspect.state import state_findings
from gpuwire_checks.topology.model import CounterValue, Gpu, GpuState, NodeTopology


def node(*, gpus: int = 2, **of_gpu1: Any) -> NodeTopology:
    """GPUs of which the second is changed."""
    made = gpu_node(gpus=gpus)
    cards = (made.gpus[0], replace(made.gpus[1], **of_gpu1), *made.gpus[2:]) if gpus > 1 else made.gpus
    return replace(made, gpus=cards)


def counted(name: str, *values: int) -> NodeTopology:
    counters = tuple(CounterValue(part=f"GPU{at}", name=name, value=value) for at, value in enumerate(values))
    return replace(gpu_node(gpus=len(values)), counters=counters)


def found(of: NodeTopology, level: Level) -> list[str]:
    return [finding.text for finding in state_findings(of) if finding.level is level]


def worst(of: NodeTopology) -> list[Finding]:
    return [finding for finding in state_findings(of) if finding.level in (Level.FAIL, Level.WARN)]


def test_a_healthy_node_has_nothing_against_it() -> None:
    assert worst(node()) == []
    assert found(node(), Level.PASS) == ["PCIe at full width: gen 5 of 5, x16 on 2 of 2 GPUs"]


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (GpuState(remap_failed=True), "GPU1: a memory row could not be remapped; replace the GPU"),
        (GpuState(remap_pending=True), "GPU1: row remap is pending; reset the GPU or reboot the node"),
        (GpuState(fabric_unhealthy=("route unhealthy",)), "GPU1: the NVLink fabric is unhealthy: route unhealthy"),
        (
            GpuState(fabric="In Progress", fabric_status="Success"),
            "GPU1: the NVLink fabric is In Progress, Success; look at the fabric manager",
        ),
    ],
)
def test_an_unhealthy_gpu_fails_by_name(state: GpuState, text: str) -> None:
    assert [(f.level, f.text, f.part) for f in worst(node(state=state))] == [(Level.FAIL, text, "GPU1")]


def test_a_healthy_fabric_and_no_remap_are_quiet() -> None:
    good = GpuState(
        remap_failed=False, remap_pending=False, fabric="Completed", fabric_status="Success", fabric_unhealthy=()
    )
    assert worst(node(state=good)) == []


def test_a_narrow_slot_is_never_idleness() -> None:
    (finding,) = worst(node(pcie_width=8, state=GpuState(throttled=("Idle",))))
    assert (finding.level, finding.part) == (Level.WARN, "GPU1")
    assert "GPU1: PCIe width x8 of x16 at full generation 5" in finding.text
    assert found(node(pcie_width=8), Level.PASS) == []


def test_a_low_generation_is_no_fault_of_an_idle_gpu_and_a_doubt_of_a_busy_one() -> None:
    idle = node(pcie_generation=1, state=GpuState(throttled=("Idle",)))
    assert worst(idle) == []
    assert "GPU1: PCIe gen 1 of 5 is no fault: the GPU is idle" in found(idle, Level.NOTE)[0]
    (busy,) = worst(node(pcie_generation=1, state=GpuState(throttled=(), performance_state="P0")))
    assert "GPU1: PCIe gen 1 of 5; look again under load" in busy.text


def test_a_cap_that_every_gpu_shares_is_what_load_does() -> None:
    shared = counted("sw power cap", 7_014_000_000, 7_016_000_000)
    assert worst(shared) == []
    assert "sw power cap since load: 7014.0 to 7016.0 s on 2 of 2 GPUs" in found(shared, Level.NOTE)[0]


def test_a_cap_that_another_gpu_has_not_is_a_doubt() -> None:
    (finding,) = worst(counted("sw power cap", 0, 39_595))
    assert finding.part == "GPU1"
    assert finding.text.startswith("GPU1: 39595 us of sw power cap since load")


@pytest.mark.parametrize("name", ["sw thermal slowdown", "hw thermal slowdown", "hw power brake"])
def test_a_slowdown_is_a_doubt_even_where_all_have_it(name: str) -> None:
    assert [finding.part for finding in worst(counted(name, 5, 6))] == ["GPU0", "GPU1"]


def test_counts_are_told_and_not_held_against_a_gpu() -> None:
    assert worst(counted("pcie replay", 150, 144)) == []
    note = found(counted("pcie replay", 150, 0), Level.NOTE)
    assert note == ["counters that are not 0 (only their growth under load counts): GPU0 pcie replay 150"]


def test_no_counter_is_no_finding() -> None:
    assert [text for text in found(node(), Level.NOTE) if "since load" in text or "counters" in text] == []


@pytest.mark.parametrize(
    ("reason", "level"),
    [("HW Thermal Slowdown", Level.WARN), ("SW Power Cap", Level.NOTE)],
)
def test_what_holds_the_clocks_back_now(reason: str, level: Level) -> None:
    assert f"GPU1: clocks are held back now: {reason}" in found(node(state=GpuState(throttled=(reason,))), level)


def test_a_hot_gpu_is_a_doubt() -> None:
    (finding,) = worst(node(state=GpuState(temperature_margin_c=3)))
    assert finding.text == "GPU1: 3 C below the temperature at which it slows down"
    assert worst(node(state=GpuState(temperature_margin_c=30))) == []


def test_hotter_odd_gpus_are_air_flow() -> None:
    def at(*celsius: int) -> tuple[Gpu, ...]:
        cards = gpu_node(gpus=len(celsius)).gpus
        return tuple(replace(g, state=GpuState(temperature_c=c)) for g, c in zip(cards, celsius, strict=True))

    hot = replace(gpu_node(gpus=4), gpus=at(38, 52, 38, 51))
    assert worst(hot) == []
    assert "odd-numbered GPUs are about 14 C hotter: air flow, not a fault" in found(hot, Level.NOTE)[-1]
    alike = replace(gpu_node(gpus=4), gpus=at(38, 38, 38, 38))
    assert found(alike, Level.NOTE)[-1] == "temperature 38 C on all"
