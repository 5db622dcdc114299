"""Recorded inputs from public reports, where the folder is there: each is read as its meta.yaml says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.store import baseline_files, load_baseline
from gpuwire_checks.inspect.finding import Level
from gpuwire_checks.inspect.inspection import COLLECTIVE_LOGS, PAIR_LOGS, Inspection, inspect_text
from gpuwire_checks.recorded.model import CollectiveLog, PairLog, PairMatrix
from gpuwire_checks.topology.formats import read_node
from gpuwire_checks.topology.model import Gpu, NodeTopology, Unread

ROOT = Path(__file__).resolve().parents[2]
CASES = sorted((ROOT.parent / "shared" / "cases").glob("[0-9]*"))
REFERENCES: list[Baseline] = [load_baseline(path) for path in baseline_files(ROOT / "baselines")]
pytestmark = pytest.mark.skipif(not CASES, reason="no folder of recorded cases beside this checkout")

PLAIN = ("PASS", "healthy", "no fault")
"""What is good without a condition is good, and no doubt either."""
LEVELS = {
    "PASS": {Level.PASS, Level.WARN},
    "healthy": {Level.PASS, Level.WARN},
    "FAIL": {Level.FAIL},
    "WARN": {Level.WARN},
    "ERROR": {Level.ERROR},
    "INCOMPLETE": {Level.INCOMPLETE, Level.WARN},
}
"""What the verdict's first word allows, where it goes on with a condition: a doubtful line makes a WARN of the good."""


