"""YAML files that people edit: read strictly, every problem with its file and line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from gpuwire_checks.errors import GpuwireError

MAX_BYTES = 8 << 20
_MAX_DEPTH = 32

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
    text = _read(path, error)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as problem:
        raise error(_broken(path, problem)) from problem
    except RecursionError as problem:
        raise error(f"{path}:1: nested too deeply to be such a file") from problem
    if node is None:
        raise error(f"{path}:1: the file is empty")
    reader = _Reader(path, error)
    data = reader.build(node, ())
    try:
        return Loaded(value=model.model_validate(data), lines=reader.lines)
    except ValidationError as problem:
        raise error("\n".join(_problems(path, reader.lines, problem, model))) from problem


def _read(path: Path, error: type[GpuwireError]) -> str:
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise error(f"cannot read {path}: {problem.strerror}") from problem
    if len(data) > MAX_BYTES:
        raise error(f"{path}: {len(data)} bytes; a file of more than {MAX_BYTES} is not read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        raise error(f"{path}:{line}: not UTF-8 text (byte {problem.start})") from problem


def _broken(path: Path, problem: yaml.YAMLError) -> str:
    mark = getattr(problem, "problem_mark", None)
    line = mark.line + 1 if mark is not None else 1
    what = getattr(problem, "problem", None) or str(problem)
    return f"{path}:{line}: not YAML: {what}"


class _Reader:
    """Builds plain data from YAML nodes and notes the line of every key."""

    def __init__(self, path: Path, error: type[GpuwireError]) -> None:
        self._path = path
        self._error = error
        self._constructor = yaml.constructor.SafeConstructor()
        self.lines: dict[Path_, int] = {}

    def build(self, node: yaml.Node, at: Path_) -> Any:
        line = node.start_mark.line + 1
        if at in self.lines or len(at) > _MAX_DEPTH:
            raise self._error(f"{self._path}:{line}: nested too deeply to be such a file")
        self.lines[at] = line
        if node.anchor is not None if hasattr(node, "anchor") else False:
            raise self._error(f"{self._path}:{line}: anchors are not used in such a file")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*at, index)) for index, child in enumerate(node.value)]
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as problem:
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
    found = sorted((_line(lines, _located(detail["loc"])), _words(detail, model)) for detail in problem.errors())
    return [f"{path}:{line}: {text}" for line, text in found]


def _words(detail: Any, model: type[BaseModel]) -> str:
    where = ".".join(str(part) for part in _located(detail["loc"]))
    kind = detail["type"]
    if kind == "extra_forbidden":
        key = str(detail["loc"][-1])
        near = difflib.get_close_matches(key, _all_fields(model), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"unknown key {where!r}{hint}"
    if kind == "missing":
        return f"{where!r} is missing"
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return f"{where}: {message}" if where else message
    return f"{where}: {message}, not {detail['input']!r}"


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


def _located(loc: Sequence[str | int]) -> Path_:
    return tuple(part for part in loc if not (isinstance(part, str) and part.startswith("function-")))


def _line(lines: dict[Path_, int], path: Sequence[str | int]) -> int:
    path = tuple(path)
    while path not in lines:
        path = path[:-1]
    return lines[path]
