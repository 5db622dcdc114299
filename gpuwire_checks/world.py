"""Which ranks take part: how many, on what, and where each of them runs. Light to import: ranks start from it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.topology.model import Cpu, NodeTopology, Unread

BACKENDS = {"cpu": "gloo", "cuda": "nccl", "xpu": "xccl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The ranks that take part: how many, on what, through which backend."""

    size: int
    device: str
    backend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Logical CPUs of one rank: of its process, its threads that issue calls, its event loop. Empty: leave as is."""

    cpus: tuple[int, ...] = ()
    main_cpus: tuple[int, ...] = ()
    loop_cpus: tuple[int, ...] = ()


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
    if device != "cpu" and gpus < 2:
        raise ConfigError(f"--gpuwire-device {device} needs at least 2 GPUs, and {gpus} are visible here")
    size = world_size if world_size is not None else gpus if device != "cpu" else _cpu_ranks(topology)
    if size < 2:
        raise ConfigError(
            f"a world of {size} rank moves nothing: collectives need at least 2; give --gpuwire-world-size 2 or more"
        )
    if device != "cpu" and size > gpus:
        raise ConfigError(f"--gpuwire-world-size {size} needs {size} GPUs, and {gpus} are visible here")
    return World(size=size, device=device, backend=BACKENDS[device])


def place(topology: NodeTopology, world: World) -> tuple[Placement, ...]:
    """Where each rank runs: near its device, or on its share of the cores of one NUMA node."""
    if world.device != "cpu":
        return tuple(_near_gpu(topology, rank) for rank in range(world.size))
    return tuple(_share_of_cores(topology, rank, world.size) for rank in range(world.size))


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
            return Placement(cpus=tuple(cpu for cpu in node.cpus if cpu in usable))
    return Placement()


def _share_of_cores(topology: NodeTopology, rank: int, world_size: int) -> Placement:
    """A rank's share of a NUMA node: half of it for the threads that issue calls, half for the event loop.

    A share of one CPU is too small for both: the loop then runs on the next rank's.
    """
    usable = _usable(topology)
    nodes = [tuple(cpu for cpu in node.cpus if cpu in usable) for node in topology.numa]
    nodes = [cpus for cpus in nodes if cpus] or [tuple(sorted(usable))]
    mine = rank * len(nodes) // world_size
    cpus = nodes[mine]
    beside = [r for r in range(world_size) if r * len(nodes) // world_size == mine]
    at, size = beside.index(rank), len(cpus) // len(beside)
    process = cpus if len(nodes) > 1 else ()
    if size >= 2:
        share = cpus[at * size : (at + 1) * size]
        return Placement(cpus=process, main_cpus=share[: size // 2], loop_cpus=share[size // 2 :])
    if len(cpus) < 2:
        return Placement(cpus=process)
    return Placement(cpus=process, main_cpus=(cpus[at % len(cpus)],), loop_cpus=(cpus[(at + 1) % len(cpus)],))


def _usable(topology: NodeTopology) -> frozenset[int]:
    return frozenset() if isinstance(topology.cpu, Unread) else frozenset(topology.cpu.usable)
