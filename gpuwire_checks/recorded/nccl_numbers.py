"""Numbers as nccl-tests prints them: with the width of their rounding, and in the form that printf gives them."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,9}))?(?:e([+-][0-9]{2}))?")
_COUNT = re.compile(r"[0-9]{1,18}|[0-9](?:\.[0-9]{1,5})?e\+[0-9]{2}")
_LARGEST_ERROR = re.compile(r"[0-9](?:\.[0-9]+)?e[+-][0-9]{2,3}|-?nan|inf|0|0\.0+")
NOT_CHECKED = "N/A"

TYPE_BYTES = {
    **dict.fromkeys(("int8", "uint8", "char", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16"), 2),
    **dict.fromkeys(("int", "int32", "uint32", "float"), 4),
    **dict.fromkeys(("int64", "uint64", "double"), 8),
}
"""Bytes of one element, by nccl-tests' word (``test_typenames`` in src/common.cu, and rccl-tests' own)."""


class Printed(NamedTuple):
    """A printed number: the true one is within ``half`` of ``value``.

    Attributes:
        decimals: printed after the point; -1 for scientific notation.
    """

    value: float
    half: float
    decimals: int

    @property
    def least(self) -> float:
        return max(self.value - self.half, 0.0)

    @property
    def most(self) -> float:
        return self.value + self.half


def printed(field: str) -> Printed | None:
    """The number in a field, None where there is none that is finite and not negative."""
    match = _NUMBER.fullmatch(field)
    if match is None:
        return None
    decimals = len(match[2] or "")
    exponent = int(match[3] or 0)
    return Printed(float(field), 0.5 * 10.0 ** (exponent - decimals), -1 if match[3] else decimals)


def has_time_form(number: Printed, *, milliseconds: bool) -> bool:
    """True when printf could have given this time.

    ``%7.3f`` for milliseconds; for microseconds ``%7.2f`` below 100, ``%7.1f`` below 10000 and ``%7.0f`` above, since
    2025 as many of two decimals as fit in 7 characters (``BenchTime`` and ``getFloatStr`` in nccl-tests).
    """
    if milliseconds:
        return number.decimals == 3
    value = number.value
    return {
        0: value >= 10_000,
        1: 100 <= value < 100_000,
        2: value < 10_000,
        -1: value >= 1e6,
    }.get(number.decimals, False)


def has_rate_form(number: Printed) -> bool:
    """True when printf could have given this bandwidth: ``%6.2f``, since 2025 no wider than 6 characters."""
    value = number.value
    return {0: value >= 9_999, 1: 999 <= value < 10_000, 2: True, -1: value >= 9e5}.get(number.decimals, False)


def is_error_field(field: str) -> bool:
    """True for what stands in the last field of a measurement: a count, a largest error, or ``N/A``."""
    return field == NOT_CHECKED or bool(_COUNT.fullmatch(field) or _LARGEST_ERROR.fullmatch(field))


def count_of(field: str) -> int | None:
    """The number of elements in a field; ``%g`` rounds it to six digits from a million on. None for anything else."""
    return int(float(field)) if _COUNT.fullmatch(field) else None


def is_plain_count(field: str) -> bool:
    """True for a whole number without an exponent, which a largest error never is."""
    return field.isascii() and field.isdigit()
