"""NCCL's and RCCL's topology XML (``NCCL_TOPO_DUMP_FILE``, ``NCCL_TOPO_FILE``) to a ``NodeTopology``.

Source: src/graph/xml.cc (what is written), topo.cc (classes, link speeds) and paths.cc (path types) of NVIDIA/nccl.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, takewhile
from typing import Literal

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.devices import GpuLinks, gpu_paths, pci_address
from gpuwire_checks.topology.expand import format_ranges
from gpuwire_checks.topology.model import (
    Doubt,
    Gpu,
    Link,
    Nic,
    NodeTopology,
    NumaNode,
    PairPath,
    PciDevice,
    Pcie,
    Unread,
)
from gpuwire_checks.topology.readers.blank import blank_gpu, blank_node
from gpuwire_checks.topology.readers.xml_text import MAX_HEAD, Element, read_xml, shortened

MAX_DEVICES = 256
"""GPUs and NICs of one node."""
MAX_LINKS = 64
"""Links of one GPU."""
MAX_CPUS = 256
MAX_PLACES = 4096
"""PCI functions; NCCL itself stops at 1024 elements in all."""
MAX_MASK = 4096
"""Characters of a CPU mask."""
MAX_DOUBTS = 200
_SYSTEM = re.compile(r"<system[\s>]")
_CPU = re.compile(r"<cpu\s[^<>]{0,400}?numaid=")
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s(?: PCIe)?")
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""GT/s of a lane to the generation: PCI Express Base Specification 6.0."""
_MASK = re.compile(r"[0-9a-f]{1,8}(?:,[0-9a-f]{8})*")
_NUMBER = re.compile(r"\d{1,9}")
_CLASS = re.compile(r"0x[0-9a-f]{6}")
_Kind = Literal["gpu", "nic", "switch", "nvswitch", "other"]
_KINDS: tuple[tuple[str, _Kind], ...] = (
    ("0x0604", "switch"),
    ("0x0680", "nvswitch"),
    ("0x03", "gpu"),
    ("0x12", "gpu"),
    ("0x02", "nic"),
)
"""PCI class codes, by how they begin: pci.ids, "List of known device classes"."""
_Vendor = Literal["nvidia", "amd", "unknown"]
_SWITCH_CLASS = "0x068000"
_CPU_CLASS = "0x068001"
"""Class of the target of an NVLink that ends in a POWER CPU (kvDictPciClass in topo.cc)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a ``pci`` element hangs, or a ``nic`` element right under a CPU.

    Attributes:
        above: the switches above it, from the CPU down.
    """

    element: Element
    address: str | Unread
    above: tuple[_Place, ...]
    cpu: Element
    numa: int | Unread
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """A ``gpu`` element, its place, and the GPU without its links."""

    element: Element
    place: _Place
    gpu: Gpu


def looks_like_nccl_xml(text: str) -> bool:
    """True when there is a ``system`` element and a ``cpu`` with its NUMA node after it."""
    found = _SYSTEM.search(text, 0, MAX_HEAD)
    return found is not None and _CPU.search(text, found.end(), found.end() + MAX_HEAD) is not None


