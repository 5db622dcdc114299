"""A node's SKU: what it should be, in a name that a person can read and a file can have."""

from __future__ import annotations

import re
from collections import Counter

from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.topology.wires import NEAR_TO_FAR, gpu_pairs, joined

_CPU_NOISE = re.compile(r"\((r|tm)\)|\bcpu\b|@.*|\b\d+-core\b|\bprocessor\b")
_GPU_NOISE = re.compile(r"\b(nvidia|amd|geforce|tesla|instinct)\b")
_NEARLY_ALL = 0.6
"""Share of GPU pairs with at least half the links of the widest, from which on the NVLinks join every pair.

1 where they do, 0.83 when one pair of four GPUs lost its only link, 0.75 when one of eight GPUs lost every link; but
0.57 in the V100 cube mesh and 0.33 with bridges over four GPUs.
"""


def sku(topology: NodeTopology) -> str:
    """``h100-80gb-hbm3-8x-nv18``, ``l40s-4x-pcie``, ``cpu-amd-epyc-7742-128c``.

    From model, number and kind of interconnect, so that a node that lost a link still finds its baseline.
    """
    if not topology.gpus:
        return _cpu_sku(topology)
    known = Counter(gpu.model for gpu in topology.gpus if not isinstance(gpu.model, Unread))
    count = len(topology.gpus)
    if len(known) > 1:
        known[Unread.UNKNOWN.value] = count - known.total()
        parts = [f"{_slug(model, _GPU_NOISE)}-{known[model]}x" for model in sorted(known) if known[model]]
    else:
        # GPUs whose model cannot be read are taken for the model of the others: a lost GPU is no other SKU.
        parts = [f"{_slug(next(iter(known), 'gpu'), _GPU_NOISE)}-{count}x"]
    return "-".join([*parts, *filter(None, [_interconnect(topology)])])


def _interconnect(topology: NodeTopology) -> str | None:
    """``nv18``, ``nvmesh``, ``nvbridge``, ``nvlink`` or ``pcie``: what one lost link does not change.

    So a link count only where other pairs still show it: not for two GPUs, nor for bridges between some.
    """
    pairs = gpu_pairs(topology)
    if not pairs or any(not pair.nvlinks and pair.path not in NEAR_TO_FAR for pair in pairs):
        return None
    most = max(pair.nvlinks for pair in pairs)
    if not most:
        return "pcie"
    if len(topology.gpus) == 2:
        return "nvlink"
    if sum(2 * pair.nvlinks >= most for pair in pairs) >= _NEARLY_ALL * len(pairs):
        return f"nv{most}"
    groups = joined([pair for pair in pairs if pair.nvlinks], topology)
    return "nvbridge" if all(len(group) == 2 for group in groups) else "nvmesh"


def _cpu_sku(topology: NodeTopology) -> str:
    """``cpu-amd-epyc-7742-128c``: the model and all physical cores, or threads (``t``) where cores are unknown."""
    cpu = topology.cpu
    if isinstance(cpu, Unread):
        return "cpu-unknown"
    size = f"{cpu.threads}t" if isinstance(cpu.cores, Unread) else f"{cpu.cores}c"
    return f"cpu-{_slug(cpu.model, _CPU_NOISE)}-{size}"


def _slug(model: str, noise: re.Pattern[str]) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", noise.sub(" ", model.lower()))) or Unread.UNKNOWN.value
