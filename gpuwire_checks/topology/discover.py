"""A node read live: the host from /proc and /sys, GPUs from their driver, versions from installed packages."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from gpuwire_checks.topology.amd import local_amd_gpus
from gpuwire_checks.topology.devices import GpuReading, GpuSource
from gpuwire_checks.topology.model import Doubt, Gpu, NodeTopology, PairPath, PciDevice, Pcie, Software, Unread
from gpuwire_checks.topology.nic_counters import nic_counters
from gpuwire_checks.topology.nvml import local_gpus
from gpuwire_checks.topology.pci import read_pci
from gpuwire_checks.topology.pci_paths import pci_paths
from gpuwire_checks.topology.sysfs import LIVE, Host, read_host
from gpuwire_checks.topology.tree import is_there, read_text, real

_NCCL = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")
"""The distributions that a CUDA build of torch brings its NCCL in."""
_VENDORS = {"10de": ("NVIDIA", "nvidia", "nvidia-smi"), "1002": ("AMD", "amdgpu", "rocm-smi")}
"""By PCI vendor id: its name, its kernel driver, and the tool that asks it."""


def discover(*, root: Path = LIVE, gpus: GpuSource | None = None) -> NodeTopology:
    """The topology of this node, or of one whose /proc and /sys were recorded under ``root``.

    Reads only; opens no device context and imports neither torch nor, without a driver, NVML.

    Args:
        root: the folder that /proc and /sys lie in.
        gpus: None for this host's own driver; a recorded tree has none.
    """
    pci = read_pci(root)
    host = read_host(root, pci)
    source = gpus or local_gpus(root) or local_amd_gpus(root)
    reading = source.read() if source else GpuReading()
    gpus_found = tuple(_with_pcie(gpu, pci) for gpu in reading.gpus)
    live = root == LIVE
    return NodeTopology(
        source="live" if live else str(root),
        hostname=socket.gethostname() if live else read_text(root / "proc/sys/kernel/hostname"),
        cpu=host.cpu,
        memory_bytes=host.memory_bytes,
        numa=host.numa,
        virtualised=host.virtualised,
        nics=host.nics,
        gpus=gpus_found,
        paths=_paths(reading, pci, host),
        software=_software(host, reading, root, live=live),
        doubts=(*reading.doubts, *_driverless(root, reading, pci)),
        peers=reading.peers,
        pci=pci,
        counters=(*reading.counters, *nic_counters(root)),
    )


def _with_pcie(gpu: Gpu, pci: Sequence[PciDevice]) -> Gpu:
    """The GPU with what the bus tells where its driver could not.

    Of a GPU that answers nothing the bus tells where it is, and not its link, which may be one to nothing.
    """
    device = next((device for device in pci if device.address == gpu.pci_address), None)
    if device is None or isinstance(gpu.pci_address, Unread):
        return gpu
    silent = gpu.model is gpu.memory_bytes is gpu.pcie_width is gpu.max_pcie_width is Unread.UNKNOWN
    pcie = Pcie() if silent else device.pcie
    return replace(
        gpu,
        pcie_generation=_first(gpu.pcie_generation, pcie.generation),
        pcie_width=_first(gpu.pcie_width, pcie.width),
        max_pcie_generation=_first(gpu.max_pcie_generation, pcie.max_generation),
        max_pcie_width=_first(gpu.max_pcie_width, pcie.max_width),
        numa_node=_first(gpu.numa_node, device.numa_node),
    )


def _first(told: int | Unread, seen: int | Unread) -> int | Unread:
    return seen if isinstance(told, Unread) and not isinstance(seen, Unread) else told


def _paths(reading: GpuReading, pci: Sequence[PciDevice], host: Host) -> tuple[PairPath, ...]:
    """Those the driver told and those the bus shows, in the order of devices."""
    names = [*(gpu.name for gpu in reading.gpus), *(nic.name for nic in host.nics)]
    order = {name: place for place, name in enumerate(names)}
    nics = tuple(nic for nic in host.nics if nic.kind != "virtual")
    found = (*reading.paths, *pci_paths(pci, reading.gpus, nics, known=reading.paths))
    return tuple(sorted(found, key=lambda pair: (order[pair.a], order[pair.b])))


def _software(host: Host, reading: GpuReading, root: Path, *, live: bool) -> Software:
    """Versions; those of packages are this interpreter's, and so unknown for a recorded tree."""
    unknown = Unread.UNKNOWN
    rocm = read_text(root / "opt/rocm/.info/version") or unknown
    return Software(
        kernel=host.kernel,
        python=platform.python_version() if live else unknown,
        torch=_installed("torch") if live else unknown,
        driver=reading.driver,
        cuda=reading.cuda,
        nccl=next(filter(None, map(_installed, _NCCL)), None) if live else unknown,
        rocm=None if live and rocm is unknown else rocm,
    )


def _installed(distribution: str) -> str | None:
    """The version of an installed distribution, None when it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _driverless(root: Path, reading: GpuReading, pci: Sequence[PciDevice]) -> Iterator[Doubt]:
    """GPUs that sit on the bus while no driver answers for them, by vendor.

    Where a driver answers for some, another that it holds may be hidden on purpose; one that it does not hold is gone.
    """
    answered = bool(reading.gpus) or reading.driver is not None
    vendors, listed = {gpu.vendor for gpu in reading.gpus}, {gpu.pci_address for gpu in reading.gpus}
    bound = any(_kernel_driver(root, address) for address in listed if not isinstance(address, Unread))
    for vendor, (name, driver, tool) in _VENDORS.items():
        if answered and name.lower() not in vendors:
            continue
        found = [str(device.address) for device in pci if device.kind == "gpu" and device.name.startswith(vendor)]
        holders = {address: _kernel_driver(root, address) for address in found if address not in listed}
        for holder in dict.fromkeys(holders.values()):
            if answered and (holder == driver or not bound):
                continue
            held = [address for address in holders if holders[address] == holder]
            gpus = f"{len(held)} {name} {'GPUs' if len(held) > 1 else 'GPU'} on the PCI bus ({', '.join(held)})"
            yield Doubt(line=None, text=f"{gpus} {_why(holder, driver, tool)}")


def _why(holder: str | None, driver: str, tool: str) -> str:
    if holder is None:
        return f"and no driver: load {driver}; compare {tool}"
    if holder == driver:
        return f"held by {driver}, whose library cannot be asked here; compare {tool}"
    return f"held by {holder} in place of {driver}, for a virtual machine perhaps; compare lspci -k"


def _kernel_driver(root: Path, address: str) -> str | None:
    """The name of the kernel driver that a function is bound to, None when it is bound to none."""
    link = root / "sys/bus/pci/devices" / address / "driver"
    return real(link).name if is_there(link) or link.is_symlink() else None
