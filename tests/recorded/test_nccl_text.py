"""nccl-tests' text as pasted: each header on record, what stands around rows, and what is left out."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from nccl_logs import SIZES, UNKNOWN, Made, Style, aligned, fields, figures, header, log, rank_line, row, without_lines

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.recorded.model import CollectiveLog
from gpuwire_checks.recorded.nccl_text import looks_like_nccl_text, read_nccl_text


def read(text: str) -> CollectiveLog:
    logs = read_nccl_text(text, source="pasted")
    assert len(logs) == 1
    return logs[0]


def doubts(one: CollectiveLog) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in one.doubts]


def told(one: CollectiveLog) -> str:
    return "; ".join(doubt.text for doubt in one.doubts)


@pytest.mark.parametrize("style", ["oldest", "old", "current", "newest"])
def test_each_header_on_record_gives_every_row_twice(style: Style) -> None:
    made = Made(style=style, error="0e+00" if style in ("oldest", "old") else "0")
    one = read(log(made))
    assert one.doubts == ()
    assert len(one.rows) == 2 * len(SIZES)
    assert [figure.size_bytes for figure in one.rows[::2]] == list(SIZES)
    assert {figure.wrong for figure in one.rows} == {0}
    assert {(figure.dtype, figure.redop, figure.root) for figure in one.rows} == {("float", "sum", None)}
    last = one.rows[-1]
    words = fields(made, SIZES[-1])
    unit = 1e-3 if style == "oldest" else 1e-6
    assert (last.in_place, last.count) == (True, SIZES[-1] // 4)
    assert (last.seconds, last.algbw, last.busbw) == pytest.approx((float(words[-4]) * unit, *map(float, words[-3:-1])))


def test_the_head_and_the_end_are_read() -> None:
    one = read(log(Made(style="newest")))
    assert (one.tool, one.collective, one.world_size, one.highest_rank) == ("nccl-tests", "all_reduce", 8, UNKNOWN)
    assert one.hosts == ("kiln-3",)
    assert (one.ranks[7].device, one.ranks[7].bus, one.ranks[7].model) == (7, "0x17", "NVIDIA H100 80GB HBM3")
    assert (one.printed_out_of_bounds, one.ended, one.cut_at, one.failure) == (0, True, None, None)
    assert one.printed_average == pytest.approx(84.5, rel=0.5)
    assert one.versions == (("nccl-tests", "2.19.2"), ("nccl headers", "2.28.7"), ("nccl", "2.28.7"))
    assert (one.validated, one.inferred) == (True, ())


def test_na_in_the_error_column_is_a_check_that_was_off() -> None:
    one = read(log(Made(style="old", error="N/A")))
    assert one.validated is False
    assert {figure.wrong for figure in one.rows} == {UNKNOWN}
    assert one.doubts == ()


def test_a_largest_error_is_no_count() -> None:
    unfinished = read(log(Made(style="old", error="3e-07", end=False)))
    assert {figure.wrong for figure in unfinished.rows} == {UNKNOWN}
    assert (unfinished.validated, unfinished.doubts) == (True, ())
    ended = read(log(Made(style="old", error="3e-07")))
    assert {figure.wrong for figure in ended.rows} == {0}
    beyond = read(log(Made(style="old", error="7e-01", end=False, sizes=(64,))))
    assert beyond.rows[0].wrong is UNKNOWN
    assert doubts(beyond)[0] == (15, "the largest error 7e-01 is beyond what rounding gives in float")


def test_an_asterisk_is_rccls_mark_of_an_error_beyond_its_bound() -> None:
    one = read(log(Made(style="old", error="2e-05*", end=False)))
    assert {figure.wrong for figure in one.rows} == {UNKNOWN}
    assert "the tool marks the error 2e-05 as beyond its bound" in told(one)


def test_wrong_elements_are_counted_and_a_total_of_none_contradicts_them() -> None:
    assert {figure.wrong for figure in read(log(Made(error="50", end=False))).rows} == {50}
    assert {figure.wrong for figure in read(log(Made(error="1.5e+06", end=False))).rows} == {1500000}
    one = read(log(Made(error="50", sizes=(64,))))
    assert one.rows[0].wrong is UNKNOWN
    assert doubts(one)[0] == (15, "50 wrong elements, and the tool counts none out of bounds at the end")


def test_failed_values_out_of_bounds_are_counted_and_a_contradiction_is_doubted() -> None:
    text = log(Made(error="50"))
    assert read(text.replace(": 0 OK", ": 12 FAILED")).printed_out_of_bounds == 12
    one = read(text.replace(": 0 OK", ": 0 FAILED"))
    assert one.printed_out_of_bounds is UNKNOWN
    assert "contradicts its OK or FAILED" in told(one)


def test_an_average_that_the_tool_calls_too_low_is_told() -> None:
    one = read(log(Made()).replace(" \n#\n", " FAILED\n#\n"))
    assert isinstance(one.printed_average, float)
    assert told(one) == "the tool calls its own average too low (below NCCL_TESTS_MIN_BW)"


def test_an_average_that_is_no_number_is_unknown() -> None:
    text = log(Made())
    at = text.index("bandwidth    : ") + len("bandwidth    : ")
    one = read(text[:at] + "-nan \n")
    assert (one.printed_average, one.ended) == (UNKNOWN, True)
    assert told(one) == "the average is cut, or no number"


def test_rows_of_size_0_and_repeated_sizes_are_rows_of_their_own() -> None:
    words = ["0", "0", "float", "sum", "-1", "33.10", "0.00", "0.00", "0", "34.52", "0.00", "0.00", "0"]
    zero = aligned(words, "current")
    one = read("\n".join([header("current"), zero, zero, row(Made(), 64), row(Made(), 64)]) + "\n")
    assert [figure.size_bytes for figure in one.rows] == [0, 0, 0, 0, 64, 64, 64, 64]
    assert one.doubts == ()


def test_nccl_1_bench_gives_one_log_per_block() -> None:
    text = "\n\n".join([log(Made(style="nccl1", sizes=(1 << 26,), rate=rate, factor=1.0)) for rate in (11.0, 1.75)])
    first, second = read_nccl_text(text, source="pasted")
    assert (first.tool, first.first_line, second.first_line) == ("nccl1", 1, 5)
    assert [one.rows[0].size_bytes for one in (first, second)] == [1 << 26, 1 << 26]
    assert first.rows[0].busbw > 6 * second.rows[0].busbw
    assert (first.validated, first.rows[0].wrong, first.collective) == (UNKNOWN, UNKNOWN, UNKNOWN)
    assert first.rows[0].seconds == pytest.approx(0.0062, rel=0.1)


@pytest.mark.parametrize(
    "prefix",
    ["0: ", "[1,0]<stdout>:", "kiln-3: ", "2026-02-03 04:05:06 ", "(launch pid=77) ", "> "],
    ids=["srun", "mpirun", "pdsh", "time", "ray", "quoted"],
)
def test_a_launchers_label_on_each_line_is_taken_off(prefix: str) -> None:
    plain = read(log(Made()))
    one = read("".join(f"{prefix}{line}     \n" for line in log(Made()).splitlines()))
    assert (one.rows, one.ranks, one.world_size) == (plain.rows, plain.ranks, plain.world_size)
    assert one.doubts == ()


@pytest.mark.parametrize("form", ["tabs", "single", "stripped", "table", "crlf", "colours"])
def test_realigned_lines_give_the_same_rows(form: str) -> None:
    change: Callable[[str], str] = {
        "tabs": lambda line: "\t".join(line.split()),
        "single": lambda line: " ".join(line.split()),
        "stripped": lambda line: line.lstrip(),
        "table": lambda line: "| " + " | ".join(line.split()) + " |",
        "crlf": lambda line: line + "\r",
        "colours": lambda line: f"\x1b[32m{line}\x1b[0m",
    }[form]
    text = "".join(change(line) + "\n" for line in log(Made(head=False, end=False)).splitlines())
    one = read(text)
    assert one.rows == read(log(Made(head=False, end=False))).rows
    assert one.doubts == ()


INFO = "kiln-3:7100:7166 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"


def test_nccl_info_lines_between_rows_are_passed_over() -> None:
    lines = log(Made()).splitlines()
    text = "".join(f"{line}\n{INFO}\n" for line in lines)
    one = read(text)
    assert without_lines(one.rows) == without_lines(read(log(Made())).rows)
    assert (one.world_size, one.doubts) == (8, ())


@pytest.mark.parametrize("blank", ["", " "], ids=["glued", "apart"])
@pytest.mark.parametrize("after", [5, 9], ids=["before the figures", "between the halves"])
def test_a_row_that_another_writer_cuts_in_two_is_joined(after: int, blank: str) -> None:
    words = fields(Made(), 1 << 20)
    text = (
        f"{header('current')}\n{row(Made(), 1 << 18)}\n"
        f"{'  '.join(words[:after])}{blank}{INFO}\n{INFO}\n   {'  '.join(words[after:])}\n{row(Made(), 1 << 22)}\n"
    )
    one = read(text)
    assert [(figure.line, figure.size_bytes) for figure in one.rows[::2]] == [(2, 1 << 18), (3, 1 << 20), (6, 1 << 22)]
    assert one.doubts == ()


def test_figures_behind_an_info_line_are_not_read_and_told() -> None:
    one = read(f"{header('current')}\n{row(Made(), 1 << 18)}\n{INFO} {row(Made(), 1 << 20)}\n{row(Made(), 1 << 22)}\n")
    assert {figure.size_bytes for figure in one.rows} == {1 << 18, 1 << 22}
    assert doubts(one) == [(3, "figures at the end of an NCCL INFO line are not read")]


def test_a_remark_or_a_time_stamp_behind_a_row_does_no_harm() -> None:
    text = f"{header('current')}\n{row(Made(), 1 << 18)}  <-- slow\n{row(Made(), 1 << 20)} 2026-02-03 04:05:06\n"
    one = read(text)
    assert (len(one.rows), one.doubts) == (4, ())


def test_a_row_with_a_field_too_few_or_too_many_is_left_out() -> None:
    words = fields(Made(), 1 << 20)
    few, many = words[:6] + words[7:], [*words, "7"]
    lines = [header("current"), row(Made(), 1 << 18), " ".join(few), " ".join(many), row(Made(), 1 << 22)]
    one = read("\n".join(lines) + "\n")
    assert {figure.size_bytes for figure in one.rows} == {1 << 18, 1 << 22}
    assert doubts(one) == [
        (3, "12 fields where a row has 13: the row is left out"),
        (4, "14 fields where a row has 13: the row is left out"),
    ]
    assert one.cut_at is None


@pytest.mark.parametrize(
    ("at", "word", "says"),
    [
        (0, "1048676", "size 1048676 is not 262144 elements of float"),
        (1, "262145", "size 1048576 is not 262145 elements of float"),
        (2, "flaot", "'flaot' is no type of nccl-tests"),
        (3, "smu", "'smu' is no reduction of nccl-tests"),
        (4, "1", "redop sum with root 1, unlike the other rows"),
        (5, "12.34", "algbw .* is not size / time"),
        (5, "3221", "time 3221 is not in the form that the tool prints"),
        (5, "0.00", "time 0.00 is not positive"),
        (6, "99.99", "algbw 99.99 is not size / time"),
        (7, "99.99", "busbw / algbw is .*; the others have 1.75"),
        (7, "9.9.9", "busbw '9.9.9' is no number"),
        (8, "1.5", "'1.5' is no count of errors"),
    ],
)
def test_a_row_that_contradicts_itself_or_the_others_is_left_out(at: int, word: str, says: str) -> None:
    words = fields(Made(), 1 << 20)
    words[at] = word
    lines = [header("current"), *(row(Made(), size) for size in SIZES), " ".join(words), row(Made(), 1 << 22)]
    one = read("\n".join(lines) + "\n")
    assert 14 not in {figure.line for figure in one.rows}
    assert len(one.rows) == 2 * len(SIZES) + 2
    assert [line for line, _ in doubts(one)] == [14]
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(told(one))


def test_two_measurements_that_differ_leave_nothing_to_believe() -> None:
    words = fields(Made(), 1 << 20)
    words[11] = "9.99"
    one = read(f"{header('current')}\n{' '.join(words)}\n")
    assert one.rows == ()
    assert "no two rows agree" in told(one)


def test_the_named_collective_and_the_ranks_decide_where_rows_do_not() -> None:
    words = fields(Made(), 1 << 28)
    words[11] = "9.99"
    good = row(Made(), 1 << 26)
    lines = log(Made(style="newest", sizes=(), end=False)).splitlines()
    one = read("\n".join([*lines, " ".join(words), good]) + "\n")
    assert {figure.size_bytes for figure in one.rows} == {1 << 26}


def test_a_program_with_other_forms_of_numbers_is_not_held_to_printf() -> None:
    text = f"{header('current')}\n"
    for size in (1 << 20, 1 << 22):
        us = size / 1e3 / 50
        text += f"{size} {size // 4} float sum -1 {us:.3f} 50.000 75.000 0 {us:.3f} 50.000 75.000 0\n"
    assert len(read(text).rows) == 4


@pytest.mark.parametrize("num_fields", range(1, 13))
def test_a_row_cut_at_the_end_gives_its_first_half_only_where_that_is_whole(num_fields: int) -> None:
    words = fields(Made(), 1 << 20)
    text = f"{header('current')}\n{row(Made(), 1 << 18)}\n{' '.join(words[:num_fields])}\n"
    one = read(text)
    assert one.cut_at == 3
    halves = [figure.in_place for figure in one.rows if figure.line == 3]
    assert halves == ([False] if num_fields >= 10 else [])
    assert 3 in [line for line, _ in doubts(one)]


def test_a_count_at_the_end_of_an_open_text_may_be_cut() -> None:
    words = fields(Made(error="7"), 1 << 20)
    text = f"{header('current')}\n{' '.join(words)}"
    one = read(text)
    assert (one.cut_at, [figure.in_place for figure in one.rows]) == (2, [False])
    assert len(read(text + "\n").rows) == 2


@pytest.mark.parametrize(("average", "is_read"), [("68.4048", True), ("68.4", False), ("68.4 ", True)])
def test_an_average_at_the_end_of_an_open_text_may_be_cut(average: str, is_read: bool) -> None:
    one = read(f"{header('current')}\n{row(Made(), 1 << 20)}\n# Avg bus bandwidth    : {average}")
    assert one.ended is is_read
    assert one.printed_average == (float(average) if is_read else UNKNOWN)


def test_rows_without_a_header_are_told_by_their_shape() -> None:
    for style in ("current", "old"):
        one = read("\n".join(row(Made(style=style), size) for size in SIZES) + "\n")
        assert len(one.rows) == 2 * len(SIZES)
        assert (one.doubts, one.world_size) == ((), UNKNOWN)


def test_an_unknown_header_is_told_and_the_rows_keep_their_shape() -> None:
    lines = [header("current").replace("root", "rout"), *(row(Made(), size) for size in SIZES)]
    one = read("\n".join(lines) + "\n")
    assert len(one.rows) == 2 * len(SIZES)
    assert doubts(one)[0][0] == 1
    assert "this header is not one that nccl-tests prints for the rows here" in told(one)


def test_a_header_of_another_width_than_every_row_is_not_believed() -> None:
    lines = [header("current").replace("redop", "     "), *(row(Made(), size) for size in SIZES)]
    one = read("\n".join(lines) + "\n")
    assert {figure.redop for figure in one.rows} == {"sum"}
    assert "this header is not one" in told(one)


def test_a_redop_column_without_a_word_is_alltoalls() -> None:
    ranks = 4
    lines = [header("old")]
    for size in (1 << 20, 1 << 22):
        us = size / 1e3 / 40
        halves = f"{us:.2f} 40.00 30.00 0e+00 " * 2
        lines.append(f"{size} {size // 4 // ranks} float  {halves}")
    one = read("\n".join(lines) + "\n")
    assert (one.collective, len(one.rows), one.rows[0].redop) == ("all_to_all_single", 4, None)


def test_in_place_only_tables_are_read() -> None:
    text = "#          in-place\n# size count type redop root time algbw busbw #wrong\n"
    for size in (1 << 20, 1 << 22):
        words = fields(Made(), size)
        text += " ".join(words[:5] + words[9:]) + "\n"
    assert [figure.in_place for figure in read(text).rows] == [True, True]


def test_cpu_time_is_not_the_time_of_a_call() -> None:
    text = f"{header('current').replace('time', 'cputime')}\n{row(Made(), 1 << 20)}\n"
    one = read(text)
    assert one.rows == ()
    assert "CPU time (-C 1)" in told(one)


def test_columns_per_iteration_are_passed_over() -> None:
    per = "i_min i_max i_p99 i_cv%"
    halves = f"time algbw busbw #wrong {per}"
    text = f"# size count type redop root {halves} {halves}\n"
    for size in (1 << 20, 1 << 22):
        words = fields(Made(), size)
        text += (
            " ".join([*words[:9], "1.00", "2.00", "3.00", "4.00", *words[9:], "1.00", "2.00", "3.00", "4.00"]) + "\n"
        )
    one = read(text)
    assert one.rows == read(f"{header('current')}\n{row(Made(), 1 << 20)}\n{row(Made(), 1 << 22)}\n").rows


@pytest.mark.parametrize(
    ("line", "collective"),
    [
        ("$ mpirun -np 8 ./build/alltoall_perf -b 8 -e 1G", "all_to_all_single"),
        ("srun /opt/nccl-tests/build/all_gather_perf -b 8", "all_gather_into_tensor"),
        ("# Collective test starting: reduce_scatter_perf", "reduce_scatter_tensor"),
        ("+ ./sendrecv_perf_mpi -b 8", "send_recv"),
        ("# Collective test starting: hypercube_perf", "hypercube"),
    ],
)
def test_a_program_in_the_text_names_the_collective(line: str, collective: str) -> None:
    one = read(f"{line}\n{header('current')}\n")
    assert (one.collective, one.inferred) == (collective, ())


def test_the_concluding_line_names_the_collective_where_the_head_is_missing() -> None:
    rows = "\n".join(row(Made(redop="none", root="0", factor=1.0), size) for size in SIZES)
    one = read(f"{rows}\n# Out of bounds values : 0 OK\n#\n# Collective test concluded: gather_perf\n")
    assert (one.collective, one.ended) == ("gather", True)
    assert (one.rows[0].redop, one.rows[0].root) == (None, 0)


@pytest.mark.parametrize(
    ("made", "collective"),
    [
        (Made(), "all_reduce"),
        (Made(world_size=2), UNKNOWN),
        (Made(style="old", world_size=2, error="0e+00"), "all_reduce"),
        (Made(factor=1.0), "send_recv"),
        (Made(factor=1.0, head=False), UNKNOWN),
        (Made(root="0", factor=1.0), "reduce"),
        (Made(root="3", redop="none", factor=1.0), "broadcast"),
        (Made(redop="none", factor=1.0), UNKNOWN),
        (Made(sizes=SIZES[:1]), UNKNOWN),
        (Made(world_size=1), UNKNOWN),
    ],
    ids=["factor", "two ranks", "old columns", "sendrecv", "ranks unknown", "root", "root only", "none", "0.00", "one"],
)
def test_a_collective_that_is_not_named_is_inferred_only_when_no_other_prints_so(made: Made, collective: str) -> None:
    one = read(log(made))
    assert one.collective == collective
    assert one.doubts == ()
    assert [inferred.text.startswith("the collective is not named") for inferred in one.inferred] == [True] * (
        collective != UNKNOWN
    )


def test_a_count_of_one_ranks_part_is_that_of_reduce_scatter() -> None:
    text = f"{header('current')}\n"
    for size in (1 << 20, 1 << 22):
        us = size / 1e3 / 40
        halves = f"{us:.2f} 40.00 30.00 0 " * 2 if us < 100 else f"{us:.1f} 40.00 30.00 0 " * 2
        text += f"{size} {size // 4 // 4} float sum -1 {halves}\n"
    assert read(text).collective == "reduce_scatter_tensor"


def test_ranks_of_two_nodes_old_and_new() -> None:
    lines = [rank_line(rank, host=f"kiln-{rank // 8}") for rank in range(16)]
    one = read("\n".join([*lines, "#", header("current")]) + "\n")
    assert (one.world_size, one.hosts) == (16, ("kiln-0", "kiln-1"))
    old = read("\n".join(["#   Rank  0 on     kiln-7 device  0 [0x00] Tesla P40", "", header("oldest")]) + "\n")
    assert (old.world_size, old.ranks[0].model, old.ranks[0].host) == (1, "Tesla P40", "kiln-7")


def test_rccl_tests_heads_and_addresses() -> None:
    text = (
        "nThreads: 1 nGpus: 2 nRanks: 1 minBytes: 8 maxBytes: 64 step: 2(factor) iters: 20 validation: 0\n"
        "rccl-tests: Version develop:ab12cd3\n"
        "#   Rank  0 Pid  55 on kiln-9 device  0 [0000:c1:00.0] AMD Instinct MI250\n"
        "#   Rank  1 Pid  55 on kiln-9 device  1 [0000:c5:00.0] AMD Instinct MI250\n#\n"
    )
    one = read(text)
    assert (one.tool, one.world_size, one.validated) == ("rccl-tests", 2, False)
    assert one.ranks[1].bus == "0000:c5:00.0"
    assert one.versions == (("rccl-tests", "develop:ab12cd3"),)


def test_a_partial_list_of_devices_gives_its_highest_rank() -> None:
    one = read(f"{rank_line(143)}\n#\n{header('current')}\n")
    assert (one.world_size, one.highest_rank, one.doubts) == (UNKNOWN, 143, ())


@pytest.mark.parametrize(
    ("numbers", "followed", "says"),
    [
        ([0, 1, 3], "#\n", "the list of devices lacks rank 2"),
        ([0, 1, 2], "#\n", "3 devices are listed, and each process has 4: the list is not whole"),
        ([0, 1, 2, 3], "", ""),
        ([0, 1, 2, 3], "#  Rank  4 Group  0 Pid\n#\n", "a line of the list of devices that is not whole"),
        ([0, 1, 2, 3, 3], "#\n", ""),
    ],
    ids=["gap", "not a multiple", "at the end", "broken", "twice the same"],
)
def test_a_list_that_is_not_whole_gives_no_number_of_ranks(numbers: list[int], followed: str, says: str) -> None:
    options = "# nThread 1 nGpus 4 minBytes 8 maxBytes 64 step: 2(factor) validation: 1\n"
    one = read(options + "".join(rank_line(number) + "\n" for number in numbers) + followed)
    assert one.world_size == (4 if numbers[-2:] == [3, 3] else UNKNOWN)
    assert says in told(one)


def test_a_rank_listed_with_two_devices_is_doubted() -> None:
    one = read(f"{rank_line(0)}\n{rank_line(1)}\n{rank_line(1, host='kiln-8')}\n#\n")
    assert one.world_size is UNKNOWN
    assert doubts(one) == [(3, "rank 1 is listed again, with another device")]


def test_groups_of_ranks_have_a_communicator_each() -> None:
    lines = [rank_line(rank).replace("Group  0", f"Group  {rank % 2}") for rank in range(8)]
    assert read("\n".join(lines) + "\n#\n").world_size == 4


def test_processes_that_each_run_alone_are_one_log_of_one_rank() -> None:
    """A program built without MPI=1, started by mpirun: every process prints a head and rows of its own."""
    options = "# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 2(factor) validation: 1\n"
    ranks = "".join(rank_line(0).replace("7100", str(7100 + process)) + "\n" for process in range(3))
    rows = "".join(row(Made(factor=0.0), size) + "\n" for size in (1 << 20, 1 << 22) for _ in range(3))
    ends = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0 \n#\n" * 3
    one = read(options * 3 + ranks + "#\n" + (header("current") + "\n") * 3 + rows + ends)
    assert (one.world_size, len(one.rows), one.printed_average) == (1, 12, 0)
    assert "processes that each run alone, as a program built without MPI=1 does" in told(one)


def test_runs_that_follow_each_other_are_told_apart() -> None:
    first, second = log(Made(style="newest")), log(Made(style="newest", rate=33.0))
    tables = f"{header('current')}\n{row(Made(), 64)}\n{header('current')}\n{row(Made(), 256)}\n"
    logs = read_nccl_text(first + second + tables, source="pasted")
    assert [len(one.rows) for one in logs] == [24, 24, 2, 2]
    assert [one.ended for one in logs] == [True, True, False, False]
    assert logs[1].first_line == first.count("\n") + 1


def test_a_command_line_names_the_run_that_follows_it() -> None:
    text = f"$ ./all_reduce_perf\n{log(Made())}$ ./all_gather_perf\n{log(Made(sizes=(), end=False))}"
    assert [one.collective for one in read_nccl_text(text, source="pasted")] == ["all_reduce", "all_gather_into_tensor"]


def test_runs_side_by_side_under_labels_are_told_apart() -> None:
    fast, slow = log(Made()).splitlines(), log(Made(rate=11.0)).splitlines()
    text = "".join(f"0: {a}\n1: {b}\n" for a, b in zip(fast, slow, strict=True))
    logs = read_nccl_text(text, source="pasted")
    assert [max(figure.busbw for figure in one.rows) > 100 for one in logs] == [True, False]
    assert [one.world_size for one in logs] == [8, 8]


def test_versions_of_the_library_are_read_wherever_they_stand() -> None:
    one = read(f"NCCL version 2.21.5+cuda12.4\n{header('current')}\n")
    assert one.versions == (("nccl", "2.21.5"), ("cuda", "12.4"))
    info = read(f"{header('current')}\nkiln-3:1:1 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n")
    assert info.versions == one.versions
    rccl = read(f"RCCL version 2.22.3+hip6.4 HEAD:ab12\n{header('current')}\n")
    assert (rccl.versions, rccl.tool) == ((("rccl", "2.22.3"), ("hip", "6.4")), "rccl-tests")


def test_two_names_or_two_checks_that_contradict_each_other_are_doubted() -> None:
    text = log(Made(style="newest")).replace("concluded: all_reduce", "concluded: broadcast")
    one = read(text)
    assert "broadcast here, and all_reduce in line 2" in told(one)
    off = read(log(Made()).replace("validation: 1", "validation: 0"))
    assert "validation: 0 in the options, and the rows say otherwise" in told(off)


def test_a_whole_log_is_found_behind_a_thousand_other_lines() -> None:
    other = "".join(f"module load step {number}\n" for number in range(1000))
    for text in (log(Made()), f"{rank_line(3)}\n", f"{row(Made(), 64)}\n", log(Made(style="nccl1"))):
        assert looks_like_nccl_text(other + text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GPU0 GPU1\nGPU0 X NV4\n",
        "busbw collapses at 64MiB: 5 GB/s\n",
        '{"results": [{"alg_bw": 1}]}',
        "1 2 3 4 5\n" * 50,
    ],
    ids=["empty", "matrix", "prose", "json", "numbers"],
)
def test_other_texts_are_not_taken_and_refused_with_the_reason(text: str) -> None:
    assert not looks_like_nccl_text(text)
    with pytest.raises(TopologyError, match=r"^pasted:1: no output of nccl-tests: a header such as"):
        read(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (header("current") + "\n" + "\n".join([row(Made(), 64)] * 10_001), r"pasted:10002: more than 10000 rows"),
        ((header("nccl1") + "\n10 char sum 0.1 0.1 0.1\n") * 501, r"pasted:1001: more than 500 runs"),
        ("x1\n" * 150_001, r"pasted:150001: more than 150000 lines other than NCCL's INFO lines"),
        (f"{row(Made(), 64)} " * 100, r"no output of nccl-tests: .*; line 1 is too long to be read"),
        ("\n" * 2_000_001, r"pasted:1: 2000001 characters in 2000002 lines"),
    ],
    ids=["rows", "runs", "lines", "one line", "newlines"],
)
def test_more_than_any_log_has_is_refused(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        read(text)


def test_a_long_line_is_told_and_passed_over() -> None:
    one = read(f"{header('current')}\n{row(Made(), 64)}\n{'7 ' * 5000}\n{row(Made(), 256)}\n")
    assert (len(one.rows), doubts(one)) == (4, [(3, "a line of 10000 characters is not read")])


def test_many_doubts_are_counted_not_listed() -> None:
    bad = "64 16 float sum -1 1 2 3\n"
    one = read(header("current") + "\n" + bad * 300 + row(Made(), 64) + "\n")
    assert len(one.doubts) == 201
    assert one.doubts[-1].text == "100 more doubtful lines, which are not listed"


@pytest.mark.parametrize(
    "line",
    [
        "7 " * 2000,
        "a:1:1 [" * 500,
        "-1a:" * 1000,
        "x " * 2000 + "failure",
        "[1,0]<stdout>:" * 200,
        "bash: _perf " * 300,
    ],
)
def test_hostile_lines_end_soon(line: str) -> None:
    begin = time.monotonic()
    one = read(f"{header('current')}\n{(line + chr(10)) * 300}{row(Made(), 64)}\n")
    assert time.monotonic() - begin < 4
    assert len(figures(one)) == 2
