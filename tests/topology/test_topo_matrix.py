"""``nvidia-smi topo -m`` as pasted: what is read, what is doubted on which line, and what is refused."""

from __future__ import annotations

import contextlib
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.topology.readers.matrix_doubts import NO_NVLINK_CELL
from gpuwire_checks.topology.readers.topo_matrix import looks_like_topo_matrix, read_topo_matrix
from gpuwire_checks.topology.wires import gpu_pairs, joined, links_per_gpu, nearest_nics, nic_paths

DATA = Path(__file__).resolve().parents[1] / "data" / "topo_m"
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"

TRIO = """\
      GPU0  GPU1  GPU2  CPU Affinity  NUMA Affinity
GPU0   X    NV2   SYS   0-7           0
GPU1  NV2    X    NV1   0-7           0
GPU2  SYS   NV1    X    8-15          1
"""
TRIO_PATHS = {"GPU0-GPU1": "NV2", "GPU0-GPU2": "SYS", "GPU1-GPU2": "NV1"}


def read(text: str) -> NodeTopology:
    return read_topo_matrix(text, source="pasted")


def read_file(name: str) -> NodeTopology:
    return read_topo_matrix((DATA / name).read_text(), source=name)


def paths(topology: NodeTopology) -> dict[str, str]:
    return {f"{pair.a}-{pair.b}": pair.path for pair in topology.paths}


def doubts(topology: NodeTopology) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in topology.doubts]


def edited(line: int, new: str) -> str:
    """TRIO with one line (from 1) replaced."""
    lines = TRIO.splitlines()
    lines[line - 1] = new
    return "\n".join(lines) + "\n"


def test_a_whole_matrix_is_read_without_doubt() -> None:
    node = read(TRIO)
    assert paths(node) == TRIO_PATHS
    assert [gpu.numa_node for gpu in node.gpus] == [0, 0, 1]
    assert [gpu.cpu_affinity for gpu in node.gpus] == ["0-7", "0-7", "8-15"]
    assert node.doubts == ()
    assert node.source == "pasted"


def test_what_a_matrix_does_not_tell_is_unknown() -> None:
    node = read(TRIO)
    assert node.cpu is node.memory_bytes is node.hostname is node.virtualised is Unread.UNKNOWN
    assert node.software.driver is node.gpus[0].model is node.gpus[0].pcie_width is Unread.UNKNOWN
    assert node.gpus[0].vendor == "nvidia"


def test_driver_output_with_escapes_tabs_and_the_empty_cell_before_gpu_numa_id() -> None:
    node = read_file("hgx_six_gpus_two_nics.txt")
    assert node.doubts == ()
    assert {pair.path for pair in gpu_pairs(node)} == {"NV18"}
    assert [gpu.numa_node for gpu in node.gpus] == [0, 0, 0, 1, 1, 1]
    assert len(node.paths) == 28


def test_a_nic_keeps_the_matrix_label_and_has_its_device_from_the_legend() -> None:
    node = read_file("hgx_six_gpus_two_nics.txt")
    assert [(nic.name, nic.device) for nic in node.nics] == [("NIC0", "mlx5_2"), ("NIC1", "mlx5_bond_0")]
    assert node.path("GPU0", "NIC0") == "PIX"


def test_a_nic_column_named_by_its_device_needs_no_legend() -> None:
    node = read_file("pcie_workstation.txt")
    assert [(nic.name, nic.device) for nic in node.nics] == [("mlx5_3", "mlx5_3")]
    assert node.path("GPU2", "mlx5_3") == "PIX"


def test_a_nic_without_legend_has_an_unknown_device() -> None:
    assert read_file("bridge_cut.txt").nics[0].device is Unread.UNKNOWN


def test_a_legend_entry_without_column_is_doubted() -> None:
    assert doubts(read(TRIO + "\nNIC Legend:\n\n  NIC4: mlx5_4\n")) == [
        (8, "the NIC legend names NIC4 (mlx5_4), which has no column")
    ]


def test_numa_not_available_is_no_fault() -> None:
    node = read_file("pcie_workstation.txt")
    assert {gpu.numa_node for gpu in node.gpus} == {Unread.NOT_SUPPORTED}
    assert [line for line, _ in doubts(node)] == [2]


def test_a_numa_range_is_no_node() -> None:
    node = read(TRIO.replace(" 0\n", " 0-1\n"))
    assert [gpu.numa_node for gpu in node.gpus] == [Unread.UNKNOWN, Unread.UNKNOWN, 1]
    text = "NUMA Affinity '0-1' of GPU0, GPU1 is not one node: not pinned to one, as is usual in a virtual machine"
    assert doubts(node) == [(2, text)]


