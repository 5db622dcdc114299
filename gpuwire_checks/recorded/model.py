"""Figures that other tools measured, as their output states them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuwire_checks.topology.model import Doubt, Unread


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRow:
    """One figure of an nccl-tests row. In-place and out-of-place are two.

    Attributes:
        line: where it stands, from 1.
        size_bytes: of the whole array, as nccl-tests counts it.
        dtype, redop: nccl-tests' words (``float``, ``sum``); ``redop`` None where the collective has none.
        seconds: one call.
        algbw, busbw: GB/s (1e9 bytes a second).
        wrong: elements out of bounds; *unknown* where the check was off (``N/A``).
    """

    line: int
    size_bytes: int
    count: int | Unread
    dtype: str
    redop: str | None
    root: int | None
    in_place: bool
    seconds: float
    algbw: float
    busbw: float
    wrong: int | Unread


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRank:
    """One line of the list of devices. ``bus`` is the PCI address as printed."""

    rank: int
    host: str | Unread
    device: int | Unread
    bus: str | Unread
    model: str | Unread


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a log has no figures, or no more.

    Attributes:
        kind: ``launcher`` (nothing was started), ``library`` (NCCL or CUDA gave up), ``lost`` (a GPU is gone).
        host: on which it failed, where the text says it.
        where: file and line of the tool (``all_reduce.cu:95``).
    """

    line: int
    kind: Literal["launcher", "library", "lost"]
    text: str
    host: str | Unread = Unread.UNKNOWN
    where: str | Unread = Unread.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveLog:
    """One run of an nccl-tests-like program.

    Attributes:
        tool: ``nccl-tests``, ``rccl-tests`` or ``nccl1`` (the bench of NCCL 1).
        collective: a key of ``COLLECTIVES`` where the text names it, else nccl-tests' own word.
        world_size: ranks of the communicator, where the list of them is whole or the header says it.
        highest_rank: the highest rank listed, where the list is partial.
        hosts: as listed, each once.
        validated: whether results were checked.
        printed_average: busbw in GB/s, as the tool prints it at the end.
        printed_out_of_bounds: how many, as the tool prints it at the end.
        ended: the concluding lines are there; without them the log was cut or the program died.
        cut_at: the line of a row that is not whole.
        versions: ``nccl-tests``, ``nccl``, ``cuda`` ... as far as printed.
        inferred: what follows from the text and is not printed in it, such as the collective.
    """

    source: str
    tool: Literal["nccl-tests", "rccl-tests", "nccl1"]
    first_line: int
    collective: str | Unread
    ranks: tuple[LogRank, ...]
    world_size: int | Unread
    highest_rank: int | Unread
    hosts: tuple[str, ...]
    rows: tuple[FigureRow, ...]
    validated: bool | Unread
    printed_average: float | Unread
    printed_out_of_bounds: int | Unread
    ended: bool
    cut_at: int | None
    failure: Failure | None
    versions: tuple[tuple[str, str], ...]
    doubts: tuple[Doubt, ...]
    inferred: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMatrix:
    """One matrix of figures between devices.

    Attributes:
        test: the tool's name for it (``device_to_device_memcpy_write_ce``, ``Unidirectional P2P=Enabled``).
        unit: ``GB/s``, ``us`` or ``ns``; bandwidth is better higher, latency lower.
        rows, columns: the device numbers printed; a row ``-1`` is the CPU.
        cells: [row][column]; None on the diagonal, where the tool prints N/A, or where the cell is missing.
        local: the diagonal of a device-to-device matrix: within one device, no wire.
        printed_sum: as the tool prints it under the matrix.
    """

    line: int
    test: str
    unit: Literal["GB/s", "us", "ns"]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    cells: tuple[tuple[float | None, ...], ...]
    local: tuple[float | None, ...] = ()
    printed_sum: float | Unread = Unread.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLog:
    """One run of nvbandwidth or p2pBandwidthLatencyTest.

    Attributes:
        devices: number and model of each device listed.
        connected: of ordered pairs, whether P2P is possible, where the tool lists it.
        waived: tests that were not run, and the lines that say so; a name may be missing (empty).
        cut_at: the line of a matrix at which the text ends before the matrix does.
    """

    source: str
    tool: Literal["nvbandwidth", "p2pBandwidthLatencyTest"]
    devices: tuple[tuple[int, str], ...]
    matrices: tuple[PairMatrix, ...]
    connected: tuple[tuple[int, int, bool], ...]
    waived: tuple[tuple[int, str], ...]
    ended: bool
    failure: Failure | None
    versions: tuple[tuple[str, str], ...]
    doubts: tuple[Doubt, ...]
    cut_at: int | None = None
