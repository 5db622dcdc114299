"""Hooks by which a site adds what only it knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gpuwire_checks.harness.trial import Measures
    from gpuwire_checks.harness.watching import Watcher
    from gpuwire_checks.measure.launch.local import PoolSpec
    from gpuwire_checks.topology.model import NodeTopology


@pytest.hookspec(firstresult=True)
def pytest_gpuwire_topology(config: pytest.Config) -> NodeTopology | None:
    """The node's topology, where a site knows better than discovery. None leaves it to discovery."""


@pytest.hookspec
def pytest_gpuwire_labels(config: pytest.Config) -> Mapping[str, str] | None:
    """Labels for the run document, such as rack, asset number or pipeline."""


@pytest.hookspec(firstresult=True)
def pytest_gpuwire_ranks(config: pytest.Config, spec: PoolSpec, folder: Path) -> Measures | None:
    """What measures cases on this node. None starts ranks on this machine."""


@pytest.hookspec(firstresult=True)
def pytest_gpuwire_watcher(config: pytest.Config) -> Watcher | None:
    """What reads counters and PCIe links while cases are measured. None reads those of this machine."""
