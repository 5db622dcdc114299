"""What the last run on this node found installed: a change since then is told before any figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.wiring.software import NAMES

_HEAD_END = ',\n"results":['
_MOST_HEAD = 4 << 20
"""Characters. The head of a run on the largest node has under half a million."""


def software_changes(run_dir: Path, topology: NodeTopology, *, host: str, but: Path) -> list[str]:
    """``driver 570.86 -> 575.51``, for each version that the newest other run of this host did not have.

    Args:
        but: the folder of the run that asks.
    """
    last = _newest_head(run_dir, host=host, but=but)
    if last is None:
        return []
    was = last["topology"]["software"]
    now = {name: getattr(topology.software, name) for name in NAMES}
    return [
        f"{name} {was.get(name)} -> {version}"
        for name, version in now.items()
        if version is not None
        and was.get(name) is not None
        and str(was[name]) != str(getattr(version, "value", version))
    ]


def _newest_head(run_dir: Path, *, host: str, but: Path) -> dict[str, Any] | None:
    """The head of the newest run document of this host; None when there is none that can be read."""
    folders = sorted(
        (f for f in run_dir.glob("*/run.json") if f.parent != but), key=lambda f: f.parent.name, reverse=True
    )
    for file in folders:
        head = _head(file)
        if head is not None and head.get("host") == host:
            return head
    return None


def _head(file: Path) -> dict[str, Any] | None:
    try:
        with file.open(encoding="utf-8", errors="replace") as document:
            text = document.read(_MOST_HEAD)
        head = json.loads(text.partition(_HEAD_END)[0] + "}")["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # another run's file, cut or of another version: it tells nothing of a change
    known = isinstance(head, dict) and isinstance(head.get("topology", {}).get("software"), dict)
    return head if known else None
