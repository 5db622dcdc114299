"""Recorded outputs held to a baseline: what differs is named, and what an output does not show is not gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faulty import without_gpu
from known_boards import reference
from nccl_logs import Made, log
from pasted_outputs import ibstat, matrix
from wired import HGX, broken, hgx_node

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BoundEntry, CaseEntry, FloorEntry
from gpuwire_checks.baseline.wiring import ExpectedNic, Wiring
from gpuwire_checks.inspect.finding import Finding, Level, gravest
from gpuwire_checks.inspect.held import held_findings, held_log_findings
from gpuwire_checks.inspect.inspection import inspect_text
from gpuwire_checks.recorded.model import CollectiveLog
from gpuwire_checks.recorded.nccl_text import read_nccl_text

MIB = 1 << 20
WHERE = "baselines/hgx.yaml"


def baseline(wiring: Wiring | None = HGX) -> Baseline:
    return replace(reference("hgx"), wiring=wiring, path=Path(WHERE))


def held(text: str, to: Baseline) -> list[Finding]:
    """What a text is held to, without what is said of it by itself."""
    inspection = inspect_text(text, source="pasted", references=(), against=to)
    return [finding for finding in inspection.findings if finding.against == str(to.path)]


def faults(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level is Level.FAIL]


def test_a_node_as_its_baseline() -> None:
    (finding,) = held_findings(hgx_node(), baseline())
    assert (finding.level, finding.against) == (Level.PASS, WHERE)
    assert finding.text == "what is told here is wired as hgx says"


def test_a_fault_names_its_part_and_what_was_expected() -> None:
    (finding,) = held_findings(broken("a link is down"), baseline())[:1]
    assert (finding.level, finding.part, finding.against) == (Level.FAIL, "GPU0", WHERE)
    assert finding.text.startswith("GPU0: NVLink 0 is down: 17 of 18 NVLinks are up")
    assert WHERE not in finding.text


def test_a_baseline_without_wiring_is_no_pass() -> None:
    (finding,) = held_findings(hgx_node(), baseline(None))
    assert finding.level is Level.WARN
    assert finding.text == "hgx states no wiring; record it anew with: gpuwire baseline record"


def test_gpus_that_are_gone_are_one_fault() -> None:
    found = faults(held_findings(without_gpu(6)(without_gpu(7)(hgx_node())), baseline()))
    gone = [finding for finding in found if "gone" in finding.text]
    assert [finding.part for finding in gone] == [None]
    assert gone[0].text.startswith("2 of 8 GPUs gone: 6 of 8 GPUs are here")


def test_a_table_of_paths_is_held_by_its_pairs_alone() -> None:
    (finding,) = held(matrix(8, lambda a, b: "NV18"), baseline())
    assert finding.level is Level.PASS
    first = faults(held(matrix(8, lambda a, b: "NV17" if (a, b) == (2, 5) else "NV18"), baseline()))[0]
    assert (first.part, first.text) == ("GPU2-GPU5", "GPU2-GPU5: path is NV17, the baseline says NV18")


def test_fewer_links_by_design_are_a_fault_only_against_a_baseline_with_more() -> None:
    reduced = matrix(8, lambda a, b: "NV8")
    assert inspect_text(reduced, source="pasted", references=()).level is Level.PASS
    assert len(faults(held(reduced, baseline()))) == 28
    assert faults(held(reduced, baseline(HGX.model_copy(update={"pairs": {"NV8": "all"}})))) == []


def test_a_table_that_hides_nvlink_loses_none() -> None:
    hidden = held(matrix(8, lambda a, b: "NODE" if a // 4 == b // 4 else "SYS"), baseline())
    assert gravest(hidden) is Level.WARN
    assert [finding.text for finding in hidden if finding.level is Level.WARN] == [
        "no pair of GPUs shows an NVLink, and the baseline has them on 28: all are down, or this is `nvidia-smi topo "
        "-mp`; run `nvidia-smi topo -m` and `nvidia-smi nvlink --status`"
    ]


def test_without_nvlink_in_the_baseline_nothing_is_hidden() -> None:
    pcie = Wiring(gpus=4, pairs={"NODE": "0-1 2-3", "SYS": "rest"})
    (finding,) = held(matrix(4, lambda a, b: "NODE" if a // 2 == b // 2 else "SYS"), baseline(pcie))
    assert finding.level is Level.PASS
    assert faults(held(matrix(4, lambda a, b: "SYS"), baseline(pcie)))[0].part == "GPU0-GPU1"


def test_an_output_that_lists_no_gpu_loses_none() -> None:
    (finding,) = held(ibstat("Active", "LinkUp", "400"), baseline())
    assert finding.level is Level.WARN
    assert finding.text == "no GPU is listed here: the baseline's 8 GPUs are not held to it"


def test_a_snapshot_without_gpus_has_lost_them() -> None:
    node = hgx_node()
    assert faults(held_findings(replace(node, gpus=(), paths=(), peers=()), baseline()))


NVLINKS = "".join(f"\t Link {number}: 26.562 GB/s\n" for number in range(18))


def nvlink(*indices: int, links: str = NVLINKS) -> str:
    return "".join(
        f"GPU {at}: NVIDIA H100 80GB HBM3 (UUID: GPU-0000000{at}-1111-2222-3333-444455556666)\n{links}"
        for at in indices
    )


def test_an_excerpt_of_later_gpus_has_not_lost_the_earlier_ones() -> None:
    (finding,) = held(nvlink(6, 7), baseline())
    assert finding.level is Level.WARN
    assert finding.text == (
        "an excerpt, with GPU6, GPU7 and not those before: not held to the baseline; paste the whole output"
    )


def test_a_whole_output_with_fewer_gpus_has_lost_them() -> None:
    found = faults(held(nvlink(*range(7)), baseline()))
    assert found[0].text.startswith("1 of 8 GPUs gone: 7 of 8 GPUs are here")


def bus(name: str) -> str:
    return "".join(
        f"0000:{at:02x}:00.0 3D controller [0302]: NVIDIA Corporation {name} [10de:2330] (rev a1)\n" for at in range(8)
    )


def test_the_bus_s_name_of_a_gpu_is_not_held_to_its_driver_s() -> None:
    (finding,) = held(bus("GH100 [H100 SXM5 80GB]"), baseline())
    assert finding.level is Level.PASS


def test_a_driver_s_other_name_of_a_gpu_is_a_fault() -> None:
    found = faults(held(nvlink(*range(8)).replace("H100 80GB HBM3", "H200"), baseline()))
    assert found[0].text == "GPU0: model is NVIDIA H200, the baseline says NVIDIA H100 80GB HBM3"


NICS = tuple(ExpectedNic(name=f"mlx5_{at}", kind="infiniband", rate=400e9) for at in range(2))
WITH_NICS = Wiring(gpus=2, nics=NICS, pairs={"NV18": "all"}, nic_paths={"PIX": "0-mlx5_0 1-mlx5_1", "SYS": "rest"})
LEGEND = "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"


def test_nics_are_held_by_the_names_of_a_table_s_legend() -> None:
    right = matrix(2, lambda a, b: "NV18", nics=[["PIX", "SYS"], ["SYS", "PIX"]]) + LEGEND
    (finding,) = held(right, baseline(WITH_NICS))
    assert finding.level is Level.PASS
    (fault,) = faults(held(right.replace("PIX", "NODE"), baseline(WITH_NICS)))[:1]
    assert fault.text == "GPU0-mlx5_0: path is NODE, the baseline says PIX"


def test_nics_that_a_table_only_numbers_are_not_gone() -> None:
    table = matrix(2, lambda a, b: "NV18", nics=[["PIX", "SYS"]])
    found = held(table, baseline(WITH_NICS))
    assert gravest(found) is Level.WARN
    assert [finding.text for finding in found if finding.level is Level.WARN] == [
        "not listed here, and not held to the baseline: mlx5_0, mlx5_1; gone, or of a kind that this output leaves out"
    ]


def test_an_output_without_any_nic_says_nothing_of_them() -> None:
    (finding,) = held(nvlink(0, 1), baseline(WITH_NICS))
    assert finding.level is Level.PASS


def test_a_port_that_is_down_is_held_to_the_baseline() -> None:
    text = ibstat("Down", "Polling", "10").replace("mlx5_4", "mlx5_1")
    (fault,) = faults(held(text, baseline(WITH_NICS)))
    assert fault.part == "mlx5_1"
    assert fault.text.startswith("mlx5_1 is down: its port is Down/Polling")


def bound(centre: float, *, spread: float = 0.0, **case: Any) -> BoundEntry:
    entry = {"collective": "all_reduce", "size": MIB, "dtype": "float32", "world_size": 8, "backend": "nccl", **case}
    return BoundEntry(
        metric="busbw",
        case=CaseEntry.model_validate(entry),
        unit="GB/s",
        better="higher",
        centre=centre,
        spread=spread,
        attempts=5,
        nodes=1,
    )


def floor(value: float, *, kind: str = "floor", figure: str = "all_reduce", **case: Any) -> FloorEntry:
    size = {"size": MIB, "world_size": 8} if figure == "all_reduce" else {}
    entry = {"figure": figure, "kind": kind, "value": value * 1e9, "source": "a page", **size, **case}
    return FloorEntry.model_validate(entry)


def measured(busbw: float = 100.0) -> CollectiveLog:
    """One row of both placements, in place a little slower."""
    (one,) = read_nccl_text(log(Made(sizes=(MIB,))), source="pasted")
    rows = tuple(replace(row, busbw=busbw - row.in_place) for row in one.rows)
    return replace(one, rows=rows)


@pytest.mark.parametrize(
    ("centre", "spread", "level"),
    [
        (104.0, 0.0, Level.PASS),
        (106.0, 0.0, Level.FAIL),
        (106.0, 0.02, Level.PASS),
        (80.0, 0.0, Level.PASS),
    ],
    ids=["within five percent", "below", "a bound that spreads", "better"],
)
def test_figures_are_held_to_a_recorded_bound(centre: float, spread: float, level: Level) -> None:
    made = replace(baseline(), entries=(bound(centre, spread=spread),))
    out_of_place, in_place = held_log_findings([measured()], made)
    assert (out_of_place.level, in_place.level) == (level, level)
    figure = "all_reduce 1MiB, out-of-place, busbw: 100 GB/s"
    assert out_of_place.text.startswith(f"{figure}, the baseline says {centre:.3g}")
    assert " GB/s and accepts " in out_of_place.text
    assert (out_of_place.line, out_of_place.against) == (measured().rows[0].line, f"{WHERE}:1")


@pytest.mark.parametrize(
    "other",
    [
        {"size": 2 * MIB},
        {"world_size": 4},
        {"collective": "broadcast"},
        {"dtype": "bfloat16"},
        {"backend": "gloo"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_figures_are_not_held_to_the_bound_of_another_case(other: dict[str, Any]) -> None:
    (finding,) = held_log_findings([measured()], replace(baseline(), entries=(bound(1e4, **other),)))
    assert finding.level is Level.WARN
    assert finding.text == ("hgx has no bound or published figure for a collective, size and world size of this log")


@pytest.mark.parametrize(
    ("value", "kind", "level"),
    [
        (100.0, "floor", Level.PASS),
        (101.0, "floor", Level.FAIL),
        (120.0, "measured", Level.PASS),
        (130.0, "measured", Level.WARN),
    ],
)
def test_the_better_placement_is_held_to_what_was_published(value: float, kind: str, level: Level) -> None:
    (finding,) = held_log_findings([measured()], replace(baseline(), floors=(floor(value, kind=kind),)))
    assert finding.level is level
    assert finding.text.startswith(
        f"all_reduce 1MiB, out-of-place, busbw: 100 GB/s, the baseline says {value:.0f} GB/s"
    )
    assert finding.against == "a page"


def test_a_log_whose_ranks_are_not_known_is_held_to_nothing() -> None:
    text = log(Made(head=False, sizes=(MIB,)))
    inspection = inspect_text(text, source="x", references=(), against=replace(baseline(), entries=(bound(1e4),)))
    assert inspection.level is Level.WARN
    assert inspection.findings[0].text.startswith("hgx has no bound or published figure")


COPIES = """\
nvbandwidth Version: v0.8
Built from Git version: v0.8

