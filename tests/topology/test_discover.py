"""Discovery as a whole: the host, its driver and its packages in one record."""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from fake_nvml import SWITCH, FakeNvml, NVMLError_DriverNotLoaded, cards
from trees import interface, two_sockets, write_tree

from gpuwire_checks.topology.devices import GpuReading
from gpuwire_checks.topology.discover import discover
from gpuwire_checks.topology.model import Doubt, Unread
from gpuwire_checks.topology.nvml import NvmlSource


class Canned:
    """A source of GPUs with one answer."""

    def __init__(self, reading: GpuReading) -> None:
        self._reading = reading

    def read(self) -> GpuReading:
        return self._reading


NO_DRIVER = GpuReading()


def on_bus(address: str) -> dict[str, str]:
    folder = f"sys/bus/pci/devices/{address}"
    return {f"{folder}/vendor": "0x10de", f"{folder}/class": "0x030200", f"{folder}/numa_node": "1"}


def test_this_host_is_read_live() -> None:
    node = discover(gpus=Canned(NO_DRIVER))
    assert (node.source, node.hostname) == ("live", socket.gethostname())
    assert not isinstance(node.cpu, Unread)
    assert node.memory_bytes > 0 if not isinstance(node.memory_bytes, Unread) else True
    assert (node.software.python, node.software.kernel) == (platform.python_version(), platform.release())
    assert node.software.torch == metadata.version("torch")
    assert (node.software.driver, node.software.cuda) == (None, None)


def test_a_recorded_tree_does_not_pass_for_this_host(tmp_path: Path) -> None:
    node = discover(root=write_tree(tmp_path, two_sockets()))
    assert (node.source, node.hostname) == (str(tmp_path), "recorded-1")
    assert (node.software.python, node.software.torch, node.software.nccl) == (Unread.UNKNOWN,) * 3
    assert (node.software.kernel, node.gpus, node.doubts) == ("6.1.0-test", (), ())


def test_gpus_and_host_come_together(tmp_path: Path) -> None:
    files = {**two_sockets(), **interface("eth0", pci="0000:00:05.0", speed="25000"), **on_bus("0000:1b:00.0")}
    root = write_tree(tmp_path, files)
    node = discover(root=root, gpus=NvmlSource(FakeNvml(cards(8, [(SWITCH, "")] * 18)), root=root))
    assert (len(node.gpus), len(node.paths), node.path("GPU0", "GPU7")) == (8, 28, "NV18")
    assert (node.gpus[0].numa_node, node.gpus[1].numa_node) == (1, Unread.UNKNOWN)
    assert (node.software.driver, node.software.cuda) == ("570.86.15", "12.8")
    assert [nic.name for nic in node.nics] == ["eth0"]


def test_gpus_on_the_bus_without_a_driver_are_said(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {**two_sockets(), **on_bus("0000:1b:00.0"), **on_bus("0000:1c:00.0")})
    node = discover(root=root, gpus=NvmlSource(FakeNvml(init=NVMLError_DriverNotLoaded("Driver Not Loaded"))))
    assert [doubt.text for doubt in node.doubts] == [
        "2 NVIDIA GPUs on the PCI bus (0000:1b:00.0, 0000:1c:00.0) and no driver: load nvidia; compare nvidia-smi"
    ]


def test_a_driver_that_said_why_is_not_said_to_be_missing(tmp_path: Path) -> None:
    why = Doubt(line=None, text="the driver's own words")
    reading = GpuReading(driver=Unread.UNKNOWN, cuda=Unread.UNKNOWN, doubts=(why,))
    assert discover(root=write_tree(tmp_path, on_bus("0000:1b:00.0")), gpus=Canned(reading)).doubts == (why,)


@pytest.mark.parametrize(
    ("installed", "nccl"),
    [({}, None), ({"nvidia-nccl-cu12": "2.27.5"}, "2.27.5"), ({"nvidia-nccl-cu13": "2.28.9"}, "2.28.9")],
)
def test_nccl_is_the_one_that_torch_brought(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], nccl: str | None
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)
    software = discover(gpus=Canned(NO_DRIVER)).software
    assert (software.nccl, software.torch) == (nccl, None)


def test_discovery_imports_neither_torch_nor_a_drivers_library() -> None:
    code = (
        "import json, sys; from gpuwire_checks.topology.discover import discover; "
        "node = discover(); print(json.dumps([len(node.gpus), 'torch' in sys.modules, 'pynvml' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    gpus, torch, pynvml = json.loads(done.stdout)
    assert not torch
    assert not pynvml or gpus
