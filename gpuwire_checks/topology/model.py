"""A node's wiring and software, as far as it could be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Literal


class Unread(str, Enum):
    """Why a value is not there. The three stay distinct all the way to the report; none of them is 0 or OK."""

    NOT_SUPPORTED = "not supported"
    """The part or its driver has no such value."""
    UNKNOWN = "unknown"
    """It may have one; this source does not tell."""
    NO_PERMISSION = "no permission"
    """It has one that only a privileged user may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """A NUMA node: its number, the logical CPUs in it, its memory in bytes, and the socket it is part of."""

    number: int
    cpus: tuple[int, ...]
    memory_bytes: int | Unread
    socket: int | Unread = Unread.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """The processors of the node.

    Attributes:
        cores: physical cores.
        threads: logical CPUs that exist.
        usable: logical CPUs this process may run on (affinity and cpusets respected).
        last_level_cache_bytes: of one cache, not the sum over sockets.
    """

    model: str
    sockets: int | Unread
    cores: int | Unread
    threads: int
    usable: tuple[int, ...]
    last_level_cache_bytes: int | Unread


@dataclass(frozen=True, slots=True, kw_only=True)
class Pcie:
    """A PCIe link: its generation (1 to 6) and its width in lanes, now and at most.

    The generation drops when the device idles, the width does not. ``max_`` is what device and slot allow together, so
    that a bad slot lowers it too.
    """

    generation: int | Unread = Unread.UNKNOWN
    width: int | Unread = Unread.UNKNOWN
    max_generation: int | Unread = Unread.UNKNOWN
    max_width: int | Unread = Unread.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A network interface.

    Attributes:
        kind: ``ethernet``, ``infiniband``, ``roce`` or ``virtual`` (no device of its own behind it).
        rate_bits: bits per second of the link.
        device: its RDMA device (``mlx5_0``) where ``name`` is a label such as ``NIC0``.
        state: of the RDMA port, as ibstat says it (``Active``, ``Down``, ``Initializing``).
        physical: its physical state (``LinkUp``, ``Polling``, ``Disabled``).
        firmware: version of the adapter's firmware.
    """

    name: str
    kind: Literal["ethernet", "infiniband", "roce", "virtual", "unknown"]
    rate_bits: int | Unread
    up: bool | Unread
    numa_node: int | Unread
    pci_address: str | Unread = Unread.UNKNOWN
    device: str | Unread = Unread.UNKNOWN
    state: str | Unread = Unread.UNKNOWN
    physical: str | Unread = Unread.UNKNOWN
    firmware: str | Unread = Unread.UNKNOWN
    pcie: Pcie = Pcie()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One NVLink or xGMI link of a GPU, seen from that GPU.

    Attributes:
        number: as the driver counts it, from 0.
        speed_bytes: payload bytes per second in one direction, 0 for a link that is down.
        version: of the protocol: 4 for NVLink4.
        remote: where it ends: ``GPU3``, ``NVSwitch``, ``CPU``, or the PCI address of what is not listed here.
    """

    number: int
    kind: Literal["nvlink", "xgmi"]
    up: bool | Unread
    speed_bytes: float | Unread = Unread.UNKNOWN
    version: int | Unread = Unread.UNKNOWN
    remote: str | Unread = Unread.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """What a driver says of a GPU's condition at one instant.

    Attributes:
        ecc, persistence, mig: whether the mode is on.
        remap_pending: rows wait for a reset to be remapped; ``remap_failed``: one could not be.
        fabric: ``Completed``, ``In Progress``, ``Not Started``; ``fabric_status``: ``Success`` or the error.
        fabric_clique, fabric_cluster: the NVLink domain; a cluster of zeros is healthy on HGX boards.
        fabric_unhealthy: what of the fabric is not healthy (``route unhealthy``, ``degraded bandwidth``, ``route
            recovery``, ``access timeout recovery``, ``insufficient NVLinks``); empty is healthy.
        performance_state: ``P0`` to ``P15``.
        throttled: the clock event reasons that are active now, in nvidia-smi's words (``SW Power Cap``); ``Idle`` is
            one too.
        temperature_c: degrees Celsius; ``temperature_margin_c``: left until the GPU slows itself down.
    """

    ecc: bool | Unread = Unread.UNKNOWN
    persistence: bool | Unread = Unread.UNKNOWN
    mig: bool | Unread = Unread.UNKNOWN
    remap_pending: bool | Unread = Unread.UNKNOWN
    remap_failed: bool | Unread = Unread.UNKNOWN
    fabric: str | Unread = Unread.UNKNOWN
    fabric_status: str | Unread = Unread.UNKNOWN
    fabric_clique: int | Unread = Unread.UNKNOWN
    fabric_cluster: str | Unread = Unread.UNKNOWN
    fabric_unhealthy: tuple[str, ...] | Unread = Unread.UNKNOWN
    performance_state: str | Unread = Unread.UNKNOWN
    throttled: tuple[str, ...] | Unread = Unread.UNKNOWN
    temperature_c: int | Unread = Unread.UNKNOWN
    temperature_margin_c: int | Unread = Unread.UNKNOWN
    firmware: str | Unread = Unread.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as its driver names it. ``pcie_generation`` drops when the device idles; the ``max_`` ones do not.

    Attributes:
        links: its NVLink or xGMI links, in the driver's order, those that are down too; empty when it has none.
    """

    index: int
    vendor: Literal["nvidia", "amd", "unknown"]
    model: str | Unread
    memory_bytes: int | Unread
    pci_address: str | Unread
    pcie_generation: int | Unread
    pcie_width: int | Unread
    max_pcie_generation: int | Unread
    max_pcie_width: int | Unread
    numa_node: int | Unread
    cpu_affinity: str | Unread
    uuid: str | Unread = Unread.UNKNOWN
    serial: str | Unread = Unread.UNKNOWN
    links: tuple[Link, ...] | Unread = Unread.UNKNOWN
    state: GpuState = GpuState()

    @property
    def name(self) -> str:
        return f"GPU{self.index}"


_NVLINKS = re.compile(r"NV(\d+)")
_XGMI = re.compile(r"XGMI(\d*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPath:
    """How two devices reach each other, in nvidia-smi's words: NV18, PIX, PXB, PHB, NODE, SYS; XGMI or XGMI4 on AMD.

    Attributes:
        hops, weight: as rocm-smi states them.
    """

    a: str
    b: str
    path: str
    hops: int | Unread = Unread.UNKNOWN
    weight: int | Unread = Unread.UNKNOWN

    @property
    def nvlinks(self) -> int:
        """NVLinks between the two, 0 for a path over PCIe."""
        match = _NVLINKS.fullmatch(self.path)
        return int(match[1]) if match else 0

    @property
    def links(self) -> int:
        """NVLinks or xGMI links between the two, 0 for a path over PCIe."""
        match = _XGMI.fullmatch(self.path)
        return int(match[1] or 1) if match else self.nvlinks


PEER_UNKNOWN = "U"
"""The status of a pair of which the driver does not tell, in nvidia-smi's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAccess:
    """Whether GPU ``a`` can reach the memory of GPU ``b`` by itself, as the driver says.

    Attributes:
        capability: ``read``, ``write``, ``nvlink``, ``atomics`` or ``pcie``: the tables of ``nvidia-smi topo -p2p``.
        status: in its words: ``OK``, ``CNS``, ``GNS``, ``TNS``, ``NS``, ``DR``, ``U``.
    """

    a: str
    b: str
    capability: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice:
    """A function on the PCI bus.

    Attributes:
        address: ``0000:1b:00.0``.
        parent: the address of the bridge above it, None for one right under its root complex.
        root: the root complex (``pci0000:16``).
        kind: ``switch`` is a PCI bridge below the root complex, ``nvswitch`` an NVSwitch.
        class_code: 24 bits, such as 0x030200.
        acs: the ACS controls that are on (``SrcValid``, ``ReqRedir``), readable by root only.
    """

    address: str | Unread
    parent: str | Unread | None = Unread.UNKNOWN
    root: str | Unread = Unread.UNKNOWN
    kind: Literal["gpu", "nic", "switch", "nvswitch", "other"] = "other"
    class_code: int | Unread = Unread.UNKNOWN
    name: str | Unread = Unread.UNKNOWN
    pcie: Pcie = Pcie()
    numa_node: int | Unread = Unread.UNKNOWN
    acs: tuple[str, ...] | Unread = Unread.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterValue:
    """A number that only grows; what it is says nothing, how it grows does.

    Attributes:
        part: ``GPU0``, ``GPU0 NVLink 3``, ``mlx5_0``.
        name: one of ``COUNTERS``.
    """

    part: str
    name: str
    value: int | Unread


