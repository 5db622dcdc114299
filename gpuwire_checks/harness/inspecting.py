"""``gpuwire inspect``: what recorded outputs show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpuwire_checks.baseline.finding import named_baseline
from gpuwire_checks.baseline.store import load_baselines
from gpuwire_checks.errors import TopologyError
from gpuwire_checks.inspect.finding import Level
from gpuwire_checks.inspect.inspection import Inspection, inspect_text
from gpuwire_checks.inspect.lines import inspection_lines, inspections_json
from gpuwire_checks.report.status import ExitStatus
from gpuwire_checks.textfile import read_text

_REFUSED = 4
"""pytest's status for wrong usage, which a file that cannot be read is."""
MAX_BYTES = 12 << 20
"""What is read, or refused, in about a second; a longer log is to be cut to what is asked about."""


def inspect_files(
    files: Sequence[Path],
    *,
    against: str | None,
    directories: Sequence[Path],
    as_json: bool,
    echo: Callable[[str], object],
    complain: Callable[[str], object],
) -> int:
    """Say of each file what it shows; returns the exit status, the gravest of all files.

    Args:
        against: a baseline's file or name; None looks figures up by GPU model.
        directories: where baselines are, the site's first.

    Raises:
        BaselineError: no such baseline, or one that cannot be read.
    """
    baselines = load_baselines(directories)
    held_to = None if against is None else named_baseline(against, baselines)
    done: list[Inspection] = []
    refused = 0
    for file in files:
        try:
            text = read_text(file, max_bytes=MAX_BYTES, error=TopologyError)
            done.append(inspect_text(text, source=str(file), references=baselines, against=held_to))
        except TopologyError as error:
            refused += 1
            complain(f"gpuwire: {error}")
            continue
        if not as_json:
            for line in inspection_lines(done[-1]):
                echo(line)
    if as_json:
        echo(inspections_json(done))
    return _status([inspection.level for inspection in done], refused=refused)


def _status(levels: Sequence[Level], *, refused: int) -> int:
    if Level.FAIL in levels:
        return int(ExitStatus.FAULT)
    if refused:
        return _REFUSED
    if Level.ERROR in levels or Level.INCOMPLETE in levels:
        return int(ExitStatus.NOT_MEASURED)
    return int(ExitStatus.GOOD)
