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


KINDS = {
    "gpu": ("0x030200", "0x10de", "0x2330"),
    "amd gpu": ("0x120000", "0x1002", "0x74a1"),
    "nic": ("0x020700", "0x15b3", "0x1021"),
    "nvswitch": ("0x068000", "0x10de", "0x22a3"),
    "bridge": ("0x060400", "0x1000", "0xc030"),
    "amd bridge": ("0x060400", "0x1002", "0x14a0"),
    "serial": ("0x070002", "0x8086", "0x1234"),
}
"""Class, vendor and device of each kind of PCI function."""


def pci(
    *places: str, kind: str = "gpu", numa: str = "0", speed: str = "32.0 GT/s PCIe", width: str = "16", **files: str
) -> dict[str, str]:
    """PCI functions by their place (``pci0000:16/0000:16:01.0/0000:17:00.0``), and the bridges above them.

    Args:
        speed, width: now and at most.
        files: others of the functions' folders, or with another text than these.
    """
    tree: dict[str, str] = {}
    for place in places:
        root, *addresses = place.split("/")
        for at, address in enumerate(addresses, 1):
            end = at == len(addresses)
            words = ("class", "vendor", "device")
            own = dict(zip(words, KINDS[kind if end else "bridge"], strict=True))
            own |= {f"{which}_link_speed": speed for which in ("current", "max")} if end else PORT_SPEED
            own |= {f"{which}_link_width": width if end else "16" for which in ("current", "max")}
            own |= {"numa_node": numa, **(files if end else {})}
            folder = "/".join(["sys/devices", root, *addresses[:at]])
            tree |= {name: text for file, text in own.items() if (name := f"{folder}/{file}") not in tree or end}
            tree[f"sys/bus/pci/devices/{address}"] = f"-> ../../../{folder.removeprefix('sys/')}"
    return tree


PORT_SPEED = {"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe"}


def large_node(gpus: int = 16, nics: int = 40) -> dict[str, str]:
    """Two sockets, each with four switches; GPUs and NICs spread over these, in the order of their numbers.

    The GPUs have the addresses of ``fake_nvml.cards``. Every NIC is InfiniBand, but each fifth, which is Ethernet and
    right under its root complex.
    """
    tree = two_sockets()
    for number in range(gpus):
        tree |= pci(
            f"{switch(number * 8 // gpus, port=number % 2)}/0000:{0x1B + number:02x}:00.0", numa=str(number * 2 // gpus)
        )
    for number in range(nics):
        at, numa, address = number * 8 // nics, str(number * 2 // nics), f"0000:{0x40 + number:02x}:00.0"
        above = f"pci0000:c{at}" if number % 5 == 4 else switch(at, port=2 + number % 5)
        if number % 5 == 4:
            tree |= interface(f"eth{number}", pci=address, speed="200000", numa=numa, above=above)
            tree |= {f"sys/devices/{above}/{address}/net/eth{number}/statistics/{file}": "0" for file in INTERFACE}
        else:
            tree |= rdma(f"mlx5_{number}", pci=address, numa=numa, above=above)
            tree |= {f"sys/class/infiniband/mlx5_{number}/ports/1/counters/{file}": "0" for file in PORT}
        tree |= pci(f"{above}/{address}", kind="nic", numa=numa)
    return tree


PORT = ("symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors", "port_xmit_discards")
INTERFACE = ("rx_errors", "tx_dropped")


def switch(number: int, *, port: int = 1) -> str:
    """A port of a PCIe switch: root complex, root port, the switch's upstream port, its downstream port."""
    return f"pci0000:a{number}/0000:a{number}:01.0/0000:b{number}:00.0/0000:b{number}:1{port}.0"


def interface(
    name: str, *, pci: str | None, speed: str | None, operstate: str = "up", numa: str = "0", above: str = "pci0000:00"
) -> dict[str, str]:
    """A network interface; without a PCI function it has no device behind it."""
    folder = f"sys/devices/{above}/{pci}/net/{name}" if pci else f"sys/devices/virtual/net/{name}"
    files = {
        f"{folder}/operstate": operstate,
        f"{folder}/type": "1",
        f"sys/class/net/{name}": f"-> ../../../{folder}",
    }
    if speed is not None:
        files[f"{folder}/speed"] = speed
    if pci:
        files[f"sys/devices/{above}/{pci}/numa_node"] = numa
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
    above: str = "pci0000:00",
    **files: str,
) -> dict[str, str]:
    """One port of an RDMA device; ``files`` are others of the device's folder."""
    folder = f"sys/class/infiniband/{name}"
    return {
        f"{folder}/ports/{port}/state": state,
        f"{folder}/ports/{port}/phys_state": physical,
        f"{folder}/ports/{port}/rate": rate,
        f"{folder}/ports/{port}/link_layer": layer,
        f"{folder}/device": f"-> ../../../devices/{above}/{pci}",
        f"sys/devices/{above}/{pci}/numa_node": numa,
        **{f"{folder}/{file}": text for file, text in files.items()},
    }
