"""The node's topology held to its baseline, and to what it is required to have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuwire_checks.harness.markers import HARDWARE, present_hardware
from gpuwire_checks.harness.trial import Trial
from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.fingerprint import first_difference
from gpuwire_checks.topology.model import NodeTopology

if TYPE_CHECKING:
    from gpuwire_checks.harness.node import Node


def judge_topology(node: Node) -> Trial:
    """PASS where the wiring is the baseline's, MISSING with the first difference where it is not."""
    baseline, match = node.match.baseline, node.match
    if baseline is None:
        nearest = f"; nearest is {match.nearest.name}: {match.difference}" if match.nearest else ""
        return _wiring(
            "topology",
            Outcome.NO_BASELINE,
            f"no baseline for {node.fingerprint.sku}{nearest}; record one with: gpuwire baseline record",
        )
    if match.exact:
        return _wiring("topology", Outcome.PASS, f"wired as {baseline.name} says ({baseline.exact})")
    difference = first_difference(baseline.facts, node.facts) or (
        f"the same parts are joined differently: {node.fingerprint.exact}, the baseline says {baseline.exact}"
    )
    return _wiring("topology", Outcome.MISSING, f"{difference} (baseline {baseline.name}, {baseline.path})")


def judge_requirement(topology: NodeTopology, requirement: str) -> Trial:
    """PASS where the hardware is here, MISSING where it is not."""
    if requirement in present_hardware(topology):
        return _wiring(requirement, Outcome.PASS, f"{requirement} is here")
    return _wiring(
        requirement,
        Outcome.MISSING,
        f"--gpuwire-require {requirement}: this node has no {requirement} ({HARDWARE[requirement]})",
    )


def _wiring(name: str, outcome: Outcome, reason: str) -> Trial:
    return Trial(
        case=None, verdict=Verdict(outcome=outcome, case=None, name=name, metric="wiring", unit="", reason=reason)
    )
