"""What torch says of a device, as a rank tells it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from gpuwire_checks.measure.seeing import describe_device, seen_devices


def test_a_device_of_a_torch_that_tells_its_address() -> None:
    properties = SimpleNamespace(
        name="NVIDIA H200", uuid="8932f937-d72c", pci_domain_id=0, pci_bus_id=0x1B, pci_device_id=0
    )
    assert describe_device(properties) == {
        "model": "NVIDIA H200",
        "uuid": "8932f937-d72c",
        "pci_address": "0000:1b:00.0",
    }


def test_a_device_of_a_torch_that_does_not() -> None:
    assert describe_device(SimpleNamespace(name="GPU Max 1550")) == {
        "model": "GPU Max 1550",
        "uuid": None,
        "pci_address": None,
    }


def test_without_an_accelerator_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert seen_devices() == []


def test_every_accelerator_is_seen_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(get_device_properties=lambda number: SimpleNamespace(name=f"card {number}"))
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch, "get_device_module", lambda _device: module)
    assert [device["model"] for device in seen_devices()] == ["card 0", "card 1"]
