"""A node read live: the host from /proc and /sys, GPUs from their driver, versions from installed packages."""

from __future__ import annotations

import platform
import socket
from importlib import metadata
from pathlib import Path

from gpuwire_checks.topology.devices import GpuReading, GpuSource
from gpuwire_checks.topology.model import Doubt, NodeTopology, Software, Unread
from gpuwire_checks.topology.nvml import local_gpus
from gpuwire_checks.topology.sysfs import LIVE, Host, nvidia_gpus_on_bus, read_host
from gpuwire_checks.topology.tree import read_text

_NCCL = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")
"""The distributions that a CUDA build of torch brings its NCCL in."""


def discover(*, root: Path = LIVE, gpus: GpuSource | None = None) -> NodeTopology:
    """The topology of this node, or of one whose /proc and /sys were recorded under ``root``.

    Reads only; opens no device context and imports neither torch nor, without a driver, NVML.

    Args:
        root: the folder that /proc and /sys lie in.
        gpus: None for this host's own driver; a recorded tree has none.
    """
    host = read_host(root)
    source = gpus or local_gpus(root)
    reading = source.read() if source else GpuReading()
    live = root == LIVE
    return NodeTopology(
        source="live" if live else str(root),
        hostname=socket.gethostname() if live else read_text(root / "proc/sys/kernel/hostname"),
        cpu=host.cpu,
        memory_bytes=host.memory_bytes,
        numa=host.numa,
        virtualised=host.virtualised,
        nics=host.nics,
        gpus=reading.gpus,
        paths=reading.paths,
        software=_software(host, reading, live=live),
        doubts=(*reading.doubts, *_driverless(root, reading)),
    )


def _software(host: Host, reading: GpuReading, *, live: bool) -> Software:
    """Versions; those of packages are this interpreter's, and so unknown for a recorded tree."""
    unknown = Unread.UNKNOWN
    return Software(
        kernel=host.kernel,
        python=platform.python_version() if live else unknown,
        torch=_installed("torch") if live else unknown,
        driver=reading.driver,
        cuda=reading.cuda,
        nccl=next(filter(None, map(_installed, _NCCL)), None) if live else unknown,
    )


def _installed(distribution: str) -> str | None:
    """The version of an installed distribution, None when it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _driverless(root: Path, reading: GpuReading) -> tuple[Doubt, ...]:
    """GPUs that sit on the bus while no driver answers for them."""
    if reading.gpus or reading.driver is not None:
        return ()
    found = nvidia_gpus_on_bus(root)
    if not found:
        return ()
    text = f"{len(found)} NVIDIA GPUs on the PCI bus ({', '.join(found)}) and no driver: load it; compare nvidia-smi"
    return (Doubt(line=None, text=text),)
