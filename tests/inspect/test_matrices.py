"""What is said of matrices: each rule with the fault it names, and where it stays quiet."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import pytest

from gpuwire_checks.inspect.finding import Finding, Level, gravest
from gpuwire_checks.inspect.matrices import inspect_pair_log
from gpuwire_checks.inspect.pcie_fit import pcie_fit
from gpuwire_checks.recorded.model import Failure, PairLog, PairMatrix
from gpuwire_checks.topology.model import Doubt, Unread

WRITE = "device_to_device_memcpy_write_ce"
ENABLED = "Unidirectional P2P=Enabled Bandwidth (P2P Writes)"
DISABLED = "Unidirectional P2P=Disabled Bandwidth"
Rate = Callable[[int, int], "float | None"]
Unit = Literal["GB/s", "us", "ns"]


def square(gpus: int, rate: Rate, *, test: str = WRITE, unit: Unit = "GB/s", noise: float = 0.003) -> PairMatrix:
    """A matrix between devices, with a little noise."""
    drawn = random.Random(gpus)
    cells = tuple(
        tuple(
            None
            if row == column or (figure := rate(row, column)) is None
            else round(figure * drawn.uniform(1 - noise, 1 + noise), 2)
            for column in range(gpus)
        )
        for row in range(gpus)
    )
    numbers = tuple(range(gpus))
    return PairMatrix(
        line=3,
        test=test,
        unit=unit,
        rows=numbers,
        columns=numbers,
        cells=cells,
        local=(None,) * gpus,
    )


def one_row(figures: Sequence[float], *, test: str = "host_to_device_memcpy_ce", unit: Unit = "GB/s") -> PairMatrix:
    return PairMatrix(
        line=7,
        test=test,
        unit=unit,
        rows=(0,),
        columns=tuple(range(len(figures))),
        cells=(tuple(figures),),
    )


def log_of(*matrices: PairMatrix, gpus: int = 0, model: str = "NVIDIA Example X1", **changes: object) -> PairLog:
    fields: dict[str, object] = {
        "source": "pasted",
        "tool": "nvbandwidth" if "P2P" not in matrices[0].test else "p2pBandwidthLatencyTest",
        "devices": tuple((number, model) for number in range(gpus)),
        "matrices": matrices,
        "connected": (),
        "waived": (),
        "ended": True,
        "failure": None,
        "versions": (),
        "doubts": (),
    }
    return PairLog(**{**fields, **changes})  # type: ignore[arg-type]


def inspect(*matrices: PairMatrix, gpus: int = 0, model: str = "NVIDIA Example X1", **changes: object) -> list[Finding]:
    return inspect_pair_log(log_of(*matrices, gpus=gpus, model=model, **changes))


def texts(findings: Sequence[Finding], level: Level) -> list[str]:
    return [finding.text for finding in findings if finding.level is level]


def only(findings: Sequence[Finding], level: Level) -> Finding:
    (finding,) = [finding for finding in findings if finding.level is level]
    return finding


def test_even_pairs_pass_with_their_range() -> None:
    found = inspect(square(8, lambda a, b: 300.0))
    assert gravest(found) is Level.PASS
    text = only(found, Level.PASS).text
    assert text.startswith(f"{WRITE}: 299.1")
    assert "GB/s on 56 ordered pairs of 8 GPUs; no odd pair (lowest GPU" in text
    assert "8 GPUs, by the matrices: the list of devices is not here" in texts(found, Level.NOTE)


def test_devices_are_named_where_they_are_listed() -> None:
    assert "2 GPUs: NVIDIA Example X1" in texts(inspect(square(2, lambda a, b: 300.0), gpus=2), Level.NOTE)


def test_half_a_percent_is_no_fault_and_ten_are() -> None:
    assert gravest(inspect(square(8, lambda a, b: 298.5 if (a, b) == (6, 0) else 300.0, noise=0))) is Level.PASS
    assert gravest(inspect(square(8, lambda a, b: 273.0 if (a, b) == (6, 0) else 300.0, noise=0))) is Level.PASS
    assert gravest(inspect(square(8, lambda a, b: 267.0 if (a, b) == (6, 0) else 300.0, noise=0))) is Level.FAIL


def test_noise_is_no_fault() -> None:
    assert gravest(inspect(square(8, lambda a, b: 25.0, noise=0.08))) is Level.PASS


def test_one_row() -> None:
    finding = only(inspect(square(8, lambda a, b: 59.0 if a == 3 else 100.0, noise=0)), Level.FAIL)
    said = "GPU3 row (writes from GPU3) is 41 % below the median of the others: 59.00 against 100.00 GB/s"
    assert finding.text == f"{said} ({WRITE})"
    assert (finding.part, finding.line) == ("GPU3", 3)


def test_one_row_of_reads_and_one_column() -> None:
    reads = square(4, lambda a, b: 59.0 if a == 2 else 100.0, test=WRITE.replace("write", "read"), noise=0)
    assert only(inspect(reads), Level.FAIL).text.startswith("GPU2 row (reads by GPU2) is 41 % below the median")
    column = square(4, lambda a, b: 59.0 if b == 2 else 100.0, noise=0)
    assert only(inspect(column), Level.FAIL).text.startswith("GPU2 column (writes to GPU2) is 41 % below the median")


@pytest.mark.parametrize("gpus", [4, 5, 8, 16])
def test_one_device(gpus: int) -> None:
    finding = only(inspect(square(gpus, lambda a, b: 50.0 if 1 in (a, b) else 200.0)), Level.FAIL)
    assert finding.text.startswith("GPU1, to and from every other GPU, is 75 % below the median of the others: ")
    assert finding.part == "GPU1"


def test_one_pair_and_one_cell() -> None:
    pair = only(inspect(square(8, lambda a, b: 20.0 if {a, b} == {2, 5} else 100.0, noise=0)), Level.FAIL)
    assert pair.text.startswith("GPU2-GPU5, in both directions, is 80 % below the median of the others: 20.00 against")
    assert pair.part == "GPU2-GPU5"
    cell = only(inspect(square(8, lambda a, b: 20.0 if (a, b) == (2, 5) else 100.0, noise=0)), Level.FAIL)
    assert cell.text.startswith("GPU2->GPU5 (writes from GPU2, one direction only) is 80 % below the median")
    assert not texts(inspect(square(8, lambda a, b: 20.0 if {a, b} == {2, 5} else 100.0)), Level.WARN)


def test_two_odd_parts() -> None:
    found = inspect(square(8, lambda a, b: 20.0 if {a, b} == {0, 1} or a == 6 else 100.0))
    assert [finding.part for finding in found if finding.level is Level.FAIL] == ["GPU6", "GPU0-GPU1"]


def test_many_odd_parts_are_counted_not_listed() -> None:
    found = inspect(square(40, lambda a, b: 20.0 if a - b in (1, 9) and a % 2 else 100.0, noise=0))
    assert len(texts(found, Level.FAIL)) == 8
    assert "28 more rows, columns or pairs are below the rest: no single part is at fault" in texts(found, Level.WARN)


def test_one_part_in_several_matrices_is_said_once() -> None:
    names = [WRITE, WRITE.replace("write", "read"), WRITE.replace("memcpy", "bidirectional_memcpy") + "_total"]
    found = inspect(*[square(4, lambda a, b: 50.0 if 1 in (a, b) else 200.0, test=name) for name in names])
    assert only(found, Level.FAIL).text.endswith("; so in 2 more matrices")


def test_a_pair_that_was_measured_as_nothing() -> None:
    finding = only(inspect(square(4, lambda a, b: 0.0 if (a, b) == (0, 3) else 100.0)), Level.FAIL)
    assert finding.text.startswith("GPU0->GPU3 (writes from GPU0, one direction only) is 100 % below the median")


def test_two_islands_are_a_regular_pattern() -> None:
    found = inspect(square(6, lambda a, b: 26.3 if a // 3 == b // 3 else 21.9))
    text = only(found, Level.PASS).text
    assert text.startswith(f"{WRITE}: a regular two-socket pattern, GPU0 to GPU2 and GPU3 to GPU5: 26.2")
    assert " GB/s inside, 21.8" in text
    assert text.endswith(" GB/s across; no odd pair")
    assert gravest(found) is Level.PASS


def test_four_bridges_are_a_regular_pattern() -> None:
    text = only(inspect(square(8, lambda a, b: 52.0 if a // 2 == b // 2 else 20.0)), Level.PASS).text
    assert "a regular pattern of 4 groups, GPU0, GPU1 and GPU2, GPU3 and GPU4, GPU5 and GPU6, GPU7: 5" in text


@pytest.mark.parametrize(("odd", "usual"), [((0, 1), "26.30"), ((1, 4), "21.90")])
def test_an_odd_pair_inside_or_across_islands(odd: tuple[int, int], usual: str) -> None:
    found = inspect(square(6, lambda a, b: 12.0 if (a, b) == odd else 26.3 if a // 3 == b // 3 else 21.9, noise=0))
    assert f"12.00 against {usual} GB/s" in only(found, Level.FAIL).text


@pytest.mark.parametrize("gpus", [3, 4, 5])
def test_one_bridge_is_fine_only_where_it_is_meant(gpus: int) -> None:
    found = inspect(square(gpus, lambda a, b: 52.0 if {a, b} == {0, 1} else 20.0))
    text = only(found, Level.WARN).text
    assert "faster between GPU0, GPU1 than with GPU2" in text
    assert text.endswith("; fine where a bridge joins only those")
    assert gravest(found) is Level.WARN


CUBE_TWO = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
CUBE_ONE = {(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)}


def cube(a: int, b: int) -> float:
    pair = (min(a, b), max(a, b))
    return 48.3 if pair in CUBE_TWO else 24.1 if pair in CUBE_ONE else 9.1


def test_a_cube_mesh_is_regular_and_one_with_a_lost_link_is_not() -> None:
    found = inspect(square(8, cube))
    assert gravest(found) is Level.PASS
    assert "3 levels (" in only(found, Level.PASS).text
    assert "the same for every GPU: a regular pattern; no odd pair" in only(found, Level.PASS).text
    found = inspect(square(8, lambda a, b: 24.1 if {a, b} == {0, 3} else cube(a, b)))
    text = only(found, Level.WARN).text
    assert "3 levels (" in text
    assert text.endswith("in no regular pattern; GPU0, GPU3 differ from the others")


def test_a_wide_spread_without_a_step() -> None:
    text = only(inspect(square(8, lambda a, b: 31.0 + 2 * (a + b), noise=0)), Level.WARN).text
    assert text == f"{WRITE}: 33.00 to 57.00 GB/s on 56 ordered pairs of 8 GPUs: a wide spread with no step in it"


def test_the_two_directions_of_a_pair() -> None:
    found = inspect(square(2, lambda a, b: 26.0 if a else 20.0, noise=0))
    finding = only(found, Level.WARN)
    assert finding.text == f"{WRITE}: GPU0->GPU1 20.00 and GPU1->GPU0 26.00 GB/s differ by 23 %"
    assert finding.part == "GPU0-GPU1"
    assert not texts(inspect(square(2, lambda a, b: 26.0 if a else 23.0, noise=0)), Level.WARN)


def test_the_two_directions_of_most_pairs() -> None:
    found = inspect(square(6, lambda a, b: 20.0 if a < b else 26.0, noise=0))
    said = f"{WRITE}: the two directions of most pairs differ by 23 % and more"
    assert said in texts(found, Level.WARN)


def test_p2p_on_slower_than_off_on_every_pair() -> None:
    on, off = square(6, lambda a, b: 9.9, test=ENABLED), square(6, lambda a, b: 22.2, test=DISABLED)
    found = inspect(off, on)
    text = only(found, Level.FAIL).text
    assert text.startswith(f"{ENABLED} is about half of P2P=Disabled on every pair (median 9.90 against 22.2")
    assert text.endswith(", 30 ordered pairs); no single odd pair; try NCCL_P2P_DISABLE=1")


def test_p2p_on_slower_on_one_pair() -> None:
    on = square(4, lambda a, b: 6.0 if {a, b} == {0, 1} else 26.0, test=ENABLED, noise=0)
    found = inspect(square(4, lambda a, b: 22.0, test=DISABLED, noise=0), on)
    text = texts(found, Level.FAIL)[0]
    assert text == (
        f"{ENABLED} is about 27% of P2P=Disabled on 2 of 12 ordered pairs (median 6.00 against 22.00 GB/s): "
        "GPU0->GPU1, GPU1->GPU0; try NCCL_P2P_DISABLE=1"
    ).replace("27%", "a quarter")


def test_p2p_on_is_compared_only_where_it_is_possible() -> None:
    on, off = square(2, lambda a, b: 15.0, test=ENABLED), square(2, lambda a, b: 22.0, test=DISABLED)
    found = inspect(off, on, connected=((0, 1, False), (1, 0, False)))
    assert not texts(found, Level.FAIL)
    assert texts(found, Level.WARN) == [
        "P2P is possible on none of 2 ordered pairs: all copies go through the host; fine where the boards have no P2P"
    ]


def test_p2p_works() -> None:
    on, off = square(2, lambda a, b: 26.0, test=ENABLED, noise=0), square(2, lambda a, b: 22.0, test=DISABLED, noise=0)
    found = inspect(off, on, connected=((0, 1, True), (1, 0, True)))
    said = "P2P works: possible on all 2 ordered pairs, and gives 26.00 GB/s, 22.00 with it off (median)"
    assert texts(found, Level.PASS)[0] == said
    assert gravest(found) is Level.PASS


def test_p2p_is_possible_on_some_pairs() -> None:
    on = square(3, lambda a, b: 22.0, test=ENABLED)
    connected = tuple((a, b, {a, b} == {0, 1}) for a in range(3) for b in range(3) if a != b)
    text = texts(inspect(on, connected=connected), Level.WARN)[0]
    assert text.startswith(
        "P2P is not possible on 4 of 6 ordered pairs (GPU0->GPU2, GPU1->GPU2, GPU2->GPU0, GPU2->GPU1)"
    )


def test_pairs_without_a_figure_have_no_p2p_unless_the_text_is_damaged() -> None:
    matrix = square(4, lambda a, b: None if {a, b} == {0, 1} else 26.0)
    text = texts(inspect(matrix), Level.WARN)[0]
    assert text == (
        f"{WRITE}: N/A for 2 ordered pairs (GPU0->GPU1, GPU1->GPU0): they have no P2P; fine where the boards have none"
    )
    assert not texts(inspect(matrix, doubts=(Doubt(line=5, text="'x' under 1: no figure, not read"),)), Level.WARN)


def test_a_narrow_link() -> None:
    matrix = square(2, lambda a, b: 6.6, test=ENABLED, noise=0)
    finding = only(inspect(matrix, gpus=2, model="NVIDIA GeForce RTX 4090"), Level.WARN)
    assert finding.text == (
        "6.6 GB/s fits PCIe Gen4 x4 (or Gen3 x8), about a quarter of x16; fine only where the slot is meant to be so "
        f"({ENABLED})"
    )
    assert finding.against == (
        "link arithmetic: PCIe Gen4 x4 carries 7.88 GB/s before headers, copies reach 80 to 92 % of it"
    )


def test_a_full_link_and_copies_through_the_host_are_not_narrow() -> None:
    found = inspect(square(2, lambda a, b: 26.3, noise=0), gpus=2, model="NVIDIA RTX A6000")
    assert f"26.3 GB/s fits PCIe Gen4 x16 ({WRITE})" in texts(found, Level.NOTE)
    assert not texts(found, Level.WARN)
    on, off = square(2, lambda a, b: 22.0, test=ENABLED), square(2, lambda a, b: 12.9, test=DISABLED)
    assert not texts(inspect(off, on, gpus=2, model="NVIDIA GeForce RTX 4090"), Level.WARN)
    host = one_row([26.0, 26.0])
    found = inspect(host, square(2, lambda a, b: 13.0), gpus=2, model="NVIDIA GeForce RTX 4090")
    assert not texts(found, Level.WARN)


@pytest.mark.parametrize(
    ("rate", "model", "words", "narrow"),
    [
        (6.6, "NVIDIA GeForce RTX 4090", "PCIe Gen4 x4 (or Gen3 x8), about a quarter of x16", True),
        (26.0, "NVIDIA H100 PCIe", "PCIe Gen5 x8 (or Gen4 x16), about half of x16", True),
        (26.0, "NVIDIA A100-SXM4-80GB", "PCIe Gen4 x16", False),
        (55.4, "NVIDIA H200", "PCIe Gen5 x16", False),
        (12.9, "Tesla V100-SXM2-32GB", "PCIe Gen3 x16", False),
        (12.9, None, "PCIe Gen3 x16 (or Gen4 x8, Gen5 x4, which carry the same)", False),
        (1.65, None, "PCIe Gen3 x2 (or Gen4 x1), about an eighth of x16", True),
    ],
)
def test_link_arithmetic(rate: float, model: str | None, words: str, narrow: bool) -> None:
    fit = pcie_fit(rate, model)
    assert fit is not None
    assert (fit.words, fit.narrow) == (words, narrow)


@pytest.mark.parametrize("rate", [0.0, 9.9, 22.2, 100.0, 276.0, 376.0])
def test_rates_that_fit_no_link(rate: float) -> None:
    assert pcie_fit(rate, "NVIDIA GeForce RTX 4090") is None


def test_an_odd_gpu_on_a_narrow_link() -> None:
    rate: Rate = lambda a, b: 6.6 if 2 in (a, b) else 26.4  # noqa: E731
    found = inspect(square(4, rate, noise=0), gpus=4, model="NVIDIA RTX A6000")
    assert "; it fits PCIe Gen4 x4 (or Gen3 x8), about a quarter of x16" in only(found, Level.FAIL).text


def test_host_copies_of_one_gpu() -> None:
    found = inspect(one_row([55.1, 55.3, 27.2, 55.2]), gpus=4, model="NVIDIA H200")
    finding = only(found, Level.FAIL)
    assert finding.text == (
        "GPU2 is 51 % below the median of the others: 27.20 against 55.15 GB/s (host_to_device_memcpy_ce); it fits "
        "PCIe Gen5 x8 (or Gen4 x16), about half of x16"
    )
    assert finding.part == "GPU2"
    assert gravest(inspect(one_row([55.1, 55.3, 53.9, 55.2]), gpus=4, model="NVIDIA H200")) is Level.PASS


def test_published_figures_are_held_against_listed_models_only() -> None:
    def against(model: str, matrix: PairMatrix) -> str | None:
        found = inspect(matrix, gpus=8, model=model)
        return next((finding.against for finding in found if "GPUs;" in finding.text or "host" in finding.text), None)

    even = square(8, lambda a, b: 377.0)
    source = "stas00/ml-engineering network/README.md"
    assert against("NVIDIA H100 80GB HBM3", even) == f"376 GB/s published for a pair with all its NVLinks, {source}"
    assert against("NVIDIA H200", even) == f"396.4 GB/s published for a pair with all its NVLinks, {source}"
    assert against("NVIDIA A100-SXM4-40GB", even) == f"274.5 GB/s published for a pair with all its NVLinks, {source}"
    assert against("NVIDIA GB200", even) == f"746 GB/s published for a pair with all its NVLinks, {source}"
    for model in ("NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA A100-PCIE-40GB", "NVIDIA L4"):
        assert against(model, even) is None
    host = one_row([55.0] * 8)
    assert against("NVIDIA H200", host) == f"55.43 and 55.06 GB/s published for host to device and back, {source}"
    assert all(finding.against is None for finding in inspect(even))


def test_a_published_figure_changes_no_level() -> None:
    assert gravest(inspect(square(8, lambda a, b: 200.0), gpus=8, model="NVIDIA H100 80GB HBM3")) is Level.PASS


def test_sizes_that_contradict_the_devices() -> None:
    odd = one_row([369.0, 269.0, 412.0], test="host_to_device_memcpy_ce")
    found = inspect(odd, one_row([295.0, 312.0], test="device_to_host_memcpy_ce"), gpus=1)
    assert texts(found, Level.WARN) == [
        "inconsistent: 1 device listed but a 1x3 and a 1x2 matrix (host_to_device_memcpy_ce, "
        "device_to_host_memcpy_ce): edited, or of two runs, and not judged"
    ]
    assert not texts(found, Level.FAIL)
    assert "host_to_device_memcpy_ce: 269.00 to 412.00 GB/s" in texts(found, Level.NOTE)
    assert not texts(inspect(one_row([369.0]), gpus=1), Level.WARN)


def test_latency_is_no_bandwidth() -> None:
    found = inspect(one_row([772.6], test="host_device_latency_sm", unit="ns"), gpus=1)
    assert "host_device_latency_sm: 772.60 ns: a latency, in ns and not GB/s" in texts(found, Level.NOTE)
    assert gravest(found) is Level.PASS
    rate: Rate = lambda a, b: 30.0 if 1 in (a, b) else 11.0  # noqa: E731
    odd = only(inspect(square(6, rate, test="P2P=Enabled Latency GPU", unit="us", noise=0)), Level.WARN)
    assert odd.text == (
        "GPU1, to and from every other GPU, is 173 % above the median latency of the others: 30.00 us "
        "(P2P=Enabled Latency GPU)"
    )


def test_copies_within_a_device() -> None:
    found = inspect(one_row([1500.0, 1490.0], test="device_local_copy"))
    assert "device_local_copy: 1490.00 to 1500.00 GB/s, within the device" in texts(found, Level.NOTE)


def test_waived_tests() -> None:
    found = inspect(one_row([26.0]), waived=((9, ""), (10, "")))
    assert "2 tests were waived, none named: not run here" in texts(found, Level.NOTE)
    found = inspect(one_row([26.0]), waived=((9, "all_to_one_read_sm"),))
    assert "1 test was waived (all_to_one_read_sm): not run here" in texts(found, Level.NOTE)


def test_sums_are_recomputed() -> None:
    good = replace(one_row([24.0, 25.0]), printed_sum=49.0)
    bad = replace(one_row([24.0, 25.0]), printed_sum=50.0)
    assert "recomputed, 1 of 2 printed sums are those of the cells" in texts(inspect(good, bad), Level.NOTE)


def test_a_failure_and_a_cut() -> None:
    failure = Failure(line=40, kind="library", text="[CUDA_ERROR_UNKNOWN] unknown error", where="memcpy.cpp:218")
    found = inspect(square(2, lambda a, b: 300.0), failure=failure)
    assert only(found, Level.ERROR).text == (
        "the tool gave up at memcpy.cpp:218, after 1 matrix: [CUDA_ERROR_UNKNOWN] unknown error"
    )
    lost = Failure(line=40, kind="lost", text="GPU is lost", where=Unread.UNKNOWN)
    assert only(inspect(square(2, lambda a, b: 300.0), failure=lost), Level.FAIL).text.startswith(
        "a GPU is lost, after"
    )
    cut = only(inspect(square(2, lambda a, b: 300.0), cut_at=12), Level.INCOMPLETE)
    assert (cut.text, cut.line) == ("the text ends within a matrix; what is there of 1 matrix is read", 12)


def test_a_part_of_the_output_is_a_note() -> None:
    found = inspect(square(2, lambda a, b: 300.0, test=ENABLED), ended=False)
    assert "no closing note: only a part of what the tool prints is here" in texts(found, Level.NOTE)


def test_nothing_measured() -> None:
    found = inspect_pair_log(log_of(one_row([26.0]), matrices=(), waived=((3, ""),)))
    assert gravest(found) is Level.PASS
    assert texts(found, Level.NOTE)[0] == "0 GPUs, by the matrices: the list of devices is not here"


def test_the_largest_node_ends_soon() -> None:
    drawn = random.Random(7)
    begin = time.monotonic()
    inspect(square(400, lambda a, b: drawn.uniform(10, 300)))
    inspect(square(400, lambda a, b: 300.0 if a // 2 == b // 2 else 20.0))
    assert time.monotonic() - begin < 10
