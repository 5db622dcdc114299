"""Single values out of /proc and /sys, live or recorded. What cannot be read comes back as the reason."""

from __future__ import annotations

import re
from pathlib import Path

from gpuwire_checks.topology.expand import expand_ranges
from gpuwire_checks.topology.model import Unread

_PCI = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NUMBER = re.compile(r"-?\d+")


def read_text(path: Path) -> str | Unread:
    """A file's text without the blanks around it.

    A file that is not there is *unknown*, and so is one that the kernel refuses to fill: ``speed`` of an interface
    that is down fails with EINVAL (Documentation/ABI/testing/sysfs-class-net).
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except PermissionError:
        return Unread.NO_PERMISSION
    except OSError:
        return Unread.UNKNOWN


def read_number(path: Path) -> int | Unread:
    """A file's integer; any other text is *unknown*."""
    text = read_text(path)
    if isinstance(text, Unread):
        return text
    return int(text) if _NUMBER.fullmatch(text) else Unread.UNKNOWN


def read_list(path: Path) -> tuple[int, ...] | Unread:
    """A file's list of numbers (``0-3,8``); any other text is *unknown*."""
    text = read_text(path)
    if isinstance(text, Unread):
        return text
    try:
        return expand_ranges(text)
    except ValueError:
        return Unread.UNKNOWN


def folders(path: Path, pattern: str = "*") -> tuple[Path, ...]:
    """The folders in one, in the order a person counts: ``mlx5_2`` before ``mlx5_10``. None when it is not there."""
    return tuple(sorted((entry for entry in path.glob(pattern) if entry.is_dir()), key=_counted))


def pci_function(device: Path) -> Path | None:
    """The PCI function a sysfs device is or hangs from (a virtio device hangs from one), None when there is none."""
    real = device.resolve()
    return next((folder for folder in (real, *real.parents) if _PCI.fullmatch(folder.name)), None)


def numa_node(function: Path | None) -> int | Unread:
    """The NUMA node of a PCI function. The kernel's -1, which firmware causes by saying nothing, is *unknown*."""
    if function is None:
        return Unread.NOT_SUPPORTED
    number = read_number(function / "numa_node")
    return number if isinstance(number, Unread) or number >= 0 else Unread.UNKNOWN


def _counted(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]
