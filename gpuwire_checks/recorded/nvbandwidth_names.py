"""What the names, titles, sizes and errors of nvbandwidth's tests say, in text and in JSON alike.

Source: NVIDIA/nvbandwidth testcases_ce.cpp, testcases_sm.cpp and error_handling.h, versions 0.2 to 0.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from gpuwire_checks.recorded.model import Failure, PairMatrix
from gpuwire_checks.topology.model import Doubt, Unread

_UNITS: tuple[Literal["GB/s", "us", "ns"], ...] = ("GB/s", "us", "ns")
_LOST = re.compile(r"GPU is lost|fallen off the bus|CUDA_ERROR_DEVICE_UNAVAILABLE", re.IGNORECASE)
_WHERE = re.compile(r"[\w./-]{1,200}\.(?:cpp|cuh?|h):[0-9]{1,6}")


def unit_of(title: str) -> Literal["GB/s", "us", "ns"] | None:
    """The unit in parentheses at the end of a title; None where it is no unit of these tools."""
    return next((unit for unit in _UNITS if title.endswith(f"({unit})")), None)


def title_name(title: str) -> str:
    """The title without its unit, for a matrix whose test is not named."""
    return re.sub(r"( bandwidth)? \([^()]{1,8}\)$", "", " ".join(title.split()))[:100]


def direction_name(test: str, title: str) -> str:
    """The name of one of the matrices of a test in two directions: ``..._read1``, ``..._read2``, ``..._total``."""
    part = re.search(r"\) (?:Read|Write)?(1|2|Total)\b", title)
    if not test or part is None:
        return test
    word = "write" if "_write" in test else "read"
    return f"{test}_total" if part[1] == "Total" else f"{test}_{word}{part[1]}"


def between_devices(test: str, title: str, *, first_row: Sequence[float | Unread] | None, rows: int) -> bool:
    """Whether rows and columns are devices, so that the diagonal is no pair.

    The names of the tests tell; without one, a title with rows and columns of GPUs is that of a test with one row too
    (``all_to_one``), whose first cell is a figure.
    """
    if re.fullmatch(r"[a-z0-9_]+", test):
        return "device_to_device" in test
    of_gpus = ("GPU(row)" in title and "GPU(column)" in title) or title.startswith("Device to Device")
    blank = first_row is not None and (isinstance(first_row[0], Unread) or first_row[0] == 0)
    return of_gpus and (rows > 1 or blank)


def size_doubts(matrix: PairMatrix, devices: int) -> Iterator[Doubt]:
    """Sizes that contradict the list of devices or the test."""
    columns = len(matrix.columns)
    if devices and columns != devices and not (columns == 1 and "multicast" in matrix.test):
        listed = f"{devices} device{' is' if devices == 1 else 's are'} listed"
        yield Doubt(line=matrix.line, text=f"{matrix.test}: {columns} columns, and {listed}")
    if not matrix.local and len(matrix.rows) > 1:
        yield Doubt(line=matrix.line, text=f"{matrix.test}: {len(matrix.rows)} rows, and the tool prints one")


def cuda_version(printed: str) -> str:
    """``12040`` as 12.4: 1000 times the major and 10 times the minor version (cuda.h)."""
    if not re.fullmatch(r"[0-9]{4,6}", printed):
        return printed
    return f"{int(printed) // 1000}.{int(printed) % 1000 // 10}"


def failure_of(line: int | None, text: str) -> Failure:
    """An error that the tool prints."""
    where = _WHERE.search(text)
    return Failure(
        line=line or 1,
        kind="lost" if _LOST.search(text) else "library",
        text=text.strip()[:300],
        where=where[0] if where else Unread.UNKNOWN,
    )
