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
    """A NUMA node: its number, the logical CPUs in it, and its memory in bytes."""

    number: int
    cpus: tuple[int, ...]
    memory_bytes: int | Unread


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
class Nic:
    """A network interface.

    Attributes:
        kind: ``ethernet``, ``infiniband``, ``roce`` or ``virtual`` (no device behind it).
        rate_bits: bits per second of the link.
        device: its RDMA device (``mlx5_0``) where ``name`` is a label such as ``NIC0``.
    """

    name: str
    kind: Literal["ethernet", "infiniband", "roce", "virtual", "unknown"]
    rate_bits: int | Unread
    up: bool | Unread
    numa_node: int | Unread
    pci_address: str | Unread = Unread.UNKNOWN
    device: str | Unread = Unread.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as its driver names it. ``pcie_generation`` drops when the device idles; the ``max_`` ones do not."""

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

    @property
    def name(self) -> str:
        return f"GPU{self.index}"


_NVLINKS = re.compile(r"NV(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPath:
    """How two devices reach each other, in nvidia-smi's words: NV18, PIX, PXB, PHB, NODE, SYS."""

    a: str
    b: str
    path: str

    @property
    def nvlinks(self) -> int:
        """NVLinks between the two, 0 for a path over PCIe."""
        match = _NVLINKS.fullmatch(self.path)
        return int(match[1]) if match else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Versions. None means not installed here; Unread means that this source cannot tell."""

    kernel: str | Unread | None
    python: str | Unread | None
    torch: str | Unread | None
    driver: str | Unread | None
    cuda: str | Unread | None
    nccl: str | Unread | None


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

    def path(self, a: str, b: str) -> str | None:
        """The path between two named devices (``GPU0``, ``NIC1``), None when it is not known."""
        for pair in self.paths:
            if {pair.a, pair.b} == {a, b}:
                return pair.path
        return None
