"""The PCI bus from /sys/bus/pci: GPUs, NICs, NVSwitches, and the bridges above them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from gpuwire_checks.topology.model import PciDevice, Pcie, Unread
from gpuwire_checks.topology.tree import folders, is_pci_address, numa_node, read_number, read_text, real

_Kind: TypeAlias = Literal["gpu", "nic", "switch", "nvswitch", "other"]

_NVIDIA, _AMD = "10de", "1002"
_NETWORK, _NVSWITCH = 0x02, 0x0680
_GPU_CLASSES = {_NVIDIA: (0x0300, 0x0302), _AMD: (0x0300, 0x0302, 0x0380, 0x1200)}
"""VGA, 3D and other display controllers, and processing accelerators, by vendor (pci.ids).

Among AMD's, an MI250X is a display controller and an MI300X an accelerator. An NVSwitch is NVIDIA's "other bridge".
"""
_ENDS = frozenset({_NVSWITCH}.union(*_GPU_CLASSES.values()))
_ROOT = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
_HEX = re.compile(r"0x[0-9a-f]{1,8}")
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s( PCIe)?")
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})
"""The widths there are. The kernel prints 0 and 255 where it does not know one, and 63 of a device that is gone."""

_EXTENDED_SPACE, _CONVENTIONAL_BYTES = 0x100, 256
_ACS, _ACS_CONTROL = 0x000D, 6
_ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
"""In lspci's words, from bit 0 (PCI_EXT_CAP_ID_ACS and PCI_ACS_CTRL in linux/pci_regs.h)."""
_CAPABILITIES_AT_MOST = 480
"""Capabilities of 8 bytes that fit 4096 bytes: a chain longer than that is a loop."""


def read_pci(root: Path) -> tuple[PciDevice, ...]:
    """GPUs, NICs and NVSwitches on the bus and every bridge above one of them, by address; no driver is asked.

    Which bridges are above a device is told by where its link leads
    (``/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0``); a tree recorded without links does not tell.
    """
    found: dict[str, PciDevice] = {}
    for place in map(str, map(real, folders(root / "sys/bus/pci/devices"))):
        code = _hex(f"{place}/class") if is_pci_address(_name(place)) else Unread.UNKNOWN
        if (kind := _kind(place, code)) is not None:
            found[_name(place)] = _function(place, kind, code)
            for bridge in _bridges(place):
                if _name(bridge) not in found:
                    found[_name(bridge)] = _function(bridge, "switch", _hex(f"{bridge}/class"))
    return tuple(_with_slot(found[address], found) for address in sorted(found, key=_numbers))


def is_on_amd_board(bridge: PciDevice) -> bool:
    """True for a bridge of a switch that an AMD board has of its own; AMD's root ports have another vendor id, 1022."""
    return not isinstance(bridge.name, Unread) and bridge.name.startswith(f"{_AMD}:")


def _kind(place: str, code: int | Unread) -> _Kind | None:
    """What a function is; None for what is none of ours."""
    if isinstance(code, Unread):
        return None
    if code >> 16 == _NETWORK:
        return "nic"
    if code >> 8 not in _ENDS:
        return None
    vendor = read_text(f"{place}/vendor").removeprefix("0x")
    if code >> 8 == _NVSWITCH:
        return "nvswitch" if vendor == _NVIDIA else None
    return "gpu" if code >> 8 in _GPU_CLASSES.get(vendor, ()) else None


def _function(place: str, kind: _Kind, code: int | Unread) -> PciDevice:
    """A function with the link that it prints of itself."""
    bridges = _bridges(place)
    above = _name(_parent(bridges[-1] if bridges else place))
    root = above if _ROOT.fullmatch(above) else Unread.UNKNOWN
    return PciDevice(
        address=_name(place),
        parent=_name(bridges[0]) if bridges else root if isinstance(root, Unread) else None,
        root=root,
        kind=kind,
        class_code=code,
        name=_ids(place),
        pcie=_link(place),
        numa_node=numa_node(place),
        acs=_acs(f"{place}/config") if kind == "switch" else Unread.UNKNOWN,
    )


def _with_slot(device: PciDevice, by_address: Mapping[str, PciDevice]) -> PciDevice:
    """A device with the link to its slot, which is above the outer bridge where a board has a switch of its own.

    sysfs tells what the device could do at most, and the port above it what that port could; the least counts. A
    hypervisor's port may claim less than what runs over it, and is not believed then.
    """
    if device.kind == "switch":
        return device
    link, port = device.pcie, by_address.get(device.parent or "")
    while port is not None and device.kind == "gpu" and is_on_amd_board(port):
        link, port = port.pcie, by_address.get(port.parent or "")
    if port is None or _is_less(port.pcie.max_generation, link.generation) or _is_less(port.pcie.max_width, link.width):
        return replace(device, pcie=link)
    generation = _least(link.max_generation, port.pcie.max_generation)
    return replace(
        device,
        pcie=replace(link, max_generation=generation, max_width=_least(link.max_width, port.pcie.max_width)),
    )


