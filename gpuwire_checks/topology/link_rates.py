"""What one link carries, from what drivers print of it."""

from __future__ import annotations

from gpuwire_checks.topology.model import Pcie, Unread

_RAW_TO_PAYLOAD = {25.78125: 25.0, 26.5625: 25.0, 53.125: 50.0}
"""GB/s in one direction. Some drivers print the line rate before coding, others what is left of it.

Source: NVIDIA A100, H100 and B200 data sheets (300, 450 and 900 GB/s a direction over 12, 18 and 18 links).
"""
_TOLERANCE = 1e-3
_LANE = {1: 0.25e9, 2: 0.5e9, 3: 8e9 / 8 * 128 / 130, 4: 16e9 / 8 * 128 / 130, 5: 32e9 / 8 * 128 / 130, 6: 7.5625e9}
"""Bytes per second of a lane in one direction by generation, after coding: 8 of 10 bits, 128 of 130, 242 of 256 bytes.

Source: PCI Express Base Specification, revision 6.
"""


def payload_bytes(printed: float) -> float:
    """Payload bytes per second of a link, from the GB/s that nvidia-smi prints (26.562, 25, 14.062).

    A rate that is no line rate on record stays as it is.
    """
    for raw, payload in _RAW_TO_PAYLOAD.items():
        if abs(printed - raw) <= _TOLERANCE * raw:
            return payload * 1e9
    return printed * 1e9


def pcie_bytes(pcie: Pcie) -> float | None:
    """Bytes per second that a PCIe link carries in one direction, after coding; None where it is not told.

    By the generation at most, as it drops when a device idles, and by the width now, which does not.
    """
    width = pcie.max_width if isinstance(pcie.width, Unread) else pcie.width
    if isinstance(width, Unread) or isinstance(pcie.max_generation, Unread) or pcie.max_generation not in _LANE:
        return None
    return width * _LANE[pcie.max_generation]
