"""Collectives carry data between the ranks of this node correctly, and as fast as its baseline says."""

from __future__ import annotations

from gpuwire_checks.harness.expect import Expect
from gpuwire_checks.harness.trial import Trial


def test_collective(measured: Trial, expect: Expect) -> None:
    """Every collective delivers the right data at the rate this topology is built for."""
    expect.correct(measured)  # wrong and fast is not fast
    expect.within_baseline(measured)  # slowest rank, against this topology's bound
