"""The lines of ``ibstat`` and ``ibstatus`` put together: what they say of each port."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuwire_checks.pasted import Line
from gpuwire_checks.topology.model import Doubt, Unread
from gpuwire_checks.topology.readers.plain_lines import PlainLines, shown

START = re.compile(r"CA '[\w.-]{1,64}'|Infiniband device '[\w.-]{1,64}' port \d{1,3} status", re.IGNORECASE)
_CA = re.compile(r"CA '([\w.-]{1,64})'")
_STATUS_OF = re.compile(r"Infiniband device '([\w.-]{1,64})' port (\d{1,3}) status:?", re.IGNORECASE)
_PORT = re.compile(r"Port (\d{1,3}) ?:", re.IGNORECASE)
_KEYS = {
    "state": "state",
    "physical state": "physical",
    "phys state": "physical",
    "rate": "rate",
    "link layer": "layer",
    "link_layer": "layer",
}
_OF_CA = frozenset({"ca type", "hardware version", "node guid", "system image guid"})
_OF_PORT = frozenset({"base lid", "lmc", "sm lid", "capability mask", "port guid", "default gid"})
_WHOLE = frozenset({"active", "down", "initializing", "armed", "linkup", "polling", "disabled", "infiniband"})
_WHOLE |= frozenset({"ethernet"})
"""No other value begins with one of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value as printed, empty where it may be ``cut``, and its line."""

    line: int
    text: str
    cut: bool


@dataclass(slots=True, kw_only=True)
class Port:
    """One port, or, without a number, a CA of which no port is listed; it grows while the text is read.

    Attributes:
        last: the last line that is of it.
    """

    device: str
    number: int | None
    last: int
    firmware: str | Unread = Unread.UNKNOWN
    fields: dict[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.device if self.number in {None, 1} else f"{self.device}:{self.number}"

    @property
    def told(self) -> str:
        return f"{self.device} port {self.number}"


@dataclass(slots=True, kw_only=True)
class _Ca:
    device: str
    last: int
    firmware: str | Unread = Unread.UNKNOWN
    says_ports: int | None = None
    numbers: list[int] = field(default_factory=list)


class Reading:
    """The lines so far, as what they say of each port. Nothing is read from a CA on that was there before."""

    def __init__(self, plain: PlainLines) -> None:
        self.ports: list[Port] = []
        self.doubts: list[Doubt] = []
        self.strays: list[Doubt] = []
        self._plain = plain
        self._cas: dict[str, _Ca] = {}
        self._ca: _Ca | None = None
        self._port: Port | None = None
        self._ended = self._headless = False

    def take(self, line: Line) -> None:
        """Adds what one line says."""
        text = line.text.strip()
        if self._ended:
            return
        if found := _CA.fullmatch(text):
            self._start_ca(line.number, found[1])
        elif found := _STATUS_OF.fullmatch(text):
            if self._ca is None or self._ca.device != found[1]:
                self._start_ca(line.number, found[1])
            self._start_port(line.number, int(found[2]))
        elif self._ca is None:
            self._take_headless(line, text)
        elif found := _PORT.fullmatch(text):
            self._start_port(line.number, int(found[1]))
        else:
            self._take_field(line, text)

    def _take_headless(self, line: Line, text: str) -> None:
        if not self._headless and _PORT.fullmatch(text):
            self._headless = True
            told = "no line \"CA '<name>'\" above says whose port this is: not read"
            self.doubts.append(Doubt(line=line.number, text=told))

    def end(self) -> None:
        """Adds the last CA, and what is doubtful of the number of ports."""
        self._end_ca()
        self._ca = self._port = None

    def _start_ca(self, line: int, device: str) -> None:
        self._end_ca()
        if device in self._cas:
            self.doubts.append(Doubt(line=line, text=f"{device} again: another node, not read from here on"))
            self._ended = True
        self._ca = self._cas.setdefault(device, _Ca(device=device, last=line))
        self._port = None

    def _end_ca(self) -> None:
        ca = self._ca
        if ca is None or self._ended:
            return
        if not ca.numbers:
            self.ports.append(Port(device=ca.device, number=None, last=ca.last, firmware=ca.firmware))
        elif ca.says_ports is not None and ca.says_ports != len(ca.numbers):
            text = f"{ca.device} says that it has {ca.says_ports} ports, and {len(ca.numbers)} are listed"
            self.doubts.append(Doubt(line=ca.last, text=text))

    def _start_port(self, line: int, number: int) -> None:
        ca = self._ca
        if ca is None or self._ended:
            return
        self._port, ca.last = None, line
        if number in ca.numbers:
            text = f"{ca.device} port {number} again: a line \"CA '<name>'\" may be missing; not read"
            self.doubts.append(Doubt(line=line, text=text))
            return
        ca.numbers.append(number)
        self._port = Port(device=ca.device, number=number, last=line, firmware=ca.firmware)
        self.ports.append(self._port)

    def _take_field(self, line: Line, text: str) -> None:
        name, colon, rest = text.partition(":")
        key, value = " ".join(name.casefold().split()), " ".join(rest.split())
        cut = self._plain.cut_at(line) and value.casefold() not in _WHOLE
        if not colon or not self._is_known(key):
            self.strays.append(Doubt(line=line.number, text=f"no line of `ibstat`, not read: {shown(text)}"))
        elif key in _KEYS:
            self._take_of_port(_KEYS[key], Value(line=line.number, text="" if cut else value, cut=cut))
        elif self._port is not None and key in _OF_PORT:
            self._port.last = line.number
        elif self._ca is not None:
            self._ca.last = line.number
            if key == "firmware version" and (cut or not value):
                self.doubts.append(
                    Doubt(line=line.number, text=f"{self._ca.device}: its firmware is cut, or not stated")
                )
            elif key == "firmware version":
                self._ca.firmware = value[:40]
            elif key == "number of ports" and value.isascii() and value.isdigit() and len(value) < 4:
                self._ca.says_ports = int(value)

    @staticmethod
    def _is_known(key: str) -> bool:
        return key in _KEYS or key in _OF_CA or key in _OF_PORT or key in {"firmware version", "number of ports"}

    def _take_of_port(self, key: str, value: Value) -> None:
        port = self._port
        if port is None:
            if self._ca is not None and not self._ca.numbers:
                text = f"no line 'Port <number>:' above says of which port of {self._ca.device} this is: not read"
                self.doubts.append(Doubt(line=value.line, text=text))
            return
        port.last = value.line
        if self._ca is not None:
            self._ca.last = value.line
        if key in port.fields:
            text = f"{port.told}: a second {key} here: a line 'Port <number>:' may be missing; not read"
            self.doubts.append(Doubt(line=value.line, text=text))
            return
        port.fields[key] = value
