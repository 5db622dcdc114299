"""The summary a person reads: a sentence, a table, reasons, counts. Pure: results in, lines out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO

from gpuwire_checks.judge.dips import find_dips
from gpuwire_checks.records import METRICS, Outcome, Verdict
from gpuwire_checks.report.document import Result
from gpuwire_checks.units import format_value

_WORST_FIRST = (
    Outcome.WRONG,
    Outcome.MISSING,
    Outcome.REGRESSED,
    Outcome.UNSTABLE,
    Outcome.CHANGED,
    Outcome.ERROR,
    Outcome.NO_BASELINE,
    Outcome.NOT_RUN,
    Outcome.IMPROVED,
    Outcome.PASS,
)
_STYLES = {
    Outcome.WRONG: "bold red",
    Outcome.MISSING: "bold red",
    Outcome.REGRESSED: "bold red",
    Outcome.UNSTABLE: "bold yellow",
    Outcome.CHANGED: "bold yellow",
    Outcome.ERROR: "magenta",
    Outcome.NO_BASELINE: "yellow",
    Outcome.NOT_RUN: "yellow",
    Outcome.IMPROVED: "cyan",
    Outcome.PASS: "green",
}
_ROWS_AT_MOST = 20
_SAME_REASON_AT_MOST = 3
_LOOSE = 4
_DIPS_AT_MOST = 3


def summary_lines(
    results: Sequence[Result], *, width: int, color: bool, host: str, baseline: str | None, recorded: int = 0
) -> list[str]:
    """The whole summary.

    Args:
        baseline: the name of the baseline the node was held to, None where there was none.
        recorded: bounds that this run wrote for cases that had none.
    """
    if not results:
        return []
    verdicts = sorted((result.verdict for result in results), key=_worst_first)
    shown, folded = _fold(verdicts)
    lines = [
        headline(verdicts, host=host, baseline=baseline, recorded=recorded),
        *_table(shown, width=width, color=color),
    ]
    if folded:
        lines.append(f"... and {folded} more PASS, inside their bounds (run.json has them all)")
    warnings = [*loose_lines(verdicts), *floor_lines(verdicts), *dip_lines(results)]
    return [*lines, *_reasons(verdicts), *warnings, counts_line(verdicts)]


def headline(verdicts: Sequence[Verdict], *, host: str, baseline: str | None, recorded: int = 0) -> str:
    """The verdict in a sentence: what, where, how much, what to do. Verdicts come worst first."""
    total, counts = len(verdicts), Counter(verdict.outcome for verdict in verdicts)
    faults = [verdict for verdict in verdicts if verdict.is_fault]
    if faults:
        failed = Counter(verdict.outcome for verdict in faults)
        kinds = ", ".join(f"{failed[o]} of {total} {o.value}" for o in _WORST_FIRST if failed[o])
        change = f" at {faults[0].change:+.0%}" if faults[0].change is not None else ""
        return f"gpuwire: FAULT on {host}: {kinds}, first {faults[0].name}{change}; the reasons are below"
    if counts[Outcome.ERROR]:
        return (
            f"gpuwire: {host} could not be measured: {counts[Outcome.ERROR]} of {total} ERROR; "
            "the rank logs are in the run folder"
        )
    if recorded:
        return f"gpuwire: {host} has {recorded} new bounds, and nothing was judged by them yet: run again to judge"
    if counts[Outcome.NO_BASELINE]:
        return (
            f"gpuwire: {host} could not be judged: {counts[Outcome.NO_BASELINE]} of {total} have NO BASELINE; "
            "record one with: gpuwire baseline record"
        )
    if counts[Outcome.NOT_RUN]:
        count = counts[Outcome.NOT_RUN]
        return f"gpuwire: {host} is not judged whole: {count} of {total} NOT RUN; the reasons are below"
    return f"gpuwire: {host} {_good_words(counts, baseline)}"


def _good_words(counts: Mapping[Outcome, int], baseline: str | None) -> str:
    passed, improved, unstable = counts[Outcome.PASS], counts[Outcome.IMPROVED], counts[Outcome.UNSTABLE]
    total = passed + improved + unstable
    if baseline is None:
        return f"is good: {total} of {total} PASS, with no baseline"
    words = f"is as its baseline {baseline} says: {passed} of {total} inside their bounds"
    if unstable:
        words += f", {unstable} UNSTABLE, a warning by policy: they cannot be held to a limit here"
    if improved:
        words += f", {improved} IMPROVED: find out why, then accept it with: gpuwire baseline accept"
    return words


def loose_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """A bound so wide that only a great change would be seen is said: its PASS is worth little."""
    factors = [
        (v.accepted[1] / v.centre, v.name)
        for v in verdicts
        if v.accepted is not None and v.accepted[1] is not None and v.centre is not None
    ]
    loose = sorted(factor for factor in factors if factor[0] > _LOOSE)
    if not loose:
        return []
    factor, name = loose[-1]
    words = f"{factor:.0f}" if factor >= 10 else f"{factor:.3g}"
    return [
        f"gpuwire: {len(loose)} of {len(verdicts)} vary so much here that only a change beyond a factor of {_LOOSE}"
        f" would be seen; the widest is {name}, a factor of {words}"
    ]


def floor_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """A figure that is held to what was published of such nodes is said: nobody recorded what this one reaches."""
    floors = [v for v in verdicts if v.accepted is not None and v.centre is None]
    if not floors:
        return []
    return [
        f"gpuwire: {len(floors)} of {len(verdicts)} are held to published figures only, such as {floors[0].name};"
        " record what this node reaches with: gpuwire baseline record"
    ]


def dip_lines(results: Sequence[Result]) -> list[str]:
    """The worst dips over sizes; a warning, whatever the verdicts are."""
    dips = find_dips((result.verdict, result.bound) for result in results)
    lines = [f"gpuwire: {dip.words}" for dip in dips[:_DIPS_AT_MOST]]
    more = len(dips) - len(lines)
    return [*lines, f"gpuwire: ... and {more} more dip{'' if more == 1 else 's'} like these"] if more else lines


def counts_line(verdicts: Sequence[Verdict]) -> str:
    """How often each outcome occurred, faults first."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    words = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in _WORST_FIRST if counts[outcome])
    return f"gpuwire: {words or 'no result'} of {len(verdicts)} planned"


