"""Everything known of a node in one JSON file: to judge again elsewhere, or to attach to a ticket."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import Gpu, NodeTopology, Unread

SCHEMA = 1
MAX_VALUES = 500_000
"""Of a list or an object, by their commas. A node with 16 GPUs and 16 NICs has 10 thousand."""
MOST = {"gpus": 256, "nics": 256, "paths": 50_000, "peers": 200_000, "pci": 20_000, "counters": 50_000, "doubts": 5000}
MAX_LINKS = 256
"""Of one GPU."""
_ALLOWED_PREFIXES = ("NCCL_", "RCCL_", "TORCH_", "CUDA_", "HIP_", "ROCR_", "GLOO_", "OMP_")
_DIGITS = 30
_PATH = 16
"""Characters of a path between two devices, such as NV18."""
_HASHED = "sha256:"
_MARK = "gpuwire_snapshot"
_UNREAD: Mapping[str, Unread] = {word.value: word for word in Unread}


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What ``gpuwire snapshot`` writes.

    Attributes:
        gpuwire_snapshot: the schema's number; its name tells what the file is.
        taken_at: in UTC, as ISO 8601.
        environment: by an allow-list of prefixes, never the whole: it holds secrets.
    """

    gpuwire_snapshot: Literal[1] = 1
    gpuwire: str
    taken_at: str
    topology: NodeTopology
    environment: Mapping[str, str]


def allowed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that change how collectives run. Nothing else of the environment is kept: it holds secrets."""
    return {name: value for name, value in sorted(environ.items()) if name.startswith(_ALLOWED_PREFIXES)}


def without_serials(topology: NodeTopology) -> NodeTopology:
    """The node with each serial number and UUID as a hash: it still tells whether two files show the same board."""
    return replace(topology, gpus=tuple(map(_without_serial, topology.gpus)))


def _without_serial(gpu: Gpu) -> Gpu:
    return replace(gpu, uuid=_hashed(gpu.uuid), serial=_hashed(gpu.serial))


def _hashed(value: str | Unread) -> str | Unread:
    if isinstance(value, Unread) or value.startswith(_HASHED):
        return value
    return _HASHED + sha256(value.encode()).hexdigest()[:16]


def snapshot_text(snapshot: Snapshot) -> str:
    """The file, indented for a person and a diff."""
    return TypeAdapter(Snapshot).dump_json(snapshot, indent=1).decode() + "\n"


def looks_like_snapshot(text: str) -> bool:
    """True for what ``snapshot_text`` writes."""
    return _MARK in text[:4096] and text.lstrip().startswith("{")


def read_snapshot(text: str, *, source: str) -> NodeTopology:
    """The node in a snapshot; ``source`` of the node becomes this file.

    Raises:
        TopologyError: it is not JSON, was cut, is of another schema or not what this gpuwire wrote; says which.
    """
    document = _document(text, source=source)
    schema = document.get(_MARK) if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise TopologyError(f"{source}:1: a snapshot of schema {schema!r}; this gpuwire reads {SCHEMA}: take it anew")
    try:
        node = topology_of(document.get("topology"))
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"])) or "topology"
        raise TopologyError(f"{source}:1: {where}: {first['msg']}; take the snapshot anew") from problem
    if fault := _fault(node):
        raise TopologyError(f"{source}:1: {fault}; take the snapshot anew")
    return replace(node, source=source)


def _document(text: str, *, source: str) -> Any:
    if text.count(",") > MAX_VALUES:
        raise TopologyError(f"{source}:1: more than {MAX_VALUES} values, so no snapshot of a node; take it anew")
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_constant=_finite, parse_float=_finite, parse_int=_integer
        )
    except json.JSONDecodeError as problem:
        raise TopologyError(
            f"{source}:{problem.lineno}: a snapshot that was cut, or is no JSON: {problem.msg}; take it anew"
        ) from problem
    except ValueError as problem:
        raise TopologyError(f"{source}:1: no snapshot as it was written: {problem}; take it anew") from problem
    except RecursionError as problem:
        raise TopologyError(f"{source}:1: nested too deeply to be a snapshot; take it anew") from problem


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, each key once: JSON readers differ on which of two counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} is stated twice in one object")
    return found


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word[:20]} is no number that was measured")
    return number


def _integer(word: str) -> int:
    if len(word) > _DIGITS:
        raise ValueError(f"a number of {len(word)} digits")
    return int(word)


def _fault(node: NodeTopology) -> str | None:
    """Why a node is none that was read from hardware: larger than any, or a device twice."""
    for name, most in MOST.items():
        if (count := len(getattr(node, name))) > most:
            return f"{count} {name}, and no node has more than {most}"
    for gpu in node.gpus:
        if len(gpu.links) > MAX_LINKS:
            return f"{gpu.name} has {len(gpu.links)} links, and no GPU has more than {MAX_LINKS}"
    if odd := next((path for path in node.paths if len(path.path) > _PATH), None):
        return f"the path {odd.a}-{odd.b} is {odd.path[:_PATH]!r}..."
    names = [gpu.name for gpu in node.gpus] + [nic.name for nic in node.nics]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        return f"{twice[0]} is listed twice"
    return None


def topology_of(data: Any) -> NodeTopology:
    """A node from its JSON form, the three words for what was not read turned back into what they stand for.

    Raises:
        ValidationError: it is not a node's.
    """
    node: NodeTopology = TypeAdapter(NodeTopology).validate_python(with_unread(data))
    return node


def with_unread(data: Any) -> Any:
    """JSON data with the words for what was not read as :class:`Unread`: pydantic would keep a plain str."""
    if isinstance(data, str):
        return _UNREAD.get(data, data)
    if isinstance(data, list):
        return tuple(map(with_unread, data))
    if isinstance(data, dict):
        return {key: with_unread(value) for key, value in data.items()}
    return data
