"""Small nccl-tests logs, printed as each of its versions prints them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gpuwire_checks.recorded.model import CollectiveLog, FigureRow
from gpuwire_checks.topology.model import Unread

Style = Literal["nccl1", "oldest", "old", "current", "newest"]
SIZES = tuple(1 << power for power in range(6, 30, 2))


@dataclass(frozen=True)
class Made:
    """What a log is made of; ``rate`` in GB/s of algbw at large sizes."""

    style: Style = "current"
    world_size: int = 8
    sizes: tuple[int, ...] = SIZES
    rate: float = 131.7
    latency_us: float = 21.43
    error: str = "0"
    head: bool = True
    end: bool = True
    redop: str = "sum"
    root: str = "-1"
    factor: float | None = None


def seconds(made: Made, size: int, *, in_place: bool) -> float:
    """One call: a latency, and bandwidth that differs a little from size to size."""
    wobble = 1 + 0.013 * ((size.bit_length() * 7 + in_place * 5) % 11)
    return (made.latency_us * 1e-6 + size / made.rate / 1e9) * wobble


def half(made: Made, size: int, *, in_place: bool) -> tuple[str, str, str]:
    """Time, algbw and busbw as the style prints them."""
    time = seconds(made, size, in_place=in_place)
    rate = size / time / 1e9
    factor = 2 * (made.world_size - 1) / made.world_size if made.factor is None else made.factor
    shown = (
        (_narrow if made.style == "newest" else _fixed)(rate),
        (_narrow if made.style == "newest" else _fixed)(rate * factor),
    )
    if made.style in ("oldest", "nccl1"):
        return (f"{time * 1e3:.3f}", *shown)
    us = time * 1e6
    if made.style == "newest":
        return (_narrow(us, 7), *shown)
    return (f"{us:.0f}" if us >= 10_000 else f"{us:.1f}" if us >= 100 else f"{us:.2f}", *shown)


def _fixed(number: float) -> str:
    return f"{number:.2f}"


def _narrow(number: float, width: int = 6) -> str:
    return next(text for text in (f"{number:.2f}", f"{number:.1f}", f"{number:.0f}") if len(text) <= width)


def fields(made: Made, size: int) -> list[str]:
    """The fields of one row."""
    lead = {
        "nccl1": [str(size // 4), "float", made.redop],
        "oldest": [str(size), str(size // 4), "float", made.redop],
        "old": [str(size), str(size // 4), "float", made.redop],
    }.get(made.style, [str(size), str(size // 4), "float", made.redop, made.root])
    if made.style == "nccl1":
        return [*lead, *half(made, size, in_place=False)]
    halves = [[*half(made, size, in_place=in_place), made.error] for in_place in (False, True)]
    return [*lead, *halves[0], *halves[1]]


WIDTHS = {
    "nccl1": (8, 8, 8, 9, 7, 7),
    "oldest": (12, 14, 8, 8, 9, 7, 7, 9, 9, 7, 7, 9),
    "old": (12, 14, 8, 8, 9, 8, 8, 7, 9, 8, 8, 7),
    "current": (12, 14, 10, 8, 8, 9, 8, 8, 7, 9, 8, 8, 7),
    "newest": (12, 14, 10, 8, 8, 9, 8, 8, 8, 9, 8, 8, 8),
}
HEADERS = {
    "nccl1": ("N", "type", "op", "time", "algbw", "busbw"),
    "oldest": ("bytes", "N", "type", "op", *("time", "algbw", "busbw", "res") * 2),
    "old": ("size", "count", "type", "redop", *("time", "algbw", "busbw", "error") * 2),
    "current": ("size", "count", "type", "redop", "root", *("time", "algbw", "busbw", "#wrong") * 2),
    "newest": ("size", "count", "type", "redop", "root", *("time", "algbw", "busbw", "#wrong") * 2),
}


def row(made: Made, size: int) -> str:
    return aligned(fields(made, size), made.style)


def aligned(words: list[str] | tuple[str, ...], style: Style) -> str:
    """Words under the columns of a style."""
    return "".join(" " + word.rjust(width - 1) for word, width in zip(words, WIDTHS[style], strict=True))


def header(style: Style) -> str:
    line = aligned(HEADERS[style], style)
    return line if style == "nccl1" else "#" + line[1:]


def rank_line(rank: int, *, host: str = "kiln-3", group: bool = True, model: str = "NVIDIA H100 80GB HBM3") -> str:
    middle = f"Group  0 Pid {7100 + rank:6d} on {host:>10} device {rank % 8:2d} [0x{16 + rank:02x}]"
    return f"#  Rank {rank:2d} {middle if group else middle.removeprefix('Group  0 ')} {model}"


def head(made: Made) -> list[str]:
    """Options and devices of one process with all GPUs."""
    if not made.head or made.style == "nccl1":
        return []
    options = (
        f"nThread 1 nGpus {made.world_size} minBytes 64 maxBytes 536870912 step: 4(factor) warmup iters: 5 iters: 20"
    )
    newest = [
        "# nccl-tests version 2.19.2 nccl-headers=22807 nccl-library=22807",
        "# Collective test starting: all_reduce_perf",
    ]
    return [
        *(newest if made.style == "newest" else []),
        f"# {options} agg iters: 1 validation: {0 if made.error == 'N/A' else 1} graph: 0",
        "#",
        "# Using devices",
        *(rank_line(rank) for rank in range(made.world_size)),
        "#",
        "#                                                       out-of-place                       in-place",
    ]


def average(made: Made) -> float:
    halves = [half(made, size, in_place=in_place) for size in made.sizes for in_place in (False, True)]
    return sum(float(words[2]) for words in halves) / len(halves)


def log(made: Made) -> str:
    """A whole log, with a newline at its end."""
    lines = [*head(made), header(made.style), *(row(made, size) for size in made.sizes)]
    if made.end and made.style != "nccl1":
        lines += ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {average(made):g} ", "#"]
        lines += ["# Collective test concluded: all_reduce_perf"] if made.style == "newest" else []
    return "\n".join(lines) + "\n"


def figures(read: CollectiveLog) -> dict[tuple[int, bool], FigureRow]:
    """By line and place."""
    return {(one.line, one.in_place): one for one in read.rows}


def without_lines(rows: tuple[FigureRow, ...]) -> list[FigureRow]:
    """Rows to compare with those of a text of other lines."""
    return [replace(one, line=0) for one in rows]


UNKNOWN = Unread.UNKNOWN
