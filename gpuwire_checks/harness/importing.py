"""``gpuwire baseline import``: figures of other tools into the site's baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from gpuwire_checks import __version__
from gpuwire_checks.baseline.finding import named_baseline
from gpuwire_checks.baseline.importing import import_logs, import_pair_log
from gpuwire_checks.baseline.schema import BoundEntry, FloorEntry, RecordedEntry
from gpuwire_checks.baseline.store import load_baselines, merge_new, save_baseline
from gpuwire_checks.errors import BaselineError, TopologyError
from gpuwire_checks.harness.inspecting import MAX_BYTES
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.inspect.inspection import COLLECTIVE_LOGS, PAIR_LOGS
from gpuwire_checks.recorded.model import CollectiveLog
from gpuwire_checks.textfile import read_text


def import_bounds(files: Sequence[Path], *, to: str, settings: Settings, echo: Callable[[str], object]) -> None:
    """Add bounds and figures for cases that have none yet; nothing that is there is overwritten.

    Raises:
        GpuwireError: a file that holds no figures, figures that are no baseline, or no such baseline.
    """
    target = named_baseline(to, load_baselines(settings.baselines))
    bounds, floors, versions = _figures(files)
    there = {entry.key for entry in target.entries}
    new = [entry for entry in bounds if entry.key not in there]
    missing = [floor for floor in floors if floor.figure not in {other.figure for other in target.floors}]
    recorded = target.recorded or RecordedEntry(
        at=datetime.now(timezone.utc), hosts=1, gpuwire=__version__, tier="imported", software=versions
    )
    grown = replace(merge_new(target, new), recorded=recorded, floors=(*target.floors, *missing))
    path = save_baseline(settings.site, grown)
    kept = len(bounds) - len(new)
    rest = f"; {kept} cases had a bound already, which is kept" if kept else ""
    echo(f"gpuwire: imported {len(new)} bounds and {len(missing)} figures of copies into {path}{rest}")


def _figures(files: Sequence[Path]) -> tuple[list[BoundEntry], list[FloorEntry], dict[str, str | None]]:
    logs: list[CollectiveLog] = []
    floors: list[FloorEntry] = []
    for file in files:
        text = read_text(file, max_bytes=MAX_BYTES, error=TopologyError)
        collective = next((read for _, is_in, read in COLLECTIVE_LOGS if is_in(text)), None)
        pairs = next((read for _, is_in, read in PAIR_LOGS if is_in(text)), None)
        if collective is not None:
            logs += collective(text, source=str(file))
        elif pairs is not None:
            floors += import_pair_log(pairs(text, source=str(file)))
        else:
            raise BaselineError(
                f"{file}:1: no log of nccl-tests or nvbandwidth: figures are imported from those; give its whole output"
            )
    versions: dict[str, str | None] = {tool: version for log in logs for tool, version in log.versions}
    return import_logs(logs) if logs else [], floors, versions
