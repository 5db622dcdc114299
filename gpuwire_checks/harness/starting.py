"""Start ranks on this node. Light to import: torch takes a second to import, and the ranks had better begin early."""

from __future__ import annotations

import os
from pathlib import Path

from gpuwire_checks.measure.faults import FAULT_VARIABLE, Fault, parse_fault
from gpuwire_checks.measure.launch.local import PoolSpec
from gpuwire_checks.measure.ranks import Ranks
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.world import World, place

_ROTATE_AT_LEAST = 64 << 20


def pool_spec(topology: NodeTopology, world: World) -> PoolSpec:
    """The ranks of a world on this node, each in its place."""
    placements = place(topology, world)
    return PoolSpec(
        world_size=world.size,
        backend=world.backend,
        device=world.device,
        cpus=tuple(placement.cpus for placement in placements),
        main_cpus=tuple(placement.main_cpus for placement in placements),
        loop_cpus=tuple(placement.loop_cpus for placement in placements),
        rotate_bytes=max(_ROTATE_AT_LEAST, 2 * _last_level_cache(topology)),
    )


def injected_fault() -> Fault | None:
    """The fault that a test or drill asks for through the environment.

    Raises:
        ConfigError: the variable is set to something that is no fault.
    """
    text = os.environ.get(FAULT_VARIABLE)
    return parse_fault(text) if text else None


def local_ranks(topology: NodeTopology, world: World, *, folder: Path) -> Ranks:
    """Ranks on this node, not started yet."""
    return Ranks(pool_spec(topology, world), folder=folder, fault=injected_fault())


def _last_level_cache(topology: NodeTopology) -> int:
    if isinstance(topology.cpu, Unread) or isinstance(topology.cpu.last_level_cache_bytes, Unread):
        return 0
    return topology.cpu.last_level_cache_bytes
