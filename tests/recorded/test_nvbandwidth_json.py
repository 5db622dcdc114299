"""The JSON of nvbandwidth, whole or cut: what is read, what is doubted, and what is refused."""

from __future__ import annotations

import contextlib
import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.recorded.model import PairLog
from gpuwire_checks.recorded.nvbandwidth_json import looks_like_nvbandwidth_json, read_nvbandwidth_json
from gpuwire_checks.recorded.nvbandwidth_text import looks_like_nvbandwidth_text
from gpuwire_checks.topology.model import Unread

HOST: dict[str, Any] = {
    "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
    "bandwidth_matrix": [["24.1", "24.2534", "24.35"]],
    "name": "host_to_device_memcpy_ce",
    "status": "Passed",
    "sum": 72.7034,
}
WRITE: dict[str, Any] = {
    "bandwidth_description": "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
    "bandwidth_matrix": [["N/A", "101.25", "102.5"], ["103.75", "N/A", "104.1"], ["105.2", "106.3", "N/A"]],
    "name": "device_to_device_memcpy_write_ce",
    "status": "Passed",
    "sum": 623.1,
}
BODY: dict[str, Any] = {
    "CUDA Runtime Version": 12090,
    "Driver Version": "575.51.03",
    "GPU Device list": [f"{number}: NVIDIA Example X1 (00000000:{number}a:00): (node-seven)" for number in range(3)],
    "git_version": "v0.8",
    "testcases": [HOST, {"name": "all_to_one_read_ce", "status": "Waived"}, WRITE],
    "version": "v0.8",
}
CELLS = ((None, 101.25, 102.5), (103.75, None, 104.1), (105.2, 106.3, None))


def dumped(**changes: Any) -> str:
    body = {key: value for key, value in {**BODY, **changes}.items() if value is not None}
    return json.dumps({"nvbandwidth": body}, indent=3) + "\n"


def of_cases(*cases: Any, **changes: Any) -> str:
    return dumped(testcases=list(cases), **changes)


def read(text: str) -> PairLog:
    return read_nvbandwidth_json(text, source="pasted")


def said(text: str) -> list[str]:
    return [doubt.text for doubt in read(text).doubts]


WHOLE = dumped()


def test_a_whole_output_is_read_without_doubt() -> None:
    log = read(WHOLE)
    assert looks_like_nvbandwidth_json(WHOLE)
    assert not looks_like_nvbandwidth_text(WHOLE)
    assert log.devices == tuple((number, "NVIDIA Example X1") for number in range(3))
    assert log.versions == (("nvbandwidth", "v0.8"), ("cuda", "12.9"), ("driver", "575.51.03"))
    assert log.waived == ((25, "all_to_one_read_ce"),)
    assert (log.tool, log.ended, log.failure, log.cut_at, log.doubts) == ("nvbandwidth", True, None, None, ())
    host, write = log.matrices
    assert (host.test, host.line, host.rows, host.cells) == (HOST["name"], 12, (0,), ((24.1, 24.2534, 24.35),))
    assert (write.test, write.unit, write.cells, write.printed_sum) == (WRITE["name"], "GB/s", CELLS, 623.1)
    assert write.local == (None, None, None)


def test_latency_is_in_ns() -> None:
    case = {**HOST, "bandwidth_description": "memory latency SM CPU(row) <-> GPU(column) (ns)"}
    assert read(of_cases(case)).matrices[0].unit == "ns"


def test_the_three_matrices_of_a_test_in_two_directions_stand_in_one_list() -> None:
    case = copy.deepcopy(WRITE)
    case["name"] = "device_to_device_bidirectional_memcpy_write_ce"
    case["bandwidth_matrix"] = [*WRITE["bandwidth_matrix"], *WRITE["bandwidth_matrix"], *WRITE["bandwidth_matrix"]]
    log = read(of_cases(case))
    assert [matrix.test.removeprefix(case["name"]) for matrix in log.matrices] == ["_write1", "_write2", "_total"]
    assert {matrix.cells for matrix in log.matrices} == {CELLS}
    assert [matrix.printed_sum for matrix in log.matrices] == [Unread.UNKNOWN, Unread.UNKNOWN, 623.1]
    assert log.doubts == ()


def test_a_row_too_few_is_of_no_known_device() -> None:
    case = {**WRITE, "bandwidth_matrix": WRITE["bandwidth_matrix"][1:]}
    assert [matrix.test for matrix in read(of_cases(HOST, case)).matrices] == [HOST["name"]]
    text = "device_to_device_memcpy_write_ce: 2 rows and 3 columns: not sure which rows are missing, not read"
    assert said(of_cases(HOST, case)) == [text]


