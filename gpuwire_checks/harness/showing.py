"""``gpuwire topology``: a node's wiring as text or JSON."""

from __future__ import annotations

from pathlib import Path

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.textfile import read_text
from gpuwire_checks.topology.describe import describe
from gpuwire_checks.topology.discover import discover
from gpuwire_checks.topology.fingerprint import fingerprint
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.topology.readers.topo_matrix import read_topo_matrix

MAX_FILE_BYTES = 1 << 20
"""`nvidia-smi topo -m` prints a few kilobytes."""


def topology_lines(source: Path | None, *, as_json: bool) -> list[str]:
    """This node's wiring, or that of a file with ``nvidia-smi topo -m`` output.

    Raises:
        TopologyError: the file cannot be read, or is not such output.
    """
    topology = (
        discover()
        if source is None
        else read_topo_matrix(read_text(source, max_bytes=MAX_FILE_BYTES, error=TopologyError), source=str(source))
    )
    if as_json:
        from pydantic import TypeAdapter  # noqa: PLC0415

        return [TypeAdapter(NodeTopology).dump_json(topology, indent=2).decode()]
    lines = describe(topology)
    if source is None:
        known = fingerprint(topology)
        lines.append(f"fingerprint: {known.sku} ({known.exact})")
    return lines
