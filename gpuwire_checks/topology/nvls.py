"""NVLS: NVSwitches of Hopper and later reduce and multicast by themselves, so that all_reduce may exceed the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuwire_checks.topology.model import Gpu, Link, NodeTopology, Unread
from gpuwire_checks.topology.wires import is_switched

_FIRST_LINK = 4
"""The NVLink version of the first switch that reduces: NVLink4 of Hopper (NVIDIA/nccl src/transport/nvls.cc asks the
driver for multicast, which begins with compute capability 9.0)."""
_MODELS = re.compile(r"\b(?:G?H(?:20|100|200|800)|G?B(?:100|200|300))\b")
_FEWEST = 3
"""NCCL leaves it out for two GPUs (ncclNvlsInit: ``gpuCount <= 2``)."""


def may_reduce_in_switch(topology: NodeTopology, *, world_size: int) -> bool:
    """Whether NVLS cannot be ruled out: a switch joins the GPUs, and nothing says that they are older than Hopper."""
    if world_size < _FEWEST or not _has_switch(topology):
        return False
    return not any(_is_new(gpu) is False for gpu in topology.gpus)


def uses_nvls(topology: NodeTopology, environment: Mapping[str, str]) -> bool | None:
    """Whether NCCL has NVLS here by default; None where that is not told.

    Args:
        environment: of the ranks; ``NCCL_NVLS_ENABLE=0`` turns it off, ``NCCL_ALGO`` takes the choice from NCCL.
    """
    if environment.get("NCCL_NVLS_ENABLE") == "0" or len(topology.gpus) < _FEWEST or not _has_switch(topology):
        return False
    new = [_is_new(gpu) for gpu in topology.gpus]
    if False in new:
        return False
    return None if None in new or "NCCL_ALGO" in environment else True


def _has_switch(topology: NodeTopology) -> bool:
    ends = {link.remote for gpu in topology.gpus for link in _links(gpu) if link.up is not False}
    return "NVSwitch" in ends or is_switched(topology)


def _is_new(gpu: Gpu) -> bool | None:
    """Whether a GPU is of Hopper or later; None where neither its links nor its model tell."""
    versions = [link.version for link in _links(gpu) if not isinstance(link.version, Unread)]
    if versions:
        return max(versions) >= _FIRST_LINK
    if gpu.vendor != "nvidia" or isinstance(gpu.model, Unread):
        return None if gpu.vendor != "amd" else False
    return bool(_MODELS.search(gpu.model)) or None


def _links(gpu: Gpu) -> tuple[Link, ...]:
    return () if isinstance(gpu.links, Unread) else gpu.links
