"""The host without its GPUs: processors, memory, NUMA nodes, NICs, hypervisor, from /proc and /sys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuwire_checks.topology.model import Cpu, Nic, NumaNode, PciDevice, Unread
from gpuwire_checks.topology.nics import read_nics
from gpuwire_checks.topology.tree import folders, numa_node, read_list, read_number, read_text

LIVE = Path("/")
_MEMORY = re.compile(r"MemTotal:\s+(\d+) kB")
_CACHE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MODEL_KEYS = ("model name", "cpu", "Model Name")
"""x86 and most arm64, POWER, LoongArch."""

# DMI vendor or product, and the hypervisor behind it. An instance type of EC2 may be bare metal: the flag decides.
_HYPERVISORS = {
    "amazon ec2": "amazon ec2",
    "google compute engine": "google compute engine",
    "microsoft corporation virtual machine": "hyper-v",
    "vmware": "vmware",
    "innotek": "virtualbox",
    "virtualbox": "virtualbox",
    "xen": "xen",
    "openstack": "kvm",
    "qemu": "kvm",
    "kvm": "kvm",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a host is besides its GPUs; the fields are those of NodeTopology and Software."""

    cpu: Cpu | Unread
    memory_bytes: int | Unread
    numa: tuple[NumaNode, ...]
    nics: tuple[Nic, ...]
    virtualised: str | Unread | None
    kernel: str | Unread


def read_host(root: Path = LIVE, pci: Sequence[PciDevice] = ()) -> Host:
    """The host whose /proc and /sys lie under ``root``: this one, or a tree recorded elsewhere.

    Args:
        pci: its bus, for the PCIe links of NICs.
    """
    blocks = _cpuinfo(root)
    return Host(
        cpu=blocks if isinstance(blocks, Unread) else _cpu(root, blocks),
        memory_bytes=_memory_bytes(root / "proc/meminfo"),
        numa=tuple(
            _numa(root, folder)
            for folder in folders(root / "sys/devices/system/node", "node[0-9]*")
            if folder.name.removeprefix("node").isdecimal()
        ),
        nics=read_nics(root, pci),
        virtualised=_virtualised(root, {} if isinstance(blocks, Unread) else blocks[0]),
        kernel=read_text(root / "proc/sys/kernel/osrelease"),
    )


def pci_numa_node(root: Path, address: str | Unread) -> int | Unread:
    """The NUMA node of the PCI function at an address such as ``0000:1b:00.0``."""
    return address if isinstance(address, Unread) else numa_node(root / "sys/bus/pci/devices" / address)


def _cpuinfo(root: Path) -> list[dict[str, str]] | Unread:
    """The blocks of /proc/cpuinfo that describe a processor, as key and value."""
    text = read_text(root / "proc/cpuinfo")
    if isinstance(text, Unread):
        return text
    rows = ([line.partition(":") for line in block.splitlines()] for block in text.split("\n\n"))
    blocks = [{key.strip(): value.strip() for key, _, value in block} for block in rows]
    return [block for block in blocks if "processor" in block] or Unread.UNKNOWN


def _cpu(root: Path, blocks: list[dict[str, str]]) -> Cpu:
    system = root / "sys/devices/system/cpu"
    online = read_list(system / "online")
    cpus = tuple(range(len(blocks))) if isinstance(online, Unread) else online
    topology = [system / f"cpu{cpu}" / "topology" for cpu in cpus]
    return Cpu(
        model=_model(blocks[0]),
        sockets=_distinct(read_text(folder / "physical_package_id") for folder in topology)
        or _distinct(block.get("physical id", "-1") for block in blocks)
        or Unread.UNKNOWN,
        cores=_distinct(read_text(folder / "thread_siblings_list") for folder in topology)
        or _distinct(_core(block) for block in blocks)
        or Unread.UNKNOWN,
        threads=len(cpus),
        usable=_usable(root, cpus),
        last_level_cache_bytes=_last_level_cache(system / f"cpu{cpus[0]}" / "cache"),
    )


def _model(block: Mapping[str, str]) -> str:
    """The processor as the kernel names it; arm64 without a name gives the numbers that lscpu looks up."""
    name = next((block[key] for key in _MODEL_KEYS if block.get(key)), None)
    if name is None and "CPU part" in block:
        name = f"implementer {block.get('CPU implementer', 'unknown')} part {block['CPU part']}"
    return " ".join((name or Unread.UNKNOWN.value).split())


def _core(block: Mapping[str, str]) -> str:
    return f"{block.get('physical id')}/{block['core id']}" if "core id" in block else "-1"


def _distinct(values: Iterable[str | Unread]) -> int | None:
    """How many different values; None when one of them is unread, or -1, the kernel's word for not knowing."""
    found = set(values)
    return None if any(isinstance(value, Unread) or value in ("", "-1") for value in found) else len(found) or None


def _usable(root: Path, cpus: tuple[int, ...]) -> tuple[int, ...]:
    """Logical CPUs that this process may use; in a recorded tree, those that were online."""
    return tuple(sorted(os.sched_getaffinity(0))) if root == LIVE else cpus


def _last_level_cache(cache: Path) -> int | Unread:
    """Bytes of one cache of the highest level."""
    levels = {read_number(index / "level"): index for index in folders(cache, "index[0-9]*")}
    known = {level: index for level, index in levels.items() if not isinstance(level, Unread)}
    if not known:
        return Unread.UNKNOWN
    size = read_text(known[max(known)] / "size")
    if isinstance(size, Unread):
        return size
    match = re.fullmatch(r"(\d+)([KMG]?)", size)
    return int(match[1]) * _CACHE_UNITS[match[2]] if match and int(match[1]) else Unread.UNKNOWN


def _memory_bytes(path: Path) -> int | Unread:
    text = read_text(path)
    if isinstance(text, Unread):
        return text
    match = _MEMORY.search(text)
    return int(match[1]) * 1024 if match else Unread.UNKNOWN


def _numa(root: Path, folder: Path) -> NumaNode:
    cpus = read_list(folder / "cpulist")
    known = () if isinstance(cpus, Unread) else cpus
    package = root / f"sys/devices/system/cpu/cpu{known[0]}/topology/physical_package_id" if known else None
    socket = read_number(package) if package else Unread.NOT_SUPPORTED
    return NumaNode(
        number=int(folder.name.removeprefix("node")),
        cpus=known,
        memory_bytes=_memory_bytes(folder / "meminfo"),
        socket=socket if isinstance(socket, Unread) or socket >= 0 else Unread.UNKNOWN,
    )


def _virtualised(root: Path, block: Mapping[str, str]) -> str | Unread | None:
    """The hypervisor's name, None on bare metal.

    On x86 a guest has the CPU flag ``hypervisor`` (CPUID leaf 1, ECX bit 31, reserved for hypervisors). Without the
    flag, and on other processors, a DMI name that only guests have still tells; without DMI there, nothing does.
    """
    flags = block["flags"].split() if "flags" in block else None
    if read_text(root / "sys/hypervisor/type") == "xen":
        return "xen"
    dmi = [read_text(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    words = " ".join(word for word in dmi if not isinstance(word, Unread)).lower()
    name = next((name for mark, name in _HYPERVISORS.items() if mark in words), None)
    if flags is not None and "hypervisor" in flags:
        return name or "unknown hypervisor"
    if name == "amazon ec2" and (flags is not None or words.endswith("metal")):
        return None
    return name if words or flags is not None else Unread.UNKNOWN
