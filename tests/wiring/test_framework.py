"""torch is held to what the driver lists: each GPU, under its number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakes import seen_by_torch
from wired import hgx_node

from gpuwire_checks.baseline.observed import observed_wiring
from gpuwire_checks.records import Outcome, SeenDevice, Verdict
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.wiring.held import Held, Watched
from gpuwire_checks.wiring.rules import RULES

NODE = hgx_node()


def judge(number: int, devices: tuple[SeenDevice, ...] | None, node: NodeTopology = NODE) -> Verdict:
    watched = Watched(seconds=1.0, pcie={}, growth=(), counted=frozenset(), devices=devices)
    held = Held(topology=node, expected=observed_wiring(NODE), where="site/h100.yaml", watched=watched)
    assert number in RULES["framework"].parts(held)
    return RULES["framework"].judge(held, number)


def test_gpus_that_torch_sees_under_the_drivers_numbers_are_quiet() -> None:
    assert {judge(number, seen_by_torch(NODE)).outcome for number in range(8)} == {Outcome.PASS}


@pytest.mark.parametrize("unknown", [{"pci_address"}, {"uuid"}, {"pci_address", "uuid"}])
def test_what_torch_does_not_tell_is_not_compared(unknown: set[str]) -> None:
    without: dict[str, Any] = dict.fromkeys(unknown)
    devices = tuple(replace(device, **without) for device in seen_by_torch(NODE))
    assert {judge(number, devices).outcome for number in range(8)} == {Outcome.PASS}


def test_another_order_is_told_with_what_is_there_and_what_to_do() -> None:
    first, second, *rest = seen_by_torch(NODE)
    verdict = judge(0, (second, first, *rest))
    assert verdict.outcome is Outcome.REGRESSED
    assert verdict.reason.startswith("GPU0: torch has NVIDIA H100 80GB HBM3 at 0000:11:00.0 under number 0")
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in verdict.reason
    assert judge(2, (second, first, *rest)).outcome is Outcome.PASS


def test_another_order_is_told_by_uuid_where_torch_has_no_address() -> None:
    first, second, *rest = (replace(device, pci_address=None) for device in seen_by_torch(NODE))
    assert judge(1, (second, first, *rest)).outcome is Outcome.REGRESSED


def test_a_gpu_that_torch_does_not_see_is_missing() -> None:
    verdict = judge(7, seen_by_torch(NODE)[:7])
    assert verdict.outcome is Outcome.MISSING
    assert verdict.reason.startswith("GPU7: torch sees 7 of the 8 GPUs that the driver lists, and not GPU7")
    assert judge(6, seen_by_torch(NODE)[:7]).outcome is Outcome.PASS


def test_a_torch_without_the_driver_sees_none() -> None:
    assert judge(0, ()).outcome is Outcome.MISSING


def test_where_no_rank_has_started_nothing_is_said() -> None:
    assert judge(0, None).outcome is Outcome.NOT_RUN


def test_a_gpu_that_does_not_answer_is_not_blamed_on_torch() -> None:
    silent: dict[str, Any] = dict.fromkeys(("model", "memory_bytes", "pcie_width", "max_pcie_width"), Unread.UNKNOWN)
    lost = replace(NODE.gpus[3], **silent)
    node = replace(NODE, gpus=tuple(lost if gpu.index == 3 else gpu for gpu in NODE.gpus))
    assert judge(3, seen_by_torch(NODE)[:3] + seen_by_torch(NODE)[4:], node).outcome is Outcome.NOT_RUN