def read_nccl_xml(text: str, *, source: str) -> NodeTopology:
    """GPUs, links, NICs, the PCI tree and the paths in it.

    A dump lists the links that were up and the GPUs of one communicator; links are numbered as they are listed. The
    PCIe link of a device is the best that it and its slot allow: it stands as the highest, the current is *unknown*.
    A file that was written for a virtual machine (``pci`` elements alone) gives PCI devices and no GPU.

    Raises:
        TopologyError: no such file, no device in it, or more than a node has.
    """
    xml = read_xml(text, source=source, root="system")
    doubts = list(xml.doubts)
    for tag, most in (("cpu", MAX_CPUS), ("pci", MAX_PLACES)):
        if (found := next(islice(_elements(xml.root, tag), most, None), None)) is not None:
            raise TopologyError(f"{source}:{found.line}: more than {most} <{tag}> elements; paste one node's XML")
    places = _places(_one_host(xml.root, doubts), doubts)
    if not places:
        reasons = "".join(f" ({doubt.text})" for doubt in xml.doubts[-1:])
        raise TopologyError(f"{source}:{xml.root.line}: no <pci> under a <cpu> of <system>{reasons}; paste all of it")
    vendor = _vendor(xml.root, places)
    cards = _cards(places, vendor, doubts)
    nics = _nics(places, doubts)
    if len(cards) + len(nics) > MAX_DEVICES:
        raise TopologyError(f"{source}:{xml.root.line}: more than {MAX_DEVICES} GPUs and NICs; paste one node's XML")
    if not cards:
        doubts.append(Doubt(line=xml.root.line, text="not a dump: no gpu element; links unknown"))
    targets = _targets(cards, doubts)
    doubts += _unlinked(cards, targets)
    gpus = tuple(replace(card.gpu, links=_links(card, targets[card.gpu.name])) for card in cards)
    paths = _paths(cards, nics, targets, doubts)
    return blank_node(
        source,
        numa=_numa_nodes(places),
        nics=tuple(nic for nic, _ in nics),
        gpus=gpus,
        paths=paths,
        doubts=_bounded(doubts),
        pci=(*_pci_devices(places), *_switches(places, targets)),
    )


def _elements(element: Element, tag: str) -> Iterator[Element]:
    """Those of a tag, at any depth."""
    for child in element.children:
        if child.tag == tag:
            yield child
        yield from _elements(child, tag)


def _one_host(root: Element, doubts: list[Doubt]) -> list[Element]:
    """The ``cpu`` elements of the first host: NCCL puts all hosts of an NVLink domain into one dump."""
    cpus = list(root.every("cpu"))
    hosts = list(dict.fromkeys(cpu.attributes.get("host_hash", "") for cpu in cpus))
    others = [cpu for cpu in cpus if cpu.attributes.get("host_hash", "") != hosts[0]]
    if others:
        text = f"a dump of {len(hosts)} hosts: the first, host_hash {shortened(hosts[0])}, is read, and no other"
        doubts.append(Doubt(line=others[0].line, text=text))
    return [cpu for cpu in cpus if cpu not in others]


def _places(cpus: Sequence[Element], doubts: list[Doubt]) -> list[_Place]:
    places, seen = [], set[str]()
    for place in (place for cpu in cpus for place in _below(cpu, (), cpu, _mask(cpu, doubts))):
        if not isinstance(place.address, Unread) and place.address in seen:
            text = f"busid {place.address} is listed before and left out here"
            doubts.append(Doubt(line=place.element.line, text=text))
            continue
        if place.element.tag == "pci" and isinstance(place.address, Unread):
            busid = shortened(place.element.attributes.get("busid", ""))
            doubts.append(Doubt(line=place.element.line, text=f"busid {busid} is no PCI address"))
        else:
            seen.add(str(place.address))
        places.append(place)
    return places


def _below(element: Element, above: tuple[_Place, ...], cpu: Element, cpus: tuple[int, ...]) -> Iterator[_Place]:
    """The places under an element, each before those under it."""
    for child in element.children:
        if child.tag == "pci" or (child.tag == "nic" and element is cpu):
            place = _Place(
                element=child,
                address=pci_address(child.attributes.get("busid", "")),
                above=above,
                cpu=cpu,
                numa=_number(cpu, "numaid"),
                cpus=cpus,
            )
            yield place
            yield from _below(child, (*above, place), cpu, cpus)


def _vendor(root: Element, places: Sequence[_Place]) -> _Vendor:
    """By the cards' own PCI vendor, else by what only one of the two libraries writes."""
    holders = [place.element for place in places if any(place.element.every("gpu"))]
    gpus = [gpu for holder in holders for gpu in holder.every("gpu")]
    vendors = {holder.attributes.get("vendor", "") for holder in holders}
    if "0x1002" in vendors or any("gcn" in gpu.attributes or any(gpu.every("xgmi")) for gpu in gpus):
        return "amd"
    if "0x10de" in vendors or any(any(gpu.every("nvlink")) for gpu in gpus):
        return "nvidia"
    # NCCL_TOPO_XML_VERSION is 1 in NCCL and 2 in RCCL.
    version = root.attributes.get("version", "")
    return "nvidia" if version == "1" else "amd" if version == "2" else "unknown"


