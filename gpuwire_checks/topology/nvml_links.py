"""NVLinks of one GPU through NVML: which there are, whether each is up, what it carries, and where it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gpuwire_checks.topology.asking import Device, word
from gpuwire_checks.topology.devices import GpuLinks, pci_address
from gpuwire_checks.topology.link_rates import payload_bytes
from gpuwire_checks.topology.model import Link, Unread

_MAX_LINKS = 36
"""NVML_NVLINK_MAX_LINKS of bindings since 13; older ones have 18, and drivers tell by themselves where links end."""
_NO_DEVICE = "0000:00:00.0"
"""What a driver may give for the other end of a link that was never trained."""
_GPU, _IBMNPU, _SWITCH = 0, 1, 2
"""nvmlIntNvLinkDeviceType_t."""
_GET_SPEED = 164
"""NVML_FI_DEV_NVLINK_GET_SPEED: MB/s in one direction, of the link in the field's scope."""
_SPEED_OF = (*range(84, 90), *range(132, 138))
"""NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 to _L11, the fields of drivers that do not know the one above."""
_VERSIONS = {1: (1,), 2: (2,), 3: (2,), 4: (2, 3), 5: (3,), 6: (3, 4), 7: (4, 5), 8: (5, 6), 9: (6,)}
"""What nvmlDeviceGetNvLinkVersion may mean: some drivers pass the kernel module's own numbers on, in which 7 is 4.0.

Source: nvmlNvlinkVersion_t in nvml.h; NV2080_CTRL_NVLINK_STATUS_NVLINK_VERSION_* in NVIDIA/open-gpu-kernel-modules
ctrl2080nvlink.h.
"""
_VERSION_OF_ARCHITECTURE = {4: 1, 5: 2, 6: 2, 7: 3, 9: 4, 10: 5, 13: 6}
"""By nvmlDeviceArchitecture_t: Pascal, Volta, Turing, Ampere, Hopper, Blackwell, Rubin."""

States = Mapping[int, bool | Unread]
"""Of each link that the driver knows, by its number, whether it is up."""


def link_states(device: Device) -> States | Unread:
    """Every link of a GPU; empty when it has no NVLink, unread when the state of none can be read.

    A number that is not supported is no link here; the first that NVML calls invalid ends them.
    """
    states: dict[int, bool | Unread] = {}
    for link in range(max(getattr(device.asker.nvml, "NVML_NVLINK_MAX_LINKS", 0), _MAX_LINKS)):
        state = device.ask_in_range("NVLinks", "nvmlDeviceGetNvLinkState", link)
        if state is None:
            break
        if state is not Unread.NOT_SUPPORTED:
            states[link] = state if isinstance(state, Unread) else state == 1
    unread = [state for state in states.values() if isinstance(state, Unread)]
    lost = device.asker.is_lost(device.number)
    return unread[0] if unread and (lost or len(unread) == len(states)) else states


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """The other end of a link: nvmlIntNvLinkDeviceType_t, and its PCI address where it is no switch."""

    kind: int | Unread
    address: str | Unread = Unread.UNKNOWN


def read_links(
    device: Device, states: States | Unread, *, addresses: Collection[str | Unread], names: Mapping[str, str]
) -> tuple[tuple[Link, ...] | Unread, GpuLinks]:
    """The links of a GPU, and where those that are up end.

    Args:
        addresses: of all GPUs that the driver has.
        names: of the visible ones (``GPU3``), by address.
    """
    if isinstance(states, Unread):
        return states, GpuLinks(complete=False)
    up = [link for link, state in states.items() if state is True]
    ends = {link: _end(device, link, up=state) for link, state in states.items() if not isinstance(state, Unread)}
    speeds = _speeds(device, up)
    architecture = device.ask(None, "nvmlDeviceGetArchitecture") if up else Unread.UNKNOWN
    links = tuple(
        Link(
            number=link,
            kind="nvlink",
            up=state,
            speed_bytes=0.0 if state is False else speeds.get(link, Unread.UNKNOWN),
            version=_version(device, link, architecture) if state is True else Unread.UNKNOWN,
            remote=_remote(ends[link], names) if link in ends else Unread.UNKNOWN,
        )
        for link, state in states.items()
    )
    if any(isinstance(state, Unread) for state in states.values()):
        return links, GpuLinks(complete=False)
    return links, _count(device, {link: ends[link] for link in up}, addresses)


def _end(device: Device, link: int, *, up: bool) -> _End:
    """Where a link ends; many drivers cannot tell it of one that is down, and that is no doubt."""
    kind = device.ask(f"NVLink {link} other end" if up else None, "nvmlDeviceGetNvLinkRemoteDeviceType", link)
    if kind == _SWITCH:
        return _End(kind=kind)
    remote = device.ask(f"NVLink {link} address" if up else None, "nvmlDeviceGetNvLinkRemotePciInfo", link)
    address = remote if isinstance(remote, Unread) else pci_address(word(remote.busId))
    return _End(kind=kind, address=Unread.UNKNOWN if address == _NO_DEVICE else address)


def _remote(end: _End, names: Mapping[str, str]) -> str | Unread:
    if end.kind == _SWITCH:
        return "NVSwitch"
    if not isinstance(end.address, Unread) and end.address in names:
        return names[end.address]
    return "CPU" if end.kind == _IBMNPU else end.address


def _count(device: Device, ends: Mapping[int, _End], addresses: Collection[str | Unread]) -> GpuLinks:
    """Links by where they end. One to a GPU or CPU that is not the driver's counts for nothing."""
    direct, switched, complete = Counter[str](), 0, True
    for link, end in ends.items():
        if end.kind == _SWITCH:
            switched += 1
        elif not isinstance(end.address, Unread) and end.address in addresses:
            direct[end.address] += 1
        elif end.kind != _IBMNPU and (isinstance(end.address, Unread) or end.kind != _GPU):
            device.refuse(f"NVLink {link}", "where a link ends is not known")
            complete = False
    return GpuLinks(direct=direct, switched=switched, complete=complete)


def _speeds(device: Device, links: list[int]) -> dict[int, float | Unread]:
    """Payload bytes per second in one direction of each link; one that is up does not carry 0."""
    found = dict(zip(links, device.fields("NVLink speed", [(_GET_SPEED, link) for link in links]), strict=True))
    old = [link for link in links if found[link] is Unread.NOT_SUPPORTED and link < len(_SPEED_OF)]
    found |= zip(old, device.fields("NVLink speed", [(_SPEED_OF[link], 0) for link in old]), strict=True)
    return {
        link: speed if isinstance(speed, Unread) else payload_bytes(speed / 1000) or Unread.UNKNOWN
        for link, speed in found.items()
    }


def _version(device: Device, link: int, architecture: int | Unread) -> int | Unread:
    """The NVLink generation; the GPU's architecture decides between two meanings of one number."""
    number = device.ask("NVLink version", "nvmlDeviceGetNvLinkVersion", link)
    if isinstance(number, Unread):
        return number
    meant = _VERSIONS.get(number, ())
    if len(meant) == 1:
        return meant[0]
    likely = None if isinstance(architecture, Unread) else _VERSION_OF_ARCHITECTURE.get(architecture)
    if likely is not None and likely in meant:
        return likely
    device.refuse("NVLink version", f"version number {number} is of no known NVLink")
    return Unread.UNKNOWN