def meta(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((folder / "meta.yaml").read_text())
    return loaded


def text(folder: Path) -> str:
    return str((folder / meta(folder)["input"]).read_text())


def inspected(folder: Path) -> Inspection:
    return inspect_text(text(folder), source=folder.name, references=REFERENCES)


def of_kind(*kinds: str) -> list[Any]:
    found = [folder for folder in CASES if meta(folder)["kind"] in kinds]
    return [pytest.param(folder, id=folder.name) for folder in found] or [pytest.param(None, id="none")]


def logs(folder: Path) -> tuple[CollectiveLog, ...]:
    content = text(folder)
    read = next(read for _, is_in, read in COLLECTIVE_LOGS if is_in(content))
    return read(content, source=folder.name)


def pairs(folder: Path) -> PairLog:
    content = text(folder)
    return next(read for _, is_in, read in PAIR_LOGS if is_in(content))(content, source=folder.name)


def node(folder: Path) -> NodeTopology:
    return read_node(text(folder), source=folder.name)


@pytest.mark.parametrize(
    "folder", [pytest.param(folder, id=folder.name) for folder in CASES] or [pytest.param(None, id="none")]
)
def test_the_level_is_what_a_careful_engineer_would_say(folder: Path) -> None:
    verdict = str(meta(folder)["right_reading"].get("verdict", ""))
    inspection = inspected(folder)
    allowed = next((levels for word, levels in LEVELS.items() if verdict.startswith(word)), set(Level))
    if verdict.partition(":")[0] in PLAIN:
        allowed = {Level.PASS}
    assert inspection.level in allowed, (verdict, [f"{f.level.value} {f.text}" for f in inspection.findings])


@pytest.mark.parametrize("folder", of_kind("nccl-tests", "rccl-tests"))
def test_figures(folder: Path) -> None:
    right = meta(folder)["right_reading"]
    read = logs(folder)
    if "blocks" in right:
        assert [log.rows[0].busbw for log in read] == right["busbw_GBps"]
        return
    (log,) = read
    assert len({row.line for row in log.rows}) == right["data_rows"]
    if right.get("ranks") and "rank count is from the page" not in meta(folder)["difficulty"]:
        assert log.world_size == right["ranks"]
    if right.get("nodes") and log.hosts:
        assert len(log.hosts) == right["nodes"]
    if right.get("highest_rank_seen"):
        assert log.highest_rank == right["highest_rank_seen"]
    average = right.get("avg_busbw_GBps")
    assert log.printed_average == average if average is not None else isinstance(log.printed_average, Unread)
    if "largest_size_B" in right:
        largest = max(row.size_bytes for row in log.rows)
        assert largest == right["largest_size_B"]
        at = {row.in_place: row.busbw for row in log.rows if row.size_bytes == largest}
        assert at == {False: right["busbw_at_largest"]["out_of_place"], True: right["busbw_at_largest"]["in_place"]}
    if right.get("out_of_bounds") == "0 OK":
        assert log.printed_out_of_bounds == 0
    if right.get("validation") == 0:
        assert all(isinstance(row.wrong, Unread) for row in log.rows)


@pytest.mark.parametrize("folder", of_kind("topo-p2p"))
def test_peer_access(folder: Path) -> None:
    right = meta(folder)["right_reading"]
    read = node(folder)
    assert len(read.gpus) == right["gpus"]
    statuses = {peer.status for peer in read.peers}
    if isinstance(right["peer_access"], str):
        assert (statuses, len(read.peers)) == ({"OK"}, right["gpus"] * (right["gpus"] - 1))
    else:
        assert statuses == set(right["peer_access"].values())


def up(gpu: Gpu) -> int:
    assert not isinstance(gpu.links, Unread)
    return sum(link.up is True for link in gpu.links)


@pytest.mark.parametrize("folder", of_kind("nvlink-status"))
def test_links(folder: Path) -> None:
    right = meta(folder)["right_reading"]
    read = node(folder)
    links = [link for gpu in read.gpus if not isinstance(gpu.links, Unread) for link in gpu.links]
    if "gpus" in right:
        assert len(read.gpus) == right["gpus"]
    if "gpus_listed" in right:
        assert [str(gpu.index) for gpu in read.gpus] == right["gpus_listed"]
    if "active" in right:
        assert sum(link.up is True for link in links) == right["active"]
    if "speed_GBps" in right:
        assert {link.speed_bytes for link in links} == {right["speed_GBps"] * 1e9}
    for index, words in right.get("links", {}).items():
        gpu = next(gpu for gpu in read.gpus if gpu.index == int(index))
        assert up(gpu) == (0 if words == "all inactive" else int(words.split()[0]))


def off_diagonal(matrix: PairMatrix) -> list[float]:
    return [
        cell
        for row, cells in zip(matrix.rows, matrix.cells, strict=True)
        for column, cell in zip(matrix.columns, cells, strict=True)
        if row != column and cell is not None
    ]


def span(words: str) -> tuple[float, float]:
    low, high = words.split("..")
    return float(low), float(high)


@pytest.mark.parametrize("folder", of_kind("p2p-bandwidth", "nvbandwidth"))
def test_matrices(folder: Path) -> None:
    right = meta(folder)["right_reading"]
    read = pairs(folder)
    named = {matrix.test.lower(): off_diagonal(matrix) for matrix in read.matrices}
    for key, words in right.items():
        if key == "offdiag_p2p_disabled_GBps":
            (cells,) = (cells for name, cells in named.items() if "disabled" in name)
            assert (min(cells), max(cells)) == span(words)
        if key == "offdiag_p2p_enabled_writes_GBps":
            (cells,) = (cells for name, cells in named.items() if "enabled" in name and "write" in name)
            assert (min(cells), max(cells)) == span(words)
        if key == "offdiag_GBps":
            (cells,) = named.values()
            assert (min(cells), max(cells)) == span(words)
        if key == "unidirectional_enabled_GBps":
            assert any(cells == words for name, cells in named.items() if "enabled" in name and "bi" not in name)
        if key == "sum":
            assert [matrix.printed_sum for matrix in read.matrices] == [words]
    if right.get("waived_present"):
        assert read.waived


@pytest.mark.parametrize("folder", of_kind("nvidia-smi-xml", "nvidia-smi-q"))
def test_queries(folder: Path) -> None:
    right = meta(folder)["right_reading"]
    read = node(folder)
    assert len(read.gpus) == right["gpus"]
    counters = {(c.part, c.name): c.value for c in read.counters}
    for index, value in right.get("sw_power_cap_us", {}).items():
        assert counters[f"GPU{index}", "sw power cap"] == value
    for words, value in right.get("counters_us", {}).items():
        name = words.lower().replace("power capping", "power cap").replace("power braking", "power brake")
        assert counters["GPU0", name] == value
    for index, value in right.get("temp_C", {}).items():
        assert read.gpus[int(index)].state.temperature_c == value
    if "gpu_temp_C" in right:
        state = read.gpus[0].state
        assert (state.temperature_c, state.temperature_margin_c) == (right["gpu_temp_C"], right["tlimit_C"])
    if isinstance(right.get("pcie"), dict):
        gpu = read.gpus[0]
        assert f"gen{gpu.pcie_generation} x{gpu.pcie_width}" == right["pcie"]["current"]
        assert f"gen{gpu.max_pcie_generation} x{gpu.max_pcie_width}" == right["pcie"]["max"]
    if right.get("fabric"):
        assert {f"{g.state.fabric}/{g.state.fabric_status}" for g in read.gpus} == {"Completed/Success"}


@pytest.mark.parametrize("folder", of_kind("nccl-topo-xml"))
def test_nccl_xml(folder: Path) -> None:
    right = meta(folder)["right_reading"]
    read = node(folder)
    links = [link for gpu in read.gpus if not isinstance(gpu.links, Unread) for link in gpu.links]
    assert len(read.gpus) == right["gpu_elements"]
    assert len(read.numa) == right["numa_nodes"]
    assert sum(link.kind == "xgmi" for link in links) == right["xgmi"]
    assert sum(link.kind == "nvlink" for link in links) == right["nvlinks"]
    assert len(read.nics) == right["net"]
    if not right["gpu_elements"]:
        assert sum(device.kind == "gpu" for device in read.pci) == right["pci_class_0302"]
        assert sum(device.kind == "nic" for device in read.pci) == right["nic_class_0207"]


@pytest.mark.parametrize("folder", of_kind("ibstat"))
def test_ports(folder: Path) -> None:
    for name, words in meta(folder)["right_reading"]["hcas"].items():
        (nic,) = (nic for nic in node(folder).nics if nic.name == name)
        if isinstance(words, dict):
            assert (nic.state, nic.physical, nic.kind) == (words["state"], words["physical"], words["link"].lower())
        else:
            state, rate, layer = words.split()
            assert (f"{nic.state}/{nic.physical}", nic.rate_bits) == (state, int(rate) * 10**9)
            assert nic.kind == ("roce" if layer == "Ethernet" else layer.lower())


@pytest.mark.parametrize("folder", of_kind("lspci"))
def test_bus(folder: Path) -> None:
    right = meta(folder)["right_reading"]
    read = node(folder)
    if "lines" in right:
        told = [device.acs for device in read.pci if not isinstance(device.acs, Unread)]
        assert (len(told), sum("SrcValid" in acs for acs in told)) == (right["lines"], right["srcvalid_on"])
        return
    kinds = [device.kind for device in read.pci]
    infiniband = sum(isinstance(d.class_code, int) and d.class_code >> 8 == 0x0207 for d in read.pci)
    assert (kinds.count("gpu"), kinds.count("nvswitch")) == (right["gpus"], right["nvswitch_bridges"])
    assert infiniband == right["ib_vf"]


@pytest.mark.parametrize("folder", of_kind("rocm-topo"))
def test_rocm(folder: Path) -> None:
    right = meta(folder)["right_reading"]
    read = node(folder)
    assert len(read.gpus) == right["gpus"]
    assert {pair.path for pair in read.paths} == {right["link"].split()[0]}
    assert {(pair.hops, pair.weight) for pair in read.paths} == {(right["hops"], right["weight"])}
    for index, numa in right.get("numa", {}).items():
        assert read.gpus[int(index)].numa_node == numa
