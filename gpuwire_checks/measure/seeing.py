"""What the framework sees of this node's accelerators: which ones, and under which numbers."""

from __future__ import annotations

from typing import Any

import torch


def seen_devices() -> list[dict[str, str | None]]:
    """Every accelerator by its number in the framework; the fields of ``records.SeenDevice``, as they travel."""
    if not torch.accelerator.is_available():
        return []
    of_kind = torch.get_device_module(torch.accelerator.current_accelerator())
    return [
        describe_device(of_kind.get_device_properties(number)) for number in range(torch.accelerator.device_count())
    ]


def describe_device(properties: Any) -> dict[str, str | None]:
    """One device from its properties. Which of them there are depends on the kind of device and on torch's version.

    Source: ``torch.cuda.get_device_properties``: ``pci_bus_id`` and its like since torch 2.8, ``uuid`` since 2.4.
    """
    bus = getattr(properties, "pci_bus_id", None)
    domain, device = getattr(properties, "pci_domain_id", 0), getattr(properties, "pci_device_id", 0)
    uuid = getattr(properties, "uuid", None)
    return {
        "model": str(properties.name),
        "uuid": None if uuid is None else str(uuid),
        "pci_address": None if bus is None else f"{domain:04x}:{bus:02x}:{device:02x}.0",
    }
