"""Recorded /proc and /sys trees, written file by file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CPU_BLOCK = """processor\t: {cpu}
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8480C   CPU @ 2.00GHz
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu vme sse2 {flags}
"""


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """Files by their path under ``root``; a text ``-> target`` makes a link."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text.removeprefix("-> "))
        else:
            path.write_text(text + "\n")
    return root


def cpuinfo(*, sockets: int = 2, cores: int = 2, threads: int = 2, flags: str = "") -> str:
    """/proc/cpuinfo with the second threads numbered after all the first ones, as on servers."""
    places = [(socket, core) for _ in range(threads) for socket in range(sockets) for core in range(cores)]
    blocks = [CPU_BLOCK.format(cpu=cpu, socket=s, core=c, flags=flags) for cpu, (s, c) in enumerate(places)]
    return "\n".join(blocks)


def two_sockets(*, flags: str = "") -> dict[str, str]:
    """Two sockets of two cores with two threads each: CPUs 0-1,4-5 and 2-3,6-7."""
    cpu = "sys/devices/system/cpu"
    files = {
        "proc/cpuinfo": cpuinfo(flags=flags),
        "proc/meminfo": "MemTotal:       67108864 kB\nMemFree:         1024 kB",
        "proc/sys/kernel/osrelease": "6.1.0-test",
        "proc/sys/kernel/hostname": "recorded-1",
        f"{cpu}/online": "0-7",
        f"{cpu}/cpu0/cache/index0/level": "1",
        f"{cpu}/cpu0/cache/index0/size": "48K",
        f"{cpu}/cpu0/cache/index3/level": "3",
        f"{cpu}/cpu0/cache/index3/size": "105M",
        "sys/devices/system/node/node0/cpulist": "0-1,4-5",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       33554432 kB",
        "sys/devices/system/node/node1/cpulist": "2-3,6-7",
        "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:       33554432 kB",
        "sys/class/dmi/id/sys_vendor": "Supermicro",
        "sys/class/dmi/id/product_name": "SYS-821GE-TNHR",
    }
    for number in range(8):
        files[f"{cpu}/cpu{number}/topology/physical_package_id"] = str(number // 2 % 2)
        files[f"{cpu}/cpu{number}/topology/thread_siblings_list"] = f"{number % 4},{number % 4 + 4}"
    return files


def interface(
    name: str, *, pci: str | None, speed: str | None, operstate: str = "up", numa: str = "0"
) -> dict[str, str]:
    """A network interface; without a PCI function it has no device behind it."""
    folder = f"sys/devices/pci0000:00/{pci}/net/{name}" if pci else f"sys/devices/virtual/net/{name}"
    files = {
        f"{folder}/operstate": operstate,
        f"{folder}/type": "1",
        f"sys/class/net/{name}": f"-> ../../../{folder}",
    }
    if speed is not None:
        files[f"{folder}/speed"] = speed
    if pci:
        files[f"sys/devices/pci0000:00/{pci}/numa_node"] = numa
        files[f"{folder}/device"] = f"-> ../../../{pci}"
    return files


def rdma(
    name: str,
    *,
    pci: str,
    layer: str = "InfiniBand",
    rate: str = "400 Gb/sec (4X NDR)",
    state: str = "4: ACTIVE",
    physical: str = "5: LinkUp",
    numa: str = "1",
    port: int = 1,
) -> dict[str, str]:
    """One port of an RDMA device."""
    folder = f"sys/class/infiniband/{name}"
    return {
        f"{folder}/ports/{port}/state": state,
        f"{folder}/ports/{port}/phys_state": physical,
        f"{folder}/ports/{port}/rate": rate,
        f"{folder}/ports/{port}/link_layer": layer,
        f"{folder}/device": f"-> ../../../devices/pci0000:00/{pci}",
        f"sys/devices/pci0000:00/{pci}/numa_node": numa,
    }