def _cards(places: Sequence[_Place], vendor: _Vendor, doubts: list[Doubt]) -> list[_Card]:
    cards: dict[int, _Card] = {}
    for place in places:
        for number, element in enumerate(place.element.every("gpu")):
            index = _number(element, "dev")
            if isinstance(index, Unread) or index in cards or number:
                why = "no number" if isinstance(index, Unread) else "a second one"
                dev = shortened(element.attributes.get("dev", ""))
                doubts.append(Doubt(line=element.line, text=f"a gpu element with dev {dev} ({why}) is left out"))
                continue
            cards[index] = _Card(element=element, place=place, gpu=_gpu(index, place, vendor))
    return [cards[index] for index in sorted(cards)]


def _gpu(index: int, place: _Place, vendor: _Vendor) -> Gpu:
    pcie = _pcie_link(place.element)
    return blank_gpu(
        index,
        vendor=vendor,
        pci_address=place.address,
        max_pcie_generation=pcie.max_generation,
        max_pcie_width=pcie.max_width,
        numa_node=place.numa,
        cpu_affinity=format_ranges(place.cpus) or Unread.UNKNOWN,
    )


# Links.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Where ``count`` links of a GPU end (0: how many is not known), as in ``Link.remote`` and by PCI address."""

    kind: Literal["nvlink", "xgmi"]
    count: int
    remote: str | Unread
    address: str | Unread
    class_code: str


def _targets(cards: Sequence[_Card], doubts: list[Doubt]) -> dict[str, tuple[_Target, ...]]:
    """Of each GPU where its links end."""
    names = {card.place.address: card.gpu.name for card in cards if not isinstance(card.place.address, Unread)}
    targets = {card.gpu.name: tuple(_card_targets(card, names, doubts)) for card in cards}
    hidden = [card for card in cards if any(isinstance(target.remote, Unread) for target in targets[card.gpu.name])]
    known = [name for name, ends in targets.items() if any(not isinstance(target.remote, Unread) for target in ends)]
    if hidden and not known and all(end.class_code == _SWITCH_CLASS for ends in targets.values() for end in ends):
        text = "where NVLinks end is hidden on every GPU, as in virtual machines: NCCL takes it for an NVSwitch"
        doubts.append(Doubt(line=hidden[0].element.line, text=text))
        switch = "NVSwitch"
        return {name: tuple(replace(end, remote=switch) for end in ends) for name, ends in targets.items()}
    doubts += [_hidden_doubt(card, targets, known) for card in hidden]
    return targets


def _card_targets(card: _Card, names: Mapping[str, str], doubts: list[Doubt]) -> Iterator[_Target]:
    total = 0
    for element in card.element.children:
        if element.tag not in ("nvlink", "xgmi") or total > MAX_LINKS:
            continue
        count = _number(element, "count")
        total += 1 if isinstance(count, Unread) else max(count, 1)
        if isinstance(count, Unread) or not count or total > MAX_LINKS:
            text = f"{card.gpu.name}: count {shortened(element.attributes.get('count', ''))} is no number of links"
            doubts.append(Doubt(line=element.line, text=f"{text} (1 to {MAX_LINKS} a GPU): its links are unknown"))
            count = 0
        address = _target_address(element)
        code = element.attributes.get("tclass", "").lower()
        remote = "CPU" if code == _CPU_CLASS else "NVSwitch" if code.startswith("0x0680") else None
        yield _Target(
            kind="nvlink" if element.tag == "nvlink" else "xgmi",
            count=count,
            remote=address if isinstance(address, Unread) else remote or names.get(address, address),
            address=address,
            class_code=code,
        )


