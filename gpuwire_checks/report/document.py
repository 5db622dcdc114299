"""``run.json``: everything a run knew and measured, valid JSON after every result."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from gpuwire_checks.errors import ConfigError, GpuwireError
from gpuwire_checks.records import Bound, Measurement, Verdict
from gpuwire_checks.topology.model import NodeTopology

SCHEMA = 1
_TAIL = b"\n]}\n"
_ALLOWED_PREFIXES = ("NCCL_", "RCCL_", "TORCH_", "CUDA_", "HIP_", "ROCR_", "GLOO_", "OMP_")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineHead:
    """The baseline a run is held to; ``exact`` says whether the node is wired as it was."""

    name: str
    path: str
    recorded_at: str
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """What a run knew before it measured.

    Attributes:
        options: ``--gpuwire-*`` options as given.
        labels: what the site's hooks added.
        fault: the fault that was injected on purpose, None in every real run.
        planned: tests that were to give a result.
        environment: by an allow-list of prefixes, never the whole.
    """

    schema: Literal[1] = 1
    gpuwire: str
    run_id: str
    started_at: str
    command: tuple[str, ...]
    options: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    fault: str | None = None
    host: str
    topology: NodeTopology
    fingerprint: Mapping[str, str]
    baseline: BaselineHead | None
    planned: int
    predicted_seconds: float
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one planned test; ``seconds`` is the wall time it took, all attempts together."""

    nodeid: str
    verdict: Verdict
    bound: Bound | None
    attempts: tuple[Measurement, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended; a run that was killed has none."""

    finished_at: str
    exit_status: int
    counts: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """A whole ``run.json``."""

    run: RunHead
    ending: Ending | None = None
    results: tuple[Result, ...]


@lru_cache(maxsize=8)
def _adapter(noun: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(noun)


class RunDocument:
    """Writes ``run.json`` as results come: each one in a single write over the closing brackets.

    A run that is killed keeps every result written before. A disk that is full or gone does not stop the run: results
    stay in memory, ``trouble`` says what happened, and the next write tries them all again.
    """

    def __init__(self, path: Path, head: RunHead) -> None:
        self.path = path
        self.head = head
        self.trouble: str | None = None
        self._pending = [b'{"run":' + _adapter(RunHead).dump_json(head) + b',\n"results":[']
        self._end = 0
        self._results = 0
        self._flush(_TAIL)

    @classmethod
    def start(cls, folder: Path, head: RunHead) -> RunDocument:
        """Make ``folder/run.json`` with no result yet.

        Raises:
            ConfigError: it cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(folder, error.strerror or str(error)) from error
        document = cls(folder / "run.json", head)
        if document.trouble is not None:
            raise _unwritable(folder, document.trouble)
        return document

    def append(self, result: Result) -> None:
        """Add a result; never raises for a disk that cannot take it."""
        separator = b",\n" if self._results else b"\n"
        self._results += 1
        self._pending.append(separator + _adapter(Result).dump_json(result))
        self._flush(_TAIL)

    def finish(self, ending: Ending) -> None:
        """Close the document with how the run ended."""
        self._flush(b'\n],\n"ending":' + _adapter(Ending).dump_json(ending) + b"}\n")

    def _flush(self, tail: bytes) -> None:
        """Write what is pending and the closing brackets after the last result that is on disk."""
        body = b"".join(self._pending)
        try:
            self._write(body + tail, self._end)
        except OSError as error:
            self.trouble = f"{self.path}: {error.strerror or error}"
            self._close_again()
            return
        self._end += len(body)
        self._pending.clear()
        self.trouble = None

    def _close_again(self) -> None:
        """Put the brackets back where half a result may have been written over them; they were there before."""
        if self._end:
            with suppress(OSError):  # the trouble is told already
                self._write(_TAIL, self._end)

    def _write(self, data: bytes, offset: int) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            written = os.pwrite(file, data, offset)
            if written < len(data):
                # A disk that fills up takes a part without an error; the next write tells which.
                os.pwrite(file, data[written:], offset + written)
            os.ftruncate(file, offset + len(data))
        finally:
            os.close(file)


def read_run(path: Path) -> RunFile:
    """A run document from its file or its run folder.

    Raises:
        GpuwireError: there is none, it is cut, or it is not one of this schema; says what to do.
    """
    file = path / "run.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_bytes())
    except OSError as error:
        raise GpuwireError(f"cannot read {file}: {error.strerror}; give a run folder or its run.json") from error
    except ValueError as error:
        raise GpuwireError(f"{file} is not a run document, or was cut: {error}") from error
    version = data.get("run", {}).get("schema") if isinstance(data, dict) else None
    if version != SCHEMA:
        raise GpuwireError(f"{file} has schema {version!r}; this gpuwire reads {SCHEMA}")
    try:
        run: RunFile = _adapter(RunFile).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise GpuwireError(f"{file} is not a run document: {where}: {first['msg']}") from error
    return run


def allowed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that change how collectives run. Nothing else of the environment is kept: it holds secrets."""
    return {name: value for name, value in sorted(environ.items()) if name.startswith(_ALLOWED_PREFIXES)}


def run_json_schema() -> dict[str, Any]:
    """JSON Schema (Draft 2020-12) of ``run.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpuwire run document",
        **_adapter(RunFile).json_schema(mode="serialization"),
    }


def _unwritable(folder: Path, reason: str) -> ConfigError:
    return ConfigError(f"cannot write the run folder {folder}: {reason}; choose another place with --gpuwire-run-dir")


if __name__ == "__main__":
    json.dump(run_json_schema(), sys.stdout, indent=1)
    sys.stdout.write("\n")
