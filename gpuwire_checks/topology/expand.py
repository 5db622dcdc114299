"""Lists of CPUs: the kernel's (``0-3,8``) and masks of bits, to numbers and back."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST_CPUS = 1 << 16
"""Eight times the most that a Linux kernel is built for (NR_CPUS)."""
_LIST = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def expand_ranges(text: str) -> tuple[int, ...]:
    """The numbers of a list as the kernel prints it, ascending: ``0-2,8`` is (0, 1, 2, 8); an empty list is ().

    Raises:
        ValueError: not such a list, or a range that runs backwards.

    Source: Documentation/admin-guide/kernel-parameters.rst of Linux, "cpu lists".
    """
    text = text.strip()
    if not text:
        return ()
    if not _LIST.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a list of numbers such as 0-3,8")
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if last and int(last) < int(first):
            raise ValueError(f"{part!r} in {text[:40]!r} runs backwards")
        if int(last or first) >= MOST_CPUS:
            raise ValueError(f"{part!r} in {text[:40]!r} is no CPU that a kernel numbers")
        numbers.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(numbers))


def format_ranges(numbers: Iterable[int]) -> str:
    """The shortest such list: (0, 1, 2, 8) is ``0-2,8``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def format_mask(words: Iterable[int]) -> str:
    """The same list from a mask of 64-bit words, lowest numbers first; empty when no bit is set."""
    return format_ranges(64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1)