def test_a_cell_too_few_is_of_no_known_column() -> None:
    case = copy.deepcopy(WRITE)
    del case["bandwidth_matrix"][1][0]
    log = read(of_cases(case))
    assert (log.matrices[0].rows, log.matrices[0].cells) == ((0, 2), (CELLS[0], CELLS[2]))
    assert said(of_cases(case)) == ["device_to_device_memcpy_write_ce: no row for 1"]
    short = {**HOST, "bandwidth_matrix": [["24.1", "24.35"]]}
    assert (
        said(of_cases(WRITE, short))[0]
        == "host_to_device_memcpy_ce: 2 cells for 3 devices: not sure of which, not read"
    )


def test_without_a_list_of_devices_the_sum_tells_a_cell_too_few() -> None:
    short = {**HOST, "bandwidth_matrix": [["24.1", "24.35"]]}
    log = read(of_cases(WRITE, short, **{"GPU Device list": None}))
    assert len(log.matrices) == 1
    assert [doubt.text for doubt in log.doubts] == [
        "host_to_device_memcpy_ce: the sum is printed as 72.70, and the cells here add up to 48.45: not sure under "
        "which devices they stand, not read"
    ]


@pytest.mark.parametrize("cell", ["1o4.1", "", None, [], {}, True, -1, "nan", "1e999", float("inf")])
def test_a_damaged_cell_is_no_figure(cell: object) -> None:
    case = copy.deepcopy(WRITE)
    case["bandwidth_matrix"][1][2] = cell
    assert read(of_cases(case)).matrices[0].cells == (CELLS[0], (103.75, None, None), CELLS[2])
    assert said(of_cases(case)) == ["device_to_device_memcpy_write_ce: row 1 has no figure under 2: not read"]


def test_a_sum_that_contradicts_the_cells() -> None:
    text = of_cases({**WRITE, "sum": 600.0})
    assert said(text) == [
        "device_to_device_memcpy_write_ce: the sum is printed as 600.00, and the cells here add up to 623.10"
    ]


def test_more_columns_than_devices_are_kept_with_a_doubt() -> None:
    text = of_cases(HOST, **{"GPU Device list": ["0: NVIDIA Example X1 (00000000:0a:00): (node-seven)"]})
    assert read(text).matrices[0].cells == ((24.1, 24.2534, 24.35),)
    assert said(text) == ["host_to_device_memcpy_ce: 3 columns, and 1 device is listed"]


def test_errors_of_a_test_and_of_the_whole() -> None:
    broken = {"name": "device_to_device_memcpy_read_ce", "status": "Running"}
    error = "[CUDA_ERROR_UNKNOWN] unknown error in expression cuMemAlloc(x) in f() : /src/memcpy.cpp:41"
    log = read(of_cases(HOST, broken, error=error))
    assert log.failure is not None
    assert (log.failure.kind, log.failure.where, log.failure.text) == ("library", "/src/memcpy.cpp:41", error)
    assert [doubt.text for doubt in log.doubts] == [
        "test 'device_to_device_memcpy_read_ce' has the status 'Running', and no result"
    ]
    failed = read(of_cases(HOST, {"name": "x_sm", "status": "Error"}))
    assert failed.failure is not None
    assert failed.failure.text == "x_sm: ended with an error"


def test_other_lines_around_and_a_launcher() -> None:
    text = "mpirun: a warning {\n" + WHOLE + "NOTE: done\n"
    assert read(text).matrices[1].cells == CELLS
    assert read(text).doubts == ()
    labelled = "".join(f"[1,0]<stdout>:{line}\n" for line in WHOLE.splitlines())
    assert looks_like_nvbandwidth_json(labelled)
    assert read(labelled).matrices == read(WHOLE).matrices
    assert looks_like_nvbandwidth_json("debug: 1\n" * 1000 + WHOLE)


def test_the_text_ends_within_a_test() -> None:
    text = WHOLE[: WHOLE.index('"105.2"')]
    log = read(text)
    assert [matrix.test for matrix in log.matrices] == [HOST["name"]]
    assert (log.ended, log.cut_at) == (False, text.rstrip().count("\n") + 1)
    assert log.doubts[0].text == "the JSON ends here, or is none: what follows is not read"
    assert len(log.devices) == 3