def _target_address(element: Element) -> str | Unread:
    """Where a link ends; NVML's FFFFFFFF:FF:FF.0, cut to ``fffffff:ff:ff.0``, is its word for a hidden end.

    A device number has five bits: PCI Local Bus Specification, "Configuration Address Space".
    """
    address = pci_address(element.attributes.get("target", ""))
    return address if isinstance(address, Unread) or int(address[-4:-2], 16) < 32 else Unread.UNKNOWN


def _hidden_doubt(card: _Card, targets: Mapping[str, tuple[_Target, ...]], known: Sequence[str]) -> Doubt:
    name = card.gpu.name
    elements = [element for element in card.element.children if element.tag in ("nvlink", "xgmi")]
    bad = next(element for element in elements if isinstance(_target_address(element), Unread))
    others = Counter(len(targets[other]) for other in known if other != name).most_common(1)
    like = f" where others have {others[0][0]}" if others else ""
    target = shortened(bad.attributes.get("target", ""))
    text = (
        f"{name} has {len(elements)} {bad.tag} element{'s' if len(elements) > 1 else ''}{like}, with a target {target}"
    )
    why = "that is no PCI address: where its links end is not known; compare `nvidia-smi nvlink -R`"
    return Doubt(line=bad.line, text=f"{text} {why}")


def _unlinked(cards: Sequence[_Card], targets: Mapping[str, tuple[_Target, ...]]) -> Iterator[Doubt]:
    """The GPUs without links where others have some: NCCL leaves out what NVML fails to tell, and says nothing."""
    linked = [name for name, ends in targets.items() if ends]
    for card in cards:
        if linked and not targets[card.gpu.name] and card.element.whole:
            text = f"{card.gpu.name} has no nvlink or xgmi element, which {', '.join(linked[:8])} have"
            doubt = "no link of it is up, or its driver did not tell"
            yield Doubt(line=card.element.line, text=f"{text}: {doubt}")


def _links(card: _Card, targets: Sequence[_Target]) -> tuple[Link, ...] | Unread:
    """One link for each that is counted; *unknown* where the list was cut or has no count."""
    if not card.element.whole or any(not target.count for target in targets):
        return Unread.UNKNOWN
    ends = [target for target in targets for _ in range(target.count)]
    return tuple(Link(number=n, kind=end.kind, up=True, remote=end.remote) for n, end in enumerate(ends))


# Paths.


def _paths(
    cards: Sequence[_Card],
    nics: Sequence[tuple[Nic, _Place]],
    targets: Mapping[str, tuple[_Target, ...]],
    doubts: list[Doubt],
) -> tuple[PairPath, ...]:
    """The links of each pair of GPUs where it has some, and the PCIe path class of every other pair of devices."""
    gpus = [card.gpu for card in cards]
    links = [_gpu_links(card, targets[card.gpu.name]) for card in cards]
    uneven = set(_uneven(cards, links, doubts))
    kinds = {target.kind for ends in targets.values() for target in ends}
    paths = [
        pair
        for pair in gpu_paths(gpus, links, lambda a, b: _pcie_path(cards[a].place, cards[b].place))
        if pair.nvlinks or (pair.a, pair.b) not in uneven
    ]
    if kinds == {"xgmi"}:
        paths = [replace(pair, path=_xgmi(pair.nvlinks)) if pair.nvlinks else pair for pair in paths]
    devices = [*((card.gpu.name, card.place) for card in cards), *((nic.name, place) for nic, place in nics)]
    for at in range(len(cards), len(devices)):
        b, place = devices[at]
        found = ((a, _pcie_path(other, place)) for a, other in devices[:at])
        paths += [PairPath(a=a, b=b, path=path) for a, path in found if path is not None]
    return tuple(paths)


def _gpu_links(card: _Card, targets: Sequence[_Target]) -> GpuLinks:
    """What counts for paths. Of a list with a gap nothing does: a count from it would be too low."""
    if not card.element.whole or any(isinstance(end.remote, Unread) or not end.count for end in targets):
        return GpuLinks(complete=False)
    direct = Counter[str]()
    for end in targets:
        if end.remote not in ("NVSwitch", "CPU"):
            direct[str(end.address)] += end.count
    return GpuLinks(direct=direct, switched=sum(end.count for end in targets if end.remote == "NVSwitch"))


