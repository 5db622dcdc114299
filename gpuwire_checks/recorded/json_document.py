"""JSON documents in a text, also one that the end of the text cuts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuwire_checks.errors import TopologyError

_MARK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},"]', re.DOTALL)
_OPENING = re.compile(r"^[ \t\ufeff]*\{", re.MULTILINE)
_MAX_DEPTH = 64
_MAX_MARKS = 600_000
"""Strings, brackets and commas of a document that is cut; 10 thousand results have half as many."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object; ``cut`` when its end is missing, and with it the element that it was cut in."""

    value: dict[str, Any]
    start: int
    end: int
    cut: bool


def documents(text: str, *, source: str, at_most: int) -> Iterator[Document]:
    """Every object that begins a line, one after the other.

    Raises:
        TopologyError: not JSON, nested deeper than any such file, or more than ``at_most`` of them.
    """
    found = 0
    opening = _OPENING.search(text)
    while opening is not None:
        document = _document(text, opening.end() - 1, source=source)
        found += 1
        if found > at_most:
            raise TopologyError(f"{source}:{_line(text, document.start)}: more than {at_most} JSON documents")
        yield document
        opening = _OPENING.search(text, document.end)


def _document(text: str, start: int, *, source: str) -> Document:
    decoder = json.JSONDecoder()
    try:
        value, end = decoder.raw_decode(text, start)
        return Document(value, start, end, cut=False)
    except json.JSONDecodeError as problem:
        where, told = _line(text, problem.pos), problem.msg
    except (RecursionError, ValueError) as problem:
        where, told = _line(text, start), type(problem).__name__
    try:
        return Document(json.loads(_closed(text, start)), start, len(text), cut=True)
    except (RecursionError, ValueError):
        raise TopologyError(f"{source}:{where}: not JSON ({told}); paste the whole file") from None


def _closed(text: str, start: int) -> str:
    """The text up to its last whole element, with what is open there closed; empty when it is too deep or long."""
    stack: list[str] = []
    whole, closing = start, ""
    for number, match in enumerate(_MARK.finditer(text, start)):
        mark = match[0]
        if mark == '"':
            break
        if mark in "[{":
            stack.append("]" if mark == "[" else "}")
            whole, closing = match.end(), "".join(reversed(stack))
        elif mark in "]}":
            if not stack or stack.pop() != mark:
                return ""
            whole, closing = match.end(), "".join(reversed(stack))
        elif mark == ",":
            whole, closing = match.start(), "".join(reversed(stack))
        if len(stack) > _MAX_DEPTH or number > _MAX_MARKS:
            return ""
    return text[start:whole] + closing


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
