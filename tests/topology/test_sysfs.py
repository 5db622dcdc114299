"""The host from recorded trees: every value where it is there, the right reason where it is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trees import cpuinfo, interface, pci, rdma, two_sockets, write_tree

from gpuwire_checks.topology.expand import expand_ranges, format_mask, format_ranges
from gpuwire_checks.topology.model import Cpu, Nic, Pcie, Unread
from gpuwire_checks.topology.pci import read_pci
from gpuwire_checks.topology.sysfs import pci_numa_node, read_host
from gpuwire_checks.topology.tree import folders, pci_function, read_list, read_text


def cpu_of(root: Path) -> Cpu:
    cpu = read_host(root).cpu
    assert not isinstance(cpu, Unread)
    return cpu


def nics_of(root: Path, *parts: dict[str, str]) -> dict[str, Nic]:
    for files in parts:
        write_tree(root, {name: text for name, text in files.items() if not (root / name).exists()})
    return {nic.name: nic for nic in read_host(root, read_pci(root)).nics}


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
    assert [node.socket for node in host.numa] == [0, 1]
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
    assert host.numa[2].socket is Unread.NOT_SUPPORTED


def test_four_numa_nodes_of_two_sockets_and_a_folder_that_is_none(tmp_path: Path) -> None:
    files = {f"sys/devices/system/node/node{node}/cpulist": str(node) for node in range(4)}
    files |= {f"sys/devices/system/cpu/cpu{n}/topology/physical_package_id": str(n // 2 or -1) for n in range(4)}
    nodes = read_host(write_tree(tmp_path, {**files, "sys/devices/system/node/node1x/cpulist": "0"})).numa
    assert [(node.number, node.socket) for node in nodes] == [
        (0, Unread.UNKNOWN),
        (1, Unread.UNKNOWN),
        (2, 1),
        (3, 1),
    ]


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
        state=Unread.NOT_SUPPORTED,
        physical=Unread.NOT_SUPPORTED,
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
    assert (nic.state, nic.physical) == ("Down", "Polling")


@pytest.mark.parametrize(
    ("state", "physical", "words", "up"),
    [
        ("4: ACTIVE", "5: LinkUp", ("Active", "LinkUp"), True),
        ("1: DOWN", "3: Disabled", ("Down", "Disabled"), False),
        ("2: INIT", "5: LinkUp", ("Initializing", "LinkUp"), False),
        ("3: ARMED", "5: LinkUp", ("Armed", "LinkUp"), False),
        ("4: ACTIVE", "6: LinkErrorRecovery", ("Active", "LinkErrorRecovery"), False),
        ("4: ACTIVE", "0: <unknown>", ("Active", Unread.UNKNOWN), True),
        ("7: NEW", "5: LinkUp", ("NEW", "LinkUp"), False),
        ("", "5: LinkUp", (Unread.UNKNOWN, "LinkUp"), Unread.UNKNOWN),
    ],
)
def test_states_are_those_that_ibstat_prints(
    tmp_path: Path, state: str, physical: str, words: tuple[object, object], up: bool | Unread
) -> None:
    nic = nics_of(tmp_path, rdma("mlx5_0", pci="0000:00:07.0", state=state, physical=physical))["mlx5_0"]
    assert ((nic.state, nic.physical), nic.up) == (words, up)


def test_firmware_and_slot_of_an_adapter(tmp_path: Path) -> None:
    slot = pci("pci0000:00/0000:00:07.0", kind="nic", width="8")
    nics = nics_of(
        tmp_path, slot, rdma("mlx5_0", pci="0000:00:07.0", fw_ver="28.41.1000"), rdma("mlx5_1", pci="0000:00:08.0")
    )
    assert (nics["mlx5_0"].firmware, nics["mlx5_1"].firmware) == ("28.41.1000", Unread.UNKNOWN)
    assert nics["mlx5_0"].pcie == Pcie(generation=5, width=8, max_generation=5, max_width=8)
    assert nics["mlx5_1"].pcie == Pcie()


def test_an_interface_of_a_usb_controller_has_no_slot_of_its_own(tmp_path: Path) -> None:
    controller = pci("pci0000:00/0000:00:14.0", kind="serial")
    nics = nics_of(tmp_path, interface("usb0", pci="0000:00:14.0", speed="100"), controller)
    assert nics["usb0"].pcie == Pcie()


def test_a_port_that_waits_for_a_subnet_manager_is_not_up(tmp_path: Path) -> None:
    assert nics_of(tmp_path, rdma("mlx5_0", pci="0000:00:07.0", state="2: INIT"))["mlx5_0"].up is False


def virtual_function() -> dict[str, str]:
    """A virtual function of the adapter at 0000:40:00.0, on RDMA."""
    at = "0000:40:00.3"
    files = rdma("mlx5_1", pci=at, above="pci0000:40") | pci(f"pci0000:40/{at}", kind="nic", numa="1")
    return files | {f"sys/devices/pci0000:40/{at}/physfn": "-> ../0000:40:00.0"}


def test_a_virtual_function_beside_its_physical_one_is_no_nic_of_its_own(tmp_path: Path) -> None:
    """With the number of them set to 8 a node has the wires that it had."""
    adapter = rdma("mlx5_0", pci="0000:40:00.0", above="pci0000:40") | pci("pci0000:40/0000:40:00.0", kind="nic")
    nics = nics_of(tmp_path, adapter, virtual_function())
    assert {name: nic.kind for name, nic in nics.items()} == {"mlx5_0": "infiniband", "mlx5_1": "virtual"}


def test_a_virtual_function_alone_is_the_nic(tmp_path: Path) -> None:
    """A container that was given one does not see the other."""
    assert nics_of(tmp_path, virtual_function())["mlx5_1"].kind == "infiniband"


def test_a_second_port_has_its_number(tmp_path: Path) -> None:
    nics = nics_of(tmp_path, rdma("mlx4_0", pci="0000:00:07.0"), rdma("mlx4_0", pci="0000:00:07.0", port=2))
    assert list(nics) == ["mlx4_0", "mlx4_0:2"]


def test_an_rdma_link_layer_of_neither_kind_is_unknown(tmp_path: Path) -> None:
    assert (
        nics_of(tmp_path, rdma("rdmap16s27", pci="0000:00:07.0", layer="Unspecified"))["rdmap16s27"].kind == "unknown"
    )


def test_numa_node_by_pci_address(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"sys/bus/pci/devices/0000:1b:00.0/numa_node": "1"})
    assert pci_numa_node(root, "0000:1b:00.0") == 1
    assert pci_numa_node(root, "0000:ff:00.0") is Unread.UNKNOWN
    assert pci_numa_node(root, Unread.NO_PERMISSION) is Unread.NO_PERMISSION


def test_no_permission_stays_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path | str, *_flags: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    assert read_text(tmp_path / "any") is Unread.NO_PERMISSION
    host = read_host(tmp_path)
    assert (host.cpu, host.memory_bytes) == (Unread.NO_PERMISSION, Unread.NO_PERMISSION)


def test_a_file_that_opens_and_cannot_be_read_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_tree(tmp_path, {"speed": "1000"}) / "speed"
    for error, reason in [(PermissionError(1, "no"), Unread.NO_PERMISSION), (OSError(22, "no"), Unread.UNKNOWN)]:
        with monkeypatch.context() as patch:

            def refuse(_file: int, _size: int, error: OSError = error) -> bytes:
                raise error

            patch.setattr(os, "read", refuse)
            found = read_text(file)
        assert found is reason


def test_a_long_file_is_read_whole(tmp_path: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(2000))
    assert read_text(write_tree(tmp_path, {"long": text}) / "long") == text


def test_links_that_lead_in_a_circle_lead_nowhere(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"a": "-> b", "b": "-> a", "dead/device": "-> ../nothing"})
    assert pci_function(root / "a" / "device") is None
    assert [folder.name for folder in folders(root)] == ["dead"]
    assert folders(root / "a") == ()


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-2,8", (0, 1, 2, 8)), ("", ()), ("3", (3,)), ("0-1,64-65\n", (0, 1, 64, 65))]
)
def test_lists_of_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert expand_ranges(text) == numbers
    assert format_ranges(numbers) == text.strip()


@pytest.mark.parametrize("text", ["3-1", "a", "1,,2", "-1", "0x3", "0-99999999999"])
def test_what_is_no_list_is_refused_and_unknown(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"runs backwards|is not a list|is no CPU"):
        expand_ranges(text)
    assert read_list(write_tree(tmp_path, {"list": text}) / "list") is Unread.UNKNOWN


def test_masks_of_words() -> None:
    assert format_mask([0b1011, 0, 1]) == "0-1,3,128"
    assert format_mask([0, 0]) == ""
