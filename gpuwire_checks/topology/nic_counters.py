"""Error counters of NICs, from /sys/class/infiniband and /sys/class/net."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuwire_checks.topology.model import CounterValue, Unread
from gpuwire_checks.topology.tree import folders, is_there, pci_function, read_number

_OF_PORTS = {
    "symbol_error": "symbol errors",
    "link_downed": "link downed",
    "link_error_recovery": "link error recovery",
    "port_rcv_errors": "receive errors",
    "port_xmit_discards": "transmit discards",
}
"""Files of a port's ``counters`` folder (Documentation/ABI/stable/sysfs-class-infiniband)."""
_OF_INTERFACES = {"rx_errors": "receive errors", "tx_dropped": "transmit discards"}
"""Files of an interface's ``statistics`` folder (Documentation/ABI/testing/sysfs-class-net-statistics)."""


def nic_counters(root: Path) -> tuple[CounterValue, ...]:
    """Error counters of RDMA ports, and of other interfaces with a device behind them, under the NIC's name.

    The network side of an RDMA port is the same NIC, and is not counted again.
    """
    devices = folders(root / "sys/class/infiniband")
    functions = {pci_function(device / "device") for device in devices}
    interfaces = (folder for folder in folders(root / "sys/class/net") if is_there(folder / "device"))
    alone = (folder for folder in interfaces if pci_function(folder / "device") not in functions - {None})
    return (*_ports(devices), *_interfaces(alone))


def _ports(devices: Iterable[Path]) -> Iterator[CounterValue]:
    for device in devices:
        for port in folders(device / "ports"):
            name = device.name if port.name == "1" else f"{device.name}:{port.name}"
            yield from _values(name, port / "counters", _OF_PORTS)


def _interfaces(interfaces: Iterable[Path]) -> Iterator[CounterValue]:
    for interface in interfaces:
        yield from _values(interface.name, interface / "statistics", _OF_INTERFACES)


def _values(part: str, folder: Path, counters: dict[str, str]) -> Iterator[CounterValue]:
    """Counters of one port; a device without that folder (EFA) keeps no such counters."""
    kept = is_there(folder)
    for file, name in counters.items():
        yield CounterValue(part=part, name=name, value=read_number(folder / file) if kept else Unread.NOT_SUPPORTED)
