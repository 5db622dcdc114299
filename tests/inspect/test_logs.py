"""What is said of nccl-tests' logs: each rule with the fault it names, and where it stays quiet."""

from __future__ import annotations

from dataclasses import replace

import pytest
from known_boards import reference
from nccl_logs import Made, fields, header, log, rank_line, row

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.inspect.finding import Finding, Level, gravest
from gpuwire_checks.inspect.logs import compare_runs, inspect_log
from gpuwire_checks.inspect.references import References
from gpuwire_checks.recorded.model import CollectiveLog
from gpuwire_checks.recorded.nccl_text import read_nccl_text

H100 = "NVIDIA H100 80GB HBM3"
MIB, GIB = 1 << 20, 1 << 30


def read(text: str) -> CollectiveLog:
    (one,) = read_nccl_text(text, source="pasted")
    return one


def of(text: str, *baselines: Baseline) -> list[Finding]:
    return inspect_log(read(text), References(baselines))


def texts(findings: list[Finding], *levels: Level) -> list[str]:
    return [finding.text for finding in findings if finding.level in levels]


def worst(findings: list[Finding]) -> list[str]:
    return texts(findings, Level.FAIL, Level.ERROR, Level.INCOMPLETE, Level.WARN)


def with_rates(made: Made, rates: dict[int, float]) -> CollectiveLog:
    """A log whose busbw at some sizes is another; its rows keep their lines."""
    one = read(log(made))
    rows = tuple(
        replace(r, busbw=rates[r.size_bytes], algbw=rates[r.size_bytes] / 1.75) if r.size_bytes in rates else r
        for r in one.rows
    )
    average = sum(r.busbw for r in rows) / len(rows)
    return replace(one, rows=rows, printed_average=average)


def ranks(count: int, *, per_host: int = 8, model: str = H100) -> str:
    return "\n".join(rank_line(rank, host=f"kiln-{rank // per_host}", model=model) for rank in range(count))


@pytest.mark.parametrize("style", ["oldest", "old", "current", "newest"])
def test_a_whole_log_of_every_version_passes(style: str) -> None:
    findings = of(log(Made(style=style)))  # type: ignore[arg-type]
    assert worst(findings) == []
    (good,) = [finding for finding in findings if finding.level is Level.PASS]
    assert good.text.startswith("busbw at the largest size, 256MiB: ")
    assert good.text.endswith(" GB/s in-place")


def test_the_largest_size_is_told_with_its_line() -> None:
    text = log(Made(sizes=(MIB, 8 * MIB)))
    (good,) = [finding for finding in of(text) if finding.level is Level.PASS]
    assert good.line is not None
    assert text.splitlines()[good.line - 1].split()[0] == str(8 * MIB)


def test_what_a_log_is_of_is_a_fact() -> None:
    assert texts(of(log(Made(sizes=(MIB, 8 * MIB)))), Level.NOTE)[-1] == (
        "nccl-tests: all_reduce, 8 ranks on 1 host, 2 rows of figures"
    )


SLOTS = """\
There are not enough slots available in the system to satisfy the 24
slots that were requested by the application:

  /opt/nccl-tests/build/broadcast_perf
"""


def test_a_launcher_that_started_nothing_says_nothing_of_bandwidth() -> None:
    findings = of(SLOTS)
    assert gravest(findings) is Level.ERROR
    (error,) = [finding for finding in findings if finding.level is Level.ERROR]
    assert error.text.startswith("the launcher failed, nothing was measured, and this says nothing of bandwidth: There")
    assert "24 slots that were requested" in error.text
    assert error.line == 1
    assert worst(findings) == [error.text]


def test_a_launcher_that_ended_a_run_does_not_deny_its_rows() -> None:
    text = (
        log(Made(end=False))
        + "slurmstepd: error: *** STEP 77.0 ON kiln-3 CANCELLED AT 2026-01-02 DUE TO TIME LIMIT ***\n"
    )
    (error,) = [finding for finding in of(text) if finding.level is Level.ERROR]
    assert error.text.startswith("the launcher ended the run on host kiln-3, after 12 rows: ")
    assert "DUE TO TIME LIMIT" in error.text
    assert error.part == "host kiln-3"


def test_a_library_that_gave_up_names_host_and_place() -> None:
    head = f"{rank_line(0)}\n{rank_line(1)}\n#\n{header('current')}\n"
    line = "kiln-4: Test NCCL failure common.cu:1285 'internal error - please report this issue'"
    (error,) = [finding for finding in of(head + line + "\n") if finding.level is Level.ERROR]
    assert error.text.startswith("the library gave up at common.cu:1285 on host kiln-4, before any row: ")
    assert error.text.endswith("'internal error - please report this issue'")
    assert (error.part, error.line) == ("host kiln-4", 5)


