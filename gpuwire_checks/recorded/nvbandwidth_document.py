"""The JSON object of ``nvbandwidth -j`` in a text: whole, or cut, and what launchers put before its lines."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import split_launcher, without_marks

MAX_TEXT = 8 << 20
"""Characters. Every test on 72 GPUs, a cell a line, has 4 million."""
MAX_LINES = 300_000
MAX_TESTS = 200
"""nvbandwidth has 48."""
KEY = re.compile(r'"nvbandwidth"\s{0,80}:')
_BEGIN = re.compile(r'\{\s*"nvbandwidth"\s*:\s*\{')
_CASES = re.compile(r'"testcases"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The object as far as it could be decoded. ``ended`` is None where it is whole, else the line where it is not."""

    body: dict[str, Any]
    cases: tuple[tuple[int, Any], ...]
    ended: int | None


def unlabelled(text: str, *, source: str) -> str:
    """The text without launchers' labels; its lines keep their numbers."""
    if len(text) > MAX_TEXT or text.count("\n") > MAX_LINES:
        raise TopologyError(
            f"{source}:1: {len(text)} characters in {text.count(chr(10)) + 1} lines; the JSON of nvbandwidth has at "
            f"most {MAX_TEXT} in {MAX_LINES}: give only that"
        )
    if _BEGIN.search(text):
        return text
    lines = [split_launcher(without_marks(raw)) for raw in text.split("\n")]
    first = next((label for label, rest in lines if KEY.search(rest)), "")
    return "\n".join(rest if label in ("", first) else "" for label, rest in lines)


def read_document(text: str, *, source: str) -> Document:
    """The object and its tests, as far as they are whole.

    Raises:
        TopologyError: it is not there, or what stands before its tests is no JSON.
    """
    begin = _BEGIN.search(text)
    if begin is None:
        raise TopologyError(f"{source}:1: no '{{\"nvbandwidth\": {{' here; paste all that `nvbandwidth -j` prints")
    cases_at = _CASES.search(text, begin.end())
    if cases_at is None:
        body, end = _body(text, begin.start())
        if body is None:
            raise TopologyError(f"{source}:{_line(text, end)}: not JSON from here on, and no test before it")
        return Document(body=body, cases=(), ended=None)
    cases, at, end = _cases(text, cases_at.end())
    head = text[begin.start() : cases_at.end()]
    if text[at : at + 1] == "]":
        body, after = _body(head + text[at:], 0)
        if body is not None:
            return Document(body=body, cases=cases, ended=None)
        end = after + at - len(head)
    body, _ = _body(head + "]}}", 0)
    if body is None:
        raise TopologyError(f"{source}:{_line(text, begin.start())}: not JSON before its testcases")
    return Document(body=body, cases=cases, ended=_line(text, max(end, at)))


def _cases(text: str, end: int) -> tuple[tuple[tuple[int, Any], ...], int, int]:
    """The tests that are whole, each with its line; where the first thing that is none begins, and where it fails."""
    cases: list[tuple[int, object]] = []
    at = end
    while len(cases) <= MAX_TESTS:
        at = _after_comma(text, end)
        value, end = _decode(text, at)
        if value is None:
            break
        cases.append((at, value))
    lines = _lines(text, [place for place, _ in cases])
    return tuple(zip(lines, (case for _, case in cases), strict=True)), at, end


def _after_comma(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    return match.end() if match else at


def _body(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """The value of the key, None where it is no object; and where the decoding ended."""
    value, end = _decode(text, at)
    body = value.get("nvbandwidth") if isinstance(value, dict) else None
    return (body if isinstance(body, dict) else None), end


def _decode(text: str, at: int) -> tuple[object | None, int]:
    """The value that begins at a place and where it ends; None and where it is none."""
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as problem:
        return None, problem.pos
    except (ValueError, RecursionError):
        return None, at


def _line(text: str, at: int) -> int:
    return text.rstrip().count("\n", 0, at) + 1


def _lines(text: str, places: Sequence[int]) -> list[int]:
    found, line, before = [], 1, 0
    for at in places:
        line, before = line + text.count("\n", before, at), at
        found.append(line)
    return found
