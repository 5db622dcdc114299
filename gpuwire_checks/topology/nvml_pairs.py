"""Pairs of GPUs through NVML: the PCIe path class between two, and whether one may reach the other's memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from gpuwire_checks.topology.asking import Device
from gpuwire_checks.topology.model import PeerAccess, Unread

_PATHS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t; 0 is two GPUs of one board."""
_CAPABILITIES = {"read": 0, "write": 1}
"""NVML_P2P_CAPS_INDEX_READ and _WRITE, as numbers: in nvidia-ml-py 13.615.71 the first is a tuple by mistake."""
_STATUSES = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
"""nvmlGpuP2PStatus_t in the words of ``nvidia-smi topo -p2p``."""


def ancestor(a: Device, b: Device) -> str | None:
    """The PCIe path class of two GPUs, None when it cannot be read."""
    what = f"path to {b.name}"
    level = _ask(a, b, what, "nvmlDeviceGetTopologyCommonAncestor")
    if isinstance(level, Unread):
        if level is not Unread.UNKNOWN:
            a.refuse(what, level.value)
        return None
    if level not in _PATHS:
        a.refuse(what, f"common ancestor {level} is no known path class")
    return _PATHS.get(level)


def peers(devices: Sequence[Device]) -> tuple[PeerAccess, ...]:
    """Each ordered pair, for reading and for writing; ``U`` where the driver does not tell."""
    return tuple(
        PeerAccess(a=a.name, b=b.name, capability=capability, status=_status(a, b, index))
        for capability, index in _CAPABILITIES.items()
        for a, b in permutations(devices, 2)
    )


def _status(a: Device, b: Device, index: int) -> str:
    status = _ask(a, b, "peer access", "nvmlDeviceGetP2PStatus", index)
    if status is Unread.NO_PERMISSION:
        a.refuse("peer access", status.value)
    if isinstance(status, Unread):
        return "U"
    if status not in _STATUSES:
        a.refuse("peer access", f"status {status} is none on record")
    return _STATUSES.get(status, "U")


def _ask(a: Device, b: Device, what: str, function: str, *args: object) -> int | Unread:
    if isinstance(a.handle, Unread) or isinstance(b.handle, Unread):
        return Unread.UNKNOWN
    answer: int | Unread = a.asker.ask_pair(a.number, b.number, what, function, a.handle, b.handle, *args)
    return answer
