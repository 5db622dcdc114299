"""The text of p2pBandwidthLatencyTest as pasted: what is read, what is doubted, and what is refused."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.recorded.model import PairLog
from gpuwire_checks.recorded.nvbandwidth_text import looks_like_nvbandwidth_text
from gpuwire_checks.recorded.p2p_bandwidth import looks_like_p2p_bandwidth, read_p2p_bandwidth

HEAD = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA Example X1, pciBusID: 1a, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA Example X1, pciBusID: 3b, pciDeviceID: 0, pciDomainID:0
Device: 2, NVIDIA Example X1, pciBusID: 5c, pciDeviceID: 0, pciDomainID:0
Device=0 CAN Access Peer Device=1
Device=0 CANNOT Access Peer Device=2
Device=1 CAN Access Peer Device=0
Device=1 CANNOT Access Peer Device=2
Device=2 CANNOT Access Peer Device=0
Device=2 CANNOT Access Peer Device=1

***NOTE: In case a device doesn't have P2P access to other one, it falls back to normal memcopy procedure.
So you can see lesser Bandwidth (GB/s) and unstable Latency (us) in those cases.

"""
CONNECTIVITY = """\
P2P Connectivity Matrix
     D\\D     0     1     2
     0\t     1     1     0
     1\t     1     1     0
     2\t     0     0     1
"""
DISABLED = """\
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1      2
     0 1411.50  17.25  17.50
     1  17.75 1388.00  17.90
     2  18.10  18.20 1402.75
"""
WRITES = """\
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1      2
     0 1410.50  45.25  17.51
     1  45.75 1387.00  17.91
     2  18.11  18.21 1401.75
"""
LATENCY = """\
P2P=Disabled Latency Matrix (us)
   GPU     0      1      2
     0   1.61  11.21  12.31
     1  11.41   1.62  12.61
     2  12.71  12.81   1.63

   CPU     0      1      2
     0   2.11   5.21   5.31
     1   5.41   2.12   5.61
     2   5.71   5.81   2.13
"""
NOTE = (
    "\nNOTE: The CUDA Samples are not meant for performance measurements. Results may vary when GPU Boost is enabled.\n"
)
WHOLE = HEAD + CONNECTIVITY + DISABLED + WRITES + LATENCY + NOTE
NAMES = [
    "Unidirectional P2P=Disabled Bandwidth",
    "Unidirectional P2P=Enabled Bandwidth (P2P Writes)",
    "P2P=Disabled Latency GPU",
    "P2P=Disabled Latency CPU",
]
DISABLED_CELLS = ((None, 17.25, 17.50), (17.75, None, 17.90), (18.10, 18.20, None))


def read(text: str) -> PairLog:
    return read_p2p_bandwidth(text, source="pasted")


def doubts(text: str) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in read(text).doubts]


def test_a_whole_output_is_read_without_doubt() -> None:
    log = read(WHOLE)
    assert looks_like_p2p_bandwidth(WHOLE)
    assert not looks_like_nvbandwidth_text(WHOLE)
    assert log.devices == tuple((number, "NVIDIA Example X1") for number in range(3))
    assert [matrix.test for matrix in log.matrices] == NAMES
    assert [matrix.unit for matrix in log.matrices] == ["GB/s", "GB/s", "us", "us"]
    assert log.matrices[0].cells == DISABLED_CELLS
    assert log.matrices[0].local == (1411.50, 1388.00, 1402.75)
    assert log.matrices[2].cells[0] == (None, 11.21, 12.31)
    assert log.matrices[3].local == (2.11, 2.12, 2.13)
    assert [(a, b) for a, b, can in log.connected if can] == [(0, 1), (1, 0)]
    assert len(log.connected) == 6
    assert (log.tool, log.ended, log.failure, log.cut_at, log.doubts, log.waived) == (
        "p2pBandwidthLatencyTest",
        True,
        None,
        None,
        (),
        (),
    )


def test_blocks_alone_after_a_comment() -> None:
    text = "# without --sm_copy\n" + DISABLED + WRITES
    log = read(text)
    assert [matrix.test for matrix in log.matrices] == NAMES[:2]
    assert (log.devices, log.connected, log.ended, log.doubts) == ((), (), False, ())


def test_both_directions_at_once_and_reads() -> None:
    text = DISABLED.replace("Uni", "Bi") + WRITES.replace("Writes", "Reads")
    assert [matrix.test for matrix in read(text).matrices] == [
        "Bidirectional P2P=Disabled Bandwidth",
        "Unidirectional P2P=Enabled Bandwidth (P2P Reads)",
    ]


def test_a_second_run_is_not_read() -> None:
    text = "# without --sm_copy\n" + DISABLED + "# with --sm_copy\n" + DISABLED.replace("17.25", "44.44")
    assert [matrix.cells for matrix in read(text).matrices] == [DISABLED_CELLS]
    said = "'Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)' again: of a second run, not read from here on"
    assert doubts(text) == [(8, said)]


