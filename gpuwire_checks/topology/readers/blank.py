"""A node and a GPU of which nothing is known yet, for readers that learn a part of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuwire_checks.topology.model import Gpu, NodeTopology, Software, Unread

_NODE = NodeTopology(
    source="",
    hostname=Unread.UNKNOWN,
    cpu=Unread.UNKNOWN,
    memory_bytes=Unread.UNKNOWN,
    numa=(),
    virtualised=Unread.UNKNOWN,
    nics=(),
    gpus=(),
    paths=(),
    software=Software(
        kernel=Unread.UNKNOWN,
        python=Unread.UNKNOWN,
        torch=Unread.UNKNOWN,
        driver=Unread.UNKNOWN,
        cuda=Unread.UNKNOWN,
        nccl=Unread.UNKNOWN,
        rocm=Unread.UNKNOWN,
    ),
)
_GPU = Gpu(
    index=0,
    vendor="unknown",
    model=Unread.UNKNOWN,
    memory_bytes=Unread.UNKNOWN,
    pci_address=Unread.UNKNOWN,
    pcie_generation=Unread.UNKNOWN,
    pcie_width=Unread.UNKNOWN,
    max_pcie_generation=Unread.UNKNOWN,
    max_pcie_width=Unread.UNKNOWN,
    numa_node=Unread.UNKNOWN,
    cpu_affinity=Unread.UNKNOWN,
)


def blank_node(source: str, **fields: Any) -> NodeTopology:
    """A node with the fields of ``NodeTopology`` that are given; lists are empty, all else is unknown."""
    return replace(_NODE, source=source, **fields)


def blank_gpu(index: int, **fields: Any) -> Gpu:
    """A GPU with the fields of ``Gpu`` that are given; all else is unknown, its vendor too."""
    return replace(_GPU, index=index, **fields)
