"""Where a GPU is that no longer tells its driver's library."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_nvml import FakeNvml, NVMLError, NVMLError_GpuIsLost, NVMLError_NoPermission, cards
from trees import pci, switch, write_tree

from gpuwire_checks.baseline.observed import observed_wiring
from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.discover import discover
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.topology.nvml import NvmlSource
from gpuwire_checks.wiring.held import Held
from gpuwire_checks.wiring.rules import RULES, faults

LISTED = [f"0000:{0x1B + number:02x}:00.0" for number in range(4)]


def node_with(root: Path, handles: dict[int, NVMLError], *, listed: list[str] | None = None) -> NodeTopology:
    """Four GPUs, some of which NVML gives no handle of; ``listed`` is what the kernel module holds."""
    four = cards(4)
    for number, error in handles.items():
        four[number].handle = error
    files = pci(*(f"{switch(number // 2, port=number % 2)}/{address}" for number, address in enumerate(LISTED)))
    files |= {f"proc/driver/nvidia/gpus/{address}/information": "" for address in listed or LISTED}
    tree = write_tree(root, files)
    return discover(root=tree, gpus=NvmlSource(FakeNvml(four), root=tree))


def judged(root: Path, error: NVMLError, number: int = 2) -> tuple[Held, Verdict]:
    healthy = node_with(root / "before", {})
    node = node_with(root / "after", {number: error})
    held = Held(topology=node, expected=observed_wiring(healthy), where="site/four.yaml")
    return held, RULES["gpu"].judge(held, number)


@pytest.mark.parametrize("error", [NVMLError_GpuIsLost("GPU is lost"), NVMLError("Unknown Error")])
def test_a_gpu_that_fell_off_the_bus_is_missing_under_its_own_name(tmp_path: Path, error: NVMLError) -> None:
    """And no other is: without its address it would be one GPU gone and another that nobody knows."""
    held, verdict = judged(tmp_path, error)
    assert verdict.outcome is Outcome.MISSING
    assert verdict.reason.startswith(f"GPU2 is on the bus and does not answer its driver: GPU2: {error}")
    assert [fault.name for fault in faults(held)] == ["GPU2"]
    assert (held.matching.gone, held.matching.extra) == ((), ())
    lost, other = held.topology.gpus[2], held.topology.gpus[3]
    assert (lost.pci_address, lost.pcie_width, lost.numa_node) == ("0000:1d:00.0", Unread.UNKNOWN, 0)
    assert (other.pci_address, other.pcie_width, other.model) == ("0000:1e:00.0", 16, "NVIDIA H100 80GB HBM3")


def test_a_gpu_that_one_may_not_ask_is_not_gone(tmp_path: Path) -> None:
    held, verdict = judged(tmp_path, NVMLError_NoPermission("Insufficient Permissions"))
    assert verdict.outcome is Outcome.NOT_RUN
    assert verdict.reason == "GPU2: model cannot be read here: no permission; the baseline says NVIDIA H100 80GB HBM3"
    assert faults(held) == []


def test_two_lost_gpus_are_told_by_their_order(tmp_path: Path) -> None:
    lost = NVMLError_GpuIsLost("GPU is lost")
    assert [gpu.pci_address for gpu in node_with(tmp_path, {0: lost, 2: lost}).gpus] == LISTED


@pytest.mark.parametrize("listed", [LISTED[:2], [*LISTED, "0000:00:1f.0"]])
def test_an_address_is_not_guessed_where_the_counts_differ(tmp_path: Path, listed: list[str]) -> None:
    node = node_with(tmp_path, {2: NVMLError_GpuIsLost("GPU is lost")}, listed=listed)
    assert node.gpus[2].pci_address is Unread.UNKNOWN


def test_two_are_not_told_by_an_order_that_the_others_do_not_have(tmp_path: Path) -> None:
    four = cards(4)
    four[1].handle = four[2].handle = NVMLError_GpuIsLost("GPU is lost")
    four[0].address, four[3].address = four[3].address, four[0].address
    root = write_tree(tmp_path, {f"proc/driver/nvidia/gpus/{address}/information": "" for address in LISTED})
    reading = NvmlSource(FakeNvml(four), root=root).read()
    assert [gpu.pci_address for gpu in reading.gpus][1:3] == [Unread.UNKNOWN] * 2