def test_the_oldest_words_of_a_failure() -> None:
    ranks_listed = f"{rank_line(0, group=False)}\n{rank_line(1, group=False)}\n"
    text = f"{ranks_listed}{header('oldest')}\nNCCL failure reduce.cu:88 'unhandled cuda error'\n"
    (error,) = [finding for finding in of(text) if finding.level is Level.ERROR]
    assert error.text.startswith("the library gave up at reduce.cu:88, before any row: ")
    assert error.part is None


def test_a_lost_gpu_is_a_fault() -> None:
    text = log(Made(end=False)) + "kiln-3 kernel: NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n"
    (fault,) = [finding for finding in of(text) if finding.level is Level.FAIL]
    assert fault.text.startswith("a GPU is lost on host kiln-3, after 12 rows: ")
    assert fault.line == len(text.splitlines())


@pytest.mark.parametrize(
    ("whole", "words"),
    [(1, "1 row before it is whole"), (3, "3 rows before it are whole")],
)
def test_a_log_that_is_cut_within_a_row(whole: int, words: str) -> None:
    sizes = tuple(MIB << at for at in range(whole + 1))
    lines = log(Made(sizes=sizes, end=False)).splitlines()
    findings = of("\n".join([*lines[:-1], lines[-1][:60]]))
    assert gravest(findings) is Level.INCOMPLETE
    (cut,) = [finding for finding in findings if finding.level is Level.INCOMPLETE]
    assert cut.text == f"the log is cut within a row; {words}"
    assert cut.line == len(lines)
    assert not any(finding.level is Level.PASS for finding in findings)


def test_rows_with_one_figure_each_are_counted_as_rows() -> None:
    one = read(log(Made(sizes=(MIB, 2 * MIB), end=False)))
    cut = replace(one, rows=tuple(r for r in one.rows if not r.in_place), cut_at=30)
    assert worst(inspect_log(cut, References([])))[0] == "the log is cut within a row; 2 rows before it are whole"


def test_a_log_without_a_row_is_not_a_pass() -> None:
    findings = of(f"{ranks(2)}\n# NCCL version 2.19.3\n")
    assert worst(findings) == ["no data row: the run had not begun to measure, or the log is cut"]
    assert gravest(findings) is Level.INCOMPLETE


def test_a_log_without_its_end_is_compared_by_its_largest_size() -> None:
    findings = of(log(Made(end=False)))
    assert worst(findings) == []
    notes = texts(findings, Level.NOTE)
    assert any(note.startswith("no average line: ") and "compare the largest size" in note for note in notes)
    assert any("(none is printed)" in note for note in notes)


def test_wrong_values_are_worse_than_slow_ones() -> None:
    lines = log(Made(sizes=(MIB, 8 * MIB))).splitlines()
    at = next(number for number, line in enumerate(lines) if line.split()[:1] == [str(8 * MIB)])
    lines[at] = row(Made(sizes=(MIB, 8 * MIB), error="12"), 8 * MIB)
    lines = [line.replace("values : 0 OK", "values : 24 FAILED") for line in lines]
    faults = [finding for finding in of("\n".join(lines) + "\n") if finding.level is Level.FAIL]
    assert [fault.text for fault in faults] == [
        "12 wrong values at 8MiB, out-of-place: wrong data is worse than slow data",
        "12 wrong values at 8MiB, in-place: wrong data is worse than slow data",
    ]
    assert {fault.line for fault in faults} == {at + 1}


def test_values_out_of_bounds_that_only_the_end_tells_of() -> None:
    text = log(Made()).replace("values : 0 OK", "values : 50 FAILED")
    assert "the tool counts 50 values out of bounds" in worst(of(text))


def test_what_was_not_checked_is_not_right() -> None:
    findings = of(log(Made(error="N/A")))
    assert gravest(findings) is Level.WARN
    (doubt,) = [finding for finding in findings if finding.level is Level.WARN]
    assert doubt.text == "correctness was not checked (N/A): unknown, and not 0 wrong; run with -c 1"
    assert doubt.line == read(log(Made(error="N/A"))).rows[0].line
    assert worst(of(log(Made(style="old", error="N/A")))) == [doubt.text]


def test_one_rank_uses_no_link() -> None:
    findings = of(log(Made(world_size=1, factor=0.0)))
    assert gravest(findings) is Level.ERROR
    assert worst(findings)[0] == (
        "1 rank in the communicator: busbw is 0 by definition and no link is used; build with MPI=1, or use -g N"
    )


