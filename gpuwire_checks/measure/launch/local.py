"""Start ranks on this machine: one process each, in a process group of its own, its output in a log."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import gpuwire_checks
from gpuwire_checks.errors import MeasurementError

LOOPBACK = "127.0.0.1"


# What the user has set already stays as it is.
# CUDA numbers the fastest GPU first unless told otherwise, and drivers by PCI address: the wrong one would be blamed.
_DEFAULTS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
_CPU_DEFAULTS = {
    # gloo looks its address up by host name, which many containers cannot resolve.
    "GLOO_SOCKET_IFNAME": "lo",
    # gloo allocates a work buffer for each reduce_scatter and all_gather. Given back to the system every time, its
    # pages are faulted in every time, which measures the kernel, and on a virtual machine its host: up to 80 ms for
    # 16 MiB.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "1000000000000",
    "MALLOC_ARENA_MAX": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """What a pool of ranks is: two equal specs are served by the same pool.

    Attributes:
        cpus: for each rank the logical CPUs its process may run on; empty leaves them as they are.
        main_cpus: for each rank the logical CPUs of the threads that issue the calls.
        loop_cpus: for each rank the logical CPUs of the backend's event loop.
        rotate_bytes: memory that small buffers rotate through.
        timeout_seconds: after which the backend gives a collective up by itself.
        environment: set for the ranks on top of the driver's own, such as ``NCCL_NVLS_ENABLE=0``.
    """

    world_size: int
    backend: str
    device: str
    cpus: tuple[tuple[int, ...], ...]
    main_cpus: tuple[tuple[int, ...], ...]
    loop_cpus: tuple[tuple[int, ...], ...]
    rotate_bytes: int = 64 << 20
    timeout_seconds: float = 600.0
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProcess:
    """A rank that was started: its number, its process and the file that has its output."""

    rank: int
    process: subprocess.Popen[bytes]
    log: Path


def launch(spec: PoolSpec, *, control: str, token: str, folder: Path) -> tuple[RankProcess, ...]:
    """Start every rank of a pool; returns at once.

    Args:
        control: ``host:port`` on which the driver listens.
        folder: gets ``rank-N.log`` with the rank's stdout and stderr, appended to over rebuilds.
    """
    port = free_port()
    return tuple(
        _start(spec, rank, _environment(spec, rank, control=control, token=token, port=port), folder)
        for rank in range(spec.world_size)
    )


def free_port() -> int:
    """A port that nobody listens on now. Somebody may take it before rank 0 does; then the pool is started again."""
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))
        return int(sock.getsockname()[1])


def _start(spec: PoolSpec, rank: int, environment: Mapping[str, str], folder: Path) -> RankProcess:
    log = folder / f"rank-{rank}.log"
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "gpuwire_checks.measure.rank_main"],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise MeasurementError(f"rank {rank} of {spec.world_size} could not be started: {error}") from error
    return RankProcess(rank=rank, process=process, log=log)


def _environment(spec: PoolSpec, rank: int, *, control: str, token: str, port: int) -> dict[str, str]:
    settings = {
        "backend": spec.backend,
        "device": spec.device,
        "cpus": spec.cpus[rank],
        "main_cpus": spec.main_cpus[rank],
        "loop_cpus": spec.loop_cpus[rank],
        "rotate_bytes": spec.rotate_bytes,
        "timeout_seconds": spec.timeout_seconds,
    }
    package_root = str(Path(gpuwire_checks.__file__).parents[1])
    return {
        **_DEFAULTS,
        **(_CPU_DEFAULTS if spec.device == "cpu" else {}),
        **os.environ,
        **dict(spec.environment),
        "PYTHONPATH": os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")])),
        "PYTHONSAFEPATH": "1",
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(spec.world_size),
        "LOCAL_WORLD_SIZE": str(spec.world_size),
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
        "GPUWIRE_CONTROL": control,
        "GPUWIRE_TOKEN": token,
        "GPUWIRE_RANK": json.dumps(settings),
    }
