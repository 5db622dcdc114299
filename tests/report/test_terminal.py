"""The summary a person reads: what it says first, what is never left out, and how it fits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from report_builders import MIB, case, hardware, latency, nothing_measured, result, verdict

from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.report.terminal import (
    accepted_words,
    counts_line,
    headline,
    loose_lines,
    progress_line,
    summary_lines,
)

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ALL_REDUCE = "all_reduce-64MiB-float32-ws8"


def passes(count: int) -> list[Verdict]:
    """Passes of falling room: the first is just inside its bound, the last better than the centre."""
    return [verdict(of=case(size_bytes=(i + 1) * MIB), value=1.51 + 0.02 * i) for i in range(count)]


def regressed(*, value: float = 1.14, effect: float = 0.25) -> Verdict:
    return verdict(
        Outcome.REGRESSED,
        of=case(size_bytes=64 * MIB, world_size=8),
        value=value,
        effect=effect,
        attempts=3,
        slowest_rank=5,
        reason="busbw is 43.0% below the baseline's 2.00 GB/s",
    )


def summary(verdicts: Sequence[Verdict], *, width: int = 200, color: bool = False) -> list[str]:
    return summary_lines(
        [result(each) for each in verdicts], width=width, color=color, host="node-17", baseline="h100-sxm-8x"
    )


def first_line(*verdicts: Verdict, baseline: str | None = "h100-sxm-8x") -> str:
    return headline(verdicts, host="node-17", baseline=baseline)


def rows(lines: Sequence[str]) -> list[list[str]]:
    """Cells of the table's rows, its title row first; an empty cell is not there."""
    start = next(number for number, line in enumerate(lines) if line.startswith("case "))
    end = next(number for number, line in enumerate(lines) if number > start and (": " in line or "..." in line))
    return [re.split(r"\s{2,}", line.strip()) for line in lines[start:end]]


def test_a_fault_is_said_first_with_where_how_many_and_how_much() -> None:
    assert first_line(regressed(), *passes(48)) == (
        f"gpuwire: FAULT on node-17: 1 of 49 REGRESSED, first {ALL_REDUCE} at -43%; the reasons are below"
    )
    assert first_line(hardware(Outcome.MISSING, "GPU3", "gone"), regressed()) == (
        "gpuwire: FAULT on node-17: 1 of 2 MISSING, 1 of 2 REGRESSED, first GPU3; the reasons are below"
    )


def test_a_node_that_is_as_it_was_names_its_baseline() -> None:
    assert first_line(*passes(49)) == (
        "gpuwire: node-17 is as its baseline h100-sxm-8x says: 49 of 49 inside their bounds"
    )
    assert first_line(*passes(2), baseline=None) == "gpuwire: node-17 is good: 2 of 2 PASS, with no baseline"


def test_better_than_the_bound_is_not_said_to_be_inside_it() -> None:
    assert first_line(verdict(Outcome.IMPROVED, value=4.0), *passes(2)) == (
        "gpuwire: node-17 is as its baseline h100-sxm-8x says: 2 of 3 inside their bounds, 1 IMPROVED:"
        " find out why, then accept it with: gpuwire baseline accept"
    )


def test_an_unstable_case_is_a_fault_and_by_policy_a_warning_that_is_told() -> None:
    unstable = verdict(Outcome.UNSTABLE, of=case("gather"))
    assert first_line(unstable, *passes(2)).startswith("gpuwire: FAULT on node-17: 1 of 3 UNSTABLE, first gather-1MiB")
    warned = replace(unstable, warned=True)
    assert first_line(warned, *passes(2)) == (
        "gpuwire: node-17 is as its baseline h100-sxm-8x says: 2 of 3 inside their bounds, 1 UNSTABLE, a warning by"
        " policy: they cannot be held to a limit here"
    )
    lines = summary([warned, *passes(2)])
    assert "UNSTABLE gather-1MiB-float32-ws2: because of UNSTABLE" in lines
    assert lines[-1] == "gpuwire: 1 UNSTABLE, 2 PASS of 3 planned"
    both = first_line(regressed(), warned, *passes(2))
    assert both.startswith("gpuwire: FAULT on node-17: 1 of 4 REGRESSED, first ")


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Outcome.ERROR, "node-17 could not be measured: 1 of 3 ERROR; the rank logs are in the run folder"),
        (
            Outcome.NO_BASELINE,
            "node-17 could not be judged: 1 of 3 have NO BASELINE; record one with: gpuwire baseline record",
        ),
        (Outcome.NOT_RUN, "node-17 is not judged whole: 1 of 3 NOT RUN; the reasons are below"),
    ],
)
def test_what_is_not_judged_is_never_said_to_be_good(outcome: Outcome, text: str) -> None:
    assert first_line(nothing_measured(outcome), *passes(2)) == f"gpuwire: {text}"


