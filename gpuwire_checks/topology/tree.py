"""Single values out of /proc and /sys, live or recorded. What cannot be read comes back as the reason."""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path

from gpuwire_checks.topology.expand import expand_ranges
from gpuwire_checks.topology.model import Unread

_PCI = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PAGE = 4096
_NUMBER = re.compile(r"-?\d{1,20}")


def read_text(path: Path | str) -> str | Unread:
    """A file's text without the blanks around it.

    A file that is not there is *unknown*, and so is one that the kernel refuses to fill: ``speed`` of an interface
    that is down fails with EINVAL (Documentation/ABI/testing/sysfs-class-net).
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except PermissionError:
        return Unread.NO_PERMISSION
    except OSError:
        return Unread.UNKNOWN
    try:
        return _whole(file).decode(errors="replace").strip()
    except OSError as error:
        return Unread.NO_PERMISSION if isinstance(error, PermissionError) else Unread.UNKNOWN
    finally:
        os.close(file)


def read_number(path: Path | str) -> int | Unread:
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
    try:
        with os.scandir(path) as entries:
            names = fnmatch.filter((entry.name for entry in entries), pattern)
    except OSError:
        return ()
    return tuple(path / name for name in sorted(names, key=_counted) if is_there(f"{path}/{name}/."))


def is_there(path: Path | str) -> bool:
    """True for a file that is there; False for one in a folder that may not be entered, where pathlib raises."""
    return os.access(path, os.F_OK)


def real(path: Path) -> Path:
    """Where a link of sysfs leads, given by its own name or through a link to its folder.

    Only these two names are links there, and a recorded one may lead in a circle, of which ``Path.resolve`` raises.
    """
    return Path(_led(f"{_led(str(path.parent))}/{path.name}"))


def _led(path: str) -> str:
    try:
        return os.path.normpath(f"{path}/../{os.readlink(path)}")  # noqa: PTH115 - on strings, in half the time
    except OSError:
        return path


def is_pci_address(name: str) -> bool:
    """True for the name of a PCI function's folder, such as ``0000:1b:00.0``."""
    return _PCI.fullmatch(name) is not None


def pci_function(device: Path) -> Path | None:
    """The PCI function a sysfs device is or hangs from (a virtio device hangs from one), None when there is none."""
    place = real(device)
    return next((folder for folder in (place, *place.parents) if is_pci_address(folder.name)), None)


def numa_node(function: Path | str | None) -> int | Unread:
    """The NUMA node of a PCI function. The kernel's -1, which firmware causes by saying nothing, is *unknown*."""
    if function is None:
        return Unread.NOT_SUPPORTED
    number = read_number(f"{function}/numa_node")
    return number if isinstance(number, Unread) or number >= 0 else Unread.UNKNOWN


def _whole(file: int) -> bytes:
    # A node has thousands of such files of a few bytes, and pathlib takes four times as long for one.
    data = part = os.read(file, _PAGE)
    while len(part) == _PAGE:
        part = os.read(file, _PAGE)
        data += part
    return data


def _counted(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
