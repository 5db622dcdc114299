"""What the wires can carry: published figures are below it, and figures beyond it are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import measurement
from faulty import links_of, with_gpu
from reference_nodes import node_of
from topologies import cpu_node, gpu_node
from wired import hgx_node, without_links

from gpuwire_checks.baseline.store import load_baselines
from gpuwire_checks.judge.ceilings import ceiling_of, possible, too_fast
from gpuwire_checks.records import Case, Outcome, SizeClass, Verdict
from gpuwire_checks.shipped import shipped_baselines
from gpuwire_checks.topology.model import NodeTopology, Unread

REFERENCES = {baseline.name: baseline for baseline in load_baselines([shipped_baselines()])}
ML = "stas00/ml-engineering network/README.md"
SB = "microsoft/superbenchmark tests/data"
AZURE = "Azure/azurehpc-health-checks conf"

PUBLISHED = [
    ("a100-sxm4-80gb-8x-nv12", 8, "all_reduce", 234.89, ML),
    ("a100-sxm4-40gb-8x-nv12", 8, "all_reduce", 235.26, f"{SB}/nccl_allreduce.log"),
    ("a100-sxm4-40gb-8x-nv12", 8, "all_gather_into_tensor", 230.07, f"{SB}/nccl_allgather.log, in place"),
    ("a100-sxm4-40gb-8x-nv12", 8, "reduce_scatter_tensor", 231.52, f"{SB}/nccl_reducescatter.log"),
    ("a100-sxm4-40gb-8x-nv12", 8, "all_to_all_single", 224.31, f"{SB}/nccl_alltoall.log"),
    ("a100-sxm4-40gb-8x-nv12", 8, "broadcast", 232.81, f"{SB}/nccl_broadcast.log"),
    ("a100-sxm4-40gb-8x-nv12", 8, "reduce", 228.38, f"{SB}/nccl_reduce.log"),
    ("a100-sxm4-80gb-8x-nv12", 8, "send_recv", 195.1, "li-plus/playground cuda/nccl.md"),
    ("a100-80gb-pcie-2x-nvlink", 2, "all_reduce", 208.0, "NVIDIA/nccl-tests issue 178"),
    ("a100-80gb-pcie-4x-nvbridge", 3, "all_reduce", 20.0, "NVIDIA/nccl-tests issue 178"),
    ("a100-80gb-pcie-4x-nvbridge", 4, "all_reduce", 25.0, f"{AZURE}/nc96ads_a100_v4.conf"),
    ("h100-pcie-2x-nvlink", 2, "all_reduce", 116.26, "NVIDIA/nccl-tests issue 194"),
    ("h100-nvl-2x-nvlink", 2, "all_reduce", 208.0, f"{AZURE}/nc80adis_h100_v5.conf"),
    ("h100-80gb-hbm3-8x-nv18", 8, "all_reduce", 460.0, f"{AZURE}/nd96isr_h100_v5.conf"),
    ("h800-8x-nv8", 8, "all_reduce", 215.0, "NVIDIA/nccl issue 1374: above the 200 of its wires"),
    ("h200-8x-nv18", 8, "all_reduce", 482.26, ML),
    ("h200-8x-nv18", 8, "all_gather_into_tensor", 361.4, ML),
    ("h200-8x-nv18", 8, "reduce_scatter_tensor", 362.9, ML),
    ("h200-8x-nv18", 6, "all_reduce", 435.6, ML),
    ("h200-8x-nv18", 5, "all_reduce", 414.2, ML),
    ("h200-8x-nv18", 4, "all_reduce", 363.3, ML),
    ("b200-8x-nv18", 8, "all_reduce", 845.67, ML),
    ("b200-8x-nv18", 6, "all_reduce", 778.2, ML),
    ("b200-8x-nv18", 4, "all_reduce", 673.2, ML),
    ("v100-sxm2-32gb-8x-nvmesh", 8, "all_reduce", 110.0, f"{AZURE}/nd40rs_v2.conf"),
    ("mi300x-8x", 8, "all_reduce", 314.0, f"{AZURE}/nd96isr_mi300x_v5.conf"),
    ("mi300x-8x", 2, "all_reduce", 47.671, ML),
]


def case_of(collective: str = "all_reduce", *, ranks: int = 8, device: str = "cuda") -> Case:
    return Case(
        collective=collective,
        size_bytes=1 << 30,
        dtype="float32",
        world_size=ranks,
        size_class=SizeClass.PEAK,
        backend="nccl" if device == "cuda" else "gloo",
        device=device,
    )


def said(node: NodeTopology, value: float, collective: str = "all_reduce", *, ranks: int = 8) -> str | None:
    case = case_of(collective, ranks=ranks)
    return too_fast([measurement(case, value)], ceiling_of(node, case))


def healthy(name: str) -> NodeTopology:
    wiring = REFERENCES[name].wiring
    assert wiring is not None
    return node_of(wiring, name)


@pytest.mark.parametrize(("name", "ranks", "collective", "figure", "source"), PUBLISHED)
def test_a_published_figure_is_possible(name: str, ranks: int, collective: str, figure: float, source: str) -> None:
    ceiling = ceiling_of(healthy(name), case_of(collective, ranks=ranks))
    assert ceiling is not None, source
    assert figure <= ceiling.value, source


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_every_floor_of_a_reference_is_possible(name: str) -> None:
    for floor in REFERENCES[name].floors:
        if floor.world_size is not None:
            assert said(healthy(name), floor.value / 1e9, floor.figure, ranks=floor.world_size) is None


def test_a_copy_beyond_the_wire_is_a_wrong_measurement() -> None:
    assert said(hgx_node(), 470, "broadcast") is None
    assert said(hgx_node(), 900, "broadcast") == (
        "busbw 900 GB/s is more than the 450 GB/s that 18 NVLinks carry one way: the measurement is wrong, not the node"
        " fast; the calls did not move what they should, or the clock is wrong"
    )


def test_the_switch_lifts_all_reduce_and_nothing_else() -> None:
    """8 GPUs on 450 GB/s: S + S/8 a way, so 450 x 2 x 7/9."""
    ceiling = ceiling_of(hgx_node(), case_of())
    assert ceiling is not None
    assert ceiling.value == pytest.approx(700.0)
    assert said(hgx_node(), 720) is None
    words = said(hgx_node(), 900)
    assert words is not None
    assert words.startswith(
        "busbw 900 GB/s is more than the 700 GB/s to which adding up in the switch can lift the 450 GB/s that"
    )
    assert said(hgx_node(), 480, "reduce_scatter_tensor") is not None


def test_an_older_switch_lifts_nothing() -> None:
    ceiling = ceiling_of(healthy("a100-sxm4-80gb-8x-nv12"), case_of())
    assert ceiling is not None
    assert ceiling.value == pytest.approx(300.0)


def test_two_ranks_are_not_lifted() -> None:
    ceiling = ceiling_of(hgx_node(), case_of(ranks=2))
    assert ceiling is not None
    assert ceiling.value == pytest.approx(450.0)


def test_the_slowest_gpu_decides_where_all_take_part() -> None:
    node = with_gpu(3, links=links_of(hgx_node().gpus[3])[:9])(hgx_node())
    assert said(node, 240, "broadcast") is not None
    assert said(node, 400, "broadcast", ranks=7) is None


def test_without_links_the_slot_is_the_wire() -> None:
    ceiling = ceiling_of(gpu_node(path="SYS"), case_of())
    assert ceiling is not None
    assert ceiling.value == pytest.approx(63.0, rel=1e-3)
    assert ceiling.words == "63.0 GB/s that the lanes of PCIe Gen5 x16 carry one way"
    narrow = with_gpu(2, pcie_width=4)(gpu_node(path="SYS"))
    assert said(narrow, 20) is not None
    assert said(without_links(), 70) is not None


def test_a_bridged_node_has_its_links_and_its_slots() -> None:
    ceiling = ceiling_of(healthy("a100-80gb-pcie-4x-nvbridge"), case_of(ranks=4))
    assert ceiling is not None
    assert ceiling.value == pytest.approx(331.5, rel=1e-3)
    assert ceiling.words == "332 GB/s that 12 NVLinks and the lanes of PCIe Gen4 x16 carry one way"


def test_nothing_is_said_of_sockets_latencies_and_unknown_wires() -> None:
    assert ceiling_of(cpu_node(), case_of(device="cpu")) is None
    assert ceiling_of(hgx_node(), case_of(device="cpu")) is None
    assert ceiling_of(hgx_node(), replace(case_of(), size_class=SizeClass.LATENCY)) is None
    assert ceiling_of(hgx_node(), case_of(ranks=16)) is None
    assert ceiling_of(gpu_node(), case_of()) is None  # NV18, and no source that tells how fast its links are
    assert ceiling_of(with_gpu(0, links=Unread.UNKNOWN)(hgx_node()), case_of()) is None
    assert (
        ceiling_of(
            with_gpu(0, pcie_width=Unread.UNKNOWN, max_pcie_width=Unread.UNKNOWN)(gpu_node(path="SYS")), case_of()
        )
        is None
    )
    assert too_fast([measurement(case_of(), 1e6)], None) is None


def verdict_of(outcome: Outcome) -> Verdict:
    case = case_of("broadcast")
    return Verdict(
        outcome=outcome, case=case, name=case.id, metric="busbw", unit="GB/s", value=900.0, attempts=(900.0,)
    )


def test_a_verdict_on_an_impossible_figure_is_an_error_that_keeps_its_attempts() -> None:
    attempts = [measurement(case_of("broadcast"), 900)]
    error = possible(verdict_of(Outcome.IMPROVED), attempts, hgx_node())
    assert (error.outcome, error.value, error.attempts) == (Outcome.ERROR, None, (900.0,))
    assert error.reason.startswith("busbw 900 GB/s is more than the 450 GB/s")


def test_a_verdict_on_a_possible_figure_and_a_wrong_result_stay() -> None:
    good = verdict_of(Outcome.PASS)
    assert possible(good, [measurement(case_of("broadcast"), 400)], hgx_node()) is good
    assert possible(good, [], hgx_node()) is good
    wrong = verdict_of(Outcome.WRONG)
    assert possible(wrong, [measurement(case_of("broadcast"), 900)], hgx_node()) is wrong
