"""Rules about NICs: what is gone, renamed, down, slow, or farther away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from faulty import with_gpu, with_nic, without_nic
from wired import hgx_node

from gpuwire_checks.baseline.observed import observed_wiring
from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.model import NodeTopology, Pcie, Unread
from gpuwire_checks.wiring.held import Held
from gpuwire_checks.wiring.rules import RULES


def held(node: NodeTopology) -> Held:
    return Held(topology=node, expected=observed_wiring(hgx_node()), where="site/h100.yaml")


def judge(rule: str, node: NodeTopology, part: object = "mlx5_3") -> Verdict:
    return RULES[rule].judge(held(node), part)


def test_a_nic_that_is_gone_says_how_many_are_left() -> None:
    verdict = judge("nic", without_nic("mlx5_3")(hgx_node()))
    assert verdict.outcome is Outcome.MISSING
    assert verdict.reason.startswith("mlx5_3 is gone: 7 of the baseline's 8 NICs are here")


def test_a_nic_under_another_name_is_told_by_its_address() -> None:
    nics = (replace(nic, name="mlx5_bond_0") if nic.name == "mlx5_3" else nic for nic in hgx_node().nics)
    node = replace(hgx_node(), nics=tuple(nics))
    verdict = judge("nic", node)
    assert verdict.reason.startswith(
        "mlx5_3 is gone: mlx5_bond_0 is at its PCI address 0000:43:00.0; if it was renamed"
    )
    assert judge("nic", node, "mlx5_bond_0").outcome is Outcome.IMPROVED


def test_a_port_without_a_link_is_missing_and_its_rate_waits() -> None:
    node = with_nic("mlx5_3", up=False, rate_bits=Unread.UNKNOWN, state="Down", physical="Polling")(hgx_node())
    verdict = judge("nic", node)
    assert verdict.reason.startswith("mlx5_3 is down: its port is Down/Polling; look at the cable")
    assert judge("nic_rate", node).outcome is Outcome.NOT_RUN


def test_a_nic_that_was_down_when_recorded_is_quiet() -> None:
    down = with_nic("mlx5_3", up=False, rate_bits=Unread.UNKNOWN)(hgx_node())
    recorded = Held(topology=down, expected=observed_wiring(down), where="")
    assert RULES["nic"].judge(recorded, "mlx5_3").outcome is Outcome.PASS
    assert "mlx5_3" not in RULES["nic_rate"].parts(recorded)


def test_a_narrow_slot_is_told_though_the_port_s_rate_is_right() -> None:
    node = with_nic("mlx5_3", pcie=Pcie(generation=5, width=8, max_generation=5, max_width=16))(hgx_node())
    assert judge("nic_rate", node).outcome is Outcome.PASS
    assert judge("nic_pcie", node).reason.startswith("mlx5_3: PCIe is gen 5 x8, the baseline says gen 5 x16")


def test_a_nic_that_is_farther_from_one_gpu_is_told() -> None:
    node = hgx_node()
    paths = tuple(replace(pair, path="SYS") if (pair.a, pair.b) == ("GPU0", "mlx5_0") else pair for pair in node.paths)
    moved = replace(node, paths=paths)
    verdict = judge("nic_paths", moved, 0)
    assert verdict.outcome is Outcome.MISSING
    assert verdict.reason.startswith("GPU0-mlx5_0: path is SYS, the baseline says PIX")
    assert judge("nic_paths", moved, 1).outcome is Outcome.PASS


def test_the_numa_node_of_a_nic_is_held_too() -> None:
    assert judge("nic_numa", with_nic("mlx5_3", numa_node=1)(hgx_node())).outcome is Outcome.REGRESSED
    assert judge("nic_numa", with_gpu(0, numa_node=1)(hgx_node())).outcome is Outcome.PASS


def test_an_interface_without_a_device_is_no_part() -> None:
    node = hgx_node()
    bridge = replace(node.nics[0], name="docker0", kind="virtual", pci_address=Unread.NOT_SUPPORTED)
    assert "docker0" not in RULES["nic"].parts(held(replace(node, nics=(*node.nics, bridge))))


@pytest.mark.parametrize(
    ("unread", "says"),
    [
        ({"kind": "unknown"}, "kind cannot be read here: unknown"),
        ({"up": Unread.NO_PERMISSION, "rate_bits": Unread.NO_PERMISSION}, "state cannot be read here: no permission"),
        ({"up": Unread.UNKNOWN, "rate_bits": Unread.UNKNOWN}, "state cannot be read here: unknown"),
    ],
)
def test_a_port_that_cannot_be_read_is_neither_up_nor_at_fault(unread: dict[str, Any], says: str) -> None:
    verdict = judge("nic", with_nic("mlx5_3", **unread)(hgx_node()))
    assert verdict.outcome is Outcome.NOT_RUN
    assert says in verdict.reason