def test_an_affinity_error_is_unknown_and_not_zero() -> None:
    node = read(edited(2, "GPU0   X    NV2   SYS   0-7           ERR!"))
    assert node.gpus[0].numa_node is Unread.UNKNOWN
    assert node.gpus[0].cpu_affinity == "0-7"
    assert doubts(node) == [(2, "row GPU0: NUMA Affinity 'ERR!' is no list of numbers")]


def test_one_affinity_for_two_columns_is_not_guessed() -> None:
    node = read(edited(3, "GPU1  NV2    X    NV1   5"))
    assert node.gpus[1].numa_node is node.gpus[1].cpu_affinity is Unread.UNKNOWN
    assert paths(node) == TRIO_PATHS
    assert doubts(node) == [
        (3, "row GPU1 has 1 cells for the 2 columns CPU Affinity, NUMA Affinity: they are not used")
    ]


def test_a_cpu_list_with_blanks_is_one_cell() -> None:
    assert read(edited(2, "GPU0   X    NV2   SYS   0-3, 8-11     0")).gpus[0].cpu_affinity == "0-3,8-11"


def test_cells_that_contradict_their_mirror_are_unknown() -> None:
    node = read(edited(2, "GPU0   X    NV4   SYS   0-7           0"))
    assert "GPU0-GPU1" not in paths(node)
    assert doubts(node) == [(3, "GPU0-GPU1 is NV4 on line 2 and NV2 on line 3: taken as unknown")]


def test_a_missing_row_is_read_from_the_others() -> None:
    node = read("\n".join(TRIO.splitlines()[:3]))
    assert paths(node) == TRIO_PATHS
    assert len(node.gpus) == 3
    assert doubts(node) == [(3, "no row for GPU2: only their paths to devices that have a row are known")]


def test_a_cut_row_keeps_its_whole_cells() -> None:
    node = read_file("bridge_cut.txt")
    assert node.path("GPU2", "GPU3") == "NV4"
    assert node.path("GPU3", "NIC0") is None
    assert (5, "row GPU3 is cut after 1 of 5 cells") in doubts(node)
    assert (5, "no row for NIC0: only their paths to devices that have a row are known") in doubts(node)


def test_an_nvlink_count_cut_in_its_middle_is_not_taken() -> None:
    node = read("GPU0 GPU1 NIC0\nGPU0 X NV12 PIX\nGPU1 NV1")
    assert paths(node) == {"GPU0-GPU1": "NV12", "GPU0-NIC0": "PIX"}


def test_a_cut_affinity_is_unknown() -> None:
    node = read(TRIO.rstrip().removesuffix("1").rstrip())
    assert node.gpus[2].cpu_affinity is node.gpus[2].numa_node is Unread.UNKNOWN
    assert doubts(node) == [(4, "row GPU2 is cut: 'CPU Affinity' and what follows are not sure")]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("GPU1  NV2    X          0-7           0", "has 2 cells for 3 columns: those right of its X are not used"),
        ("GPU1  X NV1  0-7  0", "has 2 cells for 3 columns: those left of its X are not used"),
        ("GPU1  NV2 X NV1 SYS 0-7  0", "has 4 cells for 3 columns: those right of its X are not used"),
        ("GPU1  X NV2 NV1 0-7  0", "has 3 cells for 3 columns and its X in column 1, not 2: the row is not used"),
        ("GPU1  NV2 SYS NV1 0-7  0", "has 3 cells for 3 columns and 0 X: the row is not used"),
    ],
)
def test_a_hole_or_a_cell_too_many_shifts_no_column(row: str, problem: str) -> None:
    node = read(edited(3, row))
    assert paths(node) == TRIO_PATHS, "the mirror cells stand in"
    assert (3, f"row GPU1 {problem}") in doubts(node)


def test_a_hole_is_unknown_where_no_mirror_stands_in() -> None:
    node = read("GPU0 GPU1 NIC0 NIC1 CPU Affinity\nGPU0 X NV4 PIX 0-3\nGPU1 NV4 X PIX SYS 0-3\n\nLegend:\n")
    assert paths(node) == {"GPU0-GPU1": "NV4", "GPU1-NIC0": "PIX", "GPU1-NIC1": "SYS"}


def test_an_empty_cell_between_tabs_keeps_its_column() -> None:
    node = read("\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\tX\t\tPIX\t0-3\nGPU1\tNV4\tX\tSYS\t0-3\n\nLegend:\n")
    assert paths(node) == {"GPU0-GPU1": "NV4", "GPU0-NIC0": "PIX", "GPU1-NIC0": "SYS"}
    assert (2, "row GPU0 has 1 empty cell") in doubts(node)