def progress_line(index: int, total: int, result: Result) -> str:
    """One result for a log: ``[ 12/49] all_reduce-1MiB-float32-ws2  0.85 GB/s  PASS  (accepted >= 0.61 GB/s)``."""
    verdict, digits = result.verdict, len(str(total))
    parts = [f"[{index:>{digits}}/{total}] {verdict.name}"]
    if verdict.value is not None:
        parts.append(format_value(verdict.value, verdict.unit))
    parts.append(verdict.outcome.value)
    accepted = accepted_words(verdict)
    if accepted:
        parts.append(f"(accepted {accepted})")
    elif not verdict.outcome.is_good and verdict.outcome is not Outcome.NO_BASELINE:
        parts.append(f"({verdict.reason})")
    return "  ".join(parts)


def accepted_words(verdict: Verdict) -> str:
    """The side of the bound that a fault is on: ``>= 0.61 GB/s``, ``<= 812 us``."""
    if verdict.accepted is None:
        return ""
    low, high = verdict.accepted
    if METRICS[verdict.metric].better == "higher":
        return f">= {format_value(low, verdict.unit)}"
    return "" if high is None else f"<= {format_value(high, verdict.unit)}"


def _worst_first(verdict: Verdict) -> tuple[int, float]:
    return _WORST_FIRST.index(Outcome.NOT_RUN if verdict.warned else verdict.outcome), _room(verdict)


def _room(verdict: Verdict) -> float:
    """How far the figure is from its limit on the bad side, as a logarithm; negative beyond it."""
    if verdict.value is None or verdict.accepted is None:
        return math.inf
    low, high = verdict.accepted
    if METRICS[verdict.metric].better == "higher":
        return math.log(verdict.value / low)
    return math.inf if high is None else math.log(high / verdict.value)


def _fold(verdicts: Sequence[Verdict]) -> tuple[list[Verdict], int]:
    """The rows to show, and how many passes are left out. Nothing but a pass is ever left out."""
    others = [verdict for verdict in verdicts if verdict.outcome is not Outcome.PASS]
    passes = [verdict for verdict in verdicts if verdict.outcome is Outcome.PASS]
    room = max(3, _ROWS_AT_MOST - len(others))
    return [*others, *passes[:room]], max(0, len(passes) - room)


def _table(verdicts: Sequence[Verdict], *, width: int, color: bool) -> list[str]:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = [_cells(verdict) for verdict in verdicts]
    columns = _columns_that_fit(rows, width)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        justify = "left" if column in ("case", "outcome") else "right"
        table.add_column(column, justify=justify, no_wrap=True, overflow="crop")  # type: ignore[arg-type]
    for verdict, row in zip(verdicts, rows, strict=True):
        table.add_row(*(Text(row[c], style=_STYLES[verdict.outcome] if c == "outcome" else "") for c in columns))
    text = StringIO()
    # Wide enough for what was chosen: a figure cut short is worse than a line too long.
    wide = max(width, _width(rows, columns))
    console = Console(file=text, width=wide, color_system="standard" if color else None, force_terminal=color)
    console.print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def _columns_that_fit(rows: Sequence[Mapping[str, str]], width: int) -> list[str]:
    """Columns that have something in them, less those that can best be spared in a narrow window."""
    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    for spared in ("slowest rank", "attempts", "baseline", "change"):
        if _width(rows, columns) > width and spared in columns:
            columns.remove(spared)
    return columns


def _width(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> int:
    return sum(max(len(column), *(len(row[column]) for row in rows)) + 2 for column in columns)


def _cells(verdict: Verdict) -> dict[str, str]:
    return {
        "case": verdict.name,
        "outcome": verdict.outcome.value,
        "figure": "" if verdict.value is None else format_value(verdict.value, verdict.unit),
        "baseline": "" if verdict.centre is None else format_value(verdict.centre, verdict.unit),
        "accepted": accepted_words(verdict),
        "change": "" if verdict.change is None else f"{verdict.change:+.1%}",
        "attempts": str(len(verdict.attempts) or ""),
        "slowest rank": "" if verdict.slowest_rank is None else str(verdict.slowest_rank),
    }


def _reasons(verdicts: Sequence[Verdict]) -> list[str]:
    """A sentence for each fault; for the rest that is not good, one for each reason, as they tend to share it."""
    lines = [f"{v.outcome.value} {v.name}: {v.reason}" for v in verdicts if v.is_fault]
    shared: Counter[tuple[Outcome, str]] = Counter()
    for verdict in verdicts:
        if verdict.is_fault or verdict.outcome.is_good:
            continue
        shared[verdict.outcome, verdict.reason] += 1
        if len(shared) <= _SAME_REASON_AT_MOST and shared[verdict.outcome, verdict.reason] == 1:
            lines.append(f"{verdict.outcome.value} {verdict.name}: {verdict.reason}")
    more = sum(shared.values()) - min(len(shared), _SAME_REASON_AT_MOST)
    return [*lines, f"... and {more} more like these"] if more > 0 else lines
