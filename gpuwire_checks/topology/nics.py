"""Network interfaces and RDMA ports, from /sys/class/net and /sys/class/infiniband."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from gpuwire_checks.topology.model import Nic, PciDevice, Unread
from gpuwire_checks.topology.tree import folders, is_there, numa_node, pci_function, read_number, read_text, real

_KINDS: dict[str, Literal["infiniband", "roce"]] = {"InfiniBand": "infiniband", "Ethernet": "roce"}
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec.*")
_IPOIB = 32
"""ARPHRD_INFINIBAND, include/uapi/linux/if_arp.h."""
_MAX_MBIT = (1 << 31) - 1
"""Above it ``speed`` is SPEED_UNKNOWN printed unsigned, as some drivers do."""
_STATES = {"DOWN": "Down", "INIT": "Initializing", "ARMED": "Armed", "ACTIVE": "Active", "ACTIVE_DEFER": "ActiveDefer"}
"""What sysfs prints of a port (drivers/infiniband/core/sysfs.c), and ibstat of the same."""
_NUMBERED = re.compile(r"\d+: (\S.*)")


def read_nics(root: Path, pci: Sequence[PciDevice] = ()) -> tuple[Nic, ...]:
    """Every RDMA port, then every interface that is not the network side of one of them.

    A RoCE card shows up in both folders; it is one NIC, under its RDMA name, as in ``nvidia-smi topo -m``. A virtual
    function beside its physical one is *virtual*: it comes and goes with a setting, and has no wire of its own. Alone,
    as in a guest or a container, it is the NIC.

    Args:
        pci: the bus, for the PCIe link of each.
    """
    # By the NIC itself: some BMCs have an interface behind a USB controller, whose link is not theirs.
    links = {device.address: device.pcie for device in pci if device.kind == "nic"}
    devices = folders(root / "sys/class/infiniband")
    ports = tuple(_rdma_port(device, port) for device in devices for port in folders(device / "ports"))
    seen = {port.pci_address for port in ports if not isinstance(port.pci_address, Unread)}
    interfaces = (_interface(folder) for folder in folders(root / "sys/class/net"))
    found = (*ports, *(nic for nic in interfaces if nic.pci_address not in seen))
    here = {nic.pci_address for nic in found}
    found = tuple(replace(nic, kind="virtual") if _physical(root, nic) in here else nic for nic in found)
    return tuple(replace(nic, pcie=links[nic.pci_address]) if nic.pci_address in links else nic for nic in found)


def _physical(root: Path, nic: Nic) -> str | None:
    """The address of the physical function that a virtual one is of (Documentation/ABI/testing/sysfs-bus-pci)."""
    link = root / "sys/bus/pci/devices" / str(nic.pci_address) / "physfn"
    return real(link).name if link.is_symlink() else None


def _interface(folder: Path) -> Nic:
    function = pci_function(folder / "device")
    return Nic(
        name=folder.name,
        kind=_interface_kind(folder),
        rate_bits=_ethernet_rate(folder / "speed"),
        up=_operstate(folder / "operstate"),
        numa_node=numa_node(function),
        pci_address=function.name if function else Unread.NOT_SUPPORTED,
        device=Unread.NOT_SUPPORTED,
        state=Unread.NOT_SUPPORTED,
        physical=Unread.NOT_SUPPORTED,
    )


def _interface_kind(folder: Path) -> Literal["ethernet", "infiniband", "virtual"]:
    if not is_there(folder / "device"):
        return "virtual"
    return "infiniband" if read_number(folder / "type") == _IPOIB else "ethernet"


def _ethernet_rate(speed: Path) -> int | Unread:
    """Bits per second from a ``speed`` in Mbit/s, where -1 means that the driver does not know."""
    mbit = read_number(speed)
    if isinstance(mbit, Unread):
        return mbit
    return mbit * 1_000_000 if 0 < mbit <= _MAX_MBIT else Unread.UNKNOWN


def _operstate(path: Path) -> bool | Unread:
    """Up or not by RFC 2863's state; a driver that keeps no state says ``unknown``, and so do we."""
    state = read_text(path)
    if isinstance(state, Unread):
        return state
    return Unread.UNKNOWN if state == "unknown" else state == "up"


def _rdma_port(device: Path, port: Path) -> Nic:
    """One port under its device's name; a second port of the same device is ``mlx4_0:2``, as in ibstat."""
    function, has_device = pci_function(device / "device"), is_there(device / "device")
    layer, state, physical = read_text(port / "link_layer"), _word(port / "state"), _word(port / "phys_state")
    up = _rdma_up(state, physical)
    return Nic(
        name=device.name if port.name == "1" else f"{device.name}:{port.name}",
        kind=_KINDS.get(layer, "unknown") if has_device else "virtual",
        # A port that is down prints the rate of its lowest speed (10 Gb/sec), which is no rate of a link.
        rate_bits=Unread.UNKNOWN if up is False else _rdma_rate(port / "rate"),
        up=up,
        numa_node=numa_node(function),
        pci_address=function.name if function else Unread.NOT_SUPPORTED,
        device=device.name,
        state=state if isinstance(state, Unread) else _STATES.get(state, state),
        physical=physical,
        firmware=read_text(device / "fw_ver") or Unread.UNKNOWN,
    )


def _word(path: Path) -> str | Unread:
    """``ACTIVE`` from ``4: ACTIVE``; the kernel's ``<unknown>`` is that."""
    text = read_text(path)
    if isinstance(text, Unread):
        return text
    match = _NUMBERED.fullmatch(text)
    return match[1] if match and match[1] != "<unknown>" else Unread.UNKNOWN


def _rdma_up(state: str | Unread, physical: str | Unread) -> bool | Unread:
    """True for ACTIVE over LinkUp; a port that trains but has no subnet manager is not up."""
    if isinstance(state, Unread):
        return state
    linked = isinstance(physical, Unread) or physical == "LinkUp"
    return state == "ACTIVE" and linked


def _rdma_rate(path: Path) -> int | Unread:
    """Bits per second from ``400 Gb/sec (4X NDR)``."""
    text = read_text(path)
    if isinstance(text, Unread):
        return text
    match = _RATE.fullmatch(text)
    return round(float(match[1]) * 1e9) if match and float(match[1]) else Unread.UNKNOWN