def test_a_header_whose_title_is_lost_is_not_read() -> None:
    text = DISABLED + "\n".join(WRITES.splitlines()[1:]) + "\n" + "\n".join(LATENCY.splitlines()[1:])
    assert [matrix.cells for matrix in read(text).matrices] == [DISABLED_CELLS]
    assert doubts(text) == [(line, "a header whose title is not there: not read") for line in (6, 10, 15)]


def test_connectivity_that_contradicts_the_list() -> None:
    text = WHOLE.replace("     0\t     1     1     0", "     0\t     1     0     0")
    assert (0, 1) not in [(a, b) for a, b, _ in read(text).connected]
    assert doubts(text) == [(17, "device 0 to 1 is 0 here, and listed otherwise above: taken as not known")]


def test_more_columns_than_devices_are_kept_with_a_doubt() -> None:
    text = re.sub(r"Device: 2.*\n", "", HEAD) + DISABLED
    assert read(text).matrices[0].cells == DISABLED_CELLS
    assert [said for _, said in doubts(text)] == [
        "Unidirectional P2P=Disabled Bandwidth: 3 columns, and 2 devices are listed"
    ]


def test_a_zero_is_a_figure_and_a_doubt() -> None:
    text = DISABLED.replace("17.90", " 0.00")
    assert read(text).matrices[0].cells[1] == (17.75, None, 0.0)
    assert doubts(text) == [(4, "row 1 has 0.00 under 2: measured as nothing, or not measured")]


def test_the_text_ends_within_the_last_cell() -> None:
    text = DISABLED.rstrip().removesuffix(".75") + "\n"
    log = read(text)
    assert log.matrices[0].cells == DISABLED_CELLS
    assert log.matrices[0].local == (1411.50, 1388.00, None)
    assert log.cut_at == 5
    assert doubts(text) == [(5, "the text ends within '1402', the last of 3 cells")]


def test_the_text_ends_within_or_before_a_row() -> None:
    text = "\n".join(DISABLED.splitlines()[:4]) + "\n     2  18."
    assert read(text).matrices[0].rows == (0, 1)
    assert read(text).cut_at == 5
    assert read("\n".join(DISABLED.splitlines()[:4])).cut_at == 4
    four = WHOLE.split("P2P=Disabled Latency")[0]
    assert read(four).cut_at is None
    assert not read(four).ended


def test_one_damaged_cell_in_the_middle() -> None:
    text = DISABLED.replace("17.75", "17,75")
    assert read(text).matrices[0].cells == (DISABLED_CELLS[0], (None, None, 17.90), DISABLED_CELLS[2])
    assert doubts(text) == [(4, "'17,75' under 0: no figure, not read")]


def test_a_row_that_lost_a_cell_is_not_read() -> None:
    text = DISABLED.replace("  17.75", "")
    assert read(text).matrices[0].rows == (0, 2)
    assert doubts(text) == [
        (4, "2 cells under 3 columns: not sure under which, the row is not read"),
        (1, "Unidirectional P2P=Disabled Bandwidth: no row for 1"),
    ]


def test_a_row_under_another_number_shows_by_its_largest_cell() -> None:
    text = DISABLED.replace("     2  18.10", "     5  18.10")
    assert read(text).matrices[0].rows == (0, 1)
    turned = "\n".join(DISABLED.splitlines()[:4]).replace("     1  17.75", "     2  17.75")
    assert read(turned).matrices[0].rows == (0,)
    assert (4, "row 2 has no local cell at column 2: not read") in doubts(turned)


def test_a_row_without_a_column_is_not_read() -> None:
    for block in (DISABLED, LATENCY.split("\n\n", maxsplit=1)[0] + "\n"):
        text = block + "     7   1.00   2.00   3.00\n"
        assert read(text).matrices[0].rows == (0, 1, 2)
        assert [said.startswith("row 7 has no ") for _, said in doubts(text)] == [True]


@pytest.mark.parametrize("prefix", ["0: ", "[1,0]<stdout>:", "node7: ", "> ", "2031-05-06T07:08:09 "])
def test_what_a_launcher_puts_before_each_line(prefix: str) -> None:
    log = read("".join(prefix + line + "\n" for line in WHOLE.splitlines()))
    assert [matrix.test for matrix in log.matrices] == NAMES
    assert len(log.devices) == 3
    assert (log.ended, log.doubts) == (True, ())


def test_a_markdown_table() -> None:
    text = DISABLED.splitlines()[0] + "\n|D\\D|0|1|\n|---|---|---|\n|0|900.00|20.10|\n|1|20.30|901.00|\n"
    assert read(text).matrices[0].cells == ((None, 20.10), (20.30, None))
    assert read(text).doubts == ()