def test_a_run_of_nothing_says_nothing() -> None:
    assert summary([]) == []


def test_the_table_has_the_figure_the_bound_and_the_rank() -> None:
    title, row = rows(summary([regressed()]))
    assert title == ["case", "outcome", "figure", "baseline", "accepted", "change", "attempts", "slowest rank"]
    assert row == [ALL_REDUCE, "REGRESSED", "1.14 GB/s", "2.00 GB/s", ">= 1.50 GB/s", "-43.0%", "3", "5"]


def test_a_latency_is_accepted_up_to_its_limit() -> None:
    slow = latency(900.0, centre=600.0, outcome=Outcome.REGRESSED)
    assert accepted_words(slow) == "<= 800 us"
    assert rows(summary([slow]))[1][2:6] == ["900 us", "600 us", "<= 800 us", "+50.0%"]
    assert accepted_words(nothing_measured(Outcome.ERROR)) == ""


def test_figures_are_lined_up_at_their_right() -> None:
    lines = summary([regressed(), verdict(value=123.0, centre=100.0)])
    ends = [line.index(" GB/s") for line in lines[2:4]]
    assert ends[0] == ends[1]


def test_the_worst_come_first_and_then_those_near_their_limit() -> None:
    by_outcome = [
        verdict(Outcome.WRONG, of=case("gather")),
        hardware(Outcome.MISSING, "GPU3", "gone"),
        regressed(value=0.5),
        verdict(Outcome.REGRESSED, of=case("scatter"), value=1.4),
        nothing_measured(Outcome.ERROR, of=case("reduce")),
        nothing_measured(Outcome.NO_BASELINE, of=case("broadcast")),
        nothing_measured(Outcome.NOT_RUN, of=case("send_recv")),
        verdict(Outcome.IMPROVED, of=case("all_to_all_single"), value=4.0),
        latency(790.0, centre=600.0),
        verdict(of=case(size_bytes=2 * MIB), value=1.6),
        verdict(of=case(size_bytes=3 * MIB), value=2.1),
        latency(450.0, centre=600.0),
    ]
    expected = [each.name for each in by_outcome]
    shown = [row[0] for row in rows(summary(by_outcome[::-1]))[1:]]
    assert shown == expected


def test_passes_beyond_twenty_rows_are_folded_those_near_their_limit_are_kept() -> None:
    assert not any("..." in line for line in summary(passes(20)))
    lines = summary(passes(49))
    assert [row[0] for row in rows(lines)[1:]] == [each.name for each in passes(20)]
    assert "... and 29 more PASS, inside their bounds (run.json has them all)" in lines


def test_nothing_but_a_pass_is_ever_folded() -> None:
    others = [
        each
        for size in range(1, 9)
        for each in (
            verdict(Outcome.REGRESSED, of=case(size_bytes=size * MIB), value=1.0),
            verdict(Outcome.IMPROVED, of=case("broadcast", size * MIB), value=4.0),
            nothing_measured(Outcome.NOT_RUN, of=case("gather", size * MIB)),
            nothing_measured(Outcome.ERROR, of=case("reduce", size * MIB)),
            nothing_measured(Outcome.NO_BASELINE, of=case("scatter", size * MIB)),
        )
    ]
    lines = summary([*passes(49), *others])
    shown = [row[0] for row in rows(lines)[1:]]
    assert set(shown) >= {each.name for each in others}
    assert len(shown) == len(others) + 3
    assert "... and 46 more PASS, inside their bounds (run.json has them all)" in lines


def test_every_fault_gets_its_reason() -> None:
    faults = [
        verdict(Outcome.WRONG, of=case("gather", size * MIB), reason=f"rank 1 got {size} instead of 5")
        for size in range(1, 9)
    ]
    lines = summary([*faults, *passes(2)])
    for fault in faults:
        assert f"WRONG {fault.name}: {fault.reason}" in lines
    assert not any(line.startswith("PASS") for line in lines)


def test_a_reason_that_many_share_is_given_once() -> None:
    unreached = [
        nothing_measured(Outcome.NOT_RUN, of=case("gather", size * MIB), reason="the session ended first")
        for size in range(1, 9)
    ]
    lines = summary(unreached)
    assert [line for line in lines if "the session ended first" in line] == [
        "NOT RUN gather-1MiB-float32-ws2: the session ended first"
    ]
    assert "... and 7 more like these" in lines


