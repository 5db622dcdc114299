"""Where a run leaves what it made, and what its document begins with."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from gpuwire_checks import __version__
from gpuwire_checks.errors import ConfigError
from gpuwire_checks.harness.node import Node
from gpuwire_checks.report.document import BaselineHead, RunHead, allowed_environment


def new_run_folder(parent: Path) -> Path:
    """A new folder for a run, named by its time and host.

    Raises:
        ConfigError: it cannot be made.
    """
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    folder = parent / f"{stamp}-{socket.gethostname()}-{secrets.token_hex(2)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make the run folder {folder}: {error.strerror}; choose another place with --gpuwire-run-dir"
        ) from error
    return folder


def run_head(node: Node, *, planned: int, labels: Mapping[str, str], run_id: str) -> RunHead:
    """What a run document begins with."""
    baseline = node.match.baseline
    return RunHead(
        gpuwire=__version__,
        run_id=run_id,
        started_at=now(),
        command=tuple(sys.argv),
        options=dict(node.settings.given),
        labels=dict(labels),
        fault=str(node.fault) if node.fault else None,
        host=socket.gethostname(),
        topology=node.topology,
        fingerprint={"sku": node.fingerprint.sku, "exact": node.fingerprint.exact},
        baseline=BaselineHead(
            name=baseline.name,
            path=str(baseline.path),
            recorded_at=baseline.recorded_at.isoformat(),
            exact=node.match.exact,
        )
        if baseline
        else None,
        planned=planned,
        predicted_seconds=node.plan.predicted_seconds,
        environment=allowed_environment(os.environ),
    )


def now() -> str:
    """This moment in UTC, as ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
