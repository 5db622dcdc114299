"""The PCI bus from /sys/bus/pci: GPUs, NICs, NVSwitches, and the bridges above them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
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

_Link: TypeAlias = tuple[int | Unread, int | Unread]


def read_pci(root: Path) -> tuple[PciDevice, ...]:
    """GPUs, NICs and NVSwitches on the bus and every bridge above one of them, by address; no driver is asked.

    Which bridges are above a device is told by where its link leads
    (``/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0``); a tree recorded without links does not tell.
    """
    devices: dict[str, PciDevice] = {}
    for place in map(real, folders(root / "sys/bus/pci/devices")):
        if is_pci_address(place.name) and (kind := _kind(place)) is not None:
            devices[place.name] = _device(place, kind)
            for bridge in _bridges(place):
                if bridge.name not in devices:
                    devices[bridge.name] = _device(bridge, "switch")
    return tuple(devices[address] for address in sorted(devices, key=_numbers))


def read_pcie(function: Path) -> Pcie:
    """The PCIe link of a GPU or NIC, by the folder where its links lead.

    sysfs tells what the device could do at most, and the port above it what that port could; the least counts. A
    hypervisor's port may claim less than what runs over it, and is not believed then.
    """
    now, most = _link(function, "current"), _link(function, "max")
    if is_pci_address(function.parent.name):
        port = _link(function.parent, "max")
        if not any(_is_less(*pair) for pair in zip(port, now, strict=True)):
            most = _least(most[0], port[0]), _least(most[1], port[1])
    return Pcie(generation=now[0], width=now[1], max_generation=most[0], max_width=most[1])


def _kind(place: Path) -> _Kind | None:
    """What a function is; None for what is none of ours."""
    code = _hex(f"{place}/class")
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


def _device(place: Path, kind: _Kind) -> PciDevice:
    bridges = _bridges(place)
    above = (bridges[-1] if bridges else place).parent.name
    root = above if _ROOT.fullmatch(above) else Unread.UNKNOWN
    return PciDevice(
        address=place.name,
        parent=bridges[0].name if bridges else root if isinstance(root, Unread) else None,
        root=root,
        kind=kind,
        class_code=_hex(f"{place}/class"),
        name=_ids(place),
        pcie=_port(place) if kind == "switch" else read_pcie(_outermost(place, bridges)),
        numa_node=numa_node(place),
        acs=_acs(f"{place}/config") if kind == "switch" else Unread.UNKNOWN,
    )


def _outermost(place: Path, bridges: Sequence[Path]) -> Path:
    """The function whose link leads to the slot: the outer bridge where an AMD board has a switch of its own."""
    inner = takewhile(lambda bridge: read_text(f"{bridge}/vendor") == f"0x{_AMD}", bridges)
    return [place, *inner][-1]


def _port(place: Path) -> Pcie:
    """The link of a bridge, above an upstream port and below the others."""
    now, most = _link(place, "current"), _link(place, "max")
    return Pcie(generation=now[0], width=now[1], max_generation=most[0], max_width=most[1])


def _bridges(place: Path) -> list[Path]:
    """The folders of the bridges above a function, the nearest first; a volume controller (Intel VMD) is none."""
    found, above = [], place.parent
    while is_pci_address(above.name):
        found.append(above)
        above = above.parent
    return found


def _ids(place: Path) -> str | Unread:
    """``10de:2330``: what lspci -n prints, and pci.ids has a name for; ``10de:????`` where a recorded tree has half."""
    vendor, device = read_text(f"{place}/vendor"), read_text(f"{place}/device")
    if isinstance(vendor, Unread):
        return vendor
    return f"{vendor.removeprefix('0x')}:{'????' if isinstance(device, Unread) else device.removeprefix('0x')}"


def _link(place: Path, which: Literal["current", "max"]) -> _Link:
    """Generation and width that a function prints."""
    speed, width = read_text(f"{place}/{which}_link_speed"), read_number(f"{place}/{which}_link_width")
    return _generation(speed), width if isinstance(width, Unread) or width in _WIDTHS else Unread.UNKNOWN


def _generation(speed: str | Unread) -> int | Unread:
    """5 from ``32.0 GT/s PCIe``; ``Unknown`` is that."""
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
