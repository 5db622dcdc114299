"""Which GPUs NVML has: handle, UUID, model and PCI address of each, a lost one's from the kernel module."""

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


def read_handles(asker: Asker) -> tuple[Any, ...]:
    """NVML's handle of every GPU of the driver, or why there is none."""
    count = asker.ask(None, "number of GPUs", "nvmlDeviceGetCount")
    if isinstance(count, Unread):
        if count is not Unread.UNKNOWN:
            asker.refuse(None, "number of GPUs", count.value)
        return ()
    numbers = range(count)
    return tuple(asker.ask(number, "everything", "nvmlDeviceGetHandleByIndex", number) for number in numbers)


def read_uuids(asker: Asker, handles: Sequence[Any]) -> tuple[str | Unread, ...]:
    """Of every GPU of the driver, or why it does not tell."""
    return tuple(
        handle if isinstance(handle, Unread) else word(asker.ask(number, "UUID", "nvmlDeviceGetUUID", handle))
        for number, handle in enumerate(handles)
    )


def read_models(asker: Asker, handles: Sequence[Any]) -> set[str]:
    """Every known model, of hidden GPUs too: CUDA orders all before it hides some."""
    models = {
        word(asker.ask(number, None, "nvmlDeviceGetName", handle))
        for number, handle in enumerate(handles)
        if not isinstance(handle, Unread)
    }
    return {model for model in models if not isinstance(model, Unread)}


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