CUDA Runtime Version: 12080
CUDA Driver Version: 12080
Driver Version: 570.86.15

node-1
Device 0: NVIDIA H100 80GB HBM3 (00000000:10:00)
Device 1: NVIDIA H100 80GB HBM3 (00000000:11:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     54.00     54.20

SUM host_to_device_memcpy_ce 108.20

"""


@pytest.mark.parametrize(
    ("value", "kind", "level"),
    [
        (48.0, "floor", Level.PASS),
        (55.0, "floor", Level.FAIL),
        (60.0, "measured", Level.PASS),
        (70.0, "measured", Level.WARN),
    ],
)
def test_copies_are_held_to_a_figure(value: float, kind: str, level: Level) -> None:
    to = replace(baseline(), floors=(floor(value, kind=kind, figure="host_to_device"),))
    inspection = inspect_text(COPIES, source="pasted", references=(), against=to)
    (finding,) = [finding for finding in inspection.findings if finding.against == "a page"]
    assert finding.level is level
    assert finding.text.startswith("host_to_device, median: 54.1 GB/s, the baseline says ")


def test_copies_without_a_figure_in_the_baseline_are_no_pass() -> None:
    (finding,) = held(COPIES, baseline())
    assert finding.level is Level.WARN
    assert finding.text == (
        "hgx has no figure for a copy that this output has a matrix of: it is not held to that baseline"
    )
