"""Baselines on disk: read one, add to it, write it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import yaml

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BaselineFile, BoundEntry, CaseKey
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.policy import FILE_NAME as POLICY_FILE_NAME
from gpuwire_checks.units import format_size
from gpuwire_checks.yamlfile import Loaded, load_yaml


def load_baseline(path: Path) -> Baseline:
    """A baseline file.

    Raises:
        BaselineError: it cannot be read, or says something twice or wrongly; with file and line.
    """
    return load_with_lines(path)[0]


def load_with_lines(path: Path) -> tuple[Baseline, Loaded[BaselineFile]]:
    """A baseline, and its file with the line of each key.

    Raises:
        BaselineError: as ``load_baseline``.
    """
    loaded = load_yaml(path, BaselineFile, error=BaselineError)
    file = loaded.value
    baseline = Baseline(
        name=file.name,
        path=path,
        sku=file.topology.sku,
        exact=file.topology.exact,
        facts=file.topology.facts,
        recorded=file.recorded,
        entries=file.bounds,
        lines=_lines(path, loaded),
        wiring=file.wiring,
        expected_software=file.software,
        floors=file.floors,
        sources=file.sources,
        notes=file.notes,
        rolling=file.rolling,
        changes=file.changes,
    )
    return baseline, loaded


def load_baselines(directories: Iterable[Path]) -> list[Baseline]:
    """Every baseline of some directories, in their order.

    Raises:
        BaselineError: one that cannot be read, with file and line.
    """
    return [load_baseline(path) for directory in directories for path in baseline_files(directory)]


def merge_new(baseline: Baseline, entries: Iterable[BoundEntry]) -> Baseline:
    """The baseline with bounds for cases that had none; a bound that is there is never overwritten."""
    kept = {entry.key: entry for entry in baseline.entries}
    for entry in entries:
        kept.setdefault(entry.key, entry)
    return replace(baseline, entries=tuple(kept.values()))


def save_baseline(directory: Path, baseline: Baseline) -> Path:
    """Write ``DIRECTORY/VENDOR/SKU.yaml``, whole or not at all; returns the file.

    Raises:
        BaselineError: it cannot be written; says what to do.
    """
    path = directory / str(baseline.facts.get("gpu_vendor", "cpu")) / f"{baseline.sku}.yaml"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(baseline_text(baseline))
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise BaselineError(
            f"cannot write {path}: {error.strerror}; give a directory that can be written with --baselines"
            " (pytest: --gpuwire-baselines)"
        ) from error
    return path


def baseline_text(baseline: Baseline) -> str:
    """The file: what a person reads first at the top, then one bound a line."""
    recorded = baseline.recorded
    head: dict[str, object] = {
        "schema": 1,
        "name": baseline.name,
        "topology": {"sku": baseline.sku, "exact": baseline.exact, "facts": dict(baseline.facts)},
    }
    if recorded is not None:
        at = recorded.at.isoformat(timespec="seconds")
        head["recorded"] = {**recorded.model_dump(), "at": at, "software": dict(recorded.software)}
    lines = ["# Recorded by gpuwire; bounds are written by it, not by hand. spread: sd of ln(figure) between attempts."]
    if baseline.sources:
        head["sources"] = dict(baseline.sources)
    if baseline.notes:
        head["notes"] = list(baseline.notes)
    lines.append(yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120).rstrip("\n"))
    if baseline.wiring is not None:
        wiring = baseline.wiring.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        lines.append(_block("wiring", wiring))
    if baseline.expected_software:
        lines.append(_block("software", dict(baseline.expected_software)))
    if baseline.floors:
        floors = [floor.model_dump(mode="json", exclude_none=True) for floor in baseline.floors]
        lines.append(_block("floors", floors))
    lines.append("bounds:" if baseline.entries else "bounds: []")
    lines.extend(f"  - {_flow(entry)}" for entry in sorted(baseline.entries, key=_order))
    if baseline.rolling:
        lines.append("rolling:")
        lines.extend(f"  - {_flow(entry)}" for entry in sorted(baseline.rolling, key=_order))
    if baseline.changes:
        lines.append(_block("changes", [change.model_dump(mode="json") for change in baseline.changes]))
    return "\n".join(lines) + "\n"


def _block(name: str, data: object) -> str:
    """A section whose innermost lists and mappings take a line each."""
    return yaml.safe_dump(
        {name: data}, sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=None
    ).rstrip("\n")


def _flow(entry: BoundEntry) -> str:
    case = {
        "collective": entry.case.collective,
        **({"size": format_size(entry.case.size), "dtype": entry.case.dtype} if entry.case.dtype else {}),
        "world_size": entry.case.world_size,
        "backend": entry.case.backend,
    }
    fields = {
        "metric": entry.metric,
        "case": case,
        "unit": entry.unit,
        "better": entry.better,
        "centre": entry.centre,
        "spread": entry.spread,
        "attempts": entry.attempts,
        "nodes": entry.nodes,
        **({"runs": entry.runs} if entry.runs > entry.nodes else {}),
        **({"between": entry.between} if entry.between is not None else {}),
        **({"tail": entry.tail.model_dump()} if entry.tail is not None else {}),
    }
    return yaml.safe_dump(fields, sort_keys=False, default_flow_style=True, width=10_000).strip()


def _order(entry: BoundEntry) -> tuple[str, str, int, int, str, str]:
    case = entry.case
    return case.collective, case.dtype or "", case.world_size, case.size, case.backend, entry.metric


def baseline_files(directory: Path) -> list[Path]:
    """Every baseline in a directory and those below it, in order."""
    return sorted(path for path in directory.rglob("*.yaml") if path.name != POLICY_FILE_NAME)


def _lines(path: Path, loaded: Loaded[BaselineFile]) -> dict[CaseKey, int]:
    lines: dict[CaseKey, int] = {}
    for index, entry in enumerate(loaded.value.bounds):
        line = loaded.line("bounds", index)
        if entry.key in lines:
            first = lines[entry.key]
            raise BaselineError(
                f"{path}:{line}: {entry.metric} of {entry.case} has a bound already on line {first}; leave one"
            )
        lines[entry.key] = line
    return lines
