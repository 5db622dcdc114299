"""Error counters of NICs, from /sys/class/infiniband and /sys/class/net."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuwire_checks.topology.model import CounterValue
from gpuwire_checks.topology.tree import folders, read_number

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
    """Every error counter of RDMA ports, and of interfaces with a device behind them, under the NIC's name."""
    return (*_ports(root), *_interfaces(root))


def _ports(root: Path) -> Iterator[CounterValue]:
    for device in folders(root / "sys/class/infiniband"):
        for port in folders(device / "ports"):
            name = device.name if port.name == "1" else f"{device.name}:{port.name}"
            for file, counter in _OF_PORTS.items():
                yield CounterValue(part=name, name=counter, value=read_number(port / "counters" / file))


def _interfaces(root: Path) -> Iterator[CounterValue]:
    for interface in folders(root / "sys/class/net"):
        if (interface / "device").exists():
            for file, counter in _OF_INTERFACES.items():
                value = read_number(interface / "statistics" / file)
                yield CounterValue(part=interface.name, name=counter, value=value)
