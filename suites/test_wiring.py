"""The node is wired the way its baseline expects, and has the hardware that it is required to have."""

from __future__ import annotations

from gpuwire_checks.harness.expect import Expect
from gpuwire_checks.harness.trial import Trial


def test_topology(wiring: Trial, expect: Expect) -> None:
    """Devices, links and their paths are those of the baseline: a lost link is MISSING, however fast the rest is."""
    expect.present(wiring)


def test_required_hardware(required: Trial, expect: Expect) -> None:
    """Hardware named with --gpuwire-require is here: its tests may not be skipped for want of it."""
    expect.present(required)
