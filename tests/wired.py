"""A node of eight GPUs with everything that the wiring suite looks at, healthy or with one fault."""

from __future__ import annotations

from dataclasses import replace

from faulty import FAULTS, links_of, with_gpu
from reference_nodes import node_of

from gpuwire_checks.baseline.wiring import ExpectedFabric, ExpectedLinks, ExpectedPcie, Wiring
from gpuwire_checks.topology.model import NodeTopology, Unread

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


def without_links() -> NodeTopology:
    """Every link of every GPU is down, as with a fabric that did not start."""
    node = hgx_node()
    gpus = tuple(
        replace(gpu, links=tuple(replace(link, up=False, speed_bytes=0.0) for link in links_of(gpu)))
        for gpu in node.gpus
    )
    paths = tuple(replace(pair, path="NODE") if pair.links else pair for pair in node.paths)
    return replace(node, gpus=gpus, paths=paths)


def silent_gpu() -> NodeTopology:
    """GPU2 is listed, and its driver tells nothing of it."""
    return with_gpu(2, model=Unread.UNKNOWN, links=Unread.UNKNOWN, numa_node=Unread.UNKNOWN)(hgx_node())
