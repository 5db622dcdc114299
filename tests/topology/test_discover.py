"""Discovery as a whole: the host, its driver and its packages in one record."""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest
from fake_nvml import SWITCH, FakeNvml, NVMLError, NVMLError_DriverNotLoaded, cards
from trees import interface, large_node, pci, rdma, switch, two_sockets, write_tree

from gpuwire_checks.topology.devices import GpuReading
from gpuwire_checks.topology.discover import discover
from gpuwire_checks.topology.model import CounterValue, Doubt, PeerAccess, Unread
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
    assert [device.address for device in node.pci] == ["0000:1b:00.0"]


def one_card(root: Path, answers: Mapping[str, object] | None = None) -> NvmlSource:
    """NVML with one card, some answers of which are others."""
    card = cards(1)[0]
    card.answers |= answers or {}
    return NvmlSource(FakeNvml([card]), root=root)


def test_what_the_driver_cannot_tell_of_the_slot_the_bus_does(tmp_path: Path) -> None:
    failed = NVMLError("Unknown Error")
    root = write_tree(tmp_path, pci(f"{switch(0)}/0000:1b:00.0", numa="1", width="8"))
    silent = dict.fromkeys(("MaxPcieLinkGeneration", "MaxPcieLinkWidth", "CurrPcieLinkWidth"), failed)
    (gpu,) = discover(root=root, gpus=one_card(root, silent)).gpus
    assert (gpu.max_pcie_generation, gpu.max_pcie_width, gpu.pcie_width) == (5, 8, 8)
    assert (gpu.pcie_generation, gpu.numa_node) == (1, 1)


def test_what_the_driver_tells_of_the_slot_counts(tmp_path: Path) -> None:
    root = write_tree(tmp_path, pci(f"{switch(0)}/0000:1b:00.0", width="8"))
    (gpu,) = discover(root=root, gpus=one_card(root)).gpus
    assert (gpu.max_pcie_generation, gpu.max_pcie_width) == (5, 16)


def test_paths_are_those_of_the_driver_then_those_of_the_bus_in_the_order_of_devices(tmp_path: Path) -> None:
    at, nic = f"{switch(0, port=2)}", "0000:40:00.0"
    files = pci(f"{switch(0)}/0000:1b:00.0", f"{switch(1)}/0000:1c:00.0") | rdma("mlx5_0", pci=nic, above=at)
    root = write_tree(tmp_path, {**two_sockets(), **files, **pci(f"{at}/{nic}", kind="nic")})
    node = discover(root=root, gpus=NvmlSource(FakeNvml(cards(2, [(SWITCH, "")] * 4)), root=root))
    assert [(pair.a, pair.b, pair.path) for pair in node.paths] == [
        ("GPU0", "GPU1", "NV4"),
        ("GPU0", "mlx5_0", "PIX"),
        ("GPU1", "mlx5_0", "NODE"),
    ]
    assert node.nics[0].pcie.max_width == 16


def test_a_flat_virtual_machine_is_one_host_bridge_and_no_doubt(tmp_path: Path) -> None:
    nic = "0000:00:06.0"
    files = pci("pci0000:00/0000:1b:00.0", "pci0000:00/0000:1c:00.0", numa="-1") | pci(f"pci0000:00/{nic}", kind="nic")
    files |= rdma("mlx5_0", pci=nic, numa="-1") | two_sockets(flags="hypervisor")
    root = write_tree(tmp_path, files)
    node = discover(root=root, gpus=NvmlSource(FakeNvml(cards(2), ancestors={(0, 1): 30}), root=root))
    assert {pair.path for pair in node.paths} == {"PHB"}
    assert (len(node.paths), node.doubts) == (3, ())