def test_a_failure_of_the_driver() -> None:
    log = read(
        HEAD + CONNECTIVITY + DISABLED + "Cuda failure p2pBandwidthLatencyTest.cu:207: 'unspecified launch failure'\n"
    )
    assert log.failure is not None
    assert (log.failure.kind, log.failure.where) == ("library", "p2pBandwidthLatencyTest.cu:207")
    assert [matrix.rows for matrix in log.matrices] == [(0, 1, 2)]
    assert log.doubts == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "pasted:1: no matrix of p2pBandwidthLatencyTest that can be read: a title such as"),
        ("\n" + DISABLED.splitlines()[0], "pasted:2: .*no header of device numbers under 'Unidirectional"),
        (DISABLED.replace("0      1      2\n", "0      2\n"), r"pasted:2: .*counts 0, 2, not from 0 on"),
        ("x" * (5 << 20), "pasted:1: 5242880 characters"),
    ],
    ids=["empty", "title only", "header", "long"],
)
def test_what_cannot_be_placed_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "P2P=Enabled " * 800_000,
        "P2P Connectivity Matrix\n0 1\n" * 20_000,
        "P2P Connectivity Matrix\n0 1\n" + "0 1 1\n" * 49_000,
        ("P2P=Enabled Latency Matrix (us)\n" + "GPU 0 1\n0 1.00 2.00\n" * 20_000),
        "Device=0 CAN Access Peer Device=1\n" * 49_000,
        ("Device: 0, " + "x" * 15_000 + "\n") * 250,
        "Cuda failure " + ":" * 16_000,
    ],
)
def test_hostile_text_ends_soon(text: str) -> None:
    begin = time.monotonic()
    looks_like_p2p_bandwidth(text)
    with contextlib.suppress(TopologyError):
        assert len(read(text).doubts) <= 201
    assert time.monotonic() - begin < 5


def test_recognised_after_a_thousand_other_lines_and_not_in_others() -> None:
    assert looks_like_p2p_bandwidth("debug: 1 2 3\n" * 1000 + DISABLED)
    assert looks_like_p2p_bandwidth(CONNECTIVITY)
    assert not looks_like_p2p_bandwidth("memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)\n" * 10)


def figures(log: PairLog) -> dict[tuple[str, int, int], float]:
    return {
        (matrix.test, row, column): cell
        for matrix in log.matrices
        for row, cells in zip(matrix.rows, matrix.cells, strict=True)
        for column, cell in zip(matrix.columns, cells, strict=True)
        if cell is not None
    }


TRUTH = figures(read(WHOLE))
CONNECTED = set(read(WHOLE).connected)


def check_nothing_wrong(text: str) -> int:
    """Every figure that is read stands where it stood; the number of them."""
    try:
        log = read(text)
    except TopologyError:
        return 0
    assert figures(log).items() <= TRUTH.items(), text
    assert set(log.connected) <= CONNECTED, text
    return len(figures(log))


def realigned(text: str, gap: str) -> str:
    return re.sub(r"(?<=\S)[ \t]{2,}(?=\S)|^[ \t]+", gap, text, flags=re.MULTILINE)


@given(
    end=st.integers(0, len(WHOLE)),
    gap=st.sampled_from([None, " ", "  ", "\t", "     "]),
    prefix=st.sampled_from(["", "0: ", "[1,0]<stdout>:", "node7: "]),
    strip=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_a_cut_realigned_or_labelled_text_is_never_another_matrix(
    end: int, gap: str | None, prefix: str, strip: bool
) -> None:
    text = WHOLE[:end].rstrip() if strip else WHOLE[:end]
    text = text if gap is None else realigned(text, gap)
    count = check_nothing_wrong("\n".join(prefix + line for line in text.split("\n")))
    if end == len(WHOLE):
        assert count == len(TRUTH) == 24


FIGURE_PLACES = [match.span() for match in re.finditer(r"(?<= )[0-9]+\.[0-9]{2}(?= )", WHOLE)]


@given(
    place=st.sampled_from(FIGURE_PLACES),
    new=st.sampled_from(["", "?", "x.yz", "1 2", "1.00 2.00", "12", "3.1", "-", "ERR!", "|", "nan", "REMOVE", "FUSE"]),
    gap=st.sampled_from([None, " ", "\t"]),
    cut=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_one_damaged_cell_is_never_another_matrix(place: tuple[int, int], new: str, gap: str | None, cut: bool) -> None:
    left, right = place
    before, after = WHOLE[:left], WHOLE[right:]
    if new == "REMOVE":
        before, new = before.rstrip(" "), ""
    elif new == "FUSE":
        before, new = before.rstrip(" "), WHOLE[left:right]
    after = after.split("\n")[0] if cut else after
    text = before + new + after
    check_nothing_wrong(text if gap is None else realigned(text, gap))


@given(line=st.integers(0, len(WHOLE.splitlines()) - 1))
@settings(max_examples=60, deadline=None)
def test_a_lost_line_is_never_another_matrix(line: int) -> None:
    lines = WHOLE.splitlines()
    check_nothing_wrong("\n".join(lines[:line] + lines[line + 1 :]))
