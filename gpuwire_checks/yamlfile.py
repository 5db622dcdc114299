"""YAML files that people edit: read strictly, every problem with its file and line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.reader import ReaderError

from gpuwire_checks.errors import GpuwireError
from gpuwire_checks.textfile import read_text

MAX_BYTES = 8 << 20
_MAX_DEPTH = 32
_MAX_QUOTED = 80
_BOOL_TAG = "tag:yaml.org,2002:bool"
_PLAINLY = {"tuple_type": "expected a list", "model_type": "expected 'key: value' lines"}

M = TypeVar("M", bound=BaseModel)
Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded(Generic[M]):
    """A validated file, and where each of its keys stands."""

    value: M
    lines: dict[Path_, int]

    def line(self, *path: str | int) -> int:
        """The line (from 1) of a key path such as ``("bounds", 3, "centre")``, or of what is around it."""
        return _line(self.lines, path)


def load_yaml(path: Path, model: type[M], *, error: type[GpuwireError]) -> Loaded[M]:
    """Read and validate a YAML file.

    Raises:
        GpuwireError: of the class ``error``; one ``FILE:LINE: problem`` a line, the first problem first.
    """
    text = read_text(path, max_bytes=MAX_BYTES, error=error)
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as problem:
        raise error(_broken(path, text, problem)) from problem
    except RecursionError as problem:
        raise error(f"{path}:1: nested too deeply to be such a file") from problem
    if node is None:
        raise error(f"{path}:1: the file is empty")
    if not isinstance(node, yaml.MappingNode):
        raise error(f"{path}:{node.start_mark.line + 1}: such a file is made of 'key: value' lines")
    reader = _Reader(path, error)
    data = reader.build(node, ())
    try:
        return Loaded(value=model.model_validate(data), lines=reader.lines)
    except ValidationError as problem:
        raise error("\n".join(_problems(path, reader.lines, problem, model))) from problem


def _broken(path: Path, text: str, problem: yaml.YAMLError) -> str:
    if isinstance(problem, ReaderError):
        line = text[: problem.position].count("\n") + 1
        return f"{path}:{line}: not YAML: character #x{ord(text[problem.position]):02x} is not allowed"
    mark = getattr(problem, "problem_mark", None)
    line = mark.line + 1 if mark is not None else 1
    what = getattr(problem, "problem", None) or str(problem)
    return f"{path}:{line}: {what}" if isinstance(problem, _Refused) else f"{path}:{line}: not YAML: {what}"


class _Refused(yaml.MarkedYAMLError):
    """YAML, but nothing that such a file needs."""


class _Loader(yaml.SafeLoader):
    """Refuses anchors, by which a short file grows without end, and tags, by which a value is not what it looks."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # no stub has it
        if getattr(event, "anchor", None) is not None:
            raise _Refused(problem="anchors are not used in such a file", problem_mark=event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _Refused(problem=f"tags are not used in such a file: {event.tag}", problem_mark=event.start_mark)
        return super().compose_node(parent, index)


class _Reader:
    """Builds plain data from YAML nodes and notes the line of every key."""

    def __init__(self, path: Path, error: type[GpuwireError]) -> None:
        self._path = path
        self._error = error
        self._constructor = yaml.constructor.SafeConstructor()
        self.lines: dict[Path_, int] = {}

    def build(self, node: yaml.Node, at: Path_) -> Any:
        line = node.start_mark.line + 1
        if len(at) > _MAX_DEPTH:
            raise self._error(f"{self._path}:{line}: nested too deeply to be such a file")
        self.lines[at] = line
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*at, index)) for index, child in enumerate(node.value)]
        if node.tag == _BOOL_TAG:
            # YAML 1.1 reads a bare yes, no, on or off as true or false, and pydantic takes those for 1 and 0.
            key = ".".join(map(str, at))
            raise self._error(
                f"{self._path}:{line}: {key}: {node.value} is a truth value in YAML, and such a file has none; write"
                f' a number, or "{node.value}" in quotes where a word is meant'
            )
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError) as problem:
            raise self._error(f"{self._path}:{line}: {getattr(problem, 'problem', None) or problem}") from problem

    def _mapping(self, node: yaml.MappingNode, at: Path_) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(f"{self._path}:{line}: a key must be a word")
            here = (*at, key)
            if key in built:
                first = self.lines[here]
                raise self._error(f"{self._path}:{line}: {key!r} is given twice, first on line {first}; leave one")
            built[key] = self.build(value_node, here)
            self.lines[here] = line
        return built


def _problems(path: Path, lines: dict[Path_, int], problem: ValidationError, model: type[BaseModel]) -> list[str]:
    found = sorted(
        (_line(lines, at), _words(detail, at, model))
        for detail in problem.errors()
        for at in [_located(detail["loc"], lines, detail["type"])]
    )
    return [f"{path}:{line}: {text}" for line, text in found]


def _words(detail: Any, at: Path_, model: type[BaseModel]) -> str:
    where = ".".join(map(str, at))
    kind = detail["type"]
    if kind == "extra_forbidden":
        key = str(detail["loc"][-1])
        near = difflib.get_close_matches(key, _all_fields(model), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"unknown key {where!r}{hint}"
    if kind == "missing":
        return f"{where!r} is missing"
    message = _PLAINLY.get(kind, detail["msg"].removeprefix("Value error, "))
    if kind == "value_error":
        return f"{where}: {message}" if where else message
    return f"{where}: {message}, not {_shortened(repr(detail['input']))}"


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def _all_fields(model: type[BaseModel]) -> list[str]:
    """Every key that may stand somewhere in such a file."""
    names: set[str] = set()
    waiting: list[Any] = [model]
    seen: set[Any] = set()
    while waiting:
        annotation = waiting.pop()
        if annotation in seen:
            continue
        seen.add(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for name, info in annotation.model_fields.items():
                names.add(info.alias or name)
                waiting.append(info.annotation)
        waiting.extend(getattr(annotation, "__args__", ()))
    return sorted(names)


def _located(loc: Sequence[str | int], lines: Mapping[Path_, int], kind: str) -> Path_:
    """The key path of a problem: pydantic's without the names of validators and of a union's members."""
    at: Path_ = ()
    for part in loc:
        if (*at, part) in lines:
            at = (*at, part)
    return (*at, loc[-1]) if kind == "missing" else at


def _line(lines: Mapping[Path_, int], path: Sequence[str | int]) -> int:
    path = tuple(path)
    while path not in lines:
        path = path[:-1]
    return lines[path]
