"""The text of nvbandwidth as pasted: what is read, what is doubted on which line, and what is refused."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.recorded.model import PairLog, PairMatrix
from gpuwire_checks.recorded.nvbandwidth_json import looks_like_nvbandwidth_json
from gpuwire_checks.recorded.nvbandwidth_text import looks_like_nvbandwidth_text, read_nvbandwidth_text
from gpuwire_checks.topology.model import Unread

HEAD = """\
nvbandwidth Version: v0.8
Built from Git version: v0.8

CUDA Runtime Version: 12090
CUDA Driver Version: 12090
Driver Version: 575.51.03

node-seven
Device 0: NVIDIA Example X1 (00000000:1a:00)
Device 1: NVIDIA Example X1 (00000000:3b:00)
Device 2: NVIDIA Example X1 (00000000:5c:00)

"""
WRITE = """\
Running device_to_device_memcpy_write_ce.
memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)
           0         1         2
 0       N/A    101.25    102.50
 1    103.75       N/A    104.10
 2    105.20    106.30       N/A

SUM device_to_device_memcpy_write_ce 623.10

"""
HOST = """\
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1         2
 0     24.10     24.20     24.35

SUM host_to_device_memcpy_ce 72.65

"""
NOTE = """\
NOTE: The reported results may not reflect the full capabilities of the platform.
Performance can vary with software drivers, hardware clocks, and system topology.
"""
CELLS = ((None, 101.25, 102.50), (103.75, None, 104.10), (105.20, 106.30, None))


def read(text: str) -> PairLog:
    return read_nvbandwidth_text(text, source="pasted")


def only(text: str) -> PairMatrix:
    (matrix,) = read(text).matrices
    return matrix


def doubts(text: str) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in read(text).doubts]


def test_a_whole_output_is_read_without_doubt() -> None:
    text = HEAD + HOST + WRITE + NOTE
    log = read(text)
    assert looks_like_nvbandwidth_text(text)
    assert not looks_like_nvbandwidth_json(text)
    assert log.devices == ((0, "NVIDIA Example X1"), (1, "NVIDIA Example X1"), (2, "NVIDIA Example X1"))
    assert log.versions == (
        ("nvbandwidth", "v0.8"),
        ("cuda", "12.9"),
        ("cuda driver", "12.9"),
        ("driver", "575.51.03"),
    )
    assert (log.tool, log.ended, log.failure, log.cut_at, log.doubts) == ("nvbandwidth", True, None, None, ())
    host, write = log.matrices
    assert (host.test, host.rows, host.cells) == ("host_to_device_memcpy_ce", (0,), ((24.10, 24.20, 24.35),))
    assert host.local == ()
    assert (write.test, write.unit, write.line) == ("device_to_device_memcpy_write_ce", "GB/s", 21)
    assert write.cells == CELLS
    assert write.local == (None, None, None)
    assert write.printed_sum == 623.10


def test_a_zero_diagonal_of_older_versions_is_no_dead_pair() -> None:
    text = WRITE.replace("N/A", "0.00")
    assert only(text).cells == CELLS
    assert only(text).local == (None, None, None)
    assert doubts(text) == []


def test_a_zero_off_the_diagonal_is_a_figure_and_a_doubt() -> None:
    text = WRITE.replace("104.10", "  0.00").replace("623.10", "519.00")
    assert only(text).cells[1][2] == 0.0
    assert doubts(text) == [(5, "row 1 has 0.00 under 2: measured as nothing, or not measured")]


def test_a_pair_without_peer_access_is_no_figure_and_no_doubt() -> None:
    text = WRITE.replace("104.10", "   N/A").replace("623.10", "519.00")
    assert only(text).cells[1] == (103.75, None, None)
    assert doubts(text) == []


def test_dots_in_place_of_the_devices_and_of_the_running_line() -> None:
    text = "nvbandwidth Version: v0.8\n\n...\n\n" + WRITE.split("\n", 1)[1]
    log = read(text)
    assert log.devices == ()
    assert log.matrices[0].test == "device_to_device_memcpy_write_ce"
    assert log.matrices[0].cells == CELLS
    assert log.doubts == ()


def test_a_matrix_alone_is_named_by_its_title() -> None:
    text = "\n".join(WRITE.splitlines()[1:6])
    matrix = only(text)
    assert (matrix.test, matrix.cells) == ("memcpy CE GPU(row) <- GPU(column)", CELLS)
    assert isinstance(matrix.printed_sum, Unread)


def test_latency_is_in_ns() -> None:
    text = HOST.replace(
        "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", "memory latency SM CPU(row) <-> GPU(column) (ns)"
    )
    matrix = only(text.replace("host_to_device_memcpy_ce", "host_device_latency_sm"))
    assert (matrix.test, matrix.unit, matrix.cells) == ("host_device_latency_sm", "ns", ((24.10, 24.20, 24.35),))


def test_waived_tests_with_and_without_a_name() -> None:
    text = HEAD + "Waived:\nWaived: \n" + HOST + "Waived: device_to_device_memcpy_read_ce\nWaiving all_to_host_ce.\n"
    log = read(text)
    assert log.waived == (
        (13, ""),
        (14, ""),
        (22, "device_to_device_memcpy_read_ce"),
        (23, "all_to_host_ce"),
    )
    assert len(log.matrices) == 1
    assert log.doubts == ()


def test_only_waived_tests_are_an_output_too() -> None:
    assert read(HEAD + "Waived:\n" + NOTE).matrices == ()


def test_the_three_matrices_of_a_test_in_two_directions() -> None:
    name = "device_to_device_bidirectional_memcpy_write_ce"
    body = "\n".join(WRITE.splitlines()[2:6])
    parts = [("Write1", "_write1"), ("Write2", "_write2"), ("Total", "_total")]
    text = f"Running {name}.\n" + "\n".join(
        f"memcpy CE GPU(row) <-> GPU(column) {word} bandwidth (GB/s)\n{body}\n\nSUM {name}{end} 623.10\n"
        for word, end in parts
    )
    log = read(text)
    assert [matrix.test for matrix in log.matrices] == [name + end for _, end in parts]
    assert {matrix.cells for matrix in log.matrices} == {CELLS}
    assert log.doubts == ()
    without_sums = read(re.sub(r"SUM.*", "", text))
    assert [matrix.test for matrix in without_sums.matrices] == [name + end for _, end in parts]


def test_a_test_of_one_against_all_has_one_row_and_no_diagonal() -> None:
    text = HOST.replace("CPU(row)", "GPU(row)").replace("host_to_device", "all_to_one_write")
    matrix = only(text)
    assert (matrix.cells, matrix.local) == (((24.10, 24.20, 24.35),), ())
    assert doubts(text) == []


def test_more_columns_than_devices_are_kept_with_a_doubt() -> None:
    head = "\n".join(line for line in HEAD.splitlines() if not re.match("Device [12]", line)) + "\n"
    text = head + HOST.replace("\n\nSUM", "\n 1     24.00     24.00     24.00\n\nSUM").replace("72.65", "144.65")
    matrix = only(text)
    assert matrix.rows == (0, 1)
    assert [text for _, text in doubts(text)] == [
        "host_to_device_memcpy_ce: 3 columns, and 1 device is listed",
        "host_to_device_memcpy_ce: 2 rows, and the tool prints one",
    ]


def test_a_sum_that_contradicts_the_cells() -> None:
    text = WRITE.replace("SUM device_to_device_memcpy_write_ce 623.10", "SUM device_to_device_memcpy_write_ce 612.00")
    said = "device_to_device_memcpy_write_ce: the sum is printed as 612.00, and the cells here add up to 623.10"
    assert doubts(text) == [(2, said)]
    assert only(text).printed_sum == 612.0


def test_the_prefix_of_the_perf_formatter() -> None:
    text = WRITE.replace(
        "SUM device_to_device_memcpy_write_ce 623.10", "&&&& PERF device_to_device_memcpy_write_ce 623.10 +GB/s"
    )
    assert only(text).printed_sum == 623.10


def test_two_names_for_one_matrix() -> None:
    text = WRITE.replace("SUM device_to_device_memcpy_write_ce", "SUM device_to_device_memcpy_read_ce")
    said = (
        "the matrix is of 'device_to_device_memcpy_write_ce' by the line above it and of "
        "'device_to_device_memcpy_read_ce' by its SUM"
    )
    assert (2, said) in doubts(text)


@pytest.mark.parametrize(
    "prefix", ["0: ", "[1,0]<stdout>:", "node7: ", "[rank0]: ", "(Worker pid=31, ip=10.0.0.1) ", "> ", "\x1b[32m"]
)
def test_what_a_launcher_puts_before_each_line(prefix: str) -> None:
    text = "".join(prefix + line + "\n" for line in (HEAD + HOST + "Waived:\n" + WRITE + NOTE).splitlines())
    log = read(text)
    assert [matrix.cells for matrix in log.matrices] == [((24.10, 24.20, 24.35),), CELLS]
    assert len(log.devices) == 3
    assert [name for _, name in log.waived] == [""]
    assert log.ended
    assert log.doubts == ()


def test_of_two_ranks_the_first_is_read() -> None:
    slow = WRITE.replace("101.25", " 11.25").replace("623.10", "533.10")
    text = "".join(f"node1: {a}\nnode2: {b}\n" for a, b in zip(WRITE.splitlines(), slow.splitlines(), strict=True))
    assert only(text).cells == CELLS
    assert doubts(text) == [(None, "node2: prints matrices too: only node1: is read")]


def test_debug_lines_between_and_a_markdown_table() -> None:
    lines = WRITE.splitlines()
    text = "\n".join([*lines[:4], "node7:41:88 [1] NCCL INFO Channel 00/02 : 0 1 2", "warning: clocks", *lines[4:]])
    assert only(text).cells == CELLS
    table = "\n".join(
        [
            *lines[:2],
            "| | 0 | 1 | 2 |",
            "|---|---|---|---|",
            "| 0 | N/A | 101.25 | 102.50 |",
            "| 1 | 103.75 | N/A | |",
            "| 2 | 105.20 | 106.30 | N/A |",
        ]
    )
    assert only(table).cells == (CELLS[0], (103.75, None, None), CELLS[2])
    assert doubts(table) == [(6, "nothing under 2: no figure, not read")]


def test_cells_run_together_are_parted_with_a_doubt() -> None:
    text = WRITE.replace("101.25    102.50", "101.25102.50").replace("103.75       N/A", "103.75N/A")
    assert only(text).cells == CELLS
    assert doubts(text) == [(4, "read '101.25102.50' as 101.25 102.50"), (5, "read '103.75N/A' as 103.75 N/A")]


def test_a_damaged_cell_is_no_figure() -> None:
    text = WRITE.replace("104.10", "1O4.10")
    assert only(text).cells == (CELLS[0], (103.75, None, None), CELLS[2])
    assert doubts(text) == [(5, "'1O4.10' under 2: no figure, not read")]


def test_a_blank_cell_is_placed_where_columns_end_alike() -> None:
    text = WRITE.replace("103.75", "      ")
    assert only(text).cells == (CELLS[0], (None, None, 104.10), CELLS[2])
    assert doubts(text) == [(5, "nothing under 0: no figure, not read")]


def test_a_row_that_lost_a_cell_is_not_read() -> None:
    text = WRITE.replace("    103.75", "")
    matrix = only(text)
    assert (matrix.rows, matrix.cells) == ((0, 2), (CELLS[0], CELLS[2]))
    assert doubts(text) == [
        (5, "2 cells under 3 columns: not sure under which, the row is not read"),
        (2, "device_to_device_memcpy_write_ce: no row for 1"),
    ]


def test_a_header_that_lost_a_number_places_nothing() -> None:
    with pytest.raises(TopologyError, match=r"pasted:3: .*the header counts 0, 2, not from 0 on"):
        read(WRITE.replace("0         1         2\n", "0         2\n"))


def test_a_row_under_another_number_shows_by_its_diagonal() -> None:
    text = WRITE.replace(" 1    103.75", " 2    103.75").replace(" 2    105.20", " 1    105.20")
    matrix = only(text)
    assert matrix.rows == (0,)
    assert (5, "row 2 has no blank cell at column 2: not read") in doubts(text)
    assert (6, "row 1 has no blank cell at column 1: not read") in doubts(text)


def test_two_rows_of_one_number_are_none() -> None:
    text = WRITE.replace(" 1    103.75", " 0    103.75")
    assert only(text).rows == (2,)
    assert [said for _, said in doubts(text)][:2] == ["2 rows 0: this one is not read"] * 2


def test_the_text_ends_within_a_row() -> None:
    lines = WRITE.splitlines()
    text = "\n".join([*lines[:5], " 2    105.20     10"])
    log = read(text)
    assert log.matrices[0].rows == (0, 1, 2)
    assert log.matrices[0].cells[2] == (105.20, None, None)
    assert log.cut_at == 6
    assert doubts(text) == [(6, "the text ends after 2 of 3 cells")]


def test_one_cell_short_at_the_end_may_be_any_cell() -> None:
    text = "\n".join([*WRITE.splitlines()[:5], " 2    105.20    106.30"])
    log = read(text)
    assert log.matrices[0].rows == (0, 1)
    assert log.cut_at == 6


def test_the_text_ends_between_rows_or_before_them() -> None:
    lines = WRITE.splitlines()
    assert read("\n".join(lines[:5])).cut_at == 5
    assert read(HOST + "\n".join(lines[:3])).cut_at == 10
    assert read(HOST + lines[0]).cut_at == 8
    assert (8, "no matrix under 'Running device_to_device_memcpy_write_ce.'") in doubts(HOST + lines[0])
    assert read("\n".join(lines[:6])).cut_at is None


def test_an_error_of_a_test() -> None:
    error = (
        "[CUDA_ERROR_ILLEGAL_ADDRESS] an illegal memory access was encountered in expression cuStreamSynchronize(s) "
        "in double doMemcpy() : /build/nvbandwidth/memcpy.cpp:218"
    )
    log = read(HEAD + HOST + "Running device_to_device_memcpy_read_ce.\n" + error + "\n")
    assert log.failure is not None
    assert (log.failure.kind, log.failure.line) == ("library", 21)
    assert log.failure.where == "/build/nvbandwidth/memcpy.cpp:218"
    assert len(log.matrices) == 1
    lost = read(HEAD + "ERROR: [CUDA_ERROR_UNKNOWN] GPU is lost\n")
    assert lost.failure is not None
    assert lost.failure.kind == "lost"


def test_a_test_that_does_not_exist_is_only_a_doubt() -> None:
    text = HOST + "ERROR: Testcase host_to_moon not found!\n"
    assert read(text).failure is None
    assert doubts(text) == [(8, "ERROR: Testcase host_to_moon not found!")]


def test_a_unit_that_is_not_known() -> None:
    text = HOST + WRITE.replace("(GB/s)", "(GiB/s)")
    assert len(read(text).matrices) == 1
    said = "no known unit in 'memcpy CE GPU(row) <- GPU(column) bandwidth (GiB/s)': not read"
    assert doubts(text) == [(9, said)]


def test_a_second_run_is_not_read() -> None:
    text = HEAD + HOST + HEAD + WRITE
    assert len(read(text).matrices) == 1
    assert (20, "a second run of nvbandwidth begins here: not read") in doubts(text)


def test_more_matrices_than_there_are_tests() -> None:
    log = read("memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n0\n0 1.00\n" * 300)
    assert len(log.matrices) == 200
    assert log.doubts[0].text == "more than 200 matrices: not read from here on"
    assert log.doubts[0].line == 601


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "pasted:1: no matrix of nvbandwidth that can be read: a title such as"),
        (HEAD, "pasted:1: no matrix of nvbandwidth"),
        ("\n".join(WRITE.splitlines()[:3]), "pasted:2: .*no row that can be read|pasted:2: .*no row for 0, 1, 2"),
        ("x" * (5 << 20), "pasted:1: 5242880 characters"),
        ("\n" * 60_000, "pasted:1: 60000 characters in 60001 lines"),
    ],
    ids=["empty", "head only", "no row", "long", "lines"],
)
def test_what_cannot_be_placed_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 10_000_000,
        "memcpy CE GPU(row) " * 500_000,
        "memcpy CE (GB/s)\n0 1 2\n" * 16_000,
        ("memcpy CE (GB/s)\n" + " ".join(map(str, range(512))) + "\n" + "1 1.00\n" * 400) * 100,
        "memcpy CE (GB/s)\n0\n" + "0 1.00\n" * 49_000,
        "memcpy CE (GB/s)\n0 1\n0 " + "1.00" * 4_000,
        ("memcpy CE (GB/s)\n0 1\n" + "0 " + "1.00" * 4_000 + "\n") * 250,
        "Running " * 400_000,
        "Running x\n" * 49_000,
        "[" * 3_000_000,
        "Device 0: " + " " * 15_000 + "x\n" * 10,
        ("Device 0: " + "(" * 15_000 + "\n") * 200,
        "memcpy CE (GB/s)\n0 1\n0 \u0661.\u0662\u0663 N/A\n1 N/A \u00b2\n",
    ],
    ids=[
        "x",
        "title",
        "titles",
        "short",
        "same",
        "fused",
        "manyfused",
        "word",
        "running",
        "brackets",
        "blanks",
        "parentheses",
        "digits",
    ],
)
def test_hostile_text_ends_soon(text: str) -> None:
    begin = time.monotonic()
    looks_like_nvbandwidth_text(text)
    with contextlib.suppress(TopologyError):
        assert len(read(text).doubts) <= 201
    assert time.monotonic() - begin < 5


def test_recognised_after_a_thousand_other_lines_and_not_in_others() -> None:
    assert looks_like_nvbandwidth_text("debug: 1 2 3\n" * 1000 + WRITE)
    assert not looks_like_nvbandwidth_text("Unidirectional P2P=Enabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n")
    assert not looks_like_nvbandwidth_text('{"x": [{"bandwidth_description": "memcpy CE GPU(row) <- GPU(column)"}]}')


WHOLE = HEAD + HOST + WRITE + NOTE
TRUTH = {
    "host_to_device_memcpy_ce": {(0, 0): 24.10, (0, 1): 24.20, (0, 2): 24.35},
    "device_to_device_memcpy_write_ce": {
        (a, b): cell for a, row in enumerate(CELLS) for b, cell in enumerate(row) if cell is not None
    },
    "memcpy CE GPU(row) <- GPU(column)": {
        (a, b): cell for a, row in enumerate(CELLS) for b, cell in enumerate(row) if cell is not None
    },
    "memcpy CE CPU(row) -> GPU(column)": {(0, 0): 24.10, (0, 1): 24.20, (0, 2): 24.35},
}


def check_nothing_wrong(text: str) -> int:
    """Every figure that is read stands where it stood; the number of them."""
    try:
        log = read(text)
    except TopologyError:
        return 0
    count = 0
    for matrix in log.matrices:
        for row, cells in zip(matrix.rows, matrix.cells, strict=True):
            for column, cell in zip(matrix.columns, cells, strict=True):
                if cell is not None:
                    assert TRUTH[matrix.test][row, column] == cell, (matrix, text)
                    count += 1
    return count


def realigned(text: str, gap: str) -> str:
    return re.sub(r"(?<=\S)[ \t]{2,}(?=\S)|^[ \t]+", gap, text, flags=re.MULTILINE)


CELL_PLACES = [
    match.span() for match in re.finditer(r"N/A|\d+\.\d\d(?!\d|\.)", WHOLE) if match.start() > WHOLE.index("Running")
]
CELL_PLACES = [place for place in CELL_PLACES if not WHOLE[: place[0]].splitlines()[-1].startswith("SUM")]


@given(
    end=st.integers(0, len(WHOLE)),
    gap=st.sampled_from([None, " ", "  ", "\t", "     "]),
    prefix=st.sampled_from(["", "0: ", "[1,0]<stdout>:", "node7: "]),
)
@settings(max_examples=200, deadline=None)
def test_a_cut_realigned_or_labelled_text_is_never_another_matrix(end: int, gap: str | None, prefix: str) -> None:
    text = WHOLE[:end] if gap is None else realigned(WHOLE[:end], gap)
    count = check_nothing_wrong("\n".join(prefix + line for line in text.split("\n")))
    if end == len(WHOLE):
        assert count == 9


@given(
    place=st.sampled_from(CELL_PLACES),
    new=st.sampled_from(["", "?", "x.yz", "1 2", "1.00 2.00", "12", "3.1", "-", "ERR!", "|", "nan", "REMOVE", "FUSE"]),
    gap=st.sampled_from([None, " ", "\t"]),
    ends=st.sampled_from(["", "\n", NOTE]),
)
@settings(max_examples=200, deadline=None)
def test_one_damaged_cell_is_never_another_matrix(place: tuple[int, int], new: str, gap: str | None, ends: str) -> None:
    left, right = place
    before, after = WHOLE[:left], WHOLE[right:]
    if new == "REMOVE":
        before, new = before.rstrip(" "), ""
    elif new == "FUSE":
        before, new = before.rstrip(" "), WHOLE[left:right]
    text = before + new + after
    text = text[: text.rindex("SUM")].rstrip("\n") + "\n" + ends if ends != NOTE else text
    assert check_nothing_wrong(text if gap is None else realigned(text, gap)) >= 4


@given(line=st.integers(0, len(WHOLE.splitlines()) - 1))
@settings(max_examples=60, deadline=None)
def test_a_lost_line_is_never_another_matrix(line: int) -> None:
    lines = WHOLE.splitlines()
    check_nothing_wrong("\n".join(lines[:line] + lines[line + 1 :]))
