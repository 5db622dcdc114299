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
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.records import Bound, Measurement, Verdict
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.wiring.held import Watched

SCHEMA = 1
_TAIL = b"\n]}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineHead:
    """The baseline a run is held to; ``exact`` says whether the node is wired as it was.

    Attributes:
        recorded_at: None for a reference, which nobody recorded.
    """

    name: str
    path: str
    recorded_at: str | None
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
    """What came of one planned test.

    Attributes:
        attempts: every one, in order.
        seconds: wall time, all attempts together.
        control: attempts at a case that had passed, made between those at a suspicion.
    """

    # JSON has no NaN: pydantic would write null, which reads back as "not measured".
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(ser_json_inf_nan="strings")

    nodeid: str
    verdict: Verdict
    bound: Bound | None
    attempts: tuple[Measurement, ...]
    seconds: float
    control: tuple[Measurement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended; a run that was killed has none. ``watched`` is what its wires showed under load."""

    finished_at: str
    exit_status: int
    counts: Mapping[str, int]
    seconds: float
    watched: Watched | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """A whole ``run.json``."""

    run: RunHead
    ending: Ending | None = None
    results: tuple[Result, ...]


@lru_cache(maxsize=8)
def adapter(noun: type[Any]) -> TypeAdapter[Any]:
    """Reads and writes one of these nouns as JSON; made once, on first use."""
    return TypeAdapter(noun)


class RunDocument:
    """Writes ``run.json`` as results come: each one in a single write over the closing brackets.

    The file is valid JSON after every write, one result a line. A run that is killed keeps every result written before;
    ``read_run`` reads it even where the kill came within a write. A disk that is full or gone does not stop the run:
    results stay in memory, ``trouble`` says what happened, and the next write tries them all again.
    """

    def __init__(self, path: Path, head: RunHead) -> None:
        self.path = path
        self.head = head
        self.trouble: str | None = None
        self._pending = [b'{"run":' + _json(adapter(RunHead), head) + b',\n"results":[']
        self._end = 0
        self._results = 0

    @classmethod
    def start(cls, folder: Path, head: RunHead) -> RunDocument:
        """Make ``folder/run.json`` with no result yet.

        Raises:
            ConfigError: it cannot be written, or is there already: it holds what another run measured.
        """
        document = cls(folder / "run.json", head)
        try:
            if not folder.exists():
                folder.mkdir(parents=True)
            document.path.touch(exist_ok=False)
        except OSError as error:
            raise _unwritable(f"{error.filename}: {error.strerror}") from error
        document._flush(_TAIL)
        if document.trouble is not None:
            with suppress(OSError):  # the trouble is told already
                document.path.unlink()
            raise _unwritable(document.trouble)
        return document

    def append(self, result: Result) -> None:
        """Add a result; never raises for a disk that cannot take it."""
        # The line's end, which the old tail begins with too, comes first: a kill cannot spoil the line before.
        separator = b"\n," if self._results else b"\n "
        self._results += 1
        self._pending.append(separator + _json(adapter(Result), result))
        self._flush(_TAIL)

    def finish(self, ending: Ending) -> None:
        """Close the document with how the run ended."""
        self._flush(b'\n],\n"ending":' + _json(adapter(Ending), ending) + b"}\n")

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
        # Never made anew: a document that somebody removed cannot be continued in an empty file.
        file = os.open(self.path, os.O_WRONLY)
        try:
            written = os.pwrite(file, data, offset)
            while written < len(data):
                # A disk that fills up takes a part without an error; the next write tells which.
                written += os.pwrite(file, data[written:], offset + written)
            os.ftruncate(file, offset + len(data))
        finally:
            os.close(file)


def run_json_schema() -> dict[str, Any]:
    """JSON Schema (Draft 2020-12) of ``run.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **adapter(RunFile).json_schema(mode="serialization"),
        "title": "gpuwire run document",
    }


def _json(written_by: TypeAdapter[Any], noun: object) -> bytes:
    """A noun as JSON, on one line."""
    try:
        return written_by.dump_json(noun)
    except PydanticSerializationError:
        # Linux names and variables are bytes; Python reads those that are not UTF-8 as lone surrogates (PEP 383).
        return json.dumps(written_by.dump_python(noun, mode="json")).encode()


def _unwritable(trouble: str) -> ConfigError:
    return ConfigError(f"cannot write the run document {trouble}; choose another folder with --gpuwire-run-dir")


if __name__ == "__main__":
    json.dump(run_json_schema(), sys.stdout, indent=1)
    sys.stdout.write("\n")