def test_ranks_of_different_models_are_named() -> None:
    mixed = f"{rank_line(0, model='NVIDIA Test A')}\n{rank_line(1, model='NVIDIA Test B')}\n#\n"
    assert "ranks use different GPU models: NVIDIA Test A, NVIDIA Test B; the slowest sets the pace" in worst(of(mixed))


def test_a_partial_list_of_devices_tells_the_highest_rank() -> None:
    made = Made(world_size=640, head=False)
    text = f"# Using devices\n{rank_line(639)}\n#\n{log(made)}"
    findings = of(text)
    assert worst(findings) == []
    assert "640 ranks, from rank 639; the list of devices is partial" in texts(findings, Level.NOTE)


def test_figures_of_another_number_of_ranks_than_the_list() -> None:
    text = log(Made(world_size=8, factor=1.5))
    (fault,) = [finding for finding in of(text) if finding.level is Level.FAIL]
    assert fault.text.startswith(
        "busbw/algbw is 1.496, and 1.750 for 8 ranks: the figures are of another number of ranks"
    )
    assert fault.line is not None


def test_rows_that_are_missing_are_seen_by_the_average() -> None:
    made = Made()
    lines = log(made).splitlines()
    small = [line for line in lines if line.split()[:1] in (["64"], ["256"], ["1024"], ["4096"])]
    findings = of("\n".join(line for line in lines if line not in small) + "\n")
    (doubt,) = worst(findings)
    assert doubt.startswith("average busbw ")
    assert doubt.endswith(": rows are missing here")


def test_the_tail_of_a_log_is_read() -> None:
    made = Made(head=False, world_size=2, redop="none", root="0", factor=1.0, sizes=(MIB, 4 * MIB, 16 * MIB))
    body = log(made).splitlines()[1:]
    findings = of("\n".join(body) + "\n# Collective test concluded: broadcast_perf\n")
    assert worst(findings) == []
    assert "broadcast, ranks not known, 3 rows of figures" in texts(findings, Level.NOTE)[-1]


@pytest.mark.parametrize(("rate", "said"), [(800.0, True), (300.0, False)])
def test_more_than_the_network_carries_went_over_nvlink(rate: float, said: bool) -> None:
    sizes = (GIB, 4 * GIB)
    one = replace(with_rates(Made(sizes=sizes), dict.fromkeys(sizes, rate)), highest_rank=71)
    notes = texts(inspect_log(one, References([])), Level.NOTE)
    assert any("a network baseline is the wrong one" in note for note in notes) is said


def test_within_one_node_nothing_is_said_of_the_network() -> None:
    sizes = (GIB, 4 * GIB)
    one = with_rates(Made(sizes=sizes), dict.fromkeys(sizes, 480.0))
    assert not any("network" in note for note in texts(inspect_log(one, References([])), Level.NOTE))


def test_bandwidth_that_collapses_at_a_larger_size() -> None:
    sizes = (16 * MIB, 32 * MIB, 64 * MIB, 128 * MIB)
    one = with_rates(Made(sizes=sizes), {16 * MIB: 20.0, 32 * MIB: 29.5, 64 * MIB: 5.25, 128 * MIB: 5.5})
    faults = [f for f in inspect_log(one, References([])) if f.level is Level.FAIL]
    assert [fault.text for fault in faults] == [
        f"busbw collapses at 64MiB, {place}-place: 5.25 GB/s, and 29.5 at 32MiB; with links in order, suspect the "
        "network (flow control)"
        for place in ("out-of", "in")
    ]
    assert {fault.line for fault in faults} == {r.line for r in one.rows if r.size_bytes == 64 * MIB}


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param({16 * MIB: 20.0, 32 * MIB: 40.0, 64 * MIB: 30.0}, id="a dip"),
        pytest.param({64: 9.0, 256: 0.1}, id="small sizes, which latency rules"),
    ],
)
def test_bandwidth_that_varies_is_no_collapse(rates: dict[int, float]) -> None:
    one = with_rates(Made(sizes=tuple(rates)), rates)
    assert not any("collapses" in text for text in worst(inspect_log(one, References([]))))


def published(value: float, *, kind: str = "floor", world_size: int = 8, condition: str | None = "NVLS") -> Baseline:
    entry = FloorEntry.model_validate(
        {
            "figure": "all_reduce",
            "size": GIB,
            "world_size": world_size,
            "kind": kind,
            "value": value * 1e9,
            "condition": condition,
            "source": "a page",
        }
    )
    return reference("h100-8x", model=H100, floors=(entry,))