def test_peers_and_counters_are_passed_on_and_those_of_nics_added(tmp_path: Path) -> None:
    peer = PeerAccess(a="GPU0", b="GPU1", capability="read", status="OK")
    replay = CounterValue(part="GPU0", name="pcie replay", value=3)
    files = rdma("mlx5_0", pci="0000:00:07.0") | {"sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "2"}
    node = discover(root=write_tree(tmp_path, files), gpus=Canned(GpuReading(peers=(peer,), counters=(replay,))))
    assert node.peers == (peer,)
    assert node.counters[0] == replay
    assert CounterValue(part="mlx5_0", name="link downed", value=2) in node.counters


def test_a_large_node_is_read_whole(tmp_path: Path) -> None:
    root = write_tree(tmp_path, large_node())
    node = discover(root=root, gpus=NvmlSource(FakeNvml(cards(16, [(SWITCH, "")] * 18)), root=root))
    kinds = [device.kind for device in node.pci]
    assert (kinds.count("gpu"), kinds.count("nic"), len(node.nics)) == (16, 40, 40)
    assert (len(node.paths), len(node.counters) > 16 * 18, node.doubts) == (16 * 15 // 2 + 16 * 40, True, ())


@pytest.mark.parametrize(
    ("files", "rocm"), [({"opt/rocm/.info/version": "6.4.1-83"}, "6.4.1-83"), ({}, Unread.UNKNOWN)]
)
def test_rocm_says_its_version_in_a_file(tmp_path: Path, files: dict[str, str], rocm: str | Unread) -> None:
    assert discover(root=write_tree(tmp_path, files)).software.rocm == rocm


def test_gpus_on_the_bus_without_a_driver_are_said(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {**two_sockets(), **on_bus("0000:1b:00.0"), **on_bus("0000:1c:00.0")})
    node = discover(root=root, gpus=NvmlSource(FakeNvml(init=NVMLError_DriverNotLoaded("Driver Not Loaded"))))
    assert [doubt.text for doubt in node.doubts] == [
        "2 NVIDIA GPUs on the PCI bus (0000:1b:00.0, 0000:1c:00.0) and no driver: load nvidia; compare nvidia-smi"
    ]


@pytest.mark.parametrize(
    ("kind", "driver", "text"),
    [
        ("amd gpu", None, "1 AMD GPU on the PCI bus (0000:1b:00.0) and no driver: load amdgpu; compare rocm-smi"),
        (
            "amd gpu",
            "amdgpu",
            "1 AMD GPU on the PCI bus (0000:1b:00.0) held by amdgpu, whose library cannot be asked here; "
            "compare rocm-smi",
        ),
        (
            "gpu",
            "vfio-pci",
            "1 NVIDIA GPU on the PCI bus (0000:1b:00.0) held by vfio-pci in place of nvidia, for a virtual machine "
            "perhaps; compare lspci -k",
        ),
    ],
)
def test_who_holds_a_gpu_that_no_driver_answers_for_is_said(
    tmp_path: Path, kind: str, driver: str | None, text: str
) -> None:
    place = "pci0000:16/0000:16:01.0/0000:1b:00.0"
    files = pci(place, kind=kind)
    if driver is not None:
        files |= {f"sys/bus/pci/drivers/{driver}/bind": ""}
        files |= {f"sys/devices/{place}/driver": f"-> ../../../../bus/pci/drivers/{driver}"}
    node = discover(root=write_tree(tmp_path, files), gpus=Canned(NO_DRIVER))
    assert [doubt.text for doubt in node.doubts] == [text]


@pytest.mark.parametrize(
    ("holder", "text"),
    [
        ("vfio-pci", "held by vfio-pci in place of nvidia, for a virtual machine perhaps; compare lspci -k"),
        (None, "and no driver: load nvidia; compare nvidia-smi"),
        ("nvidia", None),
    ],
)
def test_a_gpu_that_another_driver_holds_is_said_beside_those_that_answer(
    tmp_path: Path, holder: str | None, text: str | None
) -> None:
    """One that the driver holds and does not list is hidden on purpose, as in a container."""
    files = pci("pci0000:16/0000:1b:00.0") | pci("pci0000:16/0000:1c:00.0")
    for address, driver in (("0000:1b:00.0", "nvidia"), ("0000:1c:00.0", holder)):
        if driver is not None:
            files[f"sys/devices/pci0000:16/{address}/driver"] = f"-> ../../../bus/pci/drivers/{driver}"
    root = write_tree(tmp_path, files)
    node = discover(root=root, gpus=NvmlSource(FakeNvml(cards(1)), root=root))
    said = [doubt.text for doubt in node.doubts]
    assert said == ([] if text is None else [f"1 NVIDIA GPU on the PCI bus (0000:1c:00.0) {text}"])


def test_gpus_of_two_vendors_are_said_apart(tmp_path: Path) -> None:
    root = write_tree(tmp_path, pci("pci0000:16/0000:1b:00.0") | pci("pci0000:16/0000:1c:00.0", kind="amd gpu"))
    texts = [doubt.text for doubt in discover(root=root, gpus=Canned(NO_DRIVER)).doubts]
    assert [text.partition(" on ")[0] for text in texts] == ["1 NVIDIA GPU", "1 AMD GPU"]


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
