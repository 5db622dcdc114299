"""What a run document begins with."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from datetime import datetime, timezone

from gpuwire_checks import __version__
from gpuwire_checks.harness.node import Node
from gpuwire_checks.measure.faults import FAULT_VARIABLE
from gpuwire_checks.report.document import BaselineHead, RunHead
from gpuwire_checks.topology.model import Unread
from gpuwire_checks.topology.snapshot import allowed_environment, without_serials


def run_head(node: Node, *, planned: int, predicted_seconds: float, labels: Mapping[str, str], run_id: str) -> RunHead:
    """What a run document begins with."""
    baseline = node.match.baseline
    return RunHead(
        gpuwire=__version__,
        run_id=run_id,
        started_at=now(),
        command=tuple(sys.argv),
        options=dict(node.settings.given),
        labels=dict(labels),
        fault=os.environ.get(FAULT_VARIABLE),
        host=_host(node),
        topology=without_serials(node.topology),
        fingerprint={"sku": node.fingerprint.sku, "exact": node.fingerprint.exact},
        baseline=BaselineHead(
            name=baseline.name,
            path=str(baseline.path),
            recorded_at=baseline.recorded.at.isoformat() if baseline.recorded else None,
            exact=node.match.exact,
        )
        if baseline
        else None,
        planned=planned,
        predicted_seconds=predicted_seconds,
        environment=allowed_environment(os.environ),
    )


def _host(node: Node) -> str:
    """This host, or the one that a recorded node is of."""
    recorded = node.topology.hostname
    return recorded if node.settings.source and not isinstance(recorded, Unread) else socket.gethostname()


def now() -> str:
    """This moment in UTC, as ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
