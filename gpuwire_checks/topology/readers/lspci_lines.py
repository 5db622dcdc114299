"""The lines of ``lspci``: those that name a device, and what the lines under them say of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuwire_checks.topology.devices import pci_address
from gpuwire_checks.topology.model import Pcie, Unread

_DEVICE = re.compile(
    r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])[ \t]{1,4}([A-Z0-9][^\n]*|[0-9a-f]{4}: .*)", re.IGNORECASE
)
_CLASS_ID = re.compile(r" ?\[([0-9a-f]{4})\]\Z")
_NUMBERS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{4})(?![0-9a-f])")
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_AFTER_NAME = re.compile(r" ?\((?:rev |prog-if )")
_INTERFACE = re.compile(r"\(prog-if ([0-9a-f]{2})")
_CLASSES = {
    "non-volatile memory controller": 0x0108,
    "ethernet controller": 0x0200,
    "infiniband controller": 0x0207,
    "vga compatible controller": 0x0300,
    "3d controller": 0x0302,
    "display controller": 0x0380,
    "host bridge": 0x0600,
    "pci bridge": 0x0604,
    "bridge": 0x0680,
    "processing accelerators": 0x1200,
}
"""By pci.ids, which lspci prints: https://pci-ids.ucw.cz."""
_VENDORS = {"nvidia": 0x10DE, "advanced micro devices": 0x1002, "amd": 0x1002}
_GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}
"""By GT/s a lane. Source: PCI Express Base Specification, Link Capabilities Register."""
_SPEED = re.compile(r"Speed ([0-9.]{1,5}) ?GT/s")
_WIDTH = re.compile(r"Width x(\d{1,2})(?!\d)")
_NUMA = re.compile(r"NUMA node: ?(\d{1,4})\Z")
_SECONDARY = re.compile(r"Bus: primary=[0-9a-f]{2}, secondary=([0-9a-f]{2})")
_EXTENDED = re.compile(r"Capabilities: \[[1-9a-f][0-9a-f]{2} v\d{1,2}\]")
_FLAGS = re.compile(r"([A-Za-z]{1,20})([+-])(?=\s|\Z)")
_ACS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLine:
    """``0000:3b:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 80GB] [10de:20b5] (rev a1)``.

    Attributes:
        class_id: 16 bits, None for a class that has none here; ``interface``: the other 8, where printed.
        absent: the device does not answer; ``lspci`` reads ones then.
    """

    address: str
    class_id: int | None
    interface: int | None
    name: str | Unread
    vendor: int | None
    absent: bool


@dataclass(slots=True, kw_only=True)
class DeviceBody:
    """What the lines under a device say; it grows while they are read.

    Attributes:
        acs: the texts of ``ACSCtl`` lines, each with its line number.
        extended: extended capabilities are listed; ``has_acs``: ACS is one of them.
        secondary: the bus behind a bridge.
        whole: a line is there that follows the capabilities.
    """

    now: tuple[int | Unread, int | Unread] = (Unread.UNKNOWN, Unread.UNKNOWN)
    most: tuple[int | Unread, int | Unread] = (Unread.UNKNOWN, Unread.UNKNOWN)
    numa: int | Unread = Unread.UNKNOWN
    acs: list[tuple[int, str]] = field(default_factory=list)
    denied: bool = False
    extended: bool = False
    has_acs: bool = False
    secondary: int | None = None
    whole: bool = False
    continues: bool = False

    def take(self, number: int, text: str, *, cut: bool) -> bool:
        """Adds what a line says; False when it says nothing of this and could be any line."""
        wrapped = self.continues and not text.startswith(("Capabilities", "ACS")) and _FLAGS.match(text)
        self.continues = text.startswith("ACSCtl:")
        if self.continues:
            self.acs.append((number, text))
        elif wrapped and self.acs:
            self.acs[-1] = (self.acs[-1][0], f"{self.acs[-1][1]} {text}")
        elif text.startswith("LnkCap:"):
            self.most = _link(text, cut=cut)
        elif text.startswith("LnkSta:"):
            self.now = _link(text, cut=cut)
        elif text.startswith("Capabilities:"):
            self.denied |= "<access denied>" in text
            self.extended |= _EXTENDED.match(text) is not None
            self.has_acs |= "Access Control Services" in text
        elif numa := _NUMA.match(text):
            self.numa = self.numa if cut else int(numa[1])
        elif bus := _SECONDARY.match(text):
            self.secondary = int(bus[1], 16) or None
        else:
            self.whole |= text.startswith("Kernel ")
            return text.startswith("Kernel ")
        return True

    def pcie(self) -> Pcie:
        """The link now, and what the device itself could do at most."""
        if self.denied:
            denied = Unread.NO_PERMISSION
            return Pcie(generation=denied, width=denied, max_generation=denied, max_width=denied)
        return Pcie(generation=self.now[0], width=self.now[1], max_generation=self.most[0], max_width=self.most[1])


def device_line(text: str) -> DeviceLine | None:
    """What a line says that names a device, None for another."""
    found = _DEVICE.fullmatch(text)
    if found is None:
        return None
    head, colon, what = found[2].partition(": ")
    if not colon or len(head) > 80:
        return None
    ids = _NUMBERS.match(what) or next(reversed(list(_IDS.finditer(what))), None)
    stop = min((match.start() for match in (ids, _AFTER_NAME.search(what)) if match), default=len(what))
    name = what[:stop].strip()
    interface = _INTERFACE.search(what)
    return DeviceLine(
        address=str(pci_address(found[1] if found[1].count(":") > 1 else f"0000:{found[1]}")),
        class_id=_class_id(head),
        interface=int(interface[1], 16) if interface else None,
        name=name[:200] or Unread.UNKNOWN,
        vendor=int(ids[1], 16) if ids else _vendor(name),
        absent="(rev ff)" in what,
    )


def acs_on(text: str) -> tuple[str, ...] | Unread:
    """The controls that an ``ACSCtl`` line says are on; unknown when it does not state all seven."""
    flags = dict(_FLAGS.findall(text))
    if not all(name in flags for name in _ACS):
        return Unread.UNKNOWN
    return tuple(name for name, sign in flags.items() if sign == "+")


def _class_id(head: str) -> int | None:
    if found := _CLASS_ID.search(head):
        return int(found[1], 16)
    if re.fullmatch(r"[0-9a-f]{4}", head):
        return int(head, 16)
    return _CLASSES.get(head.casefold())


def _vendor(name: str) -> int | None:
    return next((number for word, number in _VENDORS.items() if name.casefold().startswith(word)), None)


def _link(text: str, *, cut: bool) -> tuple[int | Unread, int | Unread]:
    """Generation and width; a width at the very end of a text that may be cut can lack a digit."""
    speed, width = _SPEED.search(text), _WIDTH.search(text)
    lanes = int(width[1]) if width and not (cut and width.end() == len(text)) else 0
    return (_GENERATIONS.get(speed[1], Unread.UNKNOWN) if speed else Unread.UNKNOWN), lanes or Unread.UNKNOWN
