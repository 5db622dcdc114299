"""A value that a driver does not give, from the driver to the report: three reasons, and never 0 or OK."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import gpuwire
from fake_nvml import (
    SWITCH,
    FakeNvml,
    NVMLError,
    NVMLError_GpuIsLost,
    NVMLError_NoPermission,
    NVMLError_NotSupported,
    cards,
)
from small_suite import Suite
from trees import pci, rdma, switch, two_sockets, write_tree

from gpuwire_checks.report.status import ExitStatus
from gpuwire_checks.topology.discover import discover
from gpuwire_checks.topology.nvml import NvmlSource
from gpuwire_checks.topology.snapshot import Snapshot, snapshot_text

REASONS: dict[str, NVMLError] = {
    "not supported": NVMLError_NotSupported("Not Supported"),
    "unknown": NVMLError("Unknown Error"),
    "no permission": NVMLError_NoPermission("Insufficient Permissions"),
}
ADDRESSES = [f"0000:{0x1B + number:02x}:00.0" for number in range(4)]
ASKED = ("EccMode", "PersistenceMode", "CurrPcieLinkWidth", "MaxPcieLinkWidth", "PcieReplayCounter", "Name")


def recorded(folder: Path, *, error: NVMLError | None = None, lost: NVMLError | None = None) -> Path:
    """A snapshot of four GPUs on a switch, of which GPU 1 answers some questions, or all, with an error."""
    four = cards(4, [(SWITCH, "")] * 18)
    for card in four:
        card.answers["MigMode"] = REASONS["not supported"]
    if error is not None:
        four[1].answers |= dict.fromkeys(ASKED, error)
    four[1].handle = lost
    files = two_sockets() | rdma("mlx5_0", pci="0000:40:00.0", above=switch(0, port=2), numa="0")
    files |= pci(f"{switch(0, port=2)}/0000:40:00.0", kind="nic")
    files |= pci(*(f"{switch(at // 2, port=at % 2)}/{address}" for at, address in enumerate(ADDRESSES)))
    files |= {f"sys/devices/{switch(0)}/{ADDRESSES[1]}/{which}_link_width": "0" for which in ("current", "max")}
    files |= {f"proc/driver/nvidia/gpus/{address}/information": "" for address in ADDRESSES}
    root = write_tree(folder / "root", files)
    node = discover(root=root, gpus=NvmlSource(FakeNvml(four), root=root))
    file = folder / "node.json"
    file.write_text(
        snapshot_text(Snapshot(gpuwire="0", taken_at="2026-01-01T00:00:00+00:00", topology=node, environment={}))
    )
    return file


@pytest.fixture
def site(suite: Suite, tmp_path: Path) -> Suite:
    """The shipped suites, and a baseline of the node while every value could be read."""
    suite.shipped()
    suite.node(node=f"read_recorded(Path({str(recorded(tmp_path / 'before'))!r}))")
    result = suite.run("--gpuwire-missing=record")
    assert result.ret == ExitStatus.GOOD, result.outlines
    return suite


def verdicts(document: dict[str, Any], part: str) -> dict[str, dict[str, Any]]:
    """Of one part, each verdict of a run by its name."""
    found = [result["verdict"] for result in document["results"]]
    return {one["name"]: one for one in found if one["name"].startswith(part)}


@pytest.mark.parametrize("reason", REASONS)
def test_the_reason_is_the_same_from_the_driver_to_the_verdict(site: Suite, tmp_path: Path, reason: str) -> None:
    file = recorded(tmp_path / "after", error=REASONS[reason])
    site.node(node=f"read_recorded(Path({str(file)!r}))")
    result = site.run("-k", "ecc or persistence or test_pcie")
    topology = site.document()["run"]["topology"]
    gpu = topology["gpus"][1]
    assert (gpu["model"], gpu["pcie_width"], gpu["max_pcie_width"]) == (reason,) * 3
    assert (gpu["state"]["ecc"], gpu["state"]["persistence"]) == (reason, reason)
    assert next(c["value"] for c in topology["counters"] if c["part"] == "GPU1") == reason
    found = verdicts(site.document(), "GPU1")
    for name, what in (("ECC", "ECC"), ("persistence", "persistence"), ("PCIe", "PCIe")):
        verdict = found[f"GPU1 {name}"]
        assert verdict["outcome"] == "NOT RUN"
        assert f"GPU1: {what} cannot be read here: {reason}; the baseline says" in verdict["reason"]
        result.stdout.fnmatch_lines([f"*GPU1: {what} cannot be read here: {reason}*"])
    assert result.ret == ExitStatus.NOT_RUN


@pytest.mark.parametrize("reason", REASONS)
def test_the_topology_says_why_in_words_and_in_json(tmp_path: Path, reason: str) -> None:
    file = recorded(tmp_path, error=REASONS[reason])
    shown = gpuwire(tmp_path, "topology", "--from", str(file))
    assert shown.returncode == 0, shown.stderr
    (line,) = (line for line in shown.stdout.splitlines() if "─ GPU1 " in line)
    assert f"GPU1  model {reason}  0000:1c:00.0  PCIe {reason}" in line
    assert "x0" not in line
    told = json.loads(gpuwire(tmp_path, "topology", "--json", "--from", str(file)).stdout)["gpus"][1]
    assert (told["model"], told["state"]["ecc"], told["pcie_width"]) == (reason, reason, reason)


def test_a_lost_gpu_is_named_and_the_others_are_judged(site: Suite, tmp_path: Path) -> None:
    file = recorded(tmp_path / "after", lost=NVMLError_GpuIsLost("GPU is lost"))
    site.node(node=f"read_recorded(Path({str(file)!r}))")
    result = site.run("-k", "not collectives")
    assert result.ret == ExitStatus.FAULT
    result.stdout.fnmatch_lines(
        ["*MISSING GPU1: GPU1 is on the bus and does not answer its driver: GPU1: GPU is lost*"]
    )
    outcomes = {name: one["outcome"] for name, one in verdicts(site.document(), "GPU").items()}
    assert [name for name, outcome in outcomes.items() if outcome == "MISSING"] == ["GPU1"]
    assert (outcomes["GPU0 model"], outcomes["GPU3 links"], outcomes["GPU1 ECC"]) == ("PASS", "PASS", "NOT RUN")