@pytest.mark.parametrize("cell", ["ERR!", "NV0?", "NV0", "FOO", "Unknown Error"])
def test_an_unknown_cell_is_doubted_and_its_mirror_counts(cell: str) -> None:
    node = read(edited(2, f"GPU0   X    {cell}   SYS   0-7           0"))
    assert paths(node) == TRIO_PATHS
    assert doubts(node) == [(2, f"row GPU0: '{cell}' under GPU1: not a path class")]


def test_a_cell_unknown_in_both_rows_leaves_the_pair_unknown() -> None:
    text = edited(2, "GPU0   X    ERR!   SYS   0-7           0").replace("GPU1  NV2 ", "GPU1  ERR! ")
    assert "GPU0-GPU1" not in paths(read(text))


def test_a_lost_gpu_still_counts() -> None:
    node = read(edited(4, "GPU2  GPU is lost"))
    assert len(node.gpus) == 3
    assert paths(node) == TRIO_PATHS
    assert doubts(node) == [(4, "GPU2 reads 'GPU is lost'")]


@pytest.mark.parametrize(
    "prefix",
    [
        "0: ",
        " 3: ",
        "[1,0]<stdout>:",
        "[rank0]: ",
        "node-a7: ",
        "(Worker pid=88, ip=10.0.0.2) ",
        "> ",
        "2031-04-05T06:07:08.123Z ",
        "2031-04-05 06:07:08 node1: ",
    ],
)
def test_a_launcher_prefix_is_no_cell(prefix: str) -> None:
    node = read("".join(prefix + line + "\n" for line in TRIO.splitlines()))
    assert paths(node) == TRIO_PATHS
    assert node.doubts == ()


def test_two_ranks_interleaved_are_not_mixed() -> None:
    other = TRIO.replace("NV2", "NV9").splitlines()
    mixed = "".join(f"0: {a}\n1: {b}\n" for a, b in zip(TRIO.splitlines(), other, strict=True))
    node = read(mixed)
    assert paths(node) == TRIO_PATHS
    assert doubts(node) == [(2, "1 more matrix header(s) from here on: not read")]


def test_log_lines_between_rows_are_named_and_skipped() -> None:
    lines = TRIO.splitlines()
    node = read("\n".join(["[I] start", *lines[:2], "GPU1 is warming up", *lines[2:], "done"]))
    assert paths(node) == TRIO_PATHS
    assert doubts(node) == [(4, "not part of the matrix, not read: 'GPU1 is warming up'")]


def test_a_second_row_of_a_device_is_not_read() -> None:
    node = read(TRIO + "GPU0   X    SYS   SYS   0-7           0\n")
    assert paths(node) == TRIO_PATHS
    assert doubts(node) == [(5, "a second row of one device, not read: 'GPU0 X SYS SYS 0-7 0'")]


def test_a_row_without_column_is_not_read() -> None:
    node = read(TRIO + "GPU7  SYS   SYS   SYS   0-7           0\n")
    assert doubts(node) == [(5, "row GPU7 has no column in the header: not read")]


def test_a_markdown_table() -> None:
    text = """
| | GPU0 | GPU1 | CPU Affinity | NUMA Affinity |
|---|:---:|:---:|---|---|
| **GPU0** | X | NV4 | 0-3 | 0 |
| **GPU1** | NV4 | X | 0-3 | 0 |
"""
    node = read(text)
    assert paths(node) == {"GPU0-GPU1": "NV4"}
    assert node.gpus[1].numa_node == 0
    assert node.doubts == ()


def test_retyped_names_and_cells_are_read_with_a_doubt_per_line() -> None:
    node = read("  GP0  gpu1\nGP0. X nv3\nGPU1 NV3. x\n")
    assert paths(node) == {"GPU0-GPU1": "NV3"}
    assert doubts(node) == [
        (1, "read 'GP0' as GPU0, 'gpu1' as GPU1"),
        (2, "read 'GP0.' as GPU0, 'nv3' as NV3"),
        (3, "read 'NV3.' as NV3, 'x' as X"),
    ]


def test_cells_run_together_are_parted_with_a_doubt() -> None:
    node = read(edited(3, "GPU1  NV2 XNV1   0-7           0"))
    assert paths(node) == TRIO_PATHS
    assert doubts(node) == [(3, "read 'XNV1' as X NV1")]


