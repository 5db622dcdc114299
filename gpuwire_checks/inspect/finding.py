"""What a careful engineer would say of a recorded output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """How grave a finding is, gravest first. A file's own level is that of its gravest finding."""

    FAIL = "FAIL"
    """Below what a baseline or the link arithmetic says."""
    ERROR = "ERROR"
    """Nothing was measured: the program or its launcher failed."""
    INCOMPLETE = "INCOMPLETE"
    """The output was cut: what is there is read, the rest is not known."""
    WARN = "WARN"
    """Unusual; fine only where it is meant to be so."""
    PASS = "PASS"  # noqa: S105 - not a password
    """As it should be, as far as it was read."""
    NOTE = "NOTE"
    """A fact, neither good nor bad."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to know.

    Attributes:
        text: one sentence with the figures.
        part: what it is about (``GPU6``, ``GPU0-GPU3``, ``mlx5_10 port 1``, ``host ip-10-0-0-1``), None for the whole.
        line: where in the file, from 1.
        against: what it was held to, with its source.
    """

    level: Level
    text: str
    part: str | None = None
    line: int | None = None
    against: str | None = None


def gravest(findings: Sequence[Finding]) -> Level:
    """The level of the whole: PASS when nothing is worse than a note."""
    order = list(Level)
    levels = [finding.level for finding in findings if finding.level is not Level.NOTE]
    return min(levels, key=order.index, default=Level.PASS)
