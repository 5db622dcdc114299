"""``lspci``, terse, with numbers (``-nn``) or with its capabilities (``-vv``), as people paste it, to the PCI bus."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import Line
from gpuwire_checks.topology.model import Doubt, Gpu, NodeTopology, PciDevice, Unread
from gpuwire_checks.topology.readers.blank import blank_gpu, blank_node
from gpuwire_checks.topology.readers.lspci_lines import DeviceBody, DeviceLine, acs_on, device_line
from gpuwire_checks.topology.readers.plain_lines import PlainLines, bounded, few, plain_lines, shown

MAX_DEVICES = 10_000
_LOOKED_AT = 1 << 20
_ADDRESS = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_START = re.compile(
    rf"(?<![\w.])(?<!\w:){_ADDRESS}[ \t]{{1,4}}(?:"
    r"(?:Bridge|[A-Z0-9][\w/ -]{1,40}(?:controller|bridge|accelerators|adapter|peripheral|device|memory|root complex))"
    r"(?: \[[0-9a-f]{4}\])?: "
    r"|[A-Z0-9][\w/() -]{1,60} \[[0-9a-f]{4}\]: "
    r"|[0-9a-f]{4}: [0-9a-f]{4}:[0-9a-f]{4}\b)"
    r"|\bACSCtl:[ \t]{0,8}SrcValid[+-]"
)
_ENDED = re.compile(r"[\])]\Z")
_CUT_ADDRESS = re.compile(r"[0-9a-f]{2,8}[:.]?[0-9a-f:.]*(?: .*)?")
_KEY = re.compile(r"[A-Z!][\w ]{0,40}[:!]|[A-Za-z]{1,20}[+-](?:\s|\Z)|--|.*lspci")
_GPU_CLASSES = frozenset({0x0300, 0x0302, 0x0380, 0x1200})
_NIC_CLASSES = frozenset({0x0200, 0x0207})
_BRIDGE, _OTHER_BRIDGE = 0x0604, 0x0680
_ONE_INTERFACE = frozenset({0x0200, 0x0207, 0x0302, 0x0380, 0x0680, 0x1200})
"""Classes of which pci.ids knows no other interface than 00, which lspci does not print."""
_NVIDIA, _AMD = 0x10DE, 0x1002
_CHIPSET = re.compile(r"MCP\d|nForce|CK8|CK804", re.IGNORECASE)
"""NVIDIA's chipsets of 2002 to 2009 have network controllers of the class that NVSwitches have."""
_MODEL = re.compile(r"\[([^\[\]]{2,60})\]")
_NO_MODEL = frozenset({"AMD/ATI", "AMD", "ATI"})
_Kind = Literal["gpu", "nic", "switch", "nvswitch", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Device:
    """A device, the number of its line, and what is said under it."""

    line: int
    named: DeviceLine
    body: DeviceBody = field(default_factory=DeviceBody)

    @property
    def kind(self) -> _Kind:
        named = self.named
        if named.class_id in _GPU_CLASSES and named.vendor in {_NVIDIA, _AMD}:
            return "gpu"
        if named.class_id in _NIC_CLASSES:
            return "nic"
        if named.class_id == _OTHER_BRIDGE and named.vendor == _NVIDIA and not _CHIPSET.search(named.name):
            return "nvswitch"
        return "switch" if named.class_id == _BRIDGE else "other"


_Bridges = Mapping[tuple[str, int], _Device]
"""By the domain and the bus behind it."""


def looks_like_lspci(text: str) -> bool:
    """True when there is the line of a device, or one that ``lspci -vv | grep ACSCtl`` prints."""
    return _START.search(text, 0, _LOOKED_AT) is not None


def read_lspci(text: str, *, source: str) -> NodeTopology:
    """Every function on the bus in the order of the text, and the GPUs in the order of their addresses.

    ``PciDevice.pcie`` has at most what the device itself can do; a GPU has what it and the bridge above it allow
    together, where both are told. Without root ``lspci`` reads no capabilities: ACS and links are *no permission*.

    Raises:
        TopologyError: no such text, or larger than any node.
    """
    plain = plain_lines(text, start=_START, tool="lspci -vv", source=source)
    reading = _Reading(plain)
    for line in plain.lines:
        reading.take(line)
    devices = list(reading.devices.values())
    if len(devices) > MAX_DEVICES:
        raise TopologyError(f"{source}:1: {len(devices)} devices; at most {MAX_DEVICES} are read: paste one node's")
    bridges = {
        (_domain(one.named.address), one.body.secondary): one for one in devices if one.body.secondary is not None
    }
    last = devices[-1] if devices else None
    pci = [_pci(one, bridges, is_last=one is last) for one in devices]
    adrift = [item for one in devices if len(one.body.acs) > 1 for item in one.body.acs] + reading.adrift.acs
    pci += [PciDevice(address=Unread.UNKNOWN, kind="switch", acs=acs_on(text)) for _, text in sorted(adrift)]
    doubts = [*plain.doubts, *reading.doubts, *_acs_doubts(devices, sorted(adrift)), *few(reading.strays, 5)]
    return blank_node(source, gpus=tuple(_gpus(devices, bridges)), pci=tuple(pci), doubts=bounded(doubts))


class _Reading:
    """The lines so far: devices by address, and ``adrift`` what stood before the first."""

    def __init__(self, plain: PlainLines) -> None:
        self.devices: dict[str, _Device] = {}
        self.adrift = DeviceBody()
        self.doubts: list[Doubt] = []
        self.strays: list[Doubt] = []
        self._plain = plain
        self._body: DeviceBody | None = self.adrift
        self._indent = 0

    def take(self, line: Line) -> None:
        """Adds what one line says."""
        text, cut = line.text.strip(), self._plain.cut_at(line)
        indent = len(line.text) - len(line.text.lstrip())
        if named := device_line(text):
            self._indent = indent
            self._take_device(line.number, named, cut=cut and not _ENDED.search(text))
        elif self._body is None or self._body.take(line.number, text, cut=cut):
            return
        elif cut and _CUT_ADDRESS.fullmatch(text) and self.devices:
            self.doubts.append(Doubt(line=line.number, text=f"the line of a device is cut: {shown(text)}"))
        elif self.devices and indent <= self._indent and not _KEY.match(text):
            self.strays.append(Doubt(line=line.number, text=f"no line of `lspci`, not read: {shown(text)}"))

    def _take_device(self, line: int, named: DeviceLine, *, cut: bool) -> None:
        known = self.devices.get(named.address)
        if known is not None and (known.named.class_id, known.named.vendor) != (named.class_id, named.vendor):
            text = f"{named.address} again, as another device than on line {known.line}: not read"
            self.doubts.append(Doubt(line=line, text=text))
            self._body = None
            return
        if known is None:
            known = self.devices[named.address] = _Device(line=line, named=named)
            if cut:
                text = f"{named.address}: its line may be cut, and its kind is not sure"
                self.doubts.append(Doubt(line=line, text=text))
            if named.absent:
                text = f"{named.address} does not answer (rev ff): it has fallen off the bus, or sleeps"
                self.doubts.append(Doubt(line=line, text=text))
        elif known.body != DeviceBody():
            self.doubts.append(Doubt(line=line, text=f"{named.address} again, as on line {known.line}: not read"))
            self._body = DeviceBody()
            return
        self._body = known.body


def _domain(address: str) -> str:
    return address.partition(":")[0]


def _above(one: _Device, bridges: _Bridges) -> _Device | None:
    """The bridge above a device, None where it is not told."""
    domain, bus, _ = one.named.address.split(":")
    bridge = bridges.get((domain, int(bus, 16)))
    return None if bridge is one else bridge


def _pci(one: _Device, bridges: _Bridges, *, is_last: bool) -> PciDevice:
    named, above = one.named, _above(one, bridges)
    interface = 0 if named.interface is None and named.class_id in _ONE_INTERFACE else named.interface
    code = Unread.UNKNOWN if named.class_id is None or interface is None else named.class_id << 8 | interface
    return PciDevice(
        address=named.address,
        parent=Unread.UNKNOWN if above is None else above.named.address,
        kind=one.kind,
        class_code=code,
        name=named.name,
        pcie=one.body.pcie(),
        numa_node=one.body.numa,
        acs=_acs(one.body, is_last=is_last),
    )


def _acs(body: DeviceBody, *, is_last: bool) -> tuple[str, ...] | Unread:
    """The controls that are on. Not supported where all extended capabilities are listed and ACS is none of them."""
    if len(body.acs) == 1:
        return acs_on(body.acs[0][1])
    if body.denied and not body.acs:
        return Unread.NO_PERMISSION
    listed = body.extended and not body.has_acs and not body.acs and (body.whole or not is_last)
    return Unread.NOT_SUPPORTED if listed else Unread.UNKNOWN


def _acs_doubts(devices: Sequence[_Device], adrift: Sequence[tuple[int, str]]) -> list[Doubt]:
    doubts = []
    if adrift:
        lines = "1 ACSCtl line is" if len(adrift) == 1 else f"{len(adrift)} ACSCtl lines are"
        text = f"{lines} without the line of a device: of which bridges is not known; paste all of `sudo lspci -vv`"
        doubts.append(Doubt(line=adrift[0][0], text=text))
    own = [one.body.acs[0] for one in devices if len(one.body.acs) == 1]
    for line, text in sorted([*own, *adrift]):
        if acs_on(text) is Unread.UNKNOWN:
            doubts.append(Doubt(line=line, text="this ACSCtl line does not state all controls: not known"))
    return doubts


def _gpus(devices: Sequence[_Device], bridges: _Bridges) -> list[Gpu]:
    found = sorted((one for one in devices if one.kind == "gpu"), key=lambda one: _order(one.named.address))
    return [_gpu(index, one, _above(one, bridges)) for index, one in enumerate(found)]


def _order(address: str) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in re.split(r"[:.]", address))


def _gpu(index: int, one: _Device, above: _Device | None) -> Gpu:
    pcie, most = one.body.pcie(), above.body.pcie() if above else None
    return blank_gpu(
        index,
        vendor="nvidia" if one.named.vendor == _NVIDIA else "amd",
        model=_model(one.named.name),
        pci_address=one.named.address,
        pcie_generation=pcie.generation,
        pcie_width=pcie.width,
        max_pcie_generation=_least(pcie.max_generation, most.max_generation if most else Unread.UNKNOWN),
        max_pcie_width=_least(pcie.max_width, most.max_width if most else Unread.UNKNOWN),
        numa_node=one.body.numa,
    )


def _least(one: int | Unread, other: int | Unread) -> int | Unread:
    if isinstance(one, Unread):
        return one
    return other if isinstance(other, Unread) else min(one, other)


def _model(name: str | Unread) -> str | Unread:
    """``A100 SXM4 80GB`` of ``NVIDIA Corporation GA100 [A100 SXM4 80GB]``; without brackets only a chip is named."""
    found = [] if isinstance(name, Unread) else [word for word in _MODEL.findall(name) if word not in _NO_MODEL]
    return found[-1] if found else Unread.UNKNOWN
