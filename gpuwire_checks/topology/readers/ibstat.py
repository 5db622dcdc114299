"""``ibstat`` or ``ibstatus``, as people paste it, to the RDMA ports of a node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import Doubt, Nic, NodeTopology, Unread
from gpuwire_checks.topology.readers.blank import blank_node
from gpuwire_checks.topology.readers.ibstat_lines import START, Port, Reading
from gpuwire_checks.topology.readers.plain_lines import bounded, few, plain_lines
from gpuwire_checks.topology.readers.smi_values import unread

MAX_PORTS = 1024
_LOOKED_AT = 1 << 20
_RATE = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)(?: ?Gb/sec)?(?: ?\(.*\))?")
_NUMBERED = re.compile(r"\d{1,2}: ?")
_STATES = {"init": "Initializing", "actdefer": "ActDefer", "active_defer": "ActDefer"}
"""The kernel's words where they are not those of ``ibstat`` in capitals: ``ibstatus`` prints ``4: ACTIVE``."""
_KINDS: dict[str, Literal["infiniband", "roce"]] = {"infiniband": "infiniband", "ethernet": "roce"}
_KNOWN = {
    "state": {"active", "down", "initializing", "armed", "actdefer", "nop"},
    "physical": {
        "linkup",
        "polling",
        "disabled",
        "sleep",
        "portconfigurationtraining",
        "linkerrorrecovery",
        "phytest",
        "nostatechange",
    },
    "layer": {"infiniband", "ethernet"},
}
"""Of each value the words of ibstat and of the kernel, without blanks.

Source: rdma-core infiniband-diags/ibstat.c; Linux drivers/infiniband/core/sysfs.c.
"""
_WORDS = {"state": "state", "physical": "physical state", "rate": "rate", "layer": "link layer"}


def looks_like_ibstat(text: str) -> bool:
    """True when there is the line that names a CA, or a port in ``ibstatus``."""
    return START.search(text, 0, _LOOKED_AT) is not None


def read_ibstat(text: str, *, source: str) -> NodeTopology:
    """The ports in the order of the text; ``doubts`` has what could not be read.

    A port that is down has an unknown rate: the one that is printed is no rate of a link.

    Raises:
        TopologyError: no such text, or larger than any node.
    """
    plain = plain_lines(text, start=START, tool="ibstat", source=source)
    reading = Reading(plain)
    for line in plain.lines:
        reading.take(line)
    reading.end()
    ports = reading.ports
    if len(ports) > MAX_PORTS:
        raise TopologyError(f"{source}:1: {len(ports)} ports; at most {MAX_PORTS} are read: paste one node's output")
    doubts = [*plain.doubts, *reading.doubts, *(doubt for port in ports for doubt in _doubts(port))]
    return blank_node(source, nics=tuple(map(_nic, ports)), doubts=bounded([*doubts, *few(reading.strays)]))


def _nic(port: Port) -> Nic:
    """A second port of a CA is ``mlx5_0:2``, as it is from sysfs."""
    layer, up = _text(port, "layer"), _up(port)
    return Nic(
        name=port.name,
        kind=_KINDS.get(layer.casefold(), "unknown"),
        rate_bits=Unread.UNKNOWN if up is False else _rate(port),
        up=up,
        numa_node=Unread.UNKNOWN,
        device=port.device,
        state=_state(port),
        physical=_text(port, "physical"),
        firmware=port.firmware,
    )


def _text(port: Port, key: str) -> str | Unread:
    if key not in port.fields:
        return Unread.UNKNOWN
    text = _NUMBERED.sub("", port.fields[key].text, count=1)
    return unread(text) or text[:40]


def _state(port: Port) -> str | Unread:
    text = _text(port, "state")
    if isinstance(text, Unread):
        return text
    return _STATES.get(text.casefold(), text.capitalize() if text.isupper() else text)


def _is_known(port: Port, key: str) -> bool:
    """False for a word that no tool prints, such as ``Actve``: what it was is not known."""
    text = _state(port) if key == "state" else _text(port, key)
    return isinstance(text, Unread) or key not in _KNOWN or "".join(text.split()).casefold() in _KNOWN[key]


def _up(port: Port) -> bool | Unread:
    """True for ``Active`` over ``LinkUp``; a port that trains but has no subnet manager is not up."""
    state, physical = _state(port), _text(port, "physical")
    if isinstance(state, Unread):
        return state
    if not _is_known(port, "state") or (state == "Active" and not _is_known(port, "physical")):
        return Unread.UNKNOWN
    return state == "Active" and (isinstance(physical, Unread) or physical.casefold() == "linkup")


def _rate(port: Port) -> int | Unread:
    """Bits per second; ``Rate: 400`` of ibstat and ``400 Gb/sec (4X NDR)`` of ibstatus are Gbit/s."""
    text = _text(port, "rate")
    if isinstance(text, Unread):
        return text
    match = _RATE.fullmatch(text)
    return round(float(match[1]) * 1e9) if match and float(match[1]) else Unread.UNKNOWN


def _doubts(port: Port) -> Iterator[Doubt]:
    missing = [word for key, word in _WORDS.items() if key not in port.fields]
    if port.number is None:
        yield Doubt(line=port.last, text=f"{port.device}: none of its ports is listed")
    elif missing:
        yield Doubt(line=port.last, text=f"{port.told} says nothing of: {', '.join(missing)}")
    rate = port.fields.get("rate")
    if rate is not None and _up(port) is False:
        state = "/".join(str(word) for word in (_state(port), _text(port, "physical")) if not isinstance(word, Unread))
        text = f"{port.told}: the rate {rate.text[:20]} of a port that is {state} is no rate of a link: not read"
        yield Doubt(line=rate.line, text=text)
    for key, word in _WORDS.items():
        value = port.fields.get(key)
        strange = key == "rate" and _up(port) is not False and _rate(port) is Unread.UNKNOWN
        if value is not None and (strange or _text(port, key) is Unread.UNKNOWN or not _is_known(port, key)):
            told = "is cut" if value.cut else f"reads {value.text[:40]!r}"
            yield Doubt(line=value.line, text=f"{port.told}: {word} {told}: not known")
