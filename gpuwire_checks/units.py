"""Sizes, durations and rates as people write them.

Sizes are binary (1 KiB = 1024 bytes); rates are decimal (1 GB/s = 1e9 bytes a second).
"""

from __future__ import annotations

import math
import re

_SIZE_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*([A-Za-z]*)")
_DURATION_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(\S+)")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)([smh])")


def parse_size(text: str | int) -> int:
    """Bytes meant by ``64MiB``, ``512B`` or a plain integer.

    Raises:
        ValueError: not a size. ``8G`` is refused: nccl-tests means 8 GiB by it and a disk vendor 8e9 bytes, and a
            bound written so would match neither by accident.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _SIZE.fullmatch(str(text).strip())
    if match is None or (match[2] and match[2] not in _SIZE_UNITS):
        raise ValueError(f"{text!r} is not a size; write bytes or a binary unit, such as 65536, 64KiB, 16MiB or 8GiB")
    return int(match[1]) * _SIZE_UNITS[match[2] or "B"]


def format_size(size_bytes: int) -> str:
    """``67108864`` as ``64MiB``: the largest binary unit that divides it, so nothing is rounded away."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % _SIZE_UNITS[unit] == 0:
            return f"{size_bytes // _SIZE_UNITS[unit]}{unit}"
    return f"{size_bytes}B"


def parse_duration(text: str) -> float:
    """Seconds meant by ``90s``, ``10m``, ``1h30m`` or a plain number of seconds.

    Raises:
        ValueError: not a positive duration.
    """
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        seconds = float(text)
    elif text and not _DURATION_PART.sub("", text):
        seconds = sum(float(number) * _DURATION_UNITS[unit] for number, unit in _DURATION_PART.findall(text))
    else:
        raise ValueError(f"{text!r} is not a duration; write seconds or units, such as 90, 45s, 10m or 1h30m")
    if seconds <= 0:
        raise ValueError(f"{text!r} is not a positive duration")
    return seconds


def parse_byte_rate(text: str | float) -> float:
    """Bytes per second meant by ``25 GB/s``; a plain number is bytes per second.

    Raises:
        ValueError: no such rate.
    """
    return _rate(text, "GB/s")


def parse_bit_rate(text: str | float) -> float:
    """Bits per second meant by ``400 Gbit/s``; a plain number is bits per second.

    Raises:
        ValueError: no such rate.
    """
    return _rate(text, "Gbit/s")


def _rate(text: str | float, unit: str) -> float:
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    match = _RATE.fullmatch(str(text).strip())
    if match is None or match[2] != unit:
        raise ValueError(f"{text!r} is not a rate; write it in {unit}, such as 25 {unit}")
    return float(match[1]) * 1e9


def format_rate(per_second: float, unit: str) -> str:
    """A rate as it is read: 25e9 with ``GB/s`` is ``25 GB/s``."""
    return f"{per_second / 1e9:g} {unit}"


def format_seconds(seconds: float) -> str:
    """Seconds in the unit a person would say, three significant digits: ``412 us``, ``21.3 ms``, ``1.57 s``."""
    if seconds < 1e-3:
        return f"{_three_digits(seconds * 1e6)} us"
    if seconds < 1:
        return f"{_three_digits(seconds * 1e3)} ms"
    return f"{_three_digits(seconds)} s"


def format_value(value: float, unit: str) -> str:
    """A figure with its unit, three significant digits and never scientific notation: ``372 GB/s``."""
    return f"{_three_digits(value)} {unit}"


def _three_digits(value: float) -> str:
    if value == 0:
        return "0"
    # Rounded first: 99.96 has three digits as 100, not as 100.0.
    rounded = float(f"{value:.3g}")
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{value:.{decimals}f}"
