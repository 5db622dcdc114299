"""The lines of ``nvidia-smi nvlink``, each as what it says of a GPU or of one of its links."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuwire_checks.topology.devices import pci_address
from gpuwire_checks.topology.link_rates import payload_bytes
from gpuwire_checks.topology.model import Link, Unread
from gpuwire_checks.topology.readers.smi_values import unread

_ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_GPU = re.compile(r"GPU ?(\d{1,4}) ?:(?=\s|$)(.*)")
_UUID = re.compile(r"GPU-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_LINK = re.compile(r"Link {1,4}(\d{1,3}) ?([:,])(.*)", re.IGNORECASE)
_SPEED = re.compile(r"(\d{1,5}(?:\.\d{1,6})?) ?GB/s")
_ACTIVE = re.compile(r"<?active>?", re.IGNORECASE)
_INACTIVE = re.compile(r"<?in-?active>?", re.IGNORECASE)
_REMOTE = re.compile(
    rf"(?:Remote (?:Device|PCI Bus ID|info pci_dev):? ?)?({_ADDRESS})(?: ?: ?Link \d{{1,3}})?", re.IGNORECASE
)
_NO_LINKS = re.compile(
    r"Unable to retrieve NVLink information(?: as (all links are in-?active)| ?: ?(.*)|)", re.IGNORECASE
)
_LOST = re.compile(r"Unable to determine the device handle for ", re.IGNORECASE)
_NUMBER_OF_LOST = re.compile(r"GPU ?(\d{1,4})(?=:\s|\s|:?$)", re.IGNORECASE)
_ANY_ADDRESS = re.compile(_ADDRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLine:
    """``GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-...)``."""

    index: int
    model: str | Unread
    uuid: str | Unread


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLine:
    """``Link 3: ...``: its number, and what follows; ``of_capability``: ``Link 3, P2P is supported: true``."""

    number: int
    text: str
    of_capability: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LostLine:
    """A GPU that the driver cannot reach; many drivers print its address only."""

    index: int | None
    address: str | Unread
    reason: str


def gpu_line(text: str) -> GpuLine | None:
    """What a line says that names a GPU, None for another. A UUID that is not whole is unknown."""
    found = _GPU.fullmatch(text)
    if found is None:
        return None
    model, _, rest = found[2].partition("(UUID:")
    uuid = rest.strip().removesuffix(")").strip()
    return GpuLine(
        index=int(found[1]),
        model=" ".join(model.split())[:100] or Unread.UNKNOWN,
        uuid=uuid if _UUID.fullmatch(uuid) else Unread.UNKNOWN,
    )


def link_line(text: str) -> LinkLine | None:
    """What a line says that names a link, None for another."""
    found = _LINK.fullmatch(text)
    if found is None:
        return None
    return LinkLine(number=int(found[1]), text=" ".join(found[3].split()), of_capability=found[2] == ",")


def lost_line(text: str) -> LostLine | None:
    """``Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost``, None for another line."""
    found = _LOST.search(text)
    if found is None:
        return None
    rest = text[found.end() :]
    address = _ANY_ADDRESS.search(rest)
    number = _NUMBER_OF_LOST.match(text[: found.start()]) or _NUMBER_OF_LOST.match(rest)
    return LostLine(
        index=int(number[1]) if number else None,
        address=pci_address(address[0]) if address else Unread.UNKNOWN,
        reason=" ".join((rest[address.end() :] if address else rest.partition(":")[2]).strip(" :").split())[:60],
    )


def no_links(text: str) -> bool | Unread | None:
    """Why no link is listed: True when all are inactive, or unread; None for a line that says no such thing."""
    found = _NO_LINKS.search(text)
    if found is None:
        return None
    return True if found[1] else not_stated(found[2] or "")


def link_state(number: int, text: str) -> Link | None:
    """The link of ``25 GB/s``, ``<inactive>`` or ``N/A``; None for what is no state, such as one that was cut."""
    if speed := _SPEED.fullmatch(text):
        rate = payload_bytes(float(speed[1]))
        if not rate:
            return Link(number=number, kind="nvlink", up=Unread.UNKNOWN)
        return Link(number=number, kind="nvlink", up=True, speed_bytes=rate)
    if _INACTIVE.fullmatch(text):
        return Link(number=number, kind="nvlink", up=False, speed_bytes=0.0)
    if _ACTIVE.fullmatch(text):
        return Link(number=number, kind="nvlink", up=True)
    if text and unread(text.strip("<>")) is not None:
        return Link(number=number, kind="nvlink", up=Unread.UNKNOWN, speed_bytes=not_stated(text))
    return None


def remote(text: str) -> str | Unread | None:
    """The PCI address that a link ends at; None for another text."""
    found = _REMOTE.fullmatch(text)
    return pci_address(found[1]) if found else None


def not_stated(text: str) -> Unread:
    """Why a text is no value. One that is cut or strange is unknown."""
    return unread(text.strip(" <>.")) or Unread.UNKNOWN