def _bridges(place: str) -> list[str]:
    """The folders of the bridges above a function, the nearest first; a volume controller (Intel VMD) is none."""
    found, above = [], _parent(place)
    while is_pci_address(_name(above)):
        found.append(above)
        above = _parent(above)
    return found


def _name(place: str) -> str:
    return place.rpartition("/")[2]


def _parent(place: str) -> str:
    return place.rpartition("/")[0]


def _ids(place: str) -> str | Unread:
    """``10de:2330``: what lspci -n prints, and pci.ids has a name for; ``10de:????`` where a recorded tree has half."""
    vendor, device = read_text(f"{place}/vendor"), read_text(f"{place}/device")
    if isinstance(vendor, Unread):
        return vendor
    return f"{vendor.removeprefix('0x')}:{'????' if isinstance(device, Unread) else device.removeprefix('0x')}"


def _link(place: str) -> Pcie:
    """What a function prints: of the link above it, or below it where it is a port that leads down."""
    return Pcie(
        generation=_generation(f"{place}/current_link_speed"),
        width=_width(f"{place}/current_link_width"),
        max_generation=_generation(f"{place}/max_link_speed"),
        max_width=_width(f"{place}/max_link_width"),
    )


def _width(path: str) -> int | Unread:
    width = read_number(path)
    return width if isinstance(width, Unread) or width in _WIDTHS else Unread.UNKNOWN


def _generation(path: str) -> int | Unread:
    """5 from ``32.0 GT/s PCIe``; ``Unknown`` is that."""
    speed = read_text(path)
    if isinstance(speed, Unread):
        return speed
    match = _SPEED.fullmatch(speed)
    return _GENERATIONS.get(float(match[1]), Unread.UNKNOWN) if match else Unread.UNKNOWN


def _is_less(a: int | Unread, b: int | Unread) -> bool:
    return not isinstance(a, Unread) and not isinstance(b, Unread) and a < b


def _least(own: int | Unread, port: int | Unread) -> int | Unread:
    return port if _is_less(port, own) else own


def _acs(config: str) -> tuple[str, ...] | Unread:
    """The ACS controls that are on, from the extended configuration space, which only root may read.

    Others get the first 64 bytes of it and no error (Documentation/PCI/sysfs-pci.rst). Single words are read: each is
    a transaction on the bus.
    """
    try:
        file = os.open(config, os.O_RDONLY)
    except PermissionError:
        return Unread.NO_PERMISSION
    except OSError:
        return Unread.UNKNOWN
    try:
        control = _acs_control(file)
    except OSError:
        return Unread.UNKNOWN
    finally:
        os.close(file)
    if isinstance(control, Unread):
        return control
    return tuple(name for bit, name in enumerate(_ACS_BITS) if control >> bit & 1)


def _acs_control(file: int) -> int | Unread:
    """The control register; *not supported* where the device has no such capability."""
    for header in _capabilities(file):
        if isinstance(header, Unread):
            return header
        at, capability = header
        if capability == _ACS:
            return int.from_bytes(os.pread(file, 2, at + _ACS_CONTROL), "little")
    return Unread.NOT_SUPPORTED


def _capabilities(file: int) -> Iterator[tuple[int, int] | Unread]:
    """Offset and id of each extended capability."""
    at = _EXTENDED_SPACE
    for _ in range(_CAPABILITIES_AT_MOST):
        word = os.pread(file, 4, at)
        if len(word) < 4:
            conventional = os.fstat(file).st_size == _CONVENTIONAL_BYTES
            yield Unread.NOT_SUPPORTED if conventional else Unread.NO_PERMISSION
            return
        header = int.from_bytes(word, "little")
        if header == 0xFFFFFFFF:
            yield Unread.UNKNOWN
            return
        yield at, header & 0xFFFF
        at = header >> 20
        if at < _EXTENDED_SPACE:
            return


def _hex(path: str) -> int | Unread:
    text = read_text(path)
    if isinstance(text, Unread):
        return text
    return int(text, 16) if _HEX.fullmatch(text) else Unread.UNKNOWN


def _numbers(address: str) -> list[int]:
    return [int(part, 16) for part in re.split("[:.]", address)]
