"""Figures of other tools, made into bounds and published floors of a baseline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

from gpuwire_checks.baseline.schema import BoundEntry, CaseEntry, FloorEntry, round_figure
from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.recorded.model import CollectiveLog, FigureRow, PairLog, PairMatrix
from gpuwire_checks.records import BUSBW
from gpuwire_checks.statistics.robust import robust_spread
from gpuwire_checks.topology.model import Unread

SMALLEST_BYTES = 128 << 10
"""Below it a case is held to the latency of single calls, which nccl-tests does not time."""
DTYPES = {"float": "float32", "half": "float16", "bfloat16": "bfloat16"}
"""A bound's word for nccl-tests' own."""
_RATIO_TOLERANCE = 0.02
_SURE_ALGBW = 1.0
"""GB/s, from which on two printed decimals give the ratio of busbw to algbw to a percent."""
_COPIES = {
    "device_to_device_memcpy_write_ce": "device_to_device",
    "device_to_device_memcpy_read_ce": "device_to_device",
    "host_to_device_memcpy_ce": "host_to_device",
    "device_to_host_memcpy_ce": "device_to_host",
}


def import_logs(logs: Sequence[CollectiveLog]) -> list[BoundEntry]:
    """Bounds from runs of nccl-tests: of each case the median of its runs, and their spread.

    Of the two placements the one that the collective has here counts: all_reduce is in place, all_gather is not.

    Raises:
        BaselineError: a wrong or unchecked result, or figures that are not of the number of ranks that the log lists;
            with file and line.
    """
    values: dict[CaseEntry, list[float]] = defaultdict(list)
    for log in logs:
        world_size = ranks_behind(log)
        for row in log.rows:
            if _counts(log, row):
                values[_case(log, row, world_size)].append(row.busbw)
    if not values:
        listed = ", ".join(log.source for log in logs)
        raise BaselineError(
            f"{listed}: no figure can become a bound; needed is a row of a collective known here, of float, half or "
            f"bfloat16, from {SMALLEST_BYTES} bytes on"
        )
    return [
        BoundEntry(
            metric="busbw",
            case=case,
            unit=BUSBW.unit,
            better=BUSBW.better,
            centre=round_figure(median(figures)),
            spread=round_figure(robust_spread(figures), 3),
            attempts=len(figures),
            nodes=1,
        )
        for case, figures in values.items()
    ]


def ranks_behind(log: CollectiveLog) -> int:
    """The number of ranks behind a log's figures, as the ratio of busbw to algbw gives it.

    Raises:
        BaselineError: the list of ranks says another number, or neither list nor ratio tells.
    """
    collective = COLLECTIVES.get(str(log.collective))
    if collective is None:
        raise BaselineError(f"{log.source}:{log.first_line}: its collective is not known: {_word(log.collective)}")
    if isinstance(log.world_size, Unread):
        raise BaselineError(
            f"{log.source}:{log.first_line}: the number of ranks is not known: its list is missing or cut; "
            "paste the whole log"
        )
    factor = collective.busbw_factor(log.world_size)
    for row in log.rows:
        if row.algbw >= _SURE_ALGBW and abs(row.busbw / row.algbw - factor) > _RATIO_TOLERANCE * factor:
            raise BaselineError(
                f"{log.source}:{row.line}: busbw/algbw is {row.busbw / row.algbw:.3f}, and {factor:.3f} for the "
                f"{log.world_size} ranks that the log lists: the figures are of another number of ranks, or collective"
            )
    return log.world_size


def _counts(log: CollectiveLog, row: FigureRow) -> bool:
    """Whether a row becomes a bound.

    Raises:
        BaselineError: its result is wrong, or was not checked.
    """
    if row.size_bytes < SMALLEST_BYTES or row.dtype not in DTYPES or row.busbw <= 0:
        return False
    if row.in_place is not COLLECTIVES[str(log.collective)].in_place:
        return False
    if isinstance(row.wrong, Unread):
        raise BaselineError(f"{log.source}:{row.line}: the result was not checked, and is no baseline; run with -c 1")
    if row.wrong:
        raise BaselineError(f"{log.source}:{row.line}: {row.wrong} values are wrong: such a node is no baseline")
    return True


def _case(log: CollectiveLog, row: FigureRow, world_size: int) -> CaseEntry:
    return CaseEntry.model_validate(
        {
            "collective": str(log.collective),
            "size": row.size_bytes,
            "dtype": DTYPES[row.dtype],
            "world_size": world_size,
            "backend": "nccl",
        }
    )


def import_pair_log(log: PairLog) -> list[FloorEntry]:
    """Copies that nvbandwidth measured, as figures of one machine: the median of each matrix that is known here.

    Raises:
        BaselineError: none is.
    """
    floors: dict[str, FloorEntry] = {}
    for matrix in log.matrices:
        figure = _COPIES.get(matrix.test)
        cells = _wires(matrix)
        if figure is not None and matrix.unit == "GB/s" and cells:
            floors[figure] = FloorEntry.model_validate(
                {
                    "figure": figure,
                    "kind": "measured",
                    "value": round_figure(median(cells)) * 1e9,
                    "source": f"{log.tool} {matrix.test}, {log.source}",
                }
            )
    if not floors:
        raise BaselineError(f"{log.source}: no matrix of a copy known here: {', '.join(_COPIES)}")
    return list(floors.values())


def _wires(matrix: PairMatrix) -> list[float]:
    return [cell for row in matrix.cells for cell in row if cell]


def _word(value: str | Unread) -> str:
    return value.value if isinstance(value, Unread) else value