def test_the_old_name_of_sys() -> None:
    node = read("GPU0 GPU1 CPU Affinity\nGPU0 X SOC 0-3\nGPU1 SOC X 4-7\n")
    assert paths(node) == {"GPU0-GPU1": "SYS"}
    assert (2, "read 'SOC' as SYS") in doubts(node)


def test_an_unknown_column_leaves_the_affinities_unread() -> None:
    node = read(TRIO.replace("CPU Affinity", "Moon Phase"))
    assert paths(node) == TRIO_PATHS
    assert node.gpus[0].cpu_affinity is node.gpus[0].numa_node is Unread.UNKNOWN
    assert doubts(node) == [(1, "'Moon Phase' in the header names no known column: affinities not read")]


def test_pcie_only_says_that_nvlink_may_be_hidden() -> None:
    assert doubts(read_file("pcie_workstation.txt")) == [(2, NO_NVLINK_CELL)]


def test_one_gpu_or_one_nvlink_cell_says_nothing_of_hidden_nvlink() -> None:
    assert read("GPU0 CPU Affinity NUMA Affinity\nGPU0 X 0-7 N/A\n").doubts == ()
    assert read(TRIO).doubts == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "pasted:1: no `nvidia-smi topo -m` matrix"),
        ("GPU0 X NV4\nGPU1 NV4 X\n", "pasted:1: no `nvidia-smi topo -m` matrix"),
        ("hello\n GPU0 GPU1 CPU Affinity\n", "pasted:1: no `nvidia-smi topo -m` matrix"),
        ("\nGPU0 GPU0\nGPU0 X NV1\n", "pasted:2: the header names GPU0 twice"),
        ((DATA / "p2p_read.txt").read_text(), "pasted:1: no cell under this header.*found 'OK'.*topo -p2p"),
        ("x" * (2 << 20), "pasted:1: 2097152 characters"),
        ("\n" * 30_000, "pasted:1: 30000 characters in 30001 lines"),
        (" ".join(f"GPU{i}" for i in range(513)) + "\nGPU0 X NV1\n", "pasted:1: the header names 513 devices; at most"),
    ],
    ids=["empty", "no header", "no row", "twice", "p2p", "long", "lines", "devices"],
)
def test_what_cannot_be_placed_is_refused_with_the_reason(text: str, says: str) -> None:
    assert not looks_like_topo_matrix(text)
    with pytest.raises(TopologyError, match=says):
        read(text)


def test_a_matrix_is_recognised_after_a_p2p_table() -> None:
    text = (DATA / "p2p_read.txt").read_text() + TRIO
    assert looks_like_topo_matrix(text)
    assert paths(read(text)) == TRIO_PATHS


@pytest.mark.parametrize(
    "text",
    [
        "GPU0 GPU1\n" * 15_000,
        "GPU0 GPU1\nGPU0 X NV1\n" * 9_000,
        "GPU0 GPU1\nGPU0 " + "X " * 400_000,
        "GPU0 GPU1 CPU Affinity\nGPU0 X NV1 " + "1," * 400_000,
        "[" * 1_000_000,
        "GPU\u0663 GPU1 NUMA Affinity\nGPU0 X NV\u00b2 \u00b2\nGPU1 NV1 X \u00b2\n",
    ],
    ids=["headers", "matrices", "cells", "digits", "brackets", "other digits"],
)
def test_hostile_text_ends_soon(text: str) -> None:
    begin = time.monotonic()
    with contextlib.suppress(TopologyError):
        assert len(read(text).doubts) <= 201
    assert time.monotonic() - begin < 5


def test_many_doubts_are_counted_not_listed() -> None:
    names = [f"GPU{i}" for i in range(40)]
    rows = (" ".join([a, *("X" if a == b else "PIX" if a < b else "SYS" for b in names)]) for a in names)
    node = read("\n".join([" ".join(names), *rows]))
    assert node.paths == ()
    assert len(node.doubts) == 201
    assert node.doubts[-1].text == "more than 200 doubtful lines; the others are not listed"


def test_recorded_cases_read_as_their_notes_say() -> None:
    metas = [meta for file in sorted(CASES.glob("*/meta.yaml")) for meta in [yaml.safe_load(file.read_text())]]
    cases = [meta for meta in metas if meta["kind"] == "topo-m"]
    if not cases:
        pytest.skip(f"no recorded cases at {CASES}")
    for meta in cases:
        name = f"{meta['id']:03d}-{meta['slug']}"
        text = (CASES / name / meta["input"]).read_text()
        assert looks_like_topo_matrix(text), name
        check_reading(read_topo_matrix(text, source=name), meta)