COUNTERS = {
    "pcie replay": "",
    "nvlink replay": "",
    "nvlink recovery": "",
    "nvlink crc": "",
    "xgmi errors": "",
    "ecc corrected": "",
    "ecc uncorrected": "",
    "remapped rows": "",
    "symbol errors": "",
    "link downed": "",
    "link error recovery": "",
    "receive errors": "",
    "transmit discards": "",
    "sw power cap": "us",
    "sw thermal slowdown": "us",
    "hw thermal slowdown": "us",
    "hw power brake": "us",
    "sync boost": "us",
}
"""Every counter with its unit; no unit is a count of events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Versions. None means not installed here; Unread means that this source cannot tell."""

    kernel: str | Unread | None
    python: str | Unread | None
    torch: str | Unread | None
    driver: str | Unread | None
    cuda: str | Unread | None
    nccl: str | Unread | None
    rocm: str | Unread | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Something in a source that could not be placed: its line (from 1), and what is wrong with it."""

    line: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTopology:
    """Everything known of one node's wiring.

    Attributes:
        source: ``live``, or the file it was read from.
        virtualised: the hypervisor's name, None on bare metal.
        paths: every device pair with a known path, each pair once, ``a`` before ``b`` in device order.
        peers: of ordered GPU pairs.
        pci: GPUs, NICs, NVSwitches, and the bridges above them.
        doubts: what a reader could not place or a source did not say.
    """

    source: str
    hostname: str | Unread
    cpu: Cpu | Unread
    memory_bytes: int | Unread
    numa: tuple[NumaNode, ...]
    virtualised: str | Unread | None
    nics: tuple[Nic, ...]
    gpus: tuple[Gpu, ...]
    paths: tuple[PairPath, ...]
    software: Software
    doubts: tuple[Doubt, ...] = ()
    peers: tuple[PeerAccess, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    counters: tuple[CounterValue, ...] = ()

    def path(self, a: str, b: str) -> str | None:
        """The path between two named devices (``GPU0``, ``NIC1``), None when it is not known."""
        for pair in self.paths:
            if {pair.a, pair.b} == {a, b}:
                return pair.path
        return None
