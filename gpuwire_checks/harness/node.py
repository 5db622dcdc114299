"""This node, and what is to be measured on it: topology, policy, baseline and plan together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gpuwire_checks.baseline.finding import Match, find_baseline
from gpuwire_checks.baseline.floors import AppliedFloor, floor_of_case
from gpuwire_checks.baseline.model import entry_for
from gpuwire_checks.baseline.schema import BoundEntry
from gpuwire_checks.errors import ConfigError
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.judge.rule import make_rule
from gpuwire_checks.measure.ranks import Deadlines
from gpuwire_checks.plan import Plan, make_plan
from gpuwire_checks.policy import Policy, load_policy
from gpuwire_checks.records import Bound, Case, Outcome, Verdict
from gpuwire_checks.topology.fingerprint import Fingerprint, facts, fingerprint
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.topology.nvls import uses_nvls
from gpuwire_checks.topology.wires import most_links_up
from gpuwire_checks.wiring.held import Held
from gpuwire_checks.wiring.rules import at_rest
from gpuwire_checks.world import World

_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""With one of these set, fewer GPUs are meant to be seen, and none is gone for it."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """What a run knows before it measures."""

    settings: Settings
    topology: NodeTopology
    fingerprint: Fingerprint
    facts: Mapping[str, str | int]
    policy: Policy
    match: Match
    plan: Plan

    @cached_property
    def held(self) -> Held:
        """The node held to what its baseline says of its wiring; nothing is expected of it without one."""
        baseline = self.match.baseline
        return Held(
            topology=self.topology,
            expected=baseline.wiring if baseline else None,
            where=str(baseline.path) if baseline else "",
            software=baseline.expected_software if baseline else {},
            bit_error_rates=self.policy.bit_error_rates,
        )

    @cached_property
    def wiring_at_rest(self) -> tuple[Verdict, ...]:
        """What is said of the wiring, part by part, before anything is measured."""
        return tuple(at_rest(self.held))

    @property
    def wiring_faults(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.wiring_at_rest if verdict.outcome.is_fault)

    @property
    def wiring_unread(self) -> tuple[Verdict, ...]:
        """What the baseline states and this node does not show."""
        return tuple(verdict for verdict in self.wiring_at_rest if verdict.outcome is Outcome.NOT_RUN)

    @cached_property
    def bounds(self) -> int:
        """Planned cases that the baseline has a bound for."""
        return len(self._entries)

    @cached_property
    def _entries(self) -> tuple[BoundEntry, ...]:
        """The bounds of planned cases, as the file has them: what is asked here needs no statistics."""
        baseline = self.match.baseline
        entries = baseline.entries if baseline else ()
        found = (entry_for(entries, case) for case in self.plan.cases)
        return tuple(entry for entry in found if entry is not None)

    @cached_property
    def decisions(self) -> int:
        """Decisions that a run of this plan takes: each limit that a case is held to is one."""
        rolling = {entry.key for entry in self.match.baseline.rolling} if self.match.baseline else set()
        gates = sum((entry.tail is not None) + (entry.key in rolling) for entry in self._entries)
        return len(self.plan.cases) + gates

    def bound_for(self, case: Case) -> Bound | None:
        """What the node's baseline says of a case; None without a baseline, or without a bound."""
        return self.match.baseline.bound_for(case) if self.match.baseline else None

    def floor_of(self, case: Case) -> AppliedFloor | None:
        """What was published of such nodes, as a limit of a case; None without a figure that certainly holds here."""
        floors = self.match.baseline.floors if self.match.baseline else ()
        return floor_of_case(floors, case, nvls=uses_nvls(self.topology, os.environ))

    @property
    def where(self) -> str:
        """The baseline that cases are looked up in, for messages."""
        if self.match.baseline is None:
            return f"no baseline for {self.fingerprint.sku}"
        return str(self.match.baseline.path)


def survey(settings: Settings, *, topology: NodeTopology, world: World) -> Node:
    """Find a node's baseline, and plan.

    Raises:
        GpuwireError: a policy or baseline that cannot be read, or a tier that there is not.
    """
    policy = load_policy(settings.baselines)
    if settings.tier not in policy.tiers:
        raise ConfigError(f"--gpuwire-tier: {settings.tier!r} is none of {', '.join(policy.tiers)}")
    known, known_facts = fingerprint(topology), facts(topology)
    node = Node(
        settings=settings,
        topology=topology,
        fingerprint=known,
        facts=known_facts,
        policy=policy,
        match=find_baseline(
            settings.baselines,
            sku=known.sku,
            exact=known.exact,
            facts=known_facts,
            expect=settings.expect,
            site=None if any(name in os.environ for name in _HIDING) else settings.site,
            links=most_links_up(topology),
        ),
        plan=make_plan(topology, policy.tiers[settings.tier], world, extra_dtypes=settings.dtypes),
    )
    for case in node.plan.cases[:1]:
        # What a policy promises and cannot keep is told now, and not at the first suspicion.
        make_rule(policy, policy.tolerance(case, sku=known.sku), decisions=node.decisions)
    return node


def deadlines(policy: Policy) -> Deadlines:
    """How long ranks may take."""
    seconds = policy.deadlines
    return Deadlines(start_seconds=seconds.start_seconds, floor_seconds=seconds.floor_seconds, factor=seconds.factor)