def at_a_gibibyte(busbw: float) -> CollectiveLog:
    return with_rates(Made(sizes=(MIB, GIB)), {GIB: busbw})


def held(one: CollectiveLog, baseline: Baseline) -> list[Finding]:
    return [finding for finding in inspect_log(one, References([baseline])) if finding.against]


@pytest.mark.parametrize(
    ("busbw", "kind", "level"),
    [
        (461.0, "floor", Level.PASS),
        (459.0, "floor", Level.FAIL),
        (370.0, "measured", Level.PASS),
        (367.0, "measured", Level.WARN),
    ],
)
def test_one_node_is_held_to_what_was_published_of_its_model(busbw: float, kind: str, level: Level) -> None:
    (finding,) = held(at_a_gibibyte(busbw), published(460.0, kind=kind))
    assert finding.level is level
    assert finding.text == f"busbw {busbw:g} GB/s at 1GiB, published 460 (NVLS)"
    word = "floor" if kind == "floor" else "measured elsewhere"
    assert finding.against == f"{word} 460 GB/s, a page"
    assert finding.line is not None


def test_what_was_published_of_others_says_nothing() -> None:
    slow = at_a_gibibyte(10.0)
    assert held(slow, published(460.0, world_size=4)) == []
    two_hosts = replace(slow, hosts=("kiln-1", "kiln-2"))
    assert held(two_hosts, published(460.0)) == []
    other = replace(slow, ranks=tuple(replace(rank, model="NVIDIA Other") for rank in slow.ranks))
    assert held(other, published(460.0)) == []
    mixed = replace(slow, ranks=(replace(slow.ranks[0], model="NVIDIA Other"), *slow.ranks[1:]))
    assert held(mixed, published(460.0)) == []


def test_doubts_of_the_reader_are_kept_with_their_lines() -> None:
    text = log(Made()).replace("validation: 1", "validation: 0")
    (doubt,) = [finding for finding in of(text) if finding.level is Level.WARN and "options" in finding.text]
    assert doubt.line is not None


def runs(*text: str) -> tuple[CollectiveLog, ...]:
    return read_nccl_text("".join(text), source="pasted")


def test_a_run_that_is_far_slower_than_another_of_the_same_case() -> None:
    slow, fast = Made(sizes=(MIB, 8 * MIB), rate=2.0), Made(sizes=(MIB, 8 * MIB))
    read_ = runs(log(fast), log(slow))
    (fault,) = compare_runs(read_)
    assert fault.level is Level.FAIL
    assert fault.text.startswith("runs of the same size differ: run 1 ")
    assert "; 1 of 2 are " in fault.text
    assert fault.text.endswith("on PCIe cards such a factor means that P2P is not in use")
    assert fault.line in {r.line for r in read_[1].rows}


def test_runs_that_are_alike_and_runs_of_other_cases_are_not_compared() -> None:
    made = Made(sizes=(8 * MIB,))
    slow = replace(made, rate=2.0)
    assert compare_runs(runs(log(made), log(replace(made, rate=120.0)))) == []
    assert compare_runs(runs(log(made))) == []
    assert compare_runs(runs(log(made), log(replace(slow, sizes=(4 * MIB,))))) == []
    small = Made(sizes=(64,))
    assert compare_runs(runs(log(small), log(replace(small, latency_us=100.0)))) == []


def test_runs_over_other_numbers_of_ranks_are_not_compared() -> None:
    one_node = Made(sizes=(8 * MIB,))
    assert compare_runs(runs(log(one_node), log(replace(one_node, world_size=4, rate=2.0)))) == []


def bench(busbw: float) -> str:
    """One output of the bench of NCCL 1: no size in bytes, and no head."""
    size = 40_000_000
    words = [*fields(Made(style="nccl1"), size)[:3], f"{size / busbw / 1e6:.3f}", f"{busbw:.2f}", f"{busbw:.2f}"]
    return f"{header('nccl1')}\n " + "  ".join(words) + "\n"


def test_four_outputs_in_a_row_of_the_oldest_bench() -> None:
    read_ = runs(*(bench(busbw) for busbw in (12.0, 9.0, 2.0, 2.0)))
    assert len(read_) == 4
    (fault,) = compare_runs(read_)
    assert fault.text.startswith(
        "runs of the same size differ: run 1 12, run 2 9, run 3 2, run 4 2 GB/s; 2 of 4 are 6.0 and 6.0 times slower"
    )
    assert fault.line == read_[2].rows[0].line
