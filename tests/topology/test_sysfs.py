"""The host from recorded trees: every value where it is there, the right reason where it is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trees import cpuinfo, interface, rdma, two_sockets, write_tree

from gpuwire_checks.topology.expand import expand_ranges, format_mask, format_ranges
from gpuwire_checks.topology.model import Cpu, Nic, Unread
from gpuwire_checks.topology.sysfs import nvidia_gpus_on_bus, pci_numa_node, read_host
from gpuwire_checks.topology.tree import read_list, read_text


def cpu_of(root: Path) -> Cpu:
    cpu = read_host(root).cpu
    assert not isinstance(cpu, Unread)
    return cpu


def nics_of(root: Path, *parts: dict[str, str]) -> dict[str, Nic]:
    for files in parts:
        write_tree(root, {name: text for name, text in files.items() if not (root / name).exists()})
    return {nic.name: nic for nic in read_host(root).nics}


def test_a_full_tree_is_read_whole(tmp_path: Path) -> None:
    host = read_host(write_tree(tmp_path, two_sockets()))
    assert host.cpu == Cpu(
        model="Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz",
        sockets=2,
        cores=4,
        threads=8,
        usable=tuple(range(8)),
        last_level_cache_bytes=105 << 20,
    )
    assert host.memory_bytes == 64 << 30
    assert [(node.number, node.cpus, node.memory_bytes) for node in host.numa] == [
        (0, (0, 1, 4, 5), 32 << 30),
        (1, (2, 3, 6, 7), 32 << 30),
    ]
    assert (host.kernel, host.virtualised, host.nics) == ("6.1.0-test", None, ())


def test_an_empty_tree_is_unknown_and_nowhere_0(tmp_path: Path) -> None:
    host = read_host(tmp_path)
    assert (host.cpu, host.memory_bytes, host.kernel, host.virtualised) == (Unread.UNKNOWN,) * 4
    assert (host.numa, host.nics) == ((), ())


def test_cpuinfo_alone_gives_sockets_and_cores(tmp_path: Path) -> None:
    cpu = cpu_of(write_tree(tmp_path, {"proc/cpuinfo": cpuinfo(sockets=2, cores=3, threads=2)}))
    assert (cpu.sockets, cpu.cores, cpu.threads) == (2, 6, 12)
    assert cpu.last_level_cache_bytes is Unread.UNKNOWN


def test_arm_without_topology_has_a_model_and_unknown_cores(tmp_path: Path) -> None:
    block = "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f"
    cpu = cpu_of(write_tree(tmp_path, {"proc/cpuinfo": block}))
    assert cpu.model == "implementer 0x41 part 0xd4f"
    assert (cpu.sockets, cpu.cores) == (Unread.UNKNOWN, Unread.UNKNOWN)


def test_a_package_of_minus_1_is_an_unknown_socket(tmp_path: Path) -> None:
    block = "processor\t: 0\nCPU part\t: 0xd4f"
    package = {"sys/devices/system/cpu/cpu0/topology/physical_package_id": "-1"}
    assert cpu_of(write_tree(tmp_path, {"proc/cpuinfo": block, **package})).sockets is Unread.UNKNOWN


def test_the_live_host_is_usable_where_this_process_may_run() -> None:
    cpu = read_host().cpu
    assert not isinstance(cpu, Unread)
    assert set(cpu.usable) == os.sched_getaffinity(0)


def test_a_numa_node_of_memory_alone_has_no_cpus(tmp_path: Path) -> None:
    extra = {"sys/devices/system/node/node2/cpulist": "", "sys/devices/system/node/node10/cpulist": ""}
    host = read_host(write_tree(tmp_path, {**two_sockets(), **extra}))
    assert [node.number for node in host.numa] == [0, 1, 2, 10]
    assert (host.numa[2].cpus, host.numa[2].memory_bytes) == ((), Unread.UNKNOWN)


@pytest.mark.parametrize(
    ("flags", "vendor", "product", "expected"),
    [
        ("hypervisor", "QEMU", "Standard PC (Q35 + ICH9, 2009)", "kvm"),
        ("hypervisor", "Amazon EC2", "p5.48xlarge", "amazon ec2"),
        ("hypervisor", "Microsoft Corporation", "Virtual Machine", "hyper-v"),
        ("hypervisor", "Supermicro", "SYS-821GE-TNHR", "unknown hypervisor"),
        ("", "Amazon EC2", "i3.metal", None),
        ("", "QEMU", "Standard PC", "kvm"),
        ("", "Supermicro", "SYS-821GE-TNHR", None),
        ("", "Microsoft Corporation", "C2190", None),
    ],
)
def test_hypervisor_by_flag_and_name(
    tmp_path: Path, flags: str, vendor: str, product: str, expected: str | None
) -> None:
    files = two_sockets(flags=flags)
    files |= {"sys/class/dmi/id/sys_vendor": vendor, "sys/class/dmi/id/product_name": product}
    assert read_host(write_tree(tmp_path, files)).virtualised == expected


def test_the_flag_alone_is_an_unknown_hypervisor(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/cpuinfo": cpuinfo(flags="hypervisor")})
    assert read_host(root).virtualised == "unknown hypervisor"


@pytest.mark.parametrize(
    ("dmi", "expected"),
    [
        ({}, Unread.UNKNOWN),
        ({"sys_vendor": "Amazon EC2", "product_name": "c7g.metal"}, None),
        ({"sys_vendor": "Amazon EC2", "product_name": "c7g.16xlarge"}, "amazon ec2"),
        ({"sys_vendor": "NVIDIA", "product_name": "DGX GB200"}, None),
    ],
)
def test_a_processor_without_flags_needs_a_dmi_name(
    tmp_path: Path, dmi: dict[str, str], expected: str | Unread | None
) -> None:
    files = {"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd"}
    files |= {f"sys/class/dmi/id/{name}": text for name, text in dmi.items()}
    assert read_host(write_tree(tmp_path, files)).virtualised == expected


def test_xen_says_so_itself(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"proc/cpuinfo": cpuinfo(flags="hypervisor"), "sys/hypervisor/type": "xen"})
    assert read_host(root).virtualised == "xen"


def test_an_ethernet_interface(tmp_path: Path) -> None:
    nic = nics_of(tmp_path, interface("eth0", pci="0000:00:05.0", speed="25000", numa="1"))["eth0"]
    assert nic == Nic(
        name="eth0",
        kind="ethernet",
        rate_bits=25_000_000_000,
        up=True,
        numa_node=1,
        pci_address="0000:00:05.0",
        device=Unread.NOT_SUPPORTED,
    )


@pytest.mark.parametrize("speed", ["-1", "0", "4294967295", None, "fast"])
def test_a_speed_that_says_nothing_is_an_unknown_rate(tmp_path: Path, speed: str | None) -> None:
    nic = nics_of(tmp_path, interface("eth0", pci="0000:00:05.0", speed=speed, operstate="down"))["eth0"]
    assert (nic.rate_bits, nic.up) == (Unread.UNKNOWN, False)


def test_numa_node_minus_1_is_unknown(tmp_path: Path) -> None:
    nic = nics_of(tmp_path, interface("eth0", pci="0000:00:05.0", speed="1000", numa="-1"))["eth0"]
    assert nic.numa_node is Unread.UNKNOWN


def test_without_a_device_an_interface_is_virtual(tmp_path: Path) -> None:
    nic = nics_of(tmp_path, interface("docker0", pci=None, speed="10000", operstate="unknown"))["docker0"]
    assert (nic.kind, nic.up, nic.pci_address) == ("virtual", Unread.UNKNOWN, Unread.NOT_SUPPORTED)


def test_a_roce_card_is_one_nic_under_its_rdma_name(tmp_path: Path) -> None:
    pci = "0000:00:06.0"
    nics = nics_of(
        tmp_path,
        interface("eth2", pci=pci, speed="200000"),
        rdma("mlx5_0", pci=pci, layer="Ethernet", rate="200 Gb/sec (4X HDR)"),
    )
    assert list(nics) == ["mlx5_0"]
    assert (nics["mlx5_0"].kind, nics["mlx5_0"].rate_bits) == ("roce", 200_000_000_000)


def test_an_infiniband_port_and_the_order_of_names(tmp_path: Path) -> None:
    nics = nics_of(tmp_path, rdma("mlx5_10", pci="0000:00:0a.0"), rdma("mlx5_2", pci="0000:00:07.0"))
    assert list(nics) == ["mlx5_2", "mlx5_10"]
    nic = nics["mlx5_2"]
    assert (nic.kind, nic.rate_bits, nic.up, nic.numa_node) == ("infiniband", 400_000_000_000, True, 1)
    assert (nic.pci_address, nic.device) == ("0000:00:07.0", "mlx5_2")


def test_a_port_that_is_down_has_no_rate(tmp_path: Path) -> None:
    down = rdma("mlx5_0", pci="0000:00:07.0", rate="10 Gb/sec (4X SDR)", state="1: DOWN", physical="2: Polling")
    nic = nics_of(tmp_path, down)["mlx5_0"]
    assert (nic.up, nic.rate_bits) == (False, Unread.UNKNOWN)


def test_a_port_that_waits_for_a_subnet_manager_is_not_up(tmp_path: Path) -> None:
    assert nics_of(tmp_path, rdma("mlx5_0", pci="0000:00:07.0", state="2: INIT"))["mlx5_0"].up is False


def test_a_second_port_has_its_number(tmp_path: Path) -> None:
    nics = nics_of(tmp_path, rdma("mlx4_0", pci="0000:00:07.0"), rdma("mlx4_0", pci="0000:00:07.0", port=2))
    assert list(nics) == ["mlx4_0", "mlx4_0:2"]


def test_an_rdma_link_layer_of_neither_kind_is_unknown(tmp_path: Path) -> None:
    assert (
        nics_of(tmp_path, rdma("rdmap16s27", pci="0000:00:07.0", layer="Unspecified"))["rdmap16s27"].kind == "unknown"
    )


def test_nvidia_gpus_are_found_on_the_bus_without_a_driver(tmp_path: Path) -> None:
    bus = "sys/bus/pci/devices"
    devices = {
        "0000:1b:00.0": ("0x10de", "0x030200"),
        "0000:1c:00.0": ("0x10de", "0x068000"),
        "0000:03:00.0": ("0x8086", "0x030000"),
    }
    files = {f"{bus}/{at}/vendor": vendor for at, (vendor, _) in devices.items()}
    files |= {f"{bus}/{at}/class": kind for at, (_, kind) in devices.items()}
    assert nvidia_gpus_on_bus(write_tree(tmp_path, files)) == ("0000:1b:00.0",)


def test_numa_node_by_pci_address(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"sys/bus/pci/devices/0000:1b:00.0/numa_node": "1"})
    assert pci_numa_node(root, "0000:1b:00.0") == 1
    assert pci_numa_node(root, "0000:ff:00.0") is Unread.UNKNOWN
    assert pci_numa_node(root, Unread.NO_PERMISSION) is Unread.NO_PERMISSION


def test_no_permission_stays_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, **options: object) -> str:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_text", refuse)
    assert read_text(tmp_path / "any") is Unread.NO_PERMISSION
    host = read_host(tmp_path)
    assert (host.cpu, host.memory_bytes) == (Unread.NO_PERMISSION, Unread.NO_PERMISSION)


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-2,8", (0, 1, 2, 8)), ("", ()), ("3", (3,)), ("0-1,64-65\n", (0, 1, 64, 65))]
)
def test_lists_of_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert expand_ranges(text) == numbers
    assert format_ranges(numbers) == text.strip()


@pytest.mark.parametrize("text", ["3-1", "a", "1,,2", "-1", "0x3"])
def test_what_is_no_list_is_refused_and_unknown(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"runs backwards|is not a list"):
        expand_ranges(text)
    assert read_list(write_tree(tmp_path, {"list": text}) / "list") is Unread.UNKNOWN


def test_masks_of_words() -> None:
    assert format_mask([0b1011, 0, 1]) == "0-1,3,128"
    assert format_mask([0, 0]) == ""
