"""The node's topology held to its baseline, and to what it is required to have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpuwire_checks.harness.markers import is_here, requirement_words
from gpuwire_checks.harness.trial import Trial
from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.fingerprint import first_difference, is_told
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.wiring.held import Watched
from gpuwire_checks.wiring.rules import RULES

if TYPE_CHECKING:
    from gpuwire_checks.baseline.model import Baseline
    from gpuwire_checks.harness.node import Node


def judge_topology(node: Node, *, told_by_part: bool) -> Trial:
    """PASS where the wiring is the baseline's, MISSING with the first difference where it is not.

    Args:
        told_by_part: tests of single parts are in this run, and one of them names a fault: one wire is one failure.
    """
    baseline, match = node.match.baseline, node.match
    if baseline is None:
        nearest = f"; nearest is {match.nearest.name}: {match.difference}" if match.nearest else ""
        return _wiring(
            "topology",
            Outcome.NO_BASELINE,
            f"no baseline for {node.fingerprint.sku}{nearest}; record one with: gpuwire baseline record",
        )
    if match.exact:
        return _wiring("topology", Outcome.PASS, f"wired as {baseline.name} says ({baseline.exact or 'a reference'})")
    if node.wiring_faults:
        first, more = node.wiring_faults[0], len(node.wiring_faults) - 1
        others = f" (and {more} more)" if more else ""
        if told_by_part:
            return _wiring("topology", Outcome.NOT_RUN, f"explained by {first.name}{others}: {first.reason}")
        return _wiring("topology", Outcome.MISSING, f"{first.reason}{others}")
    if node.wiring_unread:
        return _wiring("topology", Outcome.NOT_RUN, f"the whole cannot be told: {node.wiring_unread[0].reason}")
    return _judge_facts(node, baseline)


def _judge_facts(node: Node, baseline: Baseline) -> Trial:
    """What no rule is about: a fact that differs, or one that cannot be read, or the same parts joined differently."""
    where = f"(baseline {baseline.name}, {baseline.path})"
    told = [name for name in node.facts if is_told(node.facts[name]) and is_told(baseline.facts.get(name, ""))]
    difference = first_difference(
        {name: baseline.facts[name] for name in told if name in baseline.facts},
        {name: node.facts[name] for name in told},
    )
    if difference is not None:
        return _wiring("topology", Outcome.MISSING, f"{difference} {where}")
    untold = first_difference(baseline.facts, node.facts)
    if untold is not None:
        return _wiring("topology", Outcome.NOT_RUN, f"the whole cannot be told: {untold} {where}")
    hashes = f"{node.fingerprint.exact}, the baseline says {baseline.exact}"
    return _wiring("topology", Outcome.MISSING, f"the same parts are joined differently: {hashes} {where}")


def judge_rule(node: Node, rule: str, part: object, watched: Watched | None) -> Trial:
    """What a rule says of a part of this node, with what was seen under load so far."""
    return Trial(case=None, verdict=RULES[rule].judge(replace(node.held, watched=watched), part))


def judge_requirement(topology: NodeTopology, requirement: str) -> Trial:
    """PASS where the hardware is here, MISSING where it is not."""
    if is_here(topology, requirement):
        return _wiring(requirement, Outcome.PASS, f"{requirement} is here")
    return _wiring(
        requirement,
        Outcome.MISSING,
        f"--gpuwire-require {requirement}: this node has no {requirement} ({requirement_words(requirement)})",
    )


def _wiring(name: str, outcome: Outcome, reason: str) -> Trial:
    return Trial(
        case=None, verdict=Verdict(outcome=outcome, case=None, name=name, metric="wiring", unit="", reason=reason)
    )
