"""Which cases make sense on a node with these ranks, and how long they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.policy import Sizes, Tier
from gpuwire_checks.records import Case, SizeClass
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.world import World

# Deliberately low, so that predictions err on the long side: loopback sockets, and PCIe without peer access.
_ASSUMED_BYTES_PER_SECOND = {"cpu": 1e9, "accelerator": 10e9}
_PEAK_LIMITS = {"cpu": (16 << 20, 256 << 20), "accelerator": (1 << 30, 8 << 30)}
_CALLS_AT_LEAST = 14
"""Calls of a case however long one takes: warm-up, three repeats with their dropped call, single calls, the check."""
_FIXED_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be measured.

    Attributes:
        predicted_seconds: for all cases once, without start-up.
    """

    tier: str
    world: World
    cases: tuple[Case, ...]

    @property
    def predicted_seconds(self) -> float:
        return sum(case.predicted_seconds for case in self.cases)


def make_plan(topology: NodeTopology, tier: Tier, world: World, *, extra_dtypes: tuple[str, ...] = ()) -> Plan:
    """Every case of a tier that makes sense on this node, in the order of least rebuilding."""
    sizes = tier.cpu if world.device == "cpu" else tier.accelerator
    return Plan(
        tier=tier.name,
        world=world,
        cases=tuple(_cases(topology, sizes, world, extra_dtypes)),
    )


def _cases(topology: NodeTopology, sizes: Sizes, world: World, extra_dtypes: tuple[str, ...]) -> Iterator[Case]:
    yield _case("barrier", world, sizes, size_bytes=0, dtype=None, size_class=SizeClass.LATENCY)
    for dtype in dict.fromkeys((*sizes.dtypes, *extra_dtypes)):
        for name in _collectives(dtype, first_dtype=sizes.dtypes[0]):
            for size_bytes, size_class in _sizes(topology, sizes, world).items():
                yield _case(name, world, sizes, size_bytes=size_bytes, dtype=dtype, size_class=size_class)


def _collectives(dtype: str, *, first_dtype: str) -> list[str]:
    """A copy moves the same bytes whatever they mean; only arithmetic is worth another dtype."""
    return [name for name, row in COLLECTIVES.items() if name != "barrier" and (dtype == first_dtype or row.reduces)]


def _sizes(topology: NodeTopology, sizes: Sizes, world: World) -> dict[int, SizeClass]:
    """Every size once, by class; a peak that is a bucket size already stays one."""
    peak = (_peak_size(topology, sizes, world),) if sizes.peak == "auto" else sizes.peak
    return {
        **dict.fromkeys(peak, SizeClass.PEAK),
        **dict.fromkeys(sizes.bucket, SizeClass.BUCKET),
        **dict.fromkeys(sizes.latency, SizeClass.LATENCY),
    }


def _case(name: str, world: World, sizes: Sizes, *, size_bytes: int, dtype: str | None, size_class: SizeClass) -> Case:
    slowest = _CALLS_AT_LEAST * size_bytes / _ASSUMED_BYTES_PER_SECOND[_kind(world)]
    return Case(
        collective=name,
        size_bytes=size_bytes,
        dtype=dtype,
        world_size=world.size,
        size_class=size_class,
        backend=world.backend,
        device=world.device,
        seconds=sizes.seconds_per_case,
        predicted_seconds=max(sizes.seconds_per_case, slowest) + _FIXED_SECONDS,
    )


def _peak_size(topology: NodeTopology, sizes: Sizes, world: World) -> int:
    """The largest power of two that a third of a case's time and an eighth of the memory allow, within limits."""
    kind = _kind(world)
    low, high = _PEAK_LIMITS[kind]
    in_time = sizes.seconds_per_case / 3 * _ASSUMED_BYTES_PER_SECOND[kind]
    if world.device == "cpu":
        memory = topology.memory_bytes / world.size if isinstance(topology.memory_bytes, int) else low * 8
    else:
        known = [gpu.memory_bytes for gpu in topology.gpus if isinstance(gpu.memory_bytes, int)]
        memory = min(known, default=low * 8)
    size = high
    while size > low and size > in_time:
        size //= 2
    while size > 1 << 20 and size > memory / 8:
        size //= 2
    return size


def _kind(world: World) -> str:
    return "cpu" if world.device == "cpu" else "accelerator"