def test_what_stands_after_the_tests_may_be_missing() -> None:
    text = WHOLE[: WHOLE.rindex('"version"')]
    log = read(text)
    assert len(log.matrices) == 2
    assert not log.ended
    assert ("driver", "575.51.03") in log.versions


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"pasted:1: no '\{\"nvbandwidth\": \{' here"),
        ('{"nvbandwidth": 3}', r"pasted:1: no '\{\"nvbandwidth\": \{' here"),
        ('\n{"nvbandwidth": {"version": ', "pasted:2: not JSON from here on, and no test before it"),
        ('{"nvbandwidth": {}, "nvbandwidth": 3}', "pasted:1: not JSON from here on"),
        ('{"nvbandwidth": {"version": "v0.8"}}', "pasted:1: no test with a bandwidth_matrix, and no error"),
        ('\n{"nvbandwidth": {x "testcases": []}}', "pasted:2: not JSON before its testcases"),
        ('{"nvbandwidth": {"testcases": [1, "a", [], {"name": 3}]}}', "pasted:1: no test with a bandwidth_matrix"),
        ("x" * (9 << 20), "pasted:1: 9437184 characters"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        read(text)


START = '{"nvbandwidth": {"testcases": ['


@pytest.mark.parametrize(
    "text",
    [
        START + "[" * 3_000_000,
        START + "[]," * 2_000_000,
        START + '{"a":' * 1_000_000,
        '{"nvbandwidth": {' * 400_000,
        '{"nvbandwidth"' + " " * 8_000_000,
        '"nvbandwidth"' * 600_000,
        START + '{"name": "x", "bandwidth_matrix": [' + '["1"],' * 1_000_000,
        START + '{"name": "x_ce", "bandwidth_description": "(GB/s)", "bandwidth_matrix": ['
        + ",".join(["[1]"] * 1_000_000) + "]}]}}",
        START + '{"name": "x_ce", "bandwidth_description": "(GB/s)", "bandwidth_matrix": [['
        + ",".join(["1"] * 2_000_000) + "]]}]}}",
        START + '{"sum": 1' + "0" * 500_000 + "}]}}",
        START + '{"name": "\\ud800", "status": "Waived"}]}}',
        "\n" * 9_000_000,
    ],
)  # fmt: skip
def test_hostile_text_ends_soon(text: str) -> None:
    begin = time.monotonic()
    looks_like_nvbandwidth_json(text)
    with contextlib.suppress(TopologyError):
        assert len(read(text).doubts) <= 201
    assert time.monotonic() - begin < 5


def figures(log: PairLog) -> dict[tuple[str, int, int], float]:
    return {
        (matrix.test, row, column): cell
        for matrix in log.matrices
        for row, cells in zip(matrix.rows, matrix.cells, strict=True)
        for column, cell in zip(matrix.columns, cells, strict=True)
        if cell is not None
    }


TRUTH = figures(read(WHOLE))
TITLES = {"memcpy CE CPU(row) -> GPU(column)": HOST["name"], "memcpy CE GPU(row) <- GPU(column)": WRITE["name"]}


def check_nothing_wrong(text: str) -> int:
    """Every figure that is read stands where it stood; the number of them."""
    try:
        log = read(text)
    except TopologyError:
        return 0
    named = {(str(TITLES.get(test, test)), *place): cell for (test, *place), cell in figures(log).items()}
    assert named.items() <= TRUTH.items(), text
    return len(figures(log))


@given(
    end=st.integers(0, len(WHOLE)),
    indent=st.sampled_from([None, 0, 3, "\t"]),
    prefix=st.sampled_from(["", "0: ", "[1,0]<stdout>:", "node7: ", "> "]),
)
@settings(max_examples=200, deadline=None)
def test_a_cut_reformatted_or_labelled_text_is_never_another_matrix(
    end: int, indent: int | str | None, prefix: str
) -> None:
    whole = json.dumps(json.loads(WHOLE), indent=indent)
    count = check_nothing_wrong("".join(prefix + line + "\n" for line in whole[:end].splitlines()))
    if end >= len(whole):
        assert count == len(TRUTH) == 9


@given(
    case=st.sampled_from([0, 2]),
    row=st.integers(0, 2),
    column=st.integers(0, 2),
    new=st.sampled_from(["?", "", None, "1 2", "REMOVE", "REMOVE ROW", [], "ERR!"]),
    listed=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_one_damaged_cell_is_never_another_matrix(case: int, row: int, column: int, new: object, listed: bool) -> None:
    body = copy.deepcopy(BODY)
    matrix = body["testcases"][case]["bandwidth_matrix"]
    row %= len(matrix)
    if new == "REMOVE ROW":
        del matrix[row]
    elif new == "REMOVE":
        del matrix[row][column]
    else:
        matrix[row][column] = new
    if not listed:
        del body["GPU Device list"]
    check_nothing_wrong(json.dumps({"nvbandwidth": body}))


@given(line=st.integers(0, len(WHOLE.splitlines()) - 1))
@settings(max_examples=60, deadline=None)
def test_a_lost_line_is_never_another_matrix(line: int) -> None:
    lines = WHOLE.splitlines()
    check_nothing_wrong("\n".join(lines[:line] + lines[line + 1 :]))
