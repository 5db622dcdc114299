"""This node, and what is to be measured on it: topology, policy, baseline and plan together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from gpuwire_checks.baseline.store import Match, find_baseline
from gpuwire_checks.errors import ConfigError
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.measure.faults import FAULT_VARIABLE, Fault, parse_fault
from gpuwire_checks.measure.launch.local import PoolSpec
from gpuwire_checks.measure.ranks import Deadlines
from gpuwire_checks.plan import Plan, choose_world, make_plan
from gpuwire_checks.policy import Policy, load_policy
from gpuwire_checks.records import Bound, Case
from gpuwire_checks.topology.discover import discover
from gpuwire_checks.topology.fingerprint import Fingerprint, facts, fingerprint
from gpuwire_checks.topology.model import NodeTopology, Unread

_ROTATE_AT_LEAST = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What a run knows before it measures."""

    settings: Settings
    topology: NodeTopology
    fingerprint: Fingerprint
    facts: Mapping[str, str | int]
    policy: Policy
    match: Match
    plan: Plan
    fault: Fault | None

    @property
    def bounds(self) -> int:
        """Planned cases that the baseline has a bound for."""
        return sum(self.bound_for(case) is not None for case in self.plan.cases)

    def bound_for(self, case: Case) -> Bound | None:
        """What the node's baseline says of a case; None without a baseline, or without a bound."""
        return self.match.baseline.bound_for(case) if self.match.baseline else None

    @property
    def where(self) -> str:
        """The baseline that cases are looked up in, for messages."""
        if self.match.baseline is None:
            return f"no baseline for {self.fingerprint.sku}"
        return str(self.match.baseline.path)


def survey(settings: Settings, *, topology: NodeTopology | None = None) -> Node:
    """Look at the node, find its baseline, and plan.

    Raises:
        GpuwireError: a policy or baseline that cannot be read, or a request that makes no sense here.
    """
    topology = topology or discover()
    policy = load_policy(settings.baselines)
    if settings.tier not in policy.tiers:
        raise ConfigError(f"--gpuwire-tier: {settings.tier!r} is none of {', '.join(policy.tiers)}")
    world = choose_world(topology, device=settings.device, world_size=settings.world_size)
    print_, known = fingerprint(topology), facts(topology)
    match = find_baseline(settings.baselines, sku=print_.sku, exact=print_.exact, facts=known, expect=settings.expect)
    text = os.environ.get(FAULT_VARIABLE)
    return Node(
        settings=settings,
        topology=topology,
        fingerprint=print_,
        facts=known,
        policy=policy,
        match=match,
        plan=make_plan(topology, policy.tiers[settings.tier], world, extra_dtypes=settings.dtypes),
        fault=parse_fault(text) if text else None,
    )


def pool_spec(node: Node) -> PoolSpec:
    """The ranks that the plan needs."""
    world, placements = node.plan.world, node.plan.placements
    return PoolSpec(
        world_size=world.size,
        backend=world.backend,
        device=world.device,
        cpus=tuple(placement.cpus for placement in placements),
        main_cpus=tuple(placement.main_cpus for placement in placements),
        rotate_bytes=max(_ROTATE_AT_LEAST, 2 * _last_level_cache(node.topology)),
    )


def deadlines(node: Node) -> Deadlines:
    """How long the ranks may take, by the policy."""
    policy = node.policy.deadlines
    return Deadlines(start_seconds=policy.start_seconds, floor_seconds=policy.floor_seconds, factor=policy.factor)


def _last_level_cache(topology: NodeTopology) -> int:
    if isinstance(topology.cpu, Unread) or isinstance(topology.cpu.last_level_cache_bytes, Unread):
        return 0
    return topology.cpu.last_level_cache_bytes
