"""Reads ``run.json`` back, of a finished run and of one that was killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpuwire_checks.errors import GpuwireError
from gpuwire_checks.report.document import SCHEMA, RunFile, adapter
from gpuwire_checks.topology.snapshot import with_unread

_GIVE = "give a run folder or the run.json in it"


def read_run(path: Path) -> RunFile:
    """A run document from its file or its run folder; one that was killed has no ending.

    Raises:
        GpuwireError: there is none, it is cut before its first result, or it is not one of this schema.
    """
    file = path / "run.json" if path.is_dir() else path
    try:
        data = file.read_bytes()
    except OSError as error:
        raise GpuwireError(f"cannot read {file}: {error.strerror}; {_GIVE}") from error
    try:
        document = _parse(data)
    except (ValueError, RecursionError) as error:
        raise GpuwireError(f"{file} is not JSON, or was cut: {error}; {_GIVE}, whole") from error
    head = document.get("run") if isinstance(document, dict) else None
    if not isinstance(head, dict) or "schema" not in head:
        raise GpuwireError(f"{file} is JSON, but not a run document; {_GIVE}")
    if head["schema"] != SCHEMA:
        raise GpuwireError(
            f"{file} has schema {head['schema']!r}, and this gpuwire reads {SCHEMA};"
            f" read it with the gpuwire that wrote it, {head.get('gpuwire')}"
        )
    return _validate({**document, "run": {**head, "topology": with_unread(head.get("topology"))}}, file)


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return _without_cut_end(data)


def _without_cut_end(data: bytes) -> Any:
    """The document less what was being written when the run was killed: a result, or the ending.

    Linux may end a write of more than a page half-way when its process is killed (``fatal_signal_pending`` in
    mm/filemap.c, fs/iomap), so the last line may be half a result, followed by what is left of the old brackets.

    Raises:
        ValueError: the cut is elsewhere.
    """
    head, _, rest = data.partition(b',\n"results":[\n')
    lines = rest.split(b"\n")
    results = []
    for line in lines:
        try:
            results.append(json.loads(line.removeprefix(b",")))
        except ValueError:
            break
    left = lines[len(results) + 1 :]
    if any(line.startswith((b" {", b",{")) for line in left):
        raise ValueError(f"result {len(results) + 1} is damaged, and others follow it")
    return {**json.loads(head + b"}"), "results": results}


def _validate(document: dict[str, Any], file: Path) -> RunFile:
    try:
        run: RunFile = adapter(RunFile).validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise GpuwireError(f"{file} is not as gpuwire wrote it: {where}: {first['msg']}; {_GIVE}, unchanged") from error
    return run
