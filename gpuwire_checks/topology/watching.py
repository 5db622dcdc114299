"""What changes while wires carry data, of this machine: error counters of GPUs and NICs, and PCIe links."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpuwire_checks.topology.amd import local_amd_gpus
from gpuwire_checks.topology.devices import GpuWatcher
from gpuwire_checks.topology.model import CounterValue, Pcie
from gpuwire_checks.topology.nic_counters import nic_counters
from gpuwire_checks.topology.nvml import local_gpus
from gpuwire_checks.topology.sysfs import LIVE


class LocalWatcher:
    """This machine, or one whose /sys was recorded."""

    def __init__(self, root: Path, gpus: GpuWatcher | None) -> None:
        self._root = root
        self._gpus = gpus

    def counters(self) -> tuple[CounterValue, ...]:
        """Every counter of GPUs, their links, and NICs."""
        return (*(self._gpus.counters() if self._gpus else ()), *nic_counters(self._root))

    def pcie(self) -> Mapping[str, Pcie]:
        """Of each GPU by name, its PCIe link at this moment."""
        return self._gpus.pcie() if self._gpus else {}

    def close(self) -> None:
        """End the vendor's library, which stays started while it is asked often."""
        if self._gpus is not None:
            self._gpus.close()


def local_watcher(root: Path = LIVE) -> LocalWatcher:
    """Watches this machine; a recorded tree has counters of NICs only."""
    return LocalWatcher(root, local_gpus(root) or local_amd_gpus(root))
