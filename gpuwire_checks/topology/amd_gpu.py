"""What amdsmi says of each GPU: the board, its slot, its xGMI links, its pairs and counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpuwire_checks.topology.amd_asking import AmdAsker, number, word
from gpuwire_checks.topology.devices import pci_address
from gpuwire_checks.topology.model import CounterValue, Doubt, Gpu, GpuState, Link, PairPath, Pcie, PeerAccess, Unread

_GENERATIONS = {2500: 1, 5000: 2, 8000: 3, 16000: 4, 32000: 5, 64000: 6}
"""PCIe generation by MT/s of a lane, as ``pcie_speed`` has it."""
_BITS = 1e9 / 8
"""Bytes a second in one Gbit/s, the unit of ``max_bandwidth``."""
_NONE = 0xFFFFFFFF
"""UINT32_MAX, where amdsmi has no value or the kernel says -1 (``amdsmi_get_link_metrics`` in amd_smi.cc)."""
_NO_DEVICES = frozenset({"0000:00:00.0", "ffffffffffff:ff:1f.7"})
"""The other end of a link of which amdsmi knows none: its struct cleared, or filled with ones."""
_WHOLE = ("SPX", "N/A", "")
"""Compute partition modes of a board that is one GPU, or that knows none."""
Visible = Sequence[tuple[str, Any]]
"""GPUs by name, as HIP numbers them, with their handles."""


def read_gpu(asker: AmdAsker, index: int, handle: Any, addresses: Mapping[str, str | Unread]) -> Gpu:
    """One GPU. A lost one stays listed, so that it can be named."""
    name = f"GPU{index}"
    asic = asker.ask(name, "model", "amdsmi_get_gpu_asic_info", handle)
    vram = number(asker.ask(name, "memory", "amdsmi_get_gpu_vram_info", handle), "vram_size")
    pcie = read_pcie(asker, name, handle)
    numa = asker.ask(name, "NUMA node", "amdsmi_topo_get_numa_node_number", handle)
    uuid = asker.ask(name, "UUID", "amdsmi_get_gpu_device_uuid", handle)
    blocks = asker.ask(name, "ECC", "amdsmi_get_gpu_ecc_enabled", handle)
    return Gpu(
        index=index,
        vendor="amd",
        model=word(asic, "market_name"),
        memory_bytes=vram if isinstance(vram, Unread) else int(vram) << 20 or Unread.UNKNOWN,
        pci_address=addresses[name],
        pcie_generation=pcie.generation,
        pcie_width=pcie.width,
        max_pcie_generation=pcie.max_generation,
        max_pcie_width=pcie.max_width,
        numa_node=Unread.UNKNOWN if numa == _NONE else numa,
        cpu_affinity=Unread.UNKNOWN,
        uuid=uuid if isinstance(uuid, Unread) else str(uuid),
        serial=word(asic, "asic_serial"),
        links=_links(asker, name, handle, addresses),
        state=GpuState(
            ecc=blocks if isinstance(blocks, Unread) else bool(blocks),
            remap_pending=Unread.NOT_SUPPORTED,
            remap_failed=Unread.NOT_SUPPORTED,
            fabric=Unread.NOT_SUPPORTED,
            fabric_status=Unread.NOT_SUPPORTED,
            fabric_unhealthy=Unread.NOT_SUPPORTED,
            firmware=word(asker.ask(name, "VBIOS", "amdsmi_get_gpu_vbios_info", handle), "version"),
        ),
    )


def read_address(asker: AmdAsker, name: str, handle: Any) -> str | Unread:
    found = asker.ask(name, "PCI address", "amdsmi_get_gpu_device_bdf", handle)
    return found if isinstance(found, Unread) else pci_address(str(found))


def read_pcie(asker: AmdAsker, name: str, handle: Any) -> Pcie:
    info = asker.ask(name, "PCIe", "amdsmi_get_pcie_info", handle)
    if isinstance(info, Unread):
        return Pcie(generation=info, width=info, max_generation=info, max_width=info)
    now, most = info["pcie_metric"], info["pcie_static"]
    return Pcie(
        generation=_generation(number(now, "pcie_speed")),
        width=_known(number(now, "pcie_width")),
        max_generation=_generation(number(most, "max_pcie_speed")),
        max_width=_known(number(most, "max_pcie_width")),
    )


def _generation(speed: int | Unread) -> int | Unread:
    return speed if isinstance(speed, Unread) else _GENERATIONS.get(speed, Unread.UNKNOWN)


def _known(value: int | Unread) -> int | Unread:
    """A width of 0 is no width."""
    return value or Unread.UNKNOWN


def _links(asker: AmdAsker, name: str, handle: Any, addresses: Mapping[str, str | Unread]) -> tuple[Link, ...] | Unread:
    """XGMI links by their other end. amdsmi lists those that are up; one that is down carries nothing."""
    metrics = asker.ask(name, "xGMI links", "amdsmi_get_link_metrics", handle)
    if isinstance(metrics, Unread):
        return metrics
    # The partitions of one board have its address, and a link leads to the board.
    shared = {address for address, count in Counter(addresses.values()).items() if count > 1}
    names = {address: other for other, address in addresses.items() if address not in shared}
    xgmi = asker.library.AmdSmiLinkType.AMDSMI_LINK_TYPE_XGMI
    listed = metrics["links"][: metrics["num_links"]]
    return tuple(_link(at, link, names) for at, link in enumerate(listed) if link["link_type"] == xgmi)


def _link(number: int, link: Mapping[str, Any], names: Mapping[str | Unread, str]) -> Link:
    """One of the places that a GPU has for a link; one that leads nowhere known is not known to be a link."""
    remote, bandwidth = _remote(pci_address(str(link["bdf"])), names), link["max_bandwidth"]
    told = bandwidth != _NONE and not isinstance(remote, Unread)
    return Link(
        number=number,
        kind="xgmi",
        up=bool(bandwidth) if told else Unread.UNKNOWN,
        speed_bytes=bandwidth * _BITS if told else Unread.UNKNOWN,
        remote=remote,
    )


def _remote(address: str | Unread, names: Mapping[str | Unread, str]) -> str | Unread:
    return Unread.UNKNOWN if isinstance(address, Unread) or address in _NO_DEVICES else names.get(address, address)


def read_paths(asker: AmdAsker, visible: Visible, gpus: Sequence[Gpu]) -> tuple[PairPath, ...]:
    """Pairs joined by xGMI that is not all down.

    The PCIe path class of the others is read from sysfs: amdsmi has hops, and no class.
    """
    paths: list[PairPath] = []
    xgmi = _xgmi_of_pairs(asker.library)
    for at, (a, handle) in enumerate(visible):
        for b, other in visible[at + 1 :]:
            link = asker.ask(a, f"link to {b}", "amdsmi_topo_get_link_type", handle, other)
            if isinstance(link, Unread) or link["type"] != xgmi:
                continue
            joining = _links_to(gpus[at], b)
            count = sum(up is not False for up in joining)
            if joining and not count:
                continue
            weight = asker.ask(a, f"weight to {b}", "amdsmi_topo_get_link_weight", handle, other)
            path = f"XGMI{count}" if count > 1 else "XGMI"
            found = weight if isinstance(weight, Unread) else int(weight)
            paths.append(PairPath(a=a, b=b, path=path, hops=int(link["hops"]), weight=found))
    return tuple(paths)


def _xgmi_of_pairs(library: Any) -> int:
    """What ``amdsmi_topo_get_link_type`` means by xGMI: until 7.0 a type of its own, in which a link's xGMI is PCIe.

    Source: amdsmi_wrapper.py of amdsmi 5.7, 6.2 and 6.4 (amdsmi_io_link_type_t) and of 7.0 (amdsmi_link_type_t).
    """
    old = getattr(library, "AmdSmiIoLinkType", None)
    return int(library.AmdSmiLinkType.AMDSMI_LINK_TYPE_XGMI if old is None else old.XGMI)


def _links_to(gpu: Gpu, other: str) -> list[bool | Unread]:
    """Of each link to another GPU whether it is up; none where links are not read, or lead there by way of a third."""
    return [] if isinstance(gpu.links, Unread) else [link.up for link in gpu.links if link.remote == other]


def partition_doubts(asker: AmdAsker, visible: Visible) -> tuple[Doubt, ...]:
    """GPUs that are each a part of one board: in CPX mode an MI300X is listed eight times."""
    parts: dict[str, list[str]] = {}
    for name, handle in visible:
        compute = asker.ask(name, "compute partition", "amdsmi_get_gpu_compute_partition", handle)
        memory = asker.ask(name, "memory partition", "amdsmi_get_gpu_memory_partition", handle)
        if not isinstance(compute, Unread) and compute not in _WHOLE:
            parts.setdefault(f"{compute}/{memory.value if isinstance(memory, Unread) else memory}", []).append(name)
    return tuple(
        Doubt(line=None, text=f"{', '.join(names)}: of a board in partition mode {mode}, of which each is one part")
        for mode, names in parts.items()
    )


def read_peers(asker: AmdAsker, visible: Visible) -> tuple[PeerAccess, ...]:
    """Peer access of ordered pairs; amdsmi has one answer for reads and writes."""
    found: list[PeerAccess] = []
    for a, handle in visible:
        for b, other in visible:
            if a == b:
                continue
            accessible = asker.ask(a, f"peer access to {b}", "amdsmi_is_P2P_accessible", handle, other)
            status = "U" if isinstance(accessible, Unread) else "OK" if accessible else "NS"
            found += [PeerAccess(a=a, b=b, capability=what, status=status) for what in ("read", "write")]
    return tuple(found)


def read_counters(asker: AmdAsker, visible: Visible) -> tuple[CounterValue, ...]:
    found: list[CounterValue] = []
    for name, handle in visible:
        info = asker.ask(name, "PCIe", "amdsmi_get_pcie_info", handle)
        replays = info if isinstance(info, Unread) else number(info["pcie_metric"], "pcie_replay_count")
        errors = asker.ask(name, "ECC errors", "amdsmi_get_gpu_total_ecc_count", handle)
        found += [
            CounterValue(part=name, name="pcie replay", value=replays),
            CounterValue(part=name, name="ecc corrected", value=number(errors, "correctable_count")),
            CounterValue(part=name, name="ecc uncorrected", value=number(errors, "uncorrectable_count")),
        ]
    return tuple(found)
