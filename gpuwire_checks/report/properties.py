"""A result as the name-value pairs of JUnit, and as pytest-benchmark's extra_info."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuwire_checks.collectives import algbw

if TYPE_CHECKING:
    from gpuwire_checks.report.document import Result


def junit_properties(result: Result) -> list[tuple[str, object]]:
    """``gpuwire.*`` properties of one test case; values that do not exist are left out, never zero."""
    verdict = result.verdict
    low, high = verdict.accepted or (None, None)
    pairs = {
        "outcome": verdict.outcome.value,
        "metric": verdict.metric,
        "value": verdict.value,
        "unit": verdict.unit or None,
        "centre": verdict.centre,
        "limit_low": low,
        "limit_high": high,
        "samples": sum(len(attempt.samples) for attempt in result.attempts) or None,
        "attempts": len(result.attempts) or None,
        "slowest_rank": verdict.slowest_rank,
        "reason": verdict.reason,
    }
    return [(f"gpuwire.{name}", value) for name, value in pairs.items() if value is not None]


def benchmark_info(result: Result) -> dict[str, Any]:
    """The case and its figure, for ``--benchmark-json``."""
    verdict, case = result.verdict, result.verdict.case
    assert case is not None
    last = result.attempts[-1]
    info: dict[str, Any] = {
        "outcome": verdict.outcome.value,
        verdict.metric: verdict.value,
        "unit": verdict.unit,
        "better": case.metric.better,
        "centre": verdict.centre,
        "slowest_rank": verdict.slowest_rank,
        "attempts": len(result.attempts),
        "case": {
            "collective": case.collective,
            "size_bytes": last.moved_bytes,
            "dtype": case.dtype,
            "world_size": case.world_size,
            "backend": case.backend,
            "device": case.device,
            "size_class": case.size_class.value,
        },
    }
    if last.moved_bytes:
        info["algbw"] = algbw(size_bytes=last.moved_bytes, seconds=last.seconds)
    return info
