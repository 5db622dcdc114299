"""A node of eight GPUs with everything that the wiring suite looks at, healthy or with one fault."""

from __future__ import annotations

from faulty import FAULTS
from reference_nodes import node_of

from gpuwire_checks.baseline.wiring import ExpectedFabric, ExpectedLinks, ExpectedPcie, Wiring
from gpuwire_checks.topology.model import NodeTopology

HGX = Wiring(
    gpus=8,
    model="NVIDIA H100 80GB HBM3",
    links=ExpectedLinks(kind="nvlink", per_gpu=18, speed=25e9, version=4),
    pairs={"NV18": "all"},
    peers={"OK": "all"},
    pcie=ExpectedPcie(generation=5, width=16),
    ecc="enabled",
    fabric=ExpectedFabric(state="Completed", status="Success"),
)


def hgx_node() -> NodeTopology:
    return node_of(HGX, "h100-80gb-hbm3-8x-nv18")


def broken(fault: str) -> NodeTopology:
    """The same node with one of the faults of ``faulty.FAULTS``."""
    return FAULTS[fault].breaks(hgx_node())