def _uneven(cards: Sequence[_Card], links: Sequence[GpuLinks], doubts: list[Doubt]) -> Iterator[tuple[str, str]]:
    """Pairs of which one GPU lists another number of links than the other."""
    for (a, a_links), (b, b_links) in combinations(zip(cards, links, strict=True), 2):
        there, back = (ends.direct.get(str(card.place.address), 0) for ends, card in ((a_links, b), (b_links, a)))
        if there != back and a_links.complete and b_links.complete:
            text = f"{a.gpu.name} lists {there} links to {b.gpu.name}, which lists {back} back"
            doubts.append(Doubt(line=b.element.line, text=text))
            yield a.gpu.name, b.gpu.name


def _xgmi(count: int) -> str:
    return f"XGMI{count}" if count > 1 else "XGMI"


def _pcie_path(a: _Place, b: _Place) -> str | None:
    """The class of a path through the tree, None where it is not sure.

    One switch is PIX, more are PXB, another CPU is SYS (ncclTopoSetPaths in paths.cc); functions of one card share
    their slot. At one CPU the dump does not tell one host bridge from two, PHB from NODE: NCCL calls both PHB.
    """
    if isinstance(a.address, Unread) or isinstance(b.address, Unread) or a.address == b.address:
        return None
    if a.address.rpartition(".")[0] == b.address.rpartition(".")[0]:
        return "PIX"
    shared = sum(1 for _ in takewhile(lambda pair: _same(*pair), zip(a.above, b.above, strict=False)))
    if shared:
        return "PIX" if len(a.above) + len(b.above) - 2 * shared == 0 else "PXB"
    if isinstance(a.numa, Unread) or isinstance(b.numa, Unread):
        return None
    return None if a.numa == b.numa else "SYS"


def _same(one: _Place, other: _Place) -> bool:
    """True for one switch, be it listed once or for each device under it."""
    return one is other or (not isinstance(one.address, Unread) and one.address == other.address)


# NICs, PCI devices and NUMA nodes.


def _nics(places: Sequence[_Place], doubts: list[Doubt]) -> list[tuple[Nic, _Place]]:
    nics: dict[str, tuple[Nic, _Place]] = {}
    listed: dict[tuple[str, str], _Place] = {}
    for place, net in _nets(places):
        name, port = (net.attributes.get(key, "")[:60] for key in ("name", "port"))
        other = listed.setdefault((name, port), place)
        if other.element.tag == place.element.tag == "nic" and other is not place:
            # NCCL lists an interface without a PCI device under every CPU.
            nics[name] = (replace(nics[name][0], numa_node=Unread.UNKNOWN), other)
            continue
        unique = f"{name}:{port}" if name in nics else name
        if unique in nics or not name:
            doubts.append(Doubt(line=net.line, text=f"net {shortened(name)} is listed before or has no name: left out"))
            continue
        nics[unique] = (_nic(unique, net, place, doubts), place)
        if len(nics) > MAX_DEVICES:
            break
    return list(nics.values())


def _nets(places: Sequence[_Place]) -> Iterator[tuple[_Place, Element]]:
    for place in places:
        holders = [place.element] if place.element.tag == "nic" else place.element.every("nic")
        yield from ((place, net) for holder in holders for net in holder.every("net"))


def _nic(name: str, net: Element, place: _Place, doubts: list[Doubt]) -> Nic:
    """A NIC; NCCL joins several into one whose name has a plus sign, with no device of its own."""
    joined = "+" in name
    speed = net.attributes.get("speed", "")
    mbit = _number(net, "speed")
    if isinstance(mbit, Unread) and not speed.startswith("-"):
        doubts.append(Doubt(line=net.line, text=f"net {shortened(name)}: speed {shortened(speed)} is no Mbit/s"))
    infiniband = place.element.attributes.get("class", "").startswith("0x0207")
    return Nic(
        name=name,
        kind="virtual" if joined else "infiniband" if infiniband else "unknown",
        rate_bits=mbit if isinstance(mbit, Unread) else mbit * 1_000_000 or Unread.UNKNOWN,
        up=Unread.UNKNOWN,
        numa_node=place.numa,
        pci_address=place.address,
        device=Unread.UNKNOWN if joined else name.partition(":")[0],
        pcie=_pcie_link(place.element),
    )


