"""``nvidia-smi nvlink`` (``--status``, ``-e``, ``-R``), as people paste it, to the NVLinks of each GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import CounterValue, Doubt, Gpu, Link, NodeTopology, Unread
from gpuwire_checks.topology.readers.blank import blank_gpu, blank_node
from gpuwire_checks.topology.readers.nvlink_reading import Reading, SaidOfGpu, part_name
from gpuwire_checks.topology.readers.plain_lines import bounded, plain_lines

MAX_GPUS = 256
_LOOKED_AT = 1 << 20
_START = re.compile(
    r"GPU ?\d{1,4} ?:\s|Link[ \t]{1,4}\d{1,3}[:,]|"
    r"(?:NVML: ?)?Unable to (?:retrieve NVLink|determine the device handle)",
    re.IGNORECASE,
)
_FORMAT = re.compile(
    r"\bLink[ \t]{1,4}\d{1,3}[ \t]?(?::[ \t]*(?:<?in-?active|<?active>|[\d.]{1,12} ?GB/s|Remote |\[?N/A|"
    r"[A-Za-z][A-Za-z -]{1,40}:[ \t]*\d)|,[ \t]*[A-Za-z0-9 ]{1,40} supported:)|Unable to retrieve NVLink information",
    re.IGNORECASE,
)


def looks_like_nvlink_status(text: str) -> bool:
    """True when there is a line of a link, or the one that stands in its place when all are inactive."""
    return _FORMAT.search(text, 0, _LOOKED_AT) is not None


def read_nvlink_status(text: str, *, source: str) -> NodeTopology:
    """The GPUs that are listed, under the numbers printed, with their links; ``doubts`` has what could not be read.

    A GPU whose links are all inactive has none here, for their number is not printed. One of which only counters are
    listed has unknown links.

    Raises:
        TopologyError: no such text, no line that names a GPU, or larger than any node.
    """
    plain = plain_lines(text, start=_START, tool="nvidia-smi nvlink --status", source=source)
    reading = Reading(plain)
    for line in plain.lines:
        reading.take(line)
    reading.number_the_lost()
    if not reading.gpus:
        first = next(line.number for line in plain.lines if _START.search(line.text))
        raise TopologyError(f"{source}:{first}: no line such as 'GPU 0: <model>' says whose links these are; paste it")
    if len(reading.gpus) > MAX_GPUS:
        raise TopologyError(f"{source}:1: {len(reading.gpus)} GPUs; at most {MAX_GPUS} are read: paste one output")
    gpus = [reading.gpus[index] for index in sorted(reading.gpus)]
    links = [_links(gpu, gpus) for gpu in gpus]
    doubts = [*plain.doubts, *reading.doubts, *(doubt for _, found in links for doubt in found), *reading.strays()]
    return blank_node(
        source,
        gpus=tuple(_gpu(gpu, found) for gpu, (found, _) in zip(gpus, links, strict=True)),
        counters=tuple(
            CounterValue(part=part_name(gpu, number), name=name, value=value)
            for gpu in gpus
            for (number, name), value in gpu.counters.items()
        ),
        doubts=bounded(doubts),
    )


def _gpu(gpu: SaidOfGpu, links: tuple[Link, ...] | Unread) -> Gpu:
    named = gpu.named
    return blank_gpu(
        named.index, vendor="nvidia", model=named.model, uuid=named.uuid, pci_address=gpu.address, links=links
    )


def _links(gpu: SaidOfGpu, gpus: Sequence[SaidOfGpu]) -> tuple[tuple[Link, ...] | Unread, list[Doubt]]:
    """The links of a GPU, and what is doubtful of them as a whole."""
    doubts: list[Doubt] = []
    if gpu.states:
        doubts += _lacking(gpu, gpus)
        doubts += _ended(gpu)
        return tuple(gpu.states[number] for number in sorted(gpu.states)), doubts
    if gpu.without is True:
        text = f"GPU{gpu.named.index}: all its NVLinks are inactive, and how many it has is not printed"
        return (), [Doubt(line=gpu.last, text=text)]
    if isinstance(gpu.without, Unread):
        return gpu.without, []
    if gpu.remotes:
        ends = sorted(gpu.remotes.items())
        return tuple(Link(number=at, kind="nvlink", up=Unread.UNKNOWN, remote=end) for at, end in ends), []
    if not gpu.counters and not gpu.lost:
        capable = "only what its NVLinks are capable of is listed"
        what = capable if gpu.capabilities else "nothing is said of its NVLinks"
        doubts.append(Doubt(line=gpu.last, text=f"GPU{gpu.named.index}: {what}"))
    return Unread.UNKNOWN, doubts


def _lacking(gpu: SaidOfGpu, gpus: Sequence[SaidOfGpu]) -> Iterator[Doubt]:
    """Adds links that were not read, and those that only other GPUs of its model list: drivers print all of them."""
    for number in gpu.odd:
        gpu.states.setdefault(number, Link(number=number, kind="nvlink", up=Unread.UNKNOWN))
    name, listed = f"GPU{gpu.named.index}", len(gpu.states)
    alike = [other for other in gpus if other.named.model == gpu.named.model and other.states]
    missing = sorted({number for other in alike for number in other.states} - set(gpu.states))
    if missing and not isinstance(gpu.named.model, Unread):
        for number in missing:
            gpu.states[number] = Link(number=number, kind="nvlink", up=Unread.UNKNOWN)
        numbers = ", ".join(map(str, missing[:20]))
        text = f"{name}: no line of link {numbers}, which others of its model have: not known"
        yield Doubt(line=gpu.last, text=text)
    elif len(alike) < 2 and listed <= max(gpu.states):
        text = f"{name}: {listed} links are listed, up to link {max(gpu.states)}: lines may be missing"
        yield Doubt(line=gpu.last, text=text)


def _ended(gpu: SaidOfGpu) -> Iterator[Doubt]:
    """Puts where links end into their states.

    ``-R`` of some drivers counts the links that are up from 0: seen on H100 PCIe, 12 of whose 18 links are up.
    """
    if not gpu.remotes:
        return
    if any(number not in gpu.states or gpu.states[number].up is False for number in gpu.remotes):
        text = f"GPU{gpu.named.index}: the links that say where they end are not those that are up: ends not used"
        yield Doubt(line=gpu.last, text=text)
        return
    for number, end in gpu.remotes.items():
        gpu.states[number] = replace(gpu.states[number], remote=end)
