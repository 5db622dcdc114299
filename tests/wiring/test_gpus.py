"""Rules about a GPU: the traps on which they stay quiet."""

from __future__ import annotations

from dataclasses import replace

import pytest
from faulty import with_gpu, with_state
from wired import HGX, hgx_node

from gpuwire_checks.baseline.observed import observed_wiring
from gpuwire_checks.baseline.wiring import ExpectedPcie
from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.model import Doubt, NodeTopology, Unread
from gpuwire_checks.wiring.held import Held
from gpuwire_checks.wiring.rules import RULES, faults


def judge(rule: str, node: NodeTopology, number: int = 0) -> Verdict:
    held = Held(topology=node, expected=observed_wiring(hgx_node()), where="site/h100.yaml")
    return RULES[rule].judge(held, number)


def test_a_generation_that_dropped_at_rest_is_quiet() -> None:
    assert hgx_node().gpus[0].pcie_generation == 1
    assert judge("pcie", hgx_node()).outcome is Outcome.PASS


def test_x8_by_design_is_quiet() -> None:
    """A width is compared with the baseline's, never with the most that the board could."""
    node = with_gpu(0, pcie_width=8, max_pcie_width=16)(hgx_node())
    wiring = observed_wiring(node)
    assert isinstance(wiring.pcie, tuple)
    assert wiring.pcie[0] == ExpectedPcie(generation=5, width=8)
    assert RULES["pcie"].judge(Held(topology=node, expected=wiring, where=""), 0).outcome is Outcome.PASS


def test_a_bad_slot_lowers_the_most_too_and_is_told() -> None:
    """GPU and slot together allow x8 now: compared with itself it would look whole."""
    verdict = judge("pcie", with_gpu(0, pcie_width=8, max_pcie_width=8)(hgx_node()))
    assert verdict.outcome is Outcome.REGRESSED
    assert verdict.reason.startswith("GPU0: PCIe is gen 5 x8, the baseline says gen 5 x16")


def test_a_clique_and_cluster_of_zeros_are_quiet() -> None:
    state = hgx_node().gpus[0].state
    assert (state.fabric_clique, state.fabric_cluster) == (0, "00000000-0000-0000-0000-000000000000")
    assert judge("fabric", hgx_node()).outcome is Outcome.PASS


def test_a_fabric_that_is_completed_can_be_unhealthy() -> None:
    verdict = judge("fabric", with_state(0, fabric_unhealthy=("route unhealthy",))(hgx_node()))
    assert verdict.outcome is Outcome.REGRESSED


def test_a_fabric_that_is_not_up_is_told() -> None:
    verdict = judge("fabric", with_state(0, fabric="In Progress", fabric_status=Unread.NOT_SUPPORTED)(hgx_node()))
    assert verdict.outcome is not Outcome.PASS


@pytest.mark.parametrize("unread", list(Unread))
def test_what_cannot_be_read_is_not_run_with_its_own_reason(unread: Unread) -> None:
    verdict = judge("ecc", with_state(0, ecc=unread)(hgx_node()))
    assert verdict.outcome is Outcome.NOT_RUN
    assert verdict.reason == f"GPU0: ECC cannot be read here: {unread.value}; the baseline says enabled"


def test_a_gpu_that_does_not_answer_is_missing_and_the_rest_of_it_waits() -> None:
    nothing = dict.fromkeys(("model", "memory_bytes", "pcie_width", "max_pcie_width"), Unread.UNKNOWN)
    node = replace(
        with_gpu(3, **nothing)(hgx_node()), doubts=(Doubt(line=None, text="GPU3: GPU is lost; unread: all"),)
    )
    verdict = judge("gpu", node, 3)
    assert verdict.outcome is Outcome.MISSING
    assert verdict.reason.startswith("GPU3 is on the bus and does not answer its driver: GPU3: GPU is lost")
    assert judge("pcie", node, 3).outcome is Outcome.NOT_RUN
    held = Held(topology=node, expected=observed_wiring(hgx_node()), where="")
    assert [fault.name for fault in faults(held)] == ["GPU3"]


def test_the_reason_is_that_of_the_gpu_itself() -> None:
    """GPU1 is not GPU10, and several GPUs may have one reason."""
    nothing = dict.fromkeys(("model", "memory_bytes", "pcie_width", "max_pcie_width"), Unread.UNKNOWN)
    texts = ("GPU10: no power; unread: everything", "GPU0, GPU1: GPU is lost; unread: everything")
    node = replace(with_gpu(1, **nothing)(hgx_node()), doubts=tuple(Doubt(line=None, text=text) for text in texts))
    assert "does not answer its driver: GPU0, GPU1: GPU is lost" in judge("gpu", node, 1).reason


def test_a_model_without_its_vendor_is_the_same_model() -> None:
    assert judge("gpu", with_gpu(0, model="H100 80GB HBM3")(hgx_node())).outcome is Outcome.PASS
    assert judge("gpu", with_gpu(0, model="NVIDIA H200")(hgx_node())).outcome is Outcome.MISSING


def test_a_gpu_more_is_improved() -> None:
    wiring = observed_wiring(hgx_node()).model_copy(
        update={"gpus": 7, "pci_addresses": None, "numa_nodes": None, "pairs": {}, "peers": {}, "nic_paths": {}}
    )
    verdict = RULES["gpu"].judge(Held(topology=hgx_node(), expected=wiring, where=""), 7)
    assert verdict.outcome is Outcome.IMPROVED


def test_more_links_or_faster_ones_are_improved() -> None:
    node = hgx_node()
    assert HGX.links is not None
    slower = HGX.model_copy(update={"links": HGX.links.model_copy(update={"per_gpu": 16, "speed": 20e9})})
    held = Held(topology=node, expected=slower, where="")
    assert RULES["links"].judge(held, 0).outcome is Outcome.IMPROVED
    assert RULES["link_speed"].judge(held, (0, 0)).outcome is Outcome.IMPROVED
