"""Which PCIe link a measured rate fits."""

from __future__ import annotations

import re
from dataclasses import dataclass

_X16 = {3: 15.75, 4: 31.5, 5: 63.0}
"""GB/s in one direction by generation, before packets' headers.

8, 16 and 32 GT/s on 16 lanes, 128 of 130 bits (PCI Express base specification).
"""
_WIDTHS = (16, 8, 4, 2, 1)
EFFICIENCY = (0.80, 0.92)
"""What copies reach of it.

26.3 of 31.5 GB/s (RTX A6000, NVIDIA/nvbandwidth issue #50) and 55.4 of 63 (H200, stas00/ml-engineering
network/README.md) are 84 and 88 %.
"""
_PARTS = {8: "half", 4: "a quarter", 2: "an eighth", 1: "a sixteenth"}
_MODELS = (
    (5, re.compile(r"\b(?:H100|H200|H800|H20|GH200|B100|B200|B300|GB200|GB300|RTX 50[5-9]0|Blackwell)\b")),
    (4, re.compile(r"\b(?:A100|A800|A10G?|A16|A2|A30|A40|L4|L40S?|L20|RTX A\d{4}|A6000|RTX [34]0[5-9]0|Ada)\b")),
    (3, re.compile(r"\b(?:V100S?|P100|P40|P4|T4|TITAN|RTX 20[6-8]0|GTX|Quadro)\b", re.IGNORECASE)),
)
"""The newest generation that a board speaks, from NVIDIA's data sheets."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A link: generation and width, and others of the same rate.

    Attributes:
        rate: GB/s in one direction before headers.
        narrow: fewer lanes or an older generation than the board has; x16 where the board is not known is not narrow.
    """

    generation: int
    width: int
    rate: float
    others: tuple[tuple[int, int], ...]
    narrow: bool

    @property
    def words(self) -> str:
        """``PCIe Gen4 x4 (or Gen3 x8), about a quarter of x16``."""
        others = ", ".join(f"Gen{generation} x{width}" for generation, width in self.others)
        alike = f" (or {others}, which carry the same)" if len(self.others) > 1 else f" (or {others})" if others else ""
        part = f", about {_PARTS[self.width]} of x16" if self.width in _PARTS else ""
        return f"PCIe Gen{self.generation} x{self.width}{alike}{part}"

    @property
    def against(self) -> str:
        """The arithmetic, with its source."""
        low, high = EFFICIENCY
        return (
            f"link arithmetic: PCIe Gen{self.generation} x{self.width} carries {self.rate:.3g} GB/s before headers, "
            f"copies reach {100 * low:.0f} to {100 * high:.0f} % of it"
        )


def generation_of(model: str | None) -> int | None:
    """The newest PCIe generation of a board, None where its model is not known here."""
    return next((number for number, names in _MODELS if model and names.search(model)), None)


def pcie_fit(rate: float, model: str | None) -> Fit | None:
    """The link that a rate of copies in one direction, in GB/s, fits; None where it fits none."""
    newest = generation_of(model)
    low, high = EFFICIENCY
    fitting = [
        (generation, width)
        for generation, x16 in _X16.items()
        for width in _WIDTHS
        if low <= rate / (x16 * width / 16) <= high and generation <= (newest or 5)
    ]
    if not fitting:
        return None
    # A link that is known to be of the newest generation is narrow; one of an unknown board is as wide as can be.
    chosen = fitting[-1] if newest is not None else fitting[0]
    narrow = chosen != (newest, 16) if newest is not None else chosen[1] != 16
    others = tuple(pair for pair in fitting if pair != chosen)
    generation, width = chosen
    return Fit(generation, width, _X16[generation] * width / 16, others, narrow)
