"""The figures behind a verdict, as lines under a failing test."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from gpuwire_checks.records import Measurement, Outcome, Verdict
from gpuwire_checks.units import format_seconds, format_value


def evidence_lines(verdict: Verdict, attempts: Sequence[Measurement]) -> list[str]:
    """The verdict in a sentence, then every attempt, then what each rank saw in the last one."""
    lines = [f"{verdict.outcome.value} {verdict.name}: {verdict.reason}"]
    if not attempts or verdict.outcome is Outcome.NO_BASELINE:
        return lines
    figures = ", ".join(format_value(attempt.value, attempt.case.metric.unit) for attempt in attempts)
    lines.append(f"  attempts: {figures}")
    last = attempts[-1]
    for rank, seconds in enumerate(last.per_call):
        lag = median(last.arrival_lag[rank])
        lines.append(
            f"  rank {rank}: {format_seconds(median(seconds))} a call, arrives {format_seconds(lag)} after the first"
        )
    wrong = [mismatch for attempt in attempts for mismatch in attempt.mismatches]
    lines += [f"  wrong: {mismatch}" for mismatch in wrong]
    conditions = ", ".join(f"{key}={value}" for key, value in last.conditions.items() if value)
    return [*lines, f"  conditions: {conditions}"]