def test_one_of_a_kind_has_no_more_like_it() -> None:
    lines = summary([nothing_measured(Outcome.ERROR, reason="rank 1 did not arrive")])
    assert "ERROR all_reduce-1MiB-float32-ws2: rank 1 did not arrive" in lines
    assert not any("more like these" in line for line in lines)


def test_counts_come_last_faults_first_and_only_what_occurred() -> None:
    lines = summary([*passes(47), nothing_measured(Outcome.NOT_RUN), regressed()])
    assert lines[-1] == "gpuwire: 1 REGRESSED, 1 NOT RUN, 47 PASS of 49 planned"
    assert counts_line([]) == "gpuwire: no result of 0 planned"


def test_a_bound_that_hardly_bounds_is_told() -> None:
    wide = verdict(of=case("gather"), effect=0.8)
    assert loose_lines([wide, *passes(3)]) == [
        "gpuwire: 1 of 4 vary so much here that only a change beyond a factor of 4 would be seen;"
        " the widest is gather-1MiB-float32-ws2, a factor of 5"
    ]
    assert loose_lines(passes(3)) == []


@pytest.mark.parametrize("width", [1, 40, 60, 80, 100, 120, 200])
def test_no_figure_and_no_name_is_cut_whatever_the_width(width: int) -> None:
    table = rows(summary([regressed(), latency(700.0, centre=600.0)], width=width))
    assert {"case", "outcome", "figure", "accepted"} <= set(table[0])
    whole = {ALL_REDUCE, "REGRESSED", "1.14 GB/s", "2.00 GB/s", ">= 1.50 GB/s", "-43.0%", "3", "5"}
    assert {ALL_REDUCE, "REGRESSED", "1.14 GB/s", ">= 1.50 GB/s"} <= set(table[1]) <= whole
    assert {"all_reduce-8KiB-float32-ws2", "PASS", "700 us", "<= 800 us"} <= set(table[2])


def test_at_80_columns_the_table_fits_and_keeps_what_decides() -> None:
    lines = summary([regressed(), *passes(30)], width=80)
    assert rows(lines)[0] == ["case", "outcome", "figure", "accepted", "change"]
    assert max(len(line) for line in lines if "float32" in line and ":" not in line) <= 80


def test_columns_with_nothing_in_them_are_not_there() -> None:
    title, *_ = rows(summary([nothing_measured(Outcome.NOT_RUN), hardware(Outcome.PASS, "GPU3", "")]))
    assert title == ["case", "outcome"]


def test_without_colour_all_is_plain_ascii() -> None:
    text = "\n".join(summary([regressed(), *passes(30), nothing_measured(Outcome.ERROR)]))
    assert text.isascii()
    assert "\x1b" not in text


def test_colour_changes_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    verdicts = [regressed(), *passes(30), nothing_measured(Outcome.ERROR)]
    coloured = summary(verdicts, color=True)
    assert "\x1b[1;31mREGRESSED" in "\n".join(coloured)
    assert [COLOUR.sub("", line).rstrip() for line in coloured] == summary(verdicts)


def test_brackets_in_a_name_are_not_taken_for_markup() -> None:
    lines = summary([hardware(Outcome.PASS, "test_site[red]", "")])
    assert rows(lines)[1] == ["test_site[red]", "PASS"]


def test_progress_is_a_line_for_a_log() -> None:
    assert progress_line(12, 49, result(verdict(value=1.6))) == (
        "[12/49] all_reduce-1MiB-float32-ws2  1.60 GB/s  PASS  (accepted >= 1.50 GB/s)"
    )
    assert progress_line(2, 149, result(latency(650.0, centre=600.0))) == (
        "[  2/149] all_reduce-8KiB-float32-ws2  650 us  PASS  (accepted <= 800 us)"
    )


def test_progress_says_why_there_is_no_figure() -> None:
    late = nothing_measured(Outcome.NOT_RUN, reason="0.3 s are left of the budget of 2 s")
    assert progress_line(1, 9, result(late)) == (
        "[1/9] all_reduce-1MiB-float32-ws2  NOT RUN  (0.3 s are left of the budget of 2 s)"
    )
    unknown = verdict(Outcome.NO_BASELINE, centre=None)
    assert progress_line(1, 9, result(unknown)) == "[1/9] all_reduce-1MiB-float32-ws2  2.00 GB/s  NO BASELINE"
