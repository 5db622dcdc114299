"""A recorded node, or recorded figures, held to a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.inspect.told import as_told
from gpuwire_checks.recorded.model import CollectiveLog, FigureRow
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
        Finding(level=Level.FAIL, text=fault.reason, part=fault.name.partition(" ")[0], against=where)
        for fault in reasons.values()
    ]
    if not found and (told.expected.gpus or told.expected.nics):
        text = f"what is told here is wired as {baseline.name} says"
        found = [Finding(level=Level.PASS, text=text, against=where)]
    return [*found, *(replace(one, against=where) for one in told.left_out)]


def held_log_findings(logs: Sequence[CollectiveLog], baseline: Baseline) -> list[Finding]:
    """Each figure for which the baseline has a bound or a published one, by collective, size and world size."""
    found = [finding for log in logs for row in log.rows for finding in _row(log, row, baseline)]
    if found:
        return found
    text = f"{baseline.name} has no bound or published figure for a collective, size and world size of this log"
    return [Finding(level=Level.WARN, text=text, against=str(baseline.path))]


def _row(log: CollectiveLog, row: FigureRow, baseline: Baseline) -> Iterable[Finding]:
    if isinstance(log.world_size, Unread) or log.collective not in COLLECTIVES:
        return
    where = f"{log.collective} {format_size(row.size_bytes)}, {'in' if row.in_place else 'out-of'}-place"
    for entry in baseline.entries:
        same = (entry.case.collective, entry.case.size, entry.case.world_size)
        if entry.metric == "busbw" and same == (log.collective, row.size_bytes, log.world_size):
            lowest = entry.centre * (1 - max(_LEAST, _SPREADS * entry.spread))
            yield _held(where, row, entry.centre, lowest, f"{baseline.path}:{baseline.lines.get(entry.key, 1)}")
    for floor in baseline.floors:
        same_case = (floor.figure, floor.size, floor.world_size) == (log.collective, row.size_bytes, log.world_size)
        if same_case and floor.kind == "floor":
            yield _held(where, row, floor.value / 1e9, floor.value / 1e9, floor.source)


def _held(where: str, row: FigureRow, centre: float, lowest: float, against: str) -> Finding:
    text = f"{where}: busbw {format_value(row.busbw, 'GB/s')}, the baseline says {format_value(centre, 'GB/s')}"
    level = Level.FAIL if row.busbw < lowest else Level.PASS
    return Finding(level=level, text=text, line=row.line, against=against)
