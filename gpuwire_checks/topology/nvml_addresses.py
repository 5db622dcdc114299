"""PCI addresses of GPUs through NVML, and of those that no longer tell theirs through the kernel module."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuwire_checks.topology.asking import Asker, word
from gpuwire_checks.topology.devices import pci_address
from gpuwire_checks.topology.model import Unread
from gpuwire_checks.topology.tree import folders, is_pci_address

_LISTED = "proc/driver/nvidia/gpus"
"""A folder for each GPU that the kernel module holds, named by its address; a container has those it was given."""


def read_addresses(asker: Asker, handles: Sequence[Any], root: Path) -> list[str | Unread]:
    """Of every GPU of the driver; a lost one does not tell its own, and is told by what is left over."""
    told = [_address(asker, number, handle) for number, handle in enumerate(handles)]
    return _with_left_over(told, root) if any(isinstance(address, Unread) for address in told) else told


def _address(asker: Asker, number: int, handle: Any) -> str | Unread:
    if isinstance(handle, Unread):
        return handle
    pci = asker.ask(number, "PCI address", "nvmlDeviceGetPciInfo", handle)
    return pci if isinstance(pci, Unread) else pci_address(word(pci.busId))


def _with_left_over(told: Sequence[str | Unread], root: Path) -> list[str | Unread]:
    """Addresses with those that nobody told, where they are as many as the GPUs without; NVML counts by address."""
    listed = sorted(folder.name for folder in folders(root / _LISTED) if is_pci_address(folder.name))
    left = [address for address in listed if address not in told]
    silent = [number for number, address in enumerate(told) if isinstance(address, Unread)]
    if len(left) != len(silent):
        return list(told)
    found = dict(zip(silent, left, strict=True))
    whole = [found.get(number, address) for number, address in enumerate(told)]
    return whole if len(silent) == 1 or whole == sorted(whole, key=str) else list(told)
