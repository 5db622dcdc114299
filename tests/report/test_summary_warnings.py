"""Lines after the reasons: what a PASS is worth, and what no single case shows."""

from __future__ import annotations

from dataclasses import replace

from report_builders import MIB, case, latency, result, verdict

from gpuwire_checks.records import Case, Outcome, Verdict
from gpuwire_checks.report.document import Result
from gpuwire_checks.report.terminal import accepted_words, dip_lines, floor_lines, loose_lines, summary_lines

SUMMARY = {"width": 100, "color": False, "host": "node-17", "baseline": "h100-sxm-8x"}


def sized(collective: str, mib: int, value: float) -> Result:
    of: Case = case(collective, mib * MIB)
    return result(verdict(of=of, value=value, centre=2.0))


def held_to_floor(name: str = "all_reduce") -> Verdict:
    return replace(verdict(of=case(name), value=2.0, centre=None), accepted=(1.5, None))


def test_a_published_floor_is_told_as_one() -> None:
    assert floor_lines([verdict(), held_to_floor(), held_to_floor("broadcast")]) == [
        "gpuwire: 2 of 3 are held to published figures only, such as all_reduce-1MiB-float32-ws2;"
        " record what this node reaches with: gpuwire baseline record"
    ]
    assert floor_lines([verdict(), latency(100, centre=100)]) == []


def test_a_floor_has_a_side_that_is_accepted_and_no_width() -> None:
    assert accepted_words(held_to_floor()) == ">= 1.50 GB/s"
    assert loose_lines([held_to_floor()]) == []


def test_dips_are_told_in_a_word_each_and_the_rest_are_counted() -> None:
    names = ("all_reduce", "broadcast", "reduce", "send_recv", "all_to_all_single")
    results = [sized(name, mib, 2.0 if mib == 1 else 1.6 - 0.1 * at) for at, name in enumerate(names) for mib in (1, 4)]
    lines = dip_lines(results)
    assert lines[0] == (
        "gpuwire: all_to_all_single float32 on 2 ranks dips at 4MiB: 1.20 GB/s is 40% less than the 2.00 GB/s at 1MiB;"
        " it was no slower when recorded"
    )
    assert len(lines) == 4
    assert lines[3] == "gpuwire: ... and 2 more dips like these"
    assert dip_lines(results[2:])[3] == "gpuwire: ... and 1 more dip like these"
    assert len(dip_lines(results[4:])) == 3


def test_the_warnings_stand_after_the_reasons_and_before_the_counts() -> None:
    fault = result(verdict(Outcome.REGRESSED, of=case("reduce"), value=1.0))
    lines = summary_lines([fault, sized("all_reduce", 1, 2.0), sized("all_reduce", 4, 1.6)], **SUMMARY)  # type: ignore[arg-type]
    reason, dip, counts = (
        next(i for i, line in enumerate(lines) if line.startswith(start))
        for start in ("REGRESSED reduce", "gpuwire: all_reduce float32 on 2 ranks dips", "gpuwire: 1 REGRESSED, 2 PASS")
    )
    assert reason < dip < counts == len(lines) - 1


def test_a_run_without_dips_has_no_such_line() -> None:
    assert dip_lines([sized("all_reduce", 1, 1.9), sized("all_reduce", 4, 2.0)]) == []
