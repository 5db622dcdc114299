"""Traces as files: one JSON document, a case a line; read back from it, or made of a run that kept its attempts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpuwire_checks.errors import ConfigError, GpuwireError
from gpuwire_checks.judge.trace import Trace, TracedCase, entry_of, traced
from gpuwire_checks.records import Case, Measurement
from gpuwire_checks.report.document import RunFile, adapter
from gpuwire_checks.report.reading import read_run
from gpuwire_checks.textfile import read_text
from gpuwire_checks.topology.model import NodeTopology, Unread

SCHEMA = 1
_MAX_RUN_BYTES = 1 << 30
_GIVE = "give what gpuwire aa --output wrote, or a run folder"


def make_trace(
    measured: Mapping[Case, Sequence[Measurement]],
    *,
    topology: NodeTopology,
    gpuwire: str,
    sku: str,
    software: Mapping[str, str | None],
) -> Trace | None:
    """A trace of attempts; None where no case has two of them, which a spread takes."""
    cases = tuple(traced(case, attempts) for case, attempts in measured.items() if len(attempts) > 1)
    if not cases:
        return None
    return Trace(
        host_kind=host_kind(topology),
        recorded_at=min(case.attempts[0].at for case in cases),
        gpuwire=gpuwire,
        sku=sku,
        software=dict(software),
        cases=cases,
    )


def host_kind(topology: NodeTopology) -> str:
    """What kind of host it is, and not which: ``AMD EPYC / 2 cores / virtual (KVM)``."""
    models = [str(gpu.model) for gpu in topology.gpus if not isinstance(gpu.model, Unread)]
    parts = [f"{models.count(model)} x {model}" for model in dict.fromkeys(models)]
    if not isinstance(topology.cpu, Unread):
        parts += [f"{topology.cpu.model}", f"{topology.cpu.cores} cores"]
    if topology.virtualised is None:
        parts.append("bare metal")
    elif not isinstance(topology.virtualised, Unread):
        parts.append(f"virtual ({topology.virtualised})")
    return " / ".join(parts)


def trace_text(trace: Trace) -> str:
    """The file: its head, then one case a line, so that a difference of two files can be read."""
    document: dict[str, Any] = adapter(Trace).dump_python(trace, mode="json")
    cases = document.pop("cases")
    head = json.dumps(document, indent=1).removesuffix("\n}")
    return f'{head},\n "cases": [\n{_joined(cases)}\n ]\n}}\n'


def _joined(cases: Sequence[Mapping[str, Any]]) -> str:
    return ",\n".join(f"  {json.dumps(case, separators=(',', ':'))}" for case in cases)


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        path.write_text(trace_text(trace), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; give another file with --output") from error


def read_trace(path: Path) -> Trace:
    """A trace from its file, or from the folder or run.json of a run that measured cases over and over.

    Raises:
        GpuwireError: it cannot be read, is neither, or has no two attempts at any case.
    """
    if path.is_dir():
        return _of_run(read_run(path), path)
    text = read_text(path, max_bytes=_MAX_RUN_BYTES, error=GpuwireError)
    if text.startswith('{"run":'):
        return _of_run(read_run(path), path)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GpuwireError(f"{path} is not JSON, or was cut: {error}; {_GIVE}") from error
    if not isinstance(document, dict) or "cases" not in document:
        raise GpuwireError(f"{path} is JSON, but not a trace; {_GIVE}")
    if document.get("schema") != SCHEMA:
        raise GpuwireError(f"{path} has schema {document.get('schema')!r}, and this gpuwire reads {SCHEMA}; {_GIVE}")
    return _validated(document, path)


def _validated(document: Mapping[str, Any], path: Path) -> Trace:
    try:
        trace: Trace = adapter(Trace).validate_python(document)
        for case in trace.cases:
            _check(case)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise GpuwireError(f"{path}: {where}: {first['msg']}; {_GIVE}, unchanged") from error
    except ValueError as error:
        raise GpuwireError(f"{path}: {error}; {_GIVE}, unchanged") from error
    if not trace.cases:
        raise GpuwireError(f"{path} has no case; {_GIVE}")
    return trace


def _check(case: TracedCase) -> None:
    """What an analysis relies on.

    Raises:
        ValueError: says what is wrong with which case.
    """
    if (case.case, case.metric, case.unit, case.better) != (
        case.of.id,
        case.of.metric.name,
        case.of.metric.unit,
        case.of.metric.better,
    ):
        raise ValueError(f"{case.case} is not what its 'of' says: {case.of.metric.name} {case.of.id}")
    if len(case.attempts) < 2:
        raise ValueError(f"{case.case} has {len(case.attempts)} attempts: a spread takes two")
    for attempt in case.attempts:
        if not 0 < attempt.value < math.inf or not (attempt.tail is None or 1 <= attempt.tail < math.inf):
            raise ValueError(f"{case.case} has a figure that is none: {attempt.value}, tail {attempt.tail}")
        datetime.fromisoformat(attempt.at)
    entry_of(case)


def _of_run(run: RunFile, path: Path) -> Trace:
    attempts: dict[Case, list[Measurement]] = {}
    for result in run.results:
        for attempt in result.attempts:
            if not attempt.mismatches:
                attempts.setdefault(attempt.case, []).append(attempt)
    found, head = run.run.topology.software, run.run
    names = ("kernel", "driver", "cuda", "nccl", "torch", "python")
    versions = {name: getattr(found, name) for name in names}
    trace = make_trace(
        attempts,
        topology=head.topology,
        gpuwire=head.gpuwire,
        sku=head.fingerprint.get("sku", ""),
        software={name: value.value if isinstance(value, Unread) else value for name, value in versions.items()},
    )
    if trace is None:
        raise GpuwireError(f"{path}: no case was measured twice in this run; {_GIVE} of gpuwire aa")
    return trace