def check_reading(node: NodeTopology, meta: dict[str, Any]) -> None:
    """Every figure of a case's notes that a matrix can show."""
    right, name = meta["right_reading"], node.source
    assert len(node.gpus) == right["gpus"], name
    assert len(node.nics) == right.get("nics", 0), name
    cut = any("no row for" in doubt.text or "is cut" in doubt.text for doubt in node.doubts)
    assert cut == meta["truncated"], (name, node.doubts)
    _check_pairs(node, right)
    _check_groups(node, right)
    _check_numa(node, right)
    _check_nics(node, right)


def _check_pairs(node: NodeTopology, right: dict[str, Any]) -> None:
    expected = dict(right.get("pairs") or right.get("pairs_if_lenient") or {})
    for key, path in (("pairs_nv2", "NV2"), ("pairs_nv1", "NV1"), ("pix_pairs", "PIX")):
        expected |= dict.fromkeys(right.get(key, ()), path)
    expected |= dict(text.split() for text in right.get("nvlink_pairs", ()))
    for pair, path in expected.items():
        a, b = pair.split("-")
        assert node.path(f"GPU{a}", f"GPU{b}") == path, (node.source, pair)
    known = gpu_pairs(node)
    if lanes := right.get("nvlink_lanes_per_pair"):
        assert {pair.nvlinks for pair in known} == {lanes}, node.source
    if lanes := right.get("lanes_per_gpu"):
        assert set(links_per_gpu(node).values()) == {lanes}, node.source
    if right.get("nvlink") is False:
        assert not any(pair.nvlinks for pair in known), node.source
    others = right.get("other_pairs") or str(right.get("unlinked", "")).removeprefix("other pairs ")
    if others in ("SYS", "PHB"):
        assert {pair.path for pair in known if not pair.nvlinks} == {others}, node.source


def _check_groups(node: NodeTopology, right: dict[str, Any]) -> None:
    linked = joined([pair for pair in gpu_pairs(node) if pair.nvlinks], node)
    if groups := right.get("nvlink_groups"):
        assert [[gpu.index for gpu in group] for group in linked] == groups, node.source
    for group in right.get("groups", ()):
        inside = {node.path(f"GPU{a}", f"GPU{b}") for a, b in combinations(group, 2)}
        assert "SYS" not in inside, node.source
        outside = [gpu.index for gpu in node.gpus if gpu.index not in group]
        assert {node.path(f"GPU{a}", f"GPU{b}") for a in group for b in outside} == {"SYS"}, node.source


def _check_numa(node: NodeTopology, right: dict[str, Any]) -> None:
    numa = right.get("numa")
    if isinstance(numa, str):
        unread = Unread.NOT_SUPPORTED if numa.startswith("N/A") else Unread.UNKNOWN
        assert {gpu.numa_node for gpu in node.gpus} == {unread}, node.source
        return
    by_name = {gpu.name: gpu.numa_node for gpu in node.gpus}
    for key, value in (numa or {}).items():
        for gpu, number in [(key, value)] if key.startswith("GPU") else [(f"GPU{at}", int(key)) for at in value]:
            assert by_name[gpu] == number, (node.source, gpu)
    for span, cpus in right.get("cpu_affinity", {}).items():
        first, last = map(int, span.split("-"))
        assert {gpu.cpu_affinity for gpu in node.gpus[first : last + 1]} == {cpus}, node.source


def _check_nics(node: NodeTopology, right: dict[str, Any]) -> None:
    paths_of = nic_paths(node)
    for gpu, text in right.get("nearest_nic", {}).items():
        near = nearest_nics(paths_of[gpu if gpu.startswith("GPU") else f"GPU{gpu}"])
        assert near is not None
        path, nics = near
        assert text in (nics[0], f"{nics[0]} ({path})"), (node.source, gpu, near)
        assert len(nics) == 1, (node.source, gpu, near)
    devices = {nic.name: nic.device for nic in node.nics}
    assert right.get("nic_names", {}).items() <= devices.items(), node.source
    distance = right.get("nic_distance", {})
    if isinstance(distance, str):
        distance = dict.fromkeys(paths_of, "SYS")
    for gpus, path in distance.items():
        ends = gpus.removeprefix("GPU").split("-")
        for at in range(int(ends[0]), int(ends[-1]) + 1):
            assert set(paths_of[f"GPU{at}"].values()) == {path}, (node.source, at)
    for nic in [*right.get("far_nics", ()), *str(right.get("unused_nic", "")).split()[:1]]:
        assert {to[nic] for to in paths_of.values()} == {"SYS"}, (node.source, nic)
