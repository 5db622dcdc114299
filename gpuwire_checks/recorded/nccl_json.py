"""What nccl-tests writes with ``-J FILE``, to ``CollectiveLog``s.

Its schema is that of src/util.cu in NVIDIA/nccl-tests (``JSON_FILE_VERSION`` 1 to 3): ``args``, ``env``,
``nccl_version``, ``config`` with ``devices``, ``results`` with ``out_of_place`` and ``in_place``, ``out_of_bounds``,
``average_bus_bandwidth`` (``bandwidith`` in version 1), ``errors``. Times are microseconds; numbers have six decimals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.recorded.json_document import Document, documents
from gpuwire_checks.recorded.model import CollectiveLog, Failure, FigureRow
from gpuwire_checks.recorded.nccl_agree import Row, agreement
from gpuwire_checks.recorded.nccl_errors import wrong_elements
from gpuwire_checks.recorded.nccl_head import library_version
from gpuwire_checks.recorded.nccl_json_devices import is_count, read_devices
from gpuwire_checks.recorded.nccl_json_results import is_figure, read_results
from gpuwire_checks.recorded.nccl_log import bounded, figure_row, infer
from gpuwire_checks.recorded.nccl_names import factors_of, named_collective, same_count
from gpuwire_checks.recorded.nccl_numbers import NOT_CHECKED
from gpuwire_checks.recorded.nccl_ranks import is_amd
from gpuwire_checks.topology.model import Doubt, Unread

MAX_TEXT = 64 << 20
MAX_RUNS = 500
_KEYS = re.compile(r'"(?:alg_bw|average_bus_bandwidi?th|aggregated_iterations)"\s{0,20}:')
_MICROSECOND = 1e-6


def looks_like_nccl_json(text: str) -> bool:
    """True for an object with the keys that nccl-tests' ``-J`` writes."""
    opening = text.find("{")
    return opening >= 0 and text.count("\n", 0, opening) <= 2000 and _KEYS.search(text, opening) is not None


def read_nccl_json(text: str, *, source: str) -> tuple[CollectiveLog, ...]:
    """Every run in the text, one JSON document each: its figures, and what is doubtful about them.

    A document whose end is missing gives the results before it.

    Raises:
        TopologyError: not JSON, or not of nccl-tests, or larger than any such file.
    """
    if len(text) > MAX_TEXT:
        raise TopologyError(f"{source}:1: {len(text)} characters; at most {MAX_TEXT} are read")
    logs = []
    for document in documents(text, source=source, at_most=MAX_RUNS):
        if not isinstance(document.value.get("results", []), list) or not {"config", "results"} & set(document.value):
            line = text.count("\n", 0, document.start) + 1
            raise TopologyError(f"{source}:{line}: no 'config' or 'results' list, which nccl-tests -J writes")
        logs.append(_log(document, text, source=source))
    if not logs:
        raise TopologyError(f"{source}:1: no JSON object; paste the file that nccl-tests -J wrote")
    return tuple(logs)


