"""Software is held to versions, patterns and ranges, and a change is CHANGED."""

from __future__ import annotations

from dataclasses import replace

import pytest
from topologies import SOFTWARE, gpu_node

from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.model import Unread
from gpuwire_checks.wiring.held import Held
from gpuwire_checks.wiring.rules import RULES, faults
from gpuwire_checks.wiring.software import is_in_range


def judge(installed: str | Unread | None, wanted: str) -> Verdict:
    node = replace(gpu_node(gpus=2), software=replace(SOFTWARE, driver=installed))
    held = Held(topology=node, expected=None, where="site/h100.yaml", software={"driver": wanted})
    assert list(RULES["software"].parts(held)) == ["driver"]
    return RULES["software"].judge(held, "driver")


@pytest.mark.parametrize(
    ("installed", "wanted", "fits"),
    [
        ("570.86.15", "570.86.15", True),
        ("570.86.15", "570.*", True),
        ("570.86.15", ">=535,<580", True),
        ("580.10", ">=535,<580", False),
        ("6.8.0-40-generic", ">=6.8,<6.9", True),
        ("6.8.0-40-generic", "6.8.0-41-generic", False),
        ("2.13.0+cpu", "2.13.0+cpu", True),
        ("2.13.0+cpu", "2.13.0", False),
        ("master", ">=535", False),
    ],
)
def test_a_version_fits_or_not(installed: str, wanted: str, fits: bool) -> None:
    assert is_in_range(installed, wanted) is fits


def test_another_driver_is_changed_and_says_from_what_to_what() -> None:
    verdict = judge("575.51.03", "570.86.15")
    assert verdict.outcome is Outcome.CHANGED
    assert verdict.outcome.is_fault
    assert verdict.reason.startswith("driver is 575.51.03, the baseline says 570.86.15: figures may differ by it")
    assert "site/h100.yaml" in verdict.reason


def test_the_same_driver_is_quiet() -> None:
    assert judge("570.86.15", "570.86.15").outcome is Outcome.PASS


def test_a_version_that_cannot_be_read_is_not_run() -> None:
    assert judge(Unread.NO_PERMISSION, "570").outcome is Outcome.NOT_RUN


def test_software_that_is_gone_is_missing() -> None:
    assert judge(None, "570").outcome is Outcome.MISSING


def test_a_change_of_software_is_no_fault_of_the_wiring() -> None:
    node = replace(gpu_node(gpus=2), software=replace(SOFTWARE, driver="2"))
    assert faults(Held(topology=node, expected=None, where="", software={"driver": "1"})) == []
