"""Baselines on disk: find the one of a node, read it, add to it, write it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from gpuwire_checks.baseline.family import Spread, family_spreads
from gpuwire_checks.baseline.schema import BaselineFile, BoundEntry, CaseKey, FloorEntry, RecordedEntry, case_key
from gpuwire_checks.baseline.wiring import Wiring
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.policy import FILE_NAME as POLICY_FILE_NAME
from gpuwire_checks.records import METRICS, Bound, Case
from gpuwire_checks.statistics import moderated
from gpuwire_checks.topology.fingerprint import first_difference
from gpuwire_checks.units import format_size
from gpuwire_checks.yamlfile import Loaded, load_yaml

_COUNT = re.compile(r"-(\d+)x(?=-|$)")
"""The number of GPUs in a SKU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a topology is held to.

    Attributes:
        exact: the hash of the graph it was recorded on; None for a reference, which states what it knows of a SKU.
        recorded: when and with what; None for a reference.
        expected_software: versions expected, by name, as ranges or patterns.
        entries: the bounds, each with the line it stands on (0 before it is written).
    """

    name: str
    path: Path
    sku: str
    exact: str | None
    facts: Mapping[str, str | int]
    recorded: RecordedEntry | None
    entries: tuple[BoundEntry, ...] = ()
    lines: Mapping[CaseKey, int] = field(default_factory=dict)
    wiring: Wiring | None = None
    expected_software: Mapping[str, str] = field(default_factory=dict)
    floors: tuple[FloorEntry, ...] = ()

    @property
    def software(self) -> Mapping[str, str | None]:
        """The versions it was recorded with."""
        return self.recorded.software if self.recorded else {}

    def bound_for(self, case: Case) -> Bound | None:
        """The bound of a case, its spread with the family's behind it; None when there is none."""
        for entry in self.entries:
            if entry.key == case_key(case):
                return self._bound(entry)
        return None

    def orphans(self, cases: Iterable[Case]) -> list[str]:
        """Bounds that none of these cases uses."""
        used = {case_key(case) for case in cases}
        return [str(entry.case) for entry in self.entries if entry.key not in used]

    def _bound(self, entry: BoundEntry) -> Bound:
        family = family_spreads(self.entries, without=entry).get(Spread.family_of(entry), Spread.none())
        spread, degrees = moderated(
            entry.spread,
            own_degrees=entry.attempts - 1,
            family=family.spread,
            family_degrees=family.degrees,
        )
        return Bound(
            metric=METRICS[entry.metric],
            centre=entry.centre,
            spread=spread,
            degrees=degrees,
            attempts=entry.attempts,
            nodes=entry.nodes,
            where=f"{self.path}:{self.lines.get(entry.key, 1)}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The baseline of a node.

    Attributes:
        exact: the node is wired to the last link as the baseline says; a reference says no more than its facts.
        nearest: with no match, the baseline with most in common.
        difference: the first difference to ``baseline`` or ``nearest``, in a sentence.
    """

    baseline: Baseline | None
    exact: bool = False
    nearest: Baseline | None = None
    difference: str | None = None


def find_baseline(
    directories: Sequence[Path],
    *,
    sku: str,
    exact: str,
    facts: Mapping[str, str | int],
    expect: str | None,
    site: Path | None = None,
) -> Match:
    """The baseline for a node, the first directory's before the next's.

    Args:
        expect: the name of the baseline to take, whatever the node looks like.
        site: where recorded baselines lie; a node with fewer GPUs than one of those, and nothing else of its own, is
            held to it: it has lost a GPU. None where GPUs are hidden on purpose.

    Raises:
        BaselineError: a file that cannot be read, or no baseline of the name expected.
    """
    known: list[Baseline] = []
    found: list[Baseline] = []
    for directory in directories:
        # Every file of a directory is read, so that a broken one is told; the next only without an exact match here.
        known += [load_baseline(path) for path in baseline_files(directory)]
        found = _candidates(known, sku=sku, expect=expect, site=site)
        if any(baseline.exact == exact for baseline in found):
            break
    if found:
        return _match(found, exact, facts)
    if expect is not None:
        names = ", ".join(sorted({baseline.name for baseline in known})) or "none at all"
        raise BaselineError(f"no baseline is named {expect!r}; known: {names}")
    alike = [(len(baseline.facts.items() & facts.items()), baseline) for baseline in known]
    most, nearest = max(alike, key=lambda pair: pair[0], default=(0, None))
    if not most or nearest is None:
        return Match(baseline=None)
    return Match(baseline=None, nearest=nearest, difference=first_difference(nearest.facts, facts))


def _candidates(known: Sequence[Baseline], *, sku: str, expect: str | None, site: Path | None) -> list[Baseline]:
    if expect is not None:
        return [baseline for baseline in known if baseline.name == expect]
    return [baseline for baseline in known if baseline.sku == sku] or _with_more_gpus(known, sku, site)


def load_baseline(path: Path) -> Baseline:
    """A baseline file.

    Raises:
        BaselineError: it cannot be read, or says something twice or wrongly; with file and line.
    """
    loaded = load_yaml(path, BaselineFile, error=BaselineError)
    file = loaded.value
    return Baseline(
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
    )


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


def _with_more_gpus(known: Sequence[Baseline], sku: str, site: Path | None) -> list[Baseline]:
    """The site's baselines of the same GPUs, more of them; the nearest number first.

    Not the shipped ones: a node with four L40S may be meant so, and nobody here has said otherwise.
    """
    model, count = _model_and_count(sku)
    larger: list[tuple[int, Baseline]] = []
    for baseline in known:
        its_model, its_count = _model_and_count(baseline.sku)
        if site is not None and its_model == model and its_count > count > 0 and baseline.path.is_relative_to(site):
            larger.append((its_count, baseline))
    return [baseline for _, baseline in sorted(larger, key=lambda pair: pair[0])]


def _model_and_count(sku: str) -> tuple[str, int]:
    match = _COUNT.search(sku)
    return (sku[: match.start()], int(match[1])) if match else (sku, 0)


def _match(found: Sequence[Baseline], exact: str, facts: Mapping[str, str | int]) -> Match:
    for baseline in found:
        if baseline.exact == exact:
            return Match(baseline=baseline, exact=True)
    best = found[0]
    if best.exact is None:
        difference = first_difference(best.facts, {name: facts[name] for name in best.facts if name in facts})
        return Match(baseline=best, exact=difference is None, difference=difference)
    return Match(baseline=best, difference=first_difference(best.facts, facts))
