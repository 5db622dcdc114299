"""From plan to tests: which cases a test is run with, and which tests make sense here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.harness import markers
from gpuwire_checks.harness.samples import SampleClock

if TYPE_CHECKING:
    from gpuwire_checks.harness.node import Node

RESULT_FIXTURES = frozenset({"measured", "wiring", "required", "judged"})
"""A test that uses one of these gives a result of its own in the run document."""
_PLANNED = frozenset({"case", "requirement", "part"})
"""The parameters that a plan fills."""


def gives_result(item: pytest.Item) -> bool:
    return not RESULT_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def needs_ranks(item: pytest.Item) -> bool:
    return "measured" in getattr(item, "fixturenames", ())


def rule_name(item: pytest.Item | pytest.Metafunc) -> str | None:
    """The rule that a test asks; None for other tests.

    Raises:
        ConfigError: a marker that names no rule.
    """
    definition = item.definition if isinstance(item, pytest.Metafunc) else item
    marker = definition.get_closest_marker("rule")
    if marker is None:
        return None
    from gpuwire_checks.wiring.rules import RULES  # noqa: PLC0415 - read with the node's baseline, not at start-up

    if len(marker.args) != 1 or marker.args[0] not in RULES:
        raise ConfigError(f"{definition.nodeid}: marker rule takes one name of {', '.join(RULES)}")
    return str(marker.args[0])


def predicted_seconds(items: Sequence[pytest.Item]) -> float:
    """What the cases of these tests will take, start-up apart."""
    callspecs = (getattr(item, "callspec", None) for item in items)
    cases = (callspec.params.get("case") for callspec in callspecs if callspec is not None)
    return float(sum(case.predicted_seconds for case in cases if case is not None))


def is_skipped(item: pytest.Item) -> bool:
    return item.get_closest_marker("skip") is not None


def needs_plan(metafunc: pytest.Metafunc) -> bool:
    return not _PLANNED.isdisjoint(metafunc.fixturenames)


def parametrize(metafunc: pytest.Metafunc, node: Node, clock: SampleClock) -> None:
    """Give a test every planned case, or every required piece of hardware."""
    if "requirement" in metafunc.fixturenames:
        required = node.settings.require
        metafunc.parametrize("requirement", required or [None], ids=None if required else ["nothing"])
    if "part" in metafunc.fixturenames:
        _parametrize_parts(metafunc, node)
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


def _parametrize_parts(metafunc: pytest.Metafunc, node: Node) -> None:
    """Every part that the node or its baseline has; a skip where neither has any."""
    from gpuwire_checks.wiring.rules import RULES  # noqa: PLC0415 - see rule_name

    name = rule_name(metafunc)
    if name is None:
        raise ConfigError(f"{metafunc.definition.nodeid}: the fixture judged needs the marker rule(name)")
    rule = RULES[name]
    parts = rule.parts(node.held)
    if not parts:
        reason = f"neither this node nor its baseline has {rule.what}"
        if node.held.expected is None and name != "software":
            reason = f"no baseline here states any wiring; record one with: gpuwire baseline record ({rule.what})"
        metafunc.parametrize("part", [pytest.param(None, id="none", marks=pytest.mark.skip(reason=reason))])
        return
    metafunc.parametrize("part", parts, ids=[rule.label(part) for part in parts])


UNPLANNED = "unplanned"


def parametrize_with_nothing(metafunc: pytest.Metafunc) -> None:
    """Stand-ins that let collection come to its end, where the real problem is reported once."""
    for name in sorted(_PLANNED):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, [None], ids=[UNPLANNED])


def split(items: Sequence[pytest.Item], tier: str, *, can_measure: bool) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Tests that are to run, and tests that are not meant for this run: a higher tier, a requirement of nothing.

    Args:
        can_measure: False where the node is read from a file: what needs a measurement is not meant then.
    """
    keep: list[pytest.Item] = []
    drop: list[pytest.Item] = []
    for item in items:
        unmeant = markers.above_tier(item, tier) or _requires_nothing(item)
        (drop if unmeant or (not can_measure and _needs_measuring(item)) else keep).append(item)
    return keep, drop


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Software first, then what can be told before measuring, then the rest as it came, then what measuring showed.

    A change of software is told before any figure, and a part that is gone before a collective waits for it.
    """
    from gpuwire_checks.wiring.rules import RULES  # noqa: PLC0415 - see rule_name

    def turn(item: pytest.Item) -> int:
        name = rule_name(item)
        if name is not None:
            return 3 if RULES[name].measured else 0 if RULES[name].software else 1
        fixtures = getattr(item, "fixturenames", ())
        return 1 if "wiring" in fixtures or "required" in fixtures else 2

    return sorted(items, key=turn)


def skip_what_is_lacking(items: Sequence[pytest.Item], node: Node) -> None:
    """Skip tests for hardware that this node does not have; --gpuwire-require makes its absence a fault.

    Raises:
        ConfigError: a marker that is used wrongly.
    """
    for item in items:
        reason = markers.lacking(item, node.topology)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def _needs_measuring(item: pytest.Item) -> bool:
    from gpuwire_checks.wiring.rules import RULES  # noqa: PLC0415 - see rule_name

    name = rule_name(item)
    return needs_ranks(item) or (name is not None and RULES[name].measured)


def _requires_nothing(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("requirement", "") is None
