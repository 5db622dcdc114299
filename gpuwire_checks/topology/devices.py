"""GPUs in domain words: what a source of them gives, which are visible, and the paths their NVLinks make."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Protocol

from gpuwire_checks.topology.model import CounterValue, Doubt, Gpu, PairPath, Pcie, PeerAccess, Unread

_ADDRESS = re.compile(r"([0-9a-f]+)(:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """What a driver says of its GPUs, read at one time. The defaults are those of a host without a driver.

    Attributes:
        paths: of GPU pairs only.
        driver: None where no driver is installed; ``cuda`` is the newest version that the driver serves.
        peers: of ordered GPU pairs.
        counters: of GPUs and their links.
    """

    gpus: tuple[Gpu, ...] = ()
    paths: tuple[PairPath, ...] = ()
    driver: str | Unread | None = None
    cuda: str | Unread | None = None
    doubts: tuple[Doubt, ...] = ()
    peers: tuple[PeerAccess, ...] = ()
    counters: tuple[CounterValue, ...] = ()


class GpuSource(Protocol):
    """Where GPUs are read from: a vendor's library, or a fake of canned answers."""

    def read(self) -> GpuReading:
        """The visible GPUs, numbered as a framework numbers them."""
        ...


class GpuWatcher(Protocol):
    """Reads what changes under load, cheaply and often: a vendor's library, or a fake."""

    def counters(self) -> tuple[CounterValue, ...]:
        """Every counter of the visible GPUs and their links."""
        ...

    def pcie(self) -> Mapping[str, Pcie]:
        """Of each visible GPU by name, its PCIe link at this moment."""
        ...

    def close(self) -> None:
        """End the library; the next question starts it again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLinks:
    """NVLinks of one GPU that are up.

    Attributes:
        direct: links to each other GPU, by its PCI address.
        switched: links that end in an NVSwitch.
        complete: False when a link's state or its other end could not be read.
    """

    direct: Mapping[str, int] = field(default_factory=dict)
    switched: int = 0
    complete: bool = True


def gpu_paths(
    gpus: Sequence[Gpu], links: Sequence[GpuLinks], ancestor: Callable[[int, int], str | None]
) -> tuple[PairPath, ...]:
    """The path of each pair of GPUs: its NVLinks where it has some, the PCIe path class otherwise.

    A pair without a known NVLink is left out when one of the two has links that could not be read: its PCIe path
    would pass for its best.

    Args:
        gpus: in the order of the pairs.
        links: of each GPU, in the order of ``gpus``.
        ancestor: the PCIe path class of two GPUs by their positions, None when it cannot be read.
    """
    paths: list[PairPath] = []
    for a, b in combinations(range(len(gpus)), 2):
        count = _links_between(gpus[a], links[a], gpus[b], links[b])
        path = f"NV{count}" if count else None
        if path is None and links[a].complete and links[b].complete:
            path = ancestor(a, b)
        if path is not None:
            paths.append(PairPath(a=gpus[a].name, b=gpus[b].name, path=path))
    return tuple(paths)


def _links_between(a: Gpu, a_links: GpuLinks, b: Gpu, b_links: GpuLinks) -> int:
    """Links usable from both ends; through a switch, as many as the narrower of the two has."""
    direct = min(a_links.direct.get(b.pci_address, 0), b_links.direct.get(a.pci_address, 0))
    return direct or min(a_links.switched, b_links.switched)


def pci_address(text: str | Unread) -> str | Unread:
    """``0000:1b:00.0``, as sysfs writes it, from the driver's ``00000000:1B:00.0``; *unknown* when it is no address."""
    if isinstance(text, Unread):
        return text
    match = _ADDRESS.fullmatch(text.lower())
    return f"{int(match[1], 16):04x}{match[2]}" if match else Unread.UNKNOWN


def visible_devices(setting: str | None, uuids: Sequence[str | Unread]) -> tuple[int, ...]:
    """The driver's numbers of the GPUs that ``CUDA_VISIBLE_DEVICES`` leaves, in its order; None leaves all.

    As CUDA does: a name that is no GPU hides itself and all after it, one GPU named twice hides every GPU.

    Source: CUDA C++ Programming Guide, "CUDA Environment Variables"; ``_parse_visible_devices`` in torch.cuda.
    """
    if setting is None:
        return tuple(range(len(uuids)))
    chosen: list[int] = []
    for word in setting.split(","):
        device = _device(word.strip(), uuids)
        if device is None:
            break
        if device in chosen:
            return ()
        chosen.append(device)
    return tuple(chosen)


def visibility_doubts(setting: str | None, uuids: Sequence[str | Unread], chosen: Sequence[int]) -> tuple[Doubt, ...]:
    """What ``CUDA_VISIBLE_DEVICES`` hides, renumbers, or names in vain."""
    if setting is None or tuple(chosen) == tuple(range(len(uuids))):
        return ()
    named = ", ".join(f"GPU{index} is the driver's {device}" for index, device in enumerate(chosen)) or "none is left"
    hidden = len(uuids) - len(chosen)
    texts = [f"CUDA_VISIBLE_DEVICES={setting} hides {hidden} of the driver's {len(uuids)} GPUs: {named}"]
    words = [word.strip() for word in setting.split(",") if word.strip() not in ("", "-1")]
    if any(word.startswith("MIG-") for word in words):
        texts.append("CUDA_VISIBLE_DEVICES names a MIG device; slices of a GPU are not listed: name whole GPUs")
    vain = [word for word in words if not word.startswith("MIG-") and _device(word, uuids) is None]
    if vain:
        texts.append(f"CUDA_VISIBLE_DEVICES names {vain[0]!r}, which is no GPU here: it and all after it are hidden")
    return tuple(Doubt(line=None, text=text) for text in texts)


def order_doubts(models: Collection[str], environ: Mapping[str, str]) -> tuple[Doubt, ...]:
    """CUDA numbers the fastest GPU first unless told otherwise, so that unlike GPUs may go by other numbers there.

    Args:
        models: the different models that the driver has, those of hidden GPUs too.
    """
    if len(models) < 2 or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return ()
    text = "GPUs differ in model, and CUDA may number them otherwise; set CUDA_DEVICE_ORDER=PCI_BUS_ID"
    return (Doubt(line=None, text=text),)


def mig_doubts(gpus: Sequence[Gpu]) -> tuple[Doubt, ...]:
    """GPUs that a framework does not see whole; a process sees one slice, however many there are.

    Source: NVIDIA Multi-Instance GPU User Guide, "Device Enumeration".
    """
    sliced = [gpu.name for gpu in gpus if gpu.state.mig is True]
    if not sliced:
        return ()
    text = f"{', '.join(sliced)}: MIG is on: CUDA sees one slice and no whole GPU; turn it off to judge the wires"
    return (Doubt(line=None, text=text),)


def _device(word: str, uuids: Sequence[str | Unread]) -> int | None:
    """A GPU's number from ``3`` or from the beginning of one UUID (``GPU-8932f937``), None when it names none."""
    if word.isdecimal():
        return int(word) if int(word) < len(uuids) else None
    known = [n for n, uuid in enumerate(uuids) if not isinstance(uuid, Unread) and uuid.startswith(word)]
    return known[0] if word.startswith("GPU-") and len(known) == 1 else None
