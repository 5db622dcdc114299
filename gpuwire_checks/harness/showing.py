"""``gpuwire topology`` and ``gpuwire snapshot``: a node's wiring as text, as JSON, or as one file to keep."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

from gpuwire_checks import __version__
from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.describe import describe
from gpuwire_checks.topology.discover import discover
from gpuwire_checks.topology.drawing import drawing
from gpuwire_checks.topology.fingerprint import fingerprint
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.topology.snapshot import Snapshot, allowed_environment, snapshot_text, without_serials


def topology_lines(source: Path | None, *, as_json: bool) -> list[str]:
    """This node's wiring, or that of a recorded file or folder: a drawing, then a line a fact.

    Raises:
        TopologyError: what is recorded cannot be read.
    """
    topology = observed(source)
    if as_json:
        from pydantic import TypeAdapter  # noqa: PLC0415

        return [TypeAdapter(NodeTopology).dump_json(without_serials(topology), indent=2).decode()]
    lines = [*drawing(topology), *describe(topology)]
    if source is None or topology.software.kernel:
        known = fingerprint(topology)
        lines.append(f"fingerprint: {known.sku} ({known.exact})")
    return lines


def route_line(source: Path | None, a: str, b: str) -> str:
    """The named parts between two devices: ``GPU0 -> switch 0000:17:00.0 -> mlx5_0``.

    Raises:
        TopologyError: no such device, or nothing is known of the way between them.
    """
    from gpuwire_checks.topology.routes import route  # noqa: PLC0415 - networkx takes its time

    topology = observed(source)
    known = [*(gpu.name for gpu in topology.gpus), *(nic.name for nic in topology.nics)]
    for name in (a, b):
        if name not in known:
            raise TopologyError(f"--route: no device {name!r} here; known: {', '.join(known) or 'none'}")
    parts = route(topology, a, b)
    if not parts:
        raise TopologyError(f"--route: nothing is known of the way from {a} to {b}; the bus or the links were not read")
    return " -> ".join(parts)


def observed(source: Path | None) -> NodeTopology:
    """This node, or the one that was recorded.

    Raises:
        TopologyError: what is recorded cannot be read.
    """
    if source is None:
        return discover()
    from gpuwire_checks.topology.formats import read_recorded  # noqa: PLC0415 - its readers are needed by no live node

    return read_recorded(source)


def take_snapshot(source: Path | None, *, with_serials: bool) -> str:
    """Everything known of this node, or of a recorded one, as the text of a snapshot.

    Raises:
        TopologyError: what is recorded cannot be read.
    """
    topology = observed(source)
    return snapshot_text(
        Snapshot(
            gpuwire=__version__,
            taken_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            topology=topology if with_serials else without_serials(topology),
            environment=allowed_environment(os.environ) if source is None else {},
        )
    )


def write_snapshot(path: Path, text: str) -> None:
    """Keep a snapshot.

    Raises:
        TopologyError: the file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"cannot write {path}: {error.strerror}; give another file with --output") from error
