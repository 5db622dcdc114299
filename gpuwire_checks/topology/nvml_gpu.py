"""One GPU through NVML: what it is, and how it is."""

from __future__ import annotations

from pathlib import Path

from gpuwire_checks.topology.asking import Device, word
from gpuwire_checks.topology.expand import format_mask
from gpuwire_checks.topology.model import Gpu, Link, Unread
from gpuwire_checks.topology.nvml_counters import pcie_now
from gpuwire_checks.topology.nvml_state import gpu_state
from gpuwire_checks.topology.sysfs import pci_numa_node

_AFFINITY_WORDS = 128
"""64-bit words for 8192 CPUs, the most a Linux kernel is built for (NR_CPUS)."""


def read_gpu(
    device: Device, address: str | Unread, uuid: str | Unread, links: tuple[Link, ...] | Unread, *, root: Path
) -> Gpu:
    """One GPU. A lost one stays listed, so that it can be named."""
    memory = device.ask("memory", "nvmlDeviceGetMemoryInfo")
    affinity = device.ask("CPU affinity", "nvmlDeviceGetCpuAffinity", _AFFINITY_WORDS)
    pcie = pcie_now(device)
    return Gpu(
        index=device.index,
        vendor="nvidia",
        model=word(device.ask("model", "nvmlDeviceGetName")),
        memory_bytes=memory if isinstance(memory, Unread) else int(memory.total) or Unread.UNKNOWN,
        pci_address=address,
        pcie_generation=pcie.generation,
        pcie_width=pcie.width,
        max_pcie_generation=device.ask("highest PCIe generation", "nvmlDeviceGetMaxPcieLinkGeneration")
        or Unread.UNKNOWN,
        max_pcie_width=device.ask("highest PCIe width", "nvmlDeviceGetMaxPcieLinkWidth") or Unread.UNKNOWN,
        # nvmlDeviceGetNumaNodeId is the node of the GPU's own memory, on Grace; near CPUs are what sysfs tells.
        numa_node=pci_numa_node(root, address),
        cpu_affinity=affinity if isinstance(affinity, Unread) else format_mask(affinity) or Unread.UNKNOWN,
        uuid=uuid,
        serial=word(device.ask("serial", "nvmlDeviceGetSerial")),
        links=links,
        state=gpu_state(device),
    )
