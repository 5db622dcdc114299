"""What one link carries, from what drivers print of it."""

from __future__ import annotations

_RAW_TO_PAYLOAD = {25.78125: 25.0, 26.5625: 25.0, 53.125: 50.0}
"""GB/s in one direction. Some drivers print the line rate before coding, others what is left of it.

Source: NVIDIA A100, H100 and B200 data sheets (300, 450 and 900 GB/s a direction over 12, 18 and 18 links).
"""
_TOLERANCE = 1e-3


def payload_bytes(printed: float) -> float:
    """Payload bytes per second of a link, from the GB/s that nvidia-smi prints (26.562, 25, 14.062).

    A rate that is no line rate on record stays as it is.
    """
    for raw, payload in _RAW_TO_PAYLOAD.items():
        if abs(printed - raw) <= _TOLERANCE * raw:
            return payload * 1e9
    return printed * 1e9
