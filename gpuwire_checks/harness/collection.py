"""From plan to tests: which cases a test is run with, and which tests make sense here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from gpuwire_checks.harness import markers
from gpuwire_checks.harness.samples import SampleClock

if TYPE_CHECKING:
    from gpuwire_checks.harness.node import Node

RESULT_FIXTURES = frozenset({"measured", "wiring", "required"})
"""A test that uses one of these gives a result of its own in the run document."""


def gives_result(item: pytest.Item) -> bool:
    return not RESULT_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def needs_ranks(item: pytest.Item) -> bool:
    return "measured" in getattr(item, "fixturenames", ())


def predicted_seconds(items: Sequence[pytest.Item]) -> float:
    """What the cases of these tests will take, start-up apart."""
    callspecs = (getattr(item, "callspec", None) for item in items)
    cases = (callspec.params.get("case") for callspec in callspecs if callspec is not None)
    return float(sum(case.predicted_seconds for case in cases if case is not None))


def is_skipped(item: pytest.Item) -> bool:
    return item.get_closest_marker("skip") is not None


def needs_plan(metafunc: pytest.Metafunc) -> bool:
    return "case" in metafunc.fixturenames or "requirement" in metafunc.fixturenames


def parametrize(metafunc: pytest.Metafunc, node: Node, clock: SampleClock) -> None:
    """Give a test every planned case, or every required piece of hardware."""
    if "requirement" in metafunc.fixturenames:
        required = node.settings.require
        metafunc.parametrize("requirement", required or [None], ids=None if required else ["nothing"])
    if "case" not in metafunc.fixturenames:
        return
    hardware = [
        getattr(pytest.mark, name) for name in markers.exercised_hardware(node.topology, node.plan.world.device)
    ]
    metafunc.parametrize(
        "case",
        [
            pytest.param(case, id=case.id, marks=[*hardware, pytest.mark.benchmark(timer=clock, group=case.family)])
            for case in node.plan.cases
        ],
    )


UNPLANNED = "unplanned"


def parametrize_with_nothing(metafunc: pytest.Metafunc) -> None:
    """Stand-ins that let collection come to its end, where the real problem is reported once."""
    for name in ("requirement", "case"):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, [None], ids=[UNPLANNED])


def split(items: Sequence[pytest.Item], tier: str) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Tests that are to run, and tests that are not meant for this run: a higher tier, a requirement of nothing."""
    keep: list[pytest.Item] = []
    drop: list[pytest.Item] = []
    for item in items:
        (drop if markers.above_tier(item, tier) or _requires_nothing(item) else keep).append(item)
    return keep, drop


def skip_what_is_lacking(items: Sequence[pytest.Item], node: Node) -> None:
    """Skip tests for hardware that this node does not have; --gpuwire-require makes its absence a fault.

    Raises:
        ConfigError: a marker that is used wrongly.
    """
    for item in items:
        reason = markers.lacking(item, node.topology)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def _requires_nothing(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("requirement", "") is None
