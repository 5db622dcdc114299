"""What a rule is: the parts it is asked of, and what it says of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpuwire_checks.records import Verdict
from gpuwire_checks.wiring.held import Held

K = TypeVar("K")
GpuNumber = int
GpuPair = tuple[int, int]
GpuLink = tuple[int, int]
"""The number of a GPU and of one of its links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[K]):
    """One thing that a baseline expects of a node.

    Attributes:
        what: it is about, in the plural, for messages (``NVLinks``).
        parts: those that the baseline or the node has; empty where neither has any.
        label: a part as it is named in a test's id.
        judge: the verdict on one part.
        measured: whether it needs what was seen while cases were measured, and so comes after them.
        software: whether it is about versions: a change is told before any figure, and is no fault of a wire.
    """

    what: str
    parts: Callable[[Held], Sequence[K]]
    label: Callable[[K], str]
    judge: Callable[[Held, K], Verdict]
    measured: bool = False
    software: bool = False


def gpu_label(number: GpuNumber) -> str:
    return f"GPU{number}"


def pair_label(pair: GpuPair) -> str:
    return f"GPU{pair[0]}-GPU{pair[1]}"


def link_label(link: GpuLink) -> str:
    return f"GPU{link[0]}-link{link[1]}"
