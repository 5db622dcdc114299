"""The node runs the software and firmware that its baseline was recorded with: a change is told before any figure."""

from __future__ import annotations

import pytest

from gpuwire_checks.harness.expect import Expect
from gpuwire_checks.harness.trial import Trial


@pytest.mark.rule("software")
def test_version(judged: Trial, expect: Expect) -> None:
    """Driver, CUDA or ROCm, NCCL or RCCL, torch and kernel are the baseline's, or in its ranges."""
    expect.met(judged)


@pytest.mark.rule("vbios")
def test_vbios(judged: Trial, expect: Expect) -> None:
    """Each GPU runs the VBIOS that it ran: a board that was replaced brings its own."""
    expect.met(judged)


@pytest.mark.rule("nic_firmware")
def test_nic_firmware(judged: Trial, expect: Expect) -> None:
    """Each NIC runs the firmware that it ran."""
    expect.met(judged)