def _pci_devices(places: Sequence[_Place]) -> Iterator[PciDevice]:
    for place in places:
        if place.element.tag == "pci":
            code = place.element.attributes.get("class", "").lower()
            yield PciDevice(
                address=place.address,
                parent=place.above[-1].address if place.above else None,
                kind=_kind(place.element, code),
                class_code=int(code, 16) if _CLASS.fullmatch(code) else Unread.UNKNOWN,
                pcie=_pcie_link(place.element),
                numa_node=place.numa,
            )


def _switches(places: Sequence[_Place], targets: Mapping[str, tuple[_Target, ...]]) -> Iterator[PciDevice]:
    """The NVSwitches at the other end of links."""
    listed = {place.address for place in places}
    for target in (target for ends in targets.values() for target in ends):
        if target.remote == "NVSwitch" and target.address not in listed and not isinstance(target.address, Unread):
            listed.add(target.address)
            code = int(target.class_code, 16) if _CLASS.fullmatch(target.class_code) else Unread.UNKNOWN
            yield PciDevice(address=target.address, kind="nvswitch", class_code=code)


def _kind(element: Element, code: str) -> _Kind:
    if any(element.every("gpu")):
        return "gpu"
    if any(element.every("nic")):
        return "nic"
    return next((kind for begin, kind in _KINDS if code.startswith(begin)), "other")


def _pcie_link(element: Element) -> Pcie:
    """What NCCL states of a PCIe link: the lower of what the device and its slot allow; NCCL 2.30 a GPU's current."""
    speed = _SPEED.fullmatch(element.attributes.get("link_speed", ""))
    width = _number(element, "link_width")
    known = not isinstance(width, Unread) and 0 < width <= 32
    return Pcie(
        max_generation=_GENERATIONS.get(float(speed[1]), Unread.UNKNOWN) if speed else Unread.UNKNOWN,
        max_width=width if known else Unread.UNKNOWN,
    )


def _numa_nodes(places: Sequence[_Place]) -> tuple[NumaNode, ...]:
    numbers = {place.numa: place.cpus for place in places if not isinstance(place.numa, Unread)}
    return tuple(
        NumaNode(number=number, cpus=cpus, memory_bytes=Unread.UNKNOWN) for number, cpus in sorted(numbers.items())
    )


def _mask(cpu: Element, doubts: list[Doubt]) -> tuple[int, ...]:
    """The CPUs of an affinity such as ``00000000,000fffff``, 32 to a word and the highest first."""
    text = cpu.attributes.get("affinity", "").lower()
    if not text:
        return ()
    if len(text) > MAX_MASK or not _MASK.fullmatch(text):
        doubts.append(Doubt(line=cpu.line, text=f"affinity {shortened(text)} is no mask of CPUs"))
        return ()
    bits = reversed(f"{int(text.replace(',', ''), 16):b}")
    return tuple(number for number, bit in enumerate(bits) if bit == "1")


def _number(element: Element, name: str) -> int | Unread:
    """An attribute's number; anything else, and NCCL's -1 for what it does not know, is *unknown*."""
    text = element.attributes.get(name, "").strip()
    return int(text) if _NUMBER.fullmatch(text) else Unread.UNKNOWN


def _bounded(doubts: Sequence[Doubt]) -> tuple[Doubt, ...]:
    if len(doubts) <= MAX_DOUBTS:
        return tuple(doubts)
    return (*doubts[:MAX_DOUBTS], Doubt(line=None, text=f"{len(doubts) - MAX_DOUBTS} more doubts are not listed"))