def _log(document: Document, text: str, *, source: str) -> CollectiveLog:
    value = document.value
    first_line = text.count("\n", 0, document.start) + 1
    config = value.get("config")
    config = config if isinstance(config, dict) else {}
    devices = read_devices(config, line=first_line, cut=document.cut and "results" not in value)
    named = _named(value.get("args"))
    results = read_results(document, text, source=source, first_line=first_line)
    common = agreement(
        results.rows,
        seconds_per_unit=_MICROSECOND,
        sized=True,
        same_count=same_count(named),
        factors=factors_of(named, devices.world_size),
    )
    rows = [row for row in results.rows if row.line not in common.against]
    at = results.lines
    left_out = [Doubt(line=at[row], text=f"{reason}: left out") for row, reason in common.against.items()]
    guess = infer(rows, common, line=first_line, world_size=devices.world_size)
    collective, inferred = (named, ()) if named else guess
    average, total, told = _summary(value, first_line)
    stated = "average_bus_bandwidth" in value or "average_bus_bandwidith" in value
    ended = stated and (not document.cut or not isinstance(average, Unread))
    figures = list(_figures(rows, at, total if isinstance(total, int) else None))
    wrong = [doubt for _, doubt in figures if doubt is not None]
    failure, last_error = _errors(value.get("errors"), ended=ended, line=first_line)
    return CollectiveLog(
        source=source,
        tool="rccl-tests" if is_amd(devices.ranks) else "nccl-tests",
        first_line=first_line,
        collective=collective,
        ranks=devices.ranks,
        world_size=devices.world_size,
        highest_rank=devices.highest_rank,
        hosts=devices.hosts,
        rows=tuple(figure for figure, _ in figures),
        validated=_validated(rows, config),
        printed_average=average,
        printed_out_of_bounds=total,
        ended=ended,
        cut_at=results.cut_at,
        failure=failure,
        versions=_versions(value),
        doubts=bounded([*devices.doubts, *results.doubts, *left_out, *wrong, *told, *last_error]),
        inferred=(*devices.inferred, *inferred),
    )


def _figures(rows: Sequence[Row], lines: Sequence[int], total: int | None) -> Iterator[tuple[FigureRow, Doubt | None]]:
    for row in rows:
        for half in row.halves:
            wrong, told = wrong_elements(row, half, counts=True, world_size=None, printed_total=total)
            figure = figure_row(row, half, wrong, seconds_per_unit=_MICROSECOND)
            line = lines[row.line]
            yield replace(figure, line=line), Doubt(line=line, text=told) if told else None


def _named(args: object) -> str | None:
    first = args[0] if isinstance(args, list) and args else None
    return named_collective(first) if isinstance(first, str) else None


def _validated(rows: Sequence[Row], config: Mapping[str, Any]) -> bool | Unread:
    errors = [half.errors for row in rows for half in row.halves]
    if errors:
        return any(error != NOT_CHECKED for error in errors)
    return False if config.get("validation") == 0 else Unread.UNKNOWN


def _summary(value: Mapping[str, Any], line: int) -> tuple[float | Unread, int | Unread, list[Doubt]]:
    """Average busbw in GB/s and the count out of bounds, as the file states them."""
    doubts = []
    average: float | Unread = Unread.UNKNOWN
    total: int | Unread = Unread.UNKNOWN
    for average_key, rate_key in (("average_bus_bandwidth", "bandwidth"), ("average_bus_bandwidith", "bandwidith")):
        stated = value.get(average_key)
        rate = stated.get(rate_key) if isinstance(stated, dict) else None
        if isinstance(rate, int | float) and is_figure(rate):
            average = float(rate)
        elif stated is not None:
            doubts.append(Doubt(line=line, text=f"{average_key} is {str(stated)[:60]}"))
    bounds = value.get("out_of_bounds")
    number = bounds.get("count") if isinstance(bounds, dict) else None
    if isinstance(bounds, dict) and is_count(number) and (number == 0) == (bounds.get("okay") in ("true", True)):
        total = int(str(number))
    elif bounds is not None:
        doubts.append(Doubt(line=line, text=f"out_of_bounds contradicts itself: {str(bounds)[:60]}"))
    return average, total, doubts


def _errors(value: object, *, ended: bool, line: int) -> tuple[Failure | None, list[Doubt]]:
    """NCCL's last error: why a run did not end, or, in one that did, something to know."""
    texts = [text for text in value if isinstance(text, str) and text.strip()] if isinstance(value, list) else []
    if not texts:
        return None, []
    said = " ".join(texts[0].split())[:300]
    if ended:
        return None, [Doubt(line=line, text=f"NCCL's last error: {said}")]
    return Failure(line=line, kind="library", text=said), []


def _versions(value: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    code = value.get("nccl_version")
    return (("nccl", library_version(int(str(code)))),) if is_count(code) and code else ()
