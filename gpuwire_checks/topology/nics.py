"""Network interfaces and RDMA ports, from /sys/class/net and /sys/class/infiniband."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from gpuwire_checks.topology.model import Nic, Unread
from gpuwire_checks.topology.tree import folders, numa_node, pci_function, read_number, read_text

_KINDS: dict[str, Literal["infiniband", "roce"]] = {"InfiniBand": "infiniband", "Ethernet": "roce"}
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec.*")
_IPOIB = 32
"""ARPHRD_INFINIBAND, include/uapi/linux/if_arp.h."""
_MAX_MBIT = (1 << 31) - 1
"""Above it ``speed`` is SPEED_UNKNOWN printed unsigned, as some drivers do."""


def read_nics(root: Path) -> tuple[Nic, ...]:
    """Every RDMA port, then every interface that is not the network side of one of them.

    A RoCE card shows up in both folders; it is one NIC, under its RDMA name, as in ``nvidia-smi topo -m``.
    """
    devices = folders(root / "sys/class/infiniband")
    ports = tuple(_rdma_port(device, port) for device in devices for port in folders(device / "ports"))
    seen = {port.pci_address for port in ports if not isinstance(port.pci_address, Unread)}
    interfaces = (_interface(folder) for folder in folders(root / "sys/class/net"))
    return (*ports, *(nic for nic in interfaces if nic.pci_address not in seen))


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
    )


def _interface_kind(folder: Path) -> Literal["ethernet", "infiniband", "virtual"]:
    if not (folder / "device").exists():
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
    function, real = pci_function(device / "device"), (device / "device").exists()
    layer, up = read_text(port / "link_layer"), _rdma_up(port)
    return Nic(
        name=device.name if port.name == "1" else f"{device.name}:{port.name}",
        kind=_KINDS.get(layer, "unknown") if real else "virtual",
        # A port that is down prints the rate of its lowest speed (10 Gb/sec), which is no rate of a link.
        rate_bits=Unread.UNKNOWN if up is False else _rdma_rate(port / "rate"),
        up=up,
        numa_node=numa_node(function),
        pci_address=function.name if function else Unread.NOT_SUPPORTED,
        device=device.name,
    )


def _rdma_up(port: Path) -> bool | Unread:
    """True for ``4: ACTIVE`` over ``5: LinkUp``; a port that trains but has no subnet manager is not up."""
    state, physical = read_text(port / "state"), read_text(port / "phys_state")
    if isinstance(state, Unread):
        return state
    linked = isinstance(physical, Unread) or physical.endswith("LinkUp")
    return state.endswith(" ACTIVE") and linked


def _rdma_rate(path: Path) -> int | Unread:
    """Bits per second from ``400 Gb/sec (4X NDR)``."""
    text = read_text(path)
    if isinstance(text, Unread):
        return text
    match = _RATE.fullmatch(text)
    return round(float(match[1]) * 1e9) if match and float(match[1]) else Unread.UNKNOWN
