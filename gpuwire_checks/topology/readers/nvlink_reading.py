"""The lines of ``nvidia-smi nvlink`` put together: what they say of each GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from gpuwire_checks.pasted import Line
from gpuwire_checks.topology.model import Doubt, Link, Unread
from gpuwire_checks.topology.readers.nvlink_lines import (
    GpuLine,
    LinkLine,
    LostLine,
    gpu_line,
    link_line,
    link_state,
    lost_line,
    no_links,
    not_stated,
    remote,
)
from gpuwire_checks.topology.readers.plain_lines import PlainLines, few, shown

_COUNTERS = {
    "replay errors": "nvlink replay",
    "recovery errors": "nvlink recovery",
    "crc errors": "nvlink crc",
    "total link recovery events": "nvlink recovery",
    "rx errors": "receive errors",
    "tx discards": "transmit discards",
    "symbol errors": "symbol errors",
}
"""Names up to Hopper, then those of Blackwell. Source: nvidia-smi nvlink -e of drivers 450 to 595."""
_TRAFFIC = re.compile(r"packets|bytes|\bBER\b|\bFEC\b|\braw\b|\bPLR\b|data [tr]x|lane|throughput", re.IGNORECASE)
"""What healthy links count too: data, and what forward error correction set right."""
_RULE = re.compile(r"[-=+#|*~.\s]*|.*nvidia-smi.*")


@dataclass(slots=True, kw_only=True)
class SaidOfGpu:
    """What is said of one GPU; it grows while the text is read.

    Attributes:
        line, last: the first and the last line that is of it, from 1.
        remotes: the PCI address that each link ends at.
        without: why no links are listed: True when all are inactive, or the reason for which they cannot be read.
        odd: links whose line says nothing that is known.
        capabilities: lines of ``nvlink -c`` were there.
    """

    line: int
    named: GpuLine
    states: dict[int, Link] = field(default_factory=dict)
    remotes: dict[int, str | Unread] = field(default_factory=dict)
    counters: dict[tuple[int, str], int | Unread] = field(default_factory=dict)
    without: bool | Unread | None = None
    last: int = 0
    odd: set[int] = field(default_factory=set)
    capabilities: bool = False
    address: str | Unread = Unread.UNKNOWN
    lost: bool = False


def part_name(gpu: SaidOfGpu, number: int) -> str:
    """``GPU0 NVLink 3``."""
    return f"GPU{gpu.named.index} NVLink {number}"


class Reading:
    """The lines so far, as what they say of each GPU."""

    def __init__(self, plain: PlainLines) -> None:
        self.gpus: dict[int, SaidOfGpu] = {}
        self.doubts: list[Doubt] = []
        self._plain = plain
        self._current: SaidOfGpu | None = None
        self._lost: list[tuple[int, LostLine]] = []
        self._strays: list[Line] = []
        self._last = 0
        self._ended = False
        self._headless = False
        self._seen: set[int] = set()

    def take(self, line: Line) -> None:
        """Adds what one line says."""
        text = line.text.strip()
        if self._ended:
            return
        if lost := lost_line(text):
            self._take_lost(line.number, lost)
        elif named := gpu_line(text):
            cut = isinstance(named.uuid, Unread) and ("(" in text or "GPU-" in text or text.endswith(")"))
            if cut:
                what = f"GPU{named.index}: no UUID can be read in {shown(text)}, nor what its model ends in: not known"
                self.doubts.append(Doubt(line=line.number, text=what))
            cut = cut or (self._plain.cut_at(line) and not text.endswith(")"))
            self._take_gpu(line.number, replace(named, model=Unread.UNKNOWN) if cut else named)
        elif link := link_line(text):
            self._take_link(line, link)
        elif (reason := no_links(text)) is not None:
            self._take_absence(line.number, reason)
        elif not _RULE.fullmatch(text):
            self._strays.append(line)
            return
        else:
            return
        self._last = line.number

    def strays(self) -> list[Doubt]:
        """Lines between the first and the last one of this output that are none of it."""
        first = min((gpu.line for gpu in self.gpus.values()), default=0)
        lines = [line for line in self._strays if first < line.number < self._last]
        if self._plain.may_be_cut and self._strays and self._strays[-1].number == self._plain.lines[-1].number:
            lines.append(self._strays[-1])
        return few([Doubt(line=line.number, text=f"no line of a link, not read: {shown(line.text)}") for line in lines])

    def number_the_lost(self) -> None:
        """Gives lost GPUs whose number is not printed the missing numbers, where these are as many.

        The driver counts GPUs in the order of their addresses.
        """
        lost = sorted(self._lost, key=lambda item: str(item[1].address))
        every = range(len(self.gpus) + len(lost))
        missing = [index for index in every if index not in self.gpus]
        sure = len(missing) == len(lost)
        for at, (line, one) in enumerate(lost):
            where = "" if isinstance(one.address, Unread) else f" ({one.address})"
            text = f"a GPU{where} is lost: {one.reason or 'no reason is printed'}"
            if sure:
                self._add_lost(missing[at], line, one)
                text += f"; its number is not printed, and GPU{missing[at]} is missing: taken as that"
            else:
                text += "; its number is not printed: not listed"
            self.doubts.append(Doubt(line=line, text=text))
        self._lost = []

    def _add_lost(self, index: int, line: int, lost: LostLine) -> None:
        named = GpuLine(index=index, model=Unread.UNKNOWN, uuid=Unread.UNKNOWN)
        gpu = self.gpus.setdefault(index, SaidOfGpu(line=line, named=named, last=line))
        gpu.lost, gpu.address = True, lost.address

    def _take_lost(self, line: int, lost: LostLine) -> None:
        if lost.index is None:
            self._lost.append((line, lost))
            return
        self._add_lost(lost.index, line, lost)
        self.doubts.append(Doubt(line=line, text=f"GPU{lost.index} is lost: {lost.reason or 'no reason is printed'}"))

    def _take_gpu(self, line: int, named: GpuLine) -> None:
        known = self.gpus.get(named.index)
        if known is None:
            known = self.gpus[named.index] = SaidOfGpu(line=line, named=named, last=line)
        elif _differ(known.named.uuid, named.uuid) or _differ(known.named.model, named.model):
            text = (
                f"GPU{named.index} again, as another GPU than on line {known.line}: another node, not read from here on"
            )
            self.doubts.append(Doubt(line=line, text=text))
            self._ended = True
        self._current, self._seen = known, set()

    def _take_absence(self, line: int, reason: bool | Unread) -> None:
        gpu = self._whose(line)
        if gpu is None:
            return
        gpu.without = reason
        if reason is not True and reason is not Unread.NOT_SUPPORTED:
            why = "" if reason is Unread.UNKNOWN else f": {reason.value}" if isinstance(reason, Unread) else ""
            self.doubts.append(Doubt(line=line, text=f"GPU{gpu.named.index}: its NVLinks could not be read{why}"))

    def _whose(self, line: int) -> SaidOfGpu | None:
        """The GPU that a line is of."""
        if self._current is None:
            if not self._headless:
                self._headless = True
                text = "no line such as 'GPU 0: <model>' above says whose link this is: not read"
                self.doubts.append(Doubt(line=line, text=text))
            return None
        self._current.last = line
        return self._current

    def _take_link(self, line: Line, link: LinkLine) -> None:
        gpu = self._whose(line.number)
        if gpu is None:
            return
        if link.of_capability:
            gpu.capabilities = True
        elif (address := remote(link.text)) is not None:
            gpu.remotes.setdefault(link.number, address)
        elif (state := link_state(link.number, link.text)) is not None:
            self._take_state(line, gpu, state, link.text)
        elif ":" in link.text:
            self._take_counters(line, gpu, link)
        else:
            self._take_odd(line, gpu, link)

    def _take_odd(self, line: Line, gpu: SaidOfGpu, link: LinkLine) -> None:
        gpu.odd.add(link.number)
        told = "is cut" if self._plain.cut_at(line) else f"reads {link.text[:40]!r}"
        self.doubts.append(Doubt(line=line.number, text=f"{part_name(gpu, link.number)} {told}: not known"))

    def _take_state(self, line: Line, gpu: SaidOfGpu, state: Link, text: str) -> None:
        part = part_name(gpu, state.number)
        if isinstance(state.up, Unread):
            self.doubts.append(
                Doubt(line=line.number, text=f"{part} reads {text[:40]!r}: whether it is up is not known")
            )
        known = gpu.states.setdefault(state.number, state)
        if state.number in self._seen:
            text = f"{part} stands twice under one line of a GPU: a line 'GPU <number>' may be missing; not read"
            self.doubts.append(Doubt(line=line.number, text=text))
        elif known != state:
            self.doubts.append(
                Doubt(line=line.number, text=f"{part} is stated twice, and not alike: the first is kept")
            )
        self._seen.add(state.number)

    def _take_counters(self, line: Line, gpu: SaidOfGpu, link: LinkLine) -> None:
        """``Replay Errors: 0``; some retype three of them on one line."""
        for piece in link.text.split(", "):
            name, _, text = piece.rpartition(":")
            name, text, part = name.strip(), text.strip(), part_name(gpu, link.number)
            key = (link.number, _COUNTERS.get(name.casefold(), ""))
            if not key[1]:
                self._take_other(line.number, part, name, text)
                continue
            value = self._value(line, f"{part} '{name}'", text)
            known = gpu.counters.setdefault(key, value)
            if known != value:
                what = f"{part} '{name}' is stated twice ({known} and {value}): the first is kept"
                self.doubts.append(Doubt(line=line.number, text=what))

    def _value(self, line: Line, what: str, text: str) -> int | Unread:
        is_number = text.isascii() and text.isdigit() and len(text) <= 20
        if is_number and not (self._plain.cut_at(line) and int(text)):
            return int(text)
        reason = Unread.UNKNOWN if is_number else not_stated(text)
        if reason is Unread.UNKNOWN:
            told = "may be cut" if is_number or not text else f"reads {text[:40]!r}"
            self.doubts.append(Doubt(line=line.number, text=f"{what} {told}: not known"))
        return reason

    def _take_other(self, line: int, part: str, name: str, text: str) -> None:
        if _TRAFFIC.search(name) or text.strip("0") == "" or text.casefold() == "n/a":
            return
        self.doubts.append(
            Doubt(line=line, text=f"{part} '{name[:40]}' is {text[:40]}: no counter of this name is kept")
        )


def _differ(one: str | Unread, other: str | Unread) -> bool:
    return not isinstance(one, Unread) and not isinstance(other, Unread) and one != other
