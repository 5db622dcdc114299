"""Which cases make sense on a node, how many ranks take part, where they run, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.errors import ConfigError
from gpuwire_checks.policy import Sizes, Tier
from gpuwire_checks.records import Case, SizeClass
from gpuwire_checks.topology.model import Cpu, NodeTopology, Unread

BACKENDS = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}

# Deliberately low, so that predictions err on the long side: loopback sockets, and PCIe without peer access.
_ASSUMED_BYTES_PER_SECOND = {"cpu": 1e9, "accelerator": 10e9}
_PEAK_LIMITS = {"cpu": (16 << 20, 256 << 20), "accelerator": (1 << 30, 8 << 30)}
_CALLS_AT_LEAST = 14
"""Calls of a case however long one takes: warm-up, three repeats with their dropped call, single calls, the check."""
_FIXED_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The ranks that take part: how many, on what, through which backend."""

    size: int
    device: str
    backend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Logical CPUs of one rank: of its whole process, and of the thread that issues calls. Empty: leave as is."""

    cpus: tuple[int, ...]
    main_cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be measured.

    Attributes:
        predicted_seconds: for all cases once, without start-up.
    """

    tier: str
    world: World
    cases: tuple[Case, ...]
    placements: tuple[Placement, ...]

    @property
    def predicted_seconds(self) -> float:
        return sum(case.predicted_seconds for case in self.cases)


def choose_world(topology: NodeTopology, *, device: str, world_size: int | None) -> World:
    """The world to measure with.

    Args:
        device: ``auto`` takes the accelerators when there are at least two, the CPU otherwise.
        world_size: None for one rank a device, or, on a CPU, half the cores between 2 and 8.

    Raises:
        ConfigError: fewer than two ranks, or more than there are devices.
    """
    gpus = len(topology.gpus)
    if device == "auto":
        device = "cuda" if gpus >= 2 else "cpu"
    if device not in BACKENDS:
        raise ConfigError(f"unknown device {device!r}; one of auto, {', '.join(BACKENDS)}")
    size = world_size if world_size is not None else gpus if device != "cpu" else _cpu_ranks(topology)
    if size < 2:
        raise ConfigError(
            f"a world of {size} rank moves nothing: collectives need at least 2; give --gpuwire-world-size 2 or more"
        )
    if device != "cpu" and size > gpus:
        raise ConfigError(f"--gpuwire-world-size {size} needs {size} GPUs, and {gpus} are visible here")
    return World(size=size, device=device, backend=BACKENDS[device])


def make_plan(topology: NodeTopology, tier: Tier, world: World, *, extra_dtypes: tuple[str, ...] = ()) -> Plan:
    """Every case of a tier that makes sense on this node, in the order of least rebuilding."""
    sizes = tier.cpu if world.device == "cpu" else tier.accelerator
    return Plan(
        tier=tier.name,
        world=world,
        cases=tuple(_cases(topology, sizes, world, extra_dtypes)),
        placements=place(topology, world),
    )


def place(topology: NodeTopology, world: World) -> tuple[Placement, ...]:
    """Where each rank runs: near its device, or on its share of the cores of one NUMA node."""
    if world.device != "cpu":
        return tuple(_near_gpu(topology, rank) for rank in range(world.size))
    return tuple(_share_of_cores(topology, rank, world.size) for rank in range(world.size))


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


def _cpu_ranks(topology: NodeTopology) -> int:
    if isinstance(topology.cpu, Unread):
        return 2
    return max(2, min(8, _usable_cores(topology.cpu) // 2))


def _usable_cores(cpu: Cpu) -> int:
    usable = len(cpu.usable)
    return min(usable, cpu.cores) if isinstance(cpu.cores, int) else usable


def _near_gpu(topology: NodeTopology, rank: int) -> Placement:
    numbers = {gpu.numa_node for gpu in topology.gpus if gpu.index == rank}
    usable = _usable(topology)
    for node in topology.numa:
        if node.number in numbers and len(topology.numa) > 1:
            return Placement(cpus=tuple(cpu for cpu in node.cpus if cpu in usable), main_cpus=())
    return Placement(cpus=(), main_cpus=())


def _share_of_cores(topology: NodeTopology, rank: int, world_size: int) -> Placement:
    usable = _usable(topology)
    nodes = [tuple(cpu for cpu in node.cpus if cpu in usable) for node in topology.numa]
    nodes = [cpus for cpus in nodes if cpus] or [tuple(sorted(usable))]
    mine = rank * len(nodes) // world_size
    cpus = nodes[mine]
    beside = [r for r in range(world_size) if r * len(nodes) // world_size == mine]
    at, share = beside.index(rank), max(1, len(cpus) // len(beside))
    main = cpus[at * share : (at + 1) * share]
    return Placement(cpus=cpus if len(nodes) > 1 else (), main_cpus=main)


def _usable(topology: NodeTopology) -> frozenset[int]:
    return frozenset() if isinstance(topology.cpu, Unread) else frozenset(topology.cpu.usable)
