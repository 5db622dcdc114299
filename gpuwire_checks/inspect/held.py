"""A recorded node, or recorded figures, held to a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuwire_checks.baseline.importing import DTYPES, import_pair_log
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.inspect.logs import MEASURED_SHARE
from gpuwire_checks.inspect.told import as_told
from gpuwire_checks.recorded.model import CollectiveLog, FigureRow, PairLog
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.units import format_size, format_value
from gpuwire_checks.wiring.held import Held
from gpuwire_checks.wiring.rules import faults

_SPREADS = 4
"""Standard deviations below the centre, and at least ``_LEAST`` of it: one figure of one run is no more than that."""
_LEAST = 0.05


def held_findings(node: NodeTopology, baseline: Baseline) -> list[Finding]:
    """Every part of a node that is not as the baseline says; what the output does not tell is not held to it."""
    if baseline.wiring is None:
        text = f"{baseline.name} states no wiring; record it anew with: gpuwire baseline record"
        return [Finding(level=Level.WARN, text=text)]
    told = as_told(node, baseline.wiring)
    where = str(baseline.path)
    # Of several GPUs that are gone, which is not known, each has the same verdict.
    reasons = {fault.reason: fault for fault in faults(Held(topology=told.node, expected=told.expected, where=where))}
    found = [
        Finding(level=Level.FAIL, text=reason.removesuffix(f" ({where})"), part=_part(fault.name), against=where)
        for reason, fault in reasons.items()
    ]
    if not found and (told.expected.gpus or told.expected.nics):
        text = f"what is told here is wired as {baseline.name} says"
        found = [Finding(level=Level.PASS, text=text, against=where)]
    return [*found, *(replace(one, against=where) for one in told.left_out)]


def _part(name: str) -> str | None:
    """Of ``GPU0 ecc`` the GPU; of ``3 of 8 GPUs`` none is known."""
    first = name.partition(" ")[0]
    return None if first.isdigit() else first


def held_log_findings(logs: Sequence[CollectiveLog], baseline: Baseline) -> list[Finding]:
    """Each figure for which the baseline has a bound or a published one, by collective, size and world size."""
    found = [finding for log in logs for finding in _log(log, baseline)]
    if found:
        return found
    text = f"{baseline.name} has no bound or published figure for a collective, size and world size of this log"
    return [Finding(level=Level.WARN, text=text, against=str(baseline.path))]


def _log(log: CollectiveLog, baseline: Baseline) -> Iterable[Finding]:
    if isinstance(log.world_size, Unread) or log.collective not in COLLECTIVES:
        return
    for row in log.rows:
        for entry in baseline.entries:
            case = entry.case
            same = (case.collective, case.size, case.world_size) == (log.collective, row.size_bytes, log.world_size)
            alike = case.backend == "nccl" and case.dtype == DTYPES.get(row.dtype)
            if entry.metric == "busbw" and same and alike:
                lowest = entry.centre * (1 - max(_LEAST, _SPREADS * entry.spread))
                against = f"{baseline.path}:{baseline.lines.get(entry.key, 1)}"
                yield _held(_words(log, row), row.busbw, entry.centre, lowest, against, line=row.line)
    for floor in baseline.floors:
        rows = [row for row in log.rows if row.size_bytes == floor.size]
        if rows and (floor.figure, floor.world_size) == (log.collective, log.world_size):
            best = max(rows, key=lambda row: row.busbw)
            yield _published(_words(log, best), best.busbw, floor, line=best.line)


def held_pair_findings(log: PairLog, baseline: Baseline) -> list[Finding]:
    """Each kind of copy that the baseline has a figure of: the median of its matrix is held to that."""
    try:
        copies = import_pair_log(log)
    except BaselineError:
        copies = []
    found = [
        _published(f"{copy.figure}, median", copy.value / 1e9, floor)
        for copy in copies
        for floor in baseline.floors
        if floor.figure == copy.figure
    ]
    if found:
        return found
    text = f"{baseline.name} has no figure for a copy that this output has a matrix of: it is not held to that baseline"
    return [Finding(level=Level.WARN, text=text, against=str(baseline.path))]


def _words(log: CollectiveLog, row: FigureRow) -> str:
    return f"{log.collective} {format_size(row.size_bytes)}, {'in' if row.in_place else 'out-of'}-place, busbw"


def _published(where: str, figure: float, floor: FloorEntry, *, line: int | None = None) -> Finding:
    """Below a floor is a fault; another machine's figure is no floor, and far below it is a doubt."""
    value, is_floor = floor.value / 1e9, floor.kind == "floor"
    lowest = value if is_floor else MEASURED_SHARE * value
    held = _held(where, figure, value, lowest, floor.source, line=line)
    return held if is_floor or held.level is Level.PASS else replace(held, level=Level.WARN)


def _held(where: str, figure: float, centre: float, lowest: float, against: str, *, line: int | None) -> Finding:
    least = "" if lowest == centre else f" and accepts {format_value(lowest, 'GB/s')}"
    text = f"{where}: {format_value(figure, 'GB/s')}, the baseline says {format_value(centre, 'GB/s')}{least}"
    return Finding(level=Level.FAIL if figure < lowest else Level.PASS, text=text, line=line, against=against)
