"""What a careful engineer would say of nvbandwidth's and p2pBandwidthLatencyTest's matrices."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.inspect.pair_findings import matrix_findings, odd_findings, row_findings
from gpuwire_checks.inspect.pair_rates import fit_findings, switched_findings
from gpuwire_checks.inspect.pair_shapes import shape_of
from gpuwire_checks.inspect.pair_words import gpus_words, pairs_words
from gpuwire_checks.recorded.model import PairLog, PairMatrix
from gpuwire_checks.topology.model import Unread

_NAMED = 8
_SUM_ROUNDING = 0.0051


def inspect_pair_log(log: PairLog) -> list[Finding]:
    """Findings of one run; the doubts of its reader are not among them."""
    fitting = [matrix for matrix in log.matrices if _misfit(log, matrix) is None]
    shapes = [shape_of(matrix) for matrix in fitting]
    return [
        *_failure(log),
        *_cut(log),
        *_inconsistent(log),
        *switched_findings(log, shapes),
        *odd_findings(log, shapes),
        *(finding for shape in shapes for finding in matrix_findings(log, shape)),
        *(
            finding
            for matrix in log.matrices
            for finding in row_findings(log, matrix, judged=_misfit(log, matrix) is None)
        ),
        *fit_findings(log, shapes),
        *_connected(log),
        *_not_measured(log),
        *_facts(log),
    ]


def _failure(log: PairLog) -> Iterable[Finding]:
    if (failure := log.failure) is not None:
        where = "" if isinstance(failure.where, Unread) else f" at {failure.where}"
        lead = "a GPU is lost" if failure.kind == "lost" else "the tool gave up"
        text = f"{lead}{where}, after {_count(len(log.matrices))}: {failure.text}"
        yield Finding(level=Level.FAIL if failure.kind == "lost" else Level.ERROR, text=text, line=failure.line)


def _cut(log: PairLog) -> Iterable[Finding]:
    if log.cut_at is not None:
        text = f"the text ends within a matrix; what is there of {_count(len(log.matrices))} is read"
        yield Finding(level=Level.INCOMPLETE, text=text, line=log.cut_at)


def _count(matrices: int) -> str:
    return f"{matrices} matri{'x' if matrices == 1 else 'ces'}"


def _misfit(log: PairLog, matrix: PairMatrix) -> str | None:
    """``2x3`` for a matrix that is larger than the devices listed, or has several rows of hosts; None where it fits."""
    rows, columns = len(matrix.rows), len(matrix.columns)
    larger = bool(log.devices) and columns > len(log.devices)
    return f"{rows}x{columns}" if larger or (rows > 1 and not matrix.local) else None


def _inconsistent(log: PairLog) -> Iterable[Finding]:
    """Sizes that contradict the list of devices."""
    odd = [(matrix, size) for matrix in log.matrices if (size := _misfit(log, matrix)) is not None]
    if odd:
        sizes = " and ".join(f"a {size}" for _, size in odd[:_NAMED])
        names = ", ".join(matrix.test for matrix, _ in odd[:_NAMED])
        count = len(log.devices)
        listed = f"{count} device{'' if count == 1 else 's'} listed but " if count else ""
        more = f" and {len(odd) - _NAMED} more" if len(odd) > _NAMED else ""
        text = f"inconsistent: {listed}{sizes} matrix{more} ({names}): edited, or of two runs, and not judged"
        yield Finding(level=Level.WARN, text=text, line=odd[0][0].line)


def _connected(log: PairLog) -> Iterable[Finding]:
    """Pairs between which P2P is not possible, by the tool's own list."""
    without = [(a, b) for a, b, can in log.connected if not can]
    if not without:
        return
    if len(without) == len(log.connected):
        text = f"P2P is possible on none of {len(without)} ordered pairs: all copies go through the host"
    else:
        text = (
            f"P2P is not possible on {len(without)} of {len(log.connected)} ordered pairs ({pairs_words(without)}): "
            "those copies go through the host"
        )
    yield Finding(level=Level.WARN, text=f"{text}; fine where the boards have no P2P")


def _not_measured(log: PairLog) -> Iterable[Finding]:
    """Pairs for which nvbandwidth prints N/A: it measures those that can reach each other only."""
    ends = [*(matrix.line for matrix in log.matrices[1:]), 1 << 40][: len(log.matrices)]
    doubted = [doubt.line for doubt in log.doubts if doubt.line is not None]
    for matrix, end in zip(log.matrices, ends, strict=True):
        blank = [
            (row, column)
            for row, cells in zip(matrix.rows, matrix.cells, strict=True)
            for column, cell in zip(matrix.columns, cells, strict=True)
            if cell is None and row != column
        ]
        if blank and matrix.local and not any(matrix.line <= line < end for line in doubted):
            text = f"{matrix.test}: N/A for {len(blank)} ordered pairs ({pairs_words(blank)}): they have no P2P"
            yield Finding(level=Level.WARN, text=f"{text}; fine where the boards have none", line=matrix.line)
            return


def _facts(log: PairLog) -> Iterable[Finding]:
    yield Finding(level=Level.NOTE, text=_devices_words(log))
    if log.waived:
        names = [name for _, name in log.waived if name]
        named = f" ({', '.join(names[:_NAMED])}{' ...' if len(names) > _NAMED else ''})" if names else ", none named"
        text = f"{len(log.waived)} test{' was' if len(log.waived) == 1 else 's were'} waived{named}: not run here"
        yield Finding(level=Level.NOTE, text=text, line=log.waived[0][0])
    sums = [matrix for matrix in log.matrices if not isinstance(matrix.printed_sum, Unread)]
    agree = sum(_sum_agrees(matrix) for matrix in sums)
    if sums:
        text = f"recomputed, {agree} of {len(sums)} printed sums are those of the cells"
        yield Finding(level=Level.NOTE, text=text)
    if log.tool == "p2pBandwidthLatencyTest" and log.matrices and not log.ended and log.cut_at is None:
        text = "no closing note: only a part of what the tool prints is here"
        yield Finding(level=Level.NOTE, text=text)


def _sum_agrees(matrix: PairMatrix) -> bool:
    figures = [cell for row in matrix.cells for cell in row if cell is not None]
    rounding = max(_SUM_ROUNDING * (len(figures) + 1), 1e-5 * sum(figures))
    return isinstance(matrix.printed_sum, float) and abs(sum(figures) - matrix.printed_sum) <= rounding


def _devices_words(log: PairLog) -> str:
    if log.devices:
        models = list(dict.fromkeys(model for _, model in log.devices))
        return f"{gpus_words(len(log.devices))}: {', '.join(models[:_NAMED])}"
    columns = max((len(matrix.columns) for matrix in log.matrices), default=0)
    return f"{gpus_words(columns)}, by the matrices: the list of devices is not here"
