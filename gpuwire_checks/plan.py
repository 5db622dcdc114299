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
_LEAST_MEMORY = {"cpu": 128 << 20, "accelerator": 1 << 30}
"""Bytes of a rank or a GPU with fewer of which nothing is measured: torch alone takes more of them."""


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
    sizes = _sizes_of(tier, world)
    peak = (_peak_size(topology, sizes, world),) if sizes.peak == "auto" else sizes.peak
    return Plan(tier=tier.name, world=world, cases=tuple(_cases(sizes, world, extra_dtypes, peak=peak)))


def plannable(tier: Tier, world: World, *, extra_dtypes: tuple[str, ...] = ()) -> tuple[Case, ...]:
    """Every case that a tier plans on some node with these ranks.

    A peak that is chosen from memory is of any size that some amount of memory leads to.
    """
    sizes = _sizes_of(tier, world)
    peak = tuple(_peaks(sizes, _kind(world))) if sizes.peak == "auto" else sizes.peak
    return tuple(_cases(sizes, world, extra_dtypes, peak=peak))


def _sizes_of(tier: Tier, world: World) -> Sizes:
    return tier.cpu if world.device == "cpu" else tier.accelerator


def _cases(sizes: Sizes, world: World, extra_dtypes: tuple[str, ...], *, peak: tuple[int, ...]) -> Iterator[Case]:
    yield _case("barrier", world, sizes, size_bytes=0, dtype=None, size_class=SizeClass.LATENCY)
    for dtype in dict.fromkeys((*sizes.dtypes, *extra_dtypes)):
        for name in _collectives(dtype, first_dtype=sizes.dtypes[0]):
            for size_bytes, size_class in _classes(sizes, peak).items():
                yield _case(name, world, sizes, size_bytes=size_bytes, dtype=dtype, size_class=size_class)


def _collectives(dtype: str, *, first_dtype: str) -> list[str]:
    """A copy moves the same bytes whatever they mean; only arithmetic is worth another dtype."""
    return [name for name, row in COLLECTIVES.items() if name != "barrier" and (dtype == first_dtype or row.reduces)]


def _classes(sizes: Sizes, peak: tuple[int, ...]) -> dict[int, SizeClass]:
    """Every size once, by class; a peak that is a bucket size already stays one."""
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
    unknown = _PEAK_LIMITS[kind][0] * 8
    if world.device == "cpu":
        memory = topology.memory_bytes / world.size if isinstance(topology.memory_bytes, int) else unknown
    else:
        known = [gpu.memory_bytes for gpu in topology.gpus if isinstance(gpu.memory_bytes, int)]
        memory = min(known, default=unknown)
    size = _peak_in_time(sizes, kind)
    while size > 1 << 20 and size > memory / 8:
        size //= 2
    return size


def _peak_in_time(sizes: Sizes, kind: str) -> int:
    low, size = _PEAK_LIMITS[kind]
    in_time = sizes.seconds_per_case / 3 * _ASSUMED_BYTES_PER_SECOND[kind]
    while size > low and size > in_time:
        size //= 2
    return size


def _peaks(sizes: Sizes, kind: str) -> Iterator[int]:
    """What less and less memory makes of the peak that time allows."""
    size = _peak_in_time(sizes, kind)
    while size >= _LEAST_MEMORY[kind] // 8:
        yield size
        size //= 2


def _kind(world: World) -> str:
    return "cpu" if world.device == "cpu" else "accelerator"
