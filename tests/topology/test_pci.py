"""The PCI bus from recorded trees: which functions, what is above them, and what their links are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from trees import pci, switch, write_tree

from gpuwire_checks.topology.model import PciDevice, Pcie, Unread
from gpuwire_checks.topology.pci import read_pci

GPU = "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0"
NIC = "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0"
PORT = "sys/devices/pci0000:16/0000:16:01.0"


def bus_of(root: Path, *trees: dict[str, str]) -> dict[str, PciDevice]:
    for tree in trees:
        write_tree(root, {name: text for name, text in tree.items() if not os.path.lexists(root / name)})
    return {str(device.address): device for device in read_pci(root)}


def config(root: Path, folder: str, words: dict[int, int], *, size: int = 4096) -> None:
    """A configuration space with some 32-bit words set."""
    space = bytearray(size)
    for at, word in words.items():
        space[at : at + 4] = word.to_bytes(4, "little")
    (root / folder / "config").write_bytes(bytes(space))


def test_a_gpu_and_a_nic_on_one_switch_and_all_bridges_above(tmp_path: Path) -> None:
    devices = bus_of(tmp_path, pci(GPU), pci(NIC, kind="nic"))
    assert [(at, device.kind, device.parent) for at, device in devices.items()] == [
        ("0000:16:01.0", "switch", None),
        ("0000:17:00.0", "switch", "0000:16:01.0"),
        ("0000:18:00.0", "switch", "0000:17:00.0"),
        ("0000:18:01.0", "switch", "0000:17:00.0"),
        ("0000:19:00.0", "gpu", "0000:18:00.0"),
        ("0000:1a:00.0", "nic", "0000:18:01.0"),
    ]
    assert {device.root for device in devices.values()} == {"pci0000:16"}
    assert devices["0000:19:00.0"] == PciDevice(
        address="0000:19:00.0",
        parent="0000:18:00.0",
        root="pci0000:16",
        kind="gpu",
        class_code=0x030200,
        name="10de:2330",
        pcie=Pcie(generation=5, width=16, max_generation=5, max_width=16),
        numa_node=0,
    )


@pytest.mark.parametrize(
    ("code", "vendor", "kind"),
    [
        ("0x030000", "0x10de", "gpu"),
        ("0x030200", "0x10de", "gpu"),
        ("0x068000", "0x10de", "nvswitch"),
        ("0x068000", "0x8086", None),
        ("0x030000", "0x1a03", None),
        ("0x030000", "0x1002", "gpu"),
        ("0x038000", "0x1002", "gpu"),
        ("0x038000", "0x10de", None),
        ("0x120000", "0x1002", "gpu"),
        ("0x120000", "0x1d0f", None),
        ("0x020000", "0x1d0f", "nic"),
        ("0x020700", "0x15b3", "nic"),
        ("0x040300", "0x10de", None),
        ("0x010802", "0x144d", None),
        ("class", "0x10de", None),
    ],
)
def test_the_kind_is_told_by_class_and_vendor(tmp_path: Path, code: str, vendor: str, kind: str | None) -> None:
    devices = bus_of(tmp_path, pci("pci0000:16/0000:16:01.0/0000:17:00.0", **{"class": code}, vendor=vendor))
    assert [device.kind for device in devices.values() if device.kind != "switch"] == ([kind] if kind else [])
    assert bool(devices) == (kind is not None)


def test_order_is_that_of_the_bus_and_not_of_words(tmp_path: Path) -> None:
    places = [
        f"pci{domain}:{bus}/{domain}:{bus}:00.0" for domain, bus in [("0000", "9a"), ("0000", "1b"), ("10000", "01")]
    ]
    devices = bus_of(tmp_path, pci(*places), pci("pci0000:09/0000:09:00.0"))
    assert list(devices) == ["0000:09:00.0", "0000:1b:00.0", "0000:9a:00.0", "10000:01:00.0"]


def test_a_virtual_machine_shows_devices_flat(tmp_path: Path) -> None:
    devices = bus_of(tmp_path, pci("pci0000:00/0000:00:05.0", "pci0000:00/0000:00:06.0", numa="-1"))
    assert [(device.parent, device.root, device.numa_node) for device in devices.values()] == [
        (None, "pci0000:00", Unread.UNKNOWN)
    ] * 2


def test_the_root_complex_below_a_volume_controller_is_its_own(tmp_path: Path) -> None:
    device = bus_of(tmp_path, pci("pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0", kind="nic"))
    assert [(d.address, d.parent, d.root) for d in device.values()] == [
        ("10000:e0:06.0", None, "pci10000:e0"),
        ("10000:e1:00.0", "10000:e0:06.0", "pci10000:e0"),
    ]


def test_a_tree_recorded_without_links_does_not_tell_what_is_above(tmp_path: Path) -> None:
    folder = "sys/bus/pci/devices/0000:19:00.0"
    write_tree(tmp_path, {f"{folder}/class": "0x030200", f"{folder}/vendor": "0x10de"})
    (device,) = read_pci(tmp_path)
    assert (device.address, device.kind, device.name) == ("0000:19:00.0", "gpu", "10de:????")
    assert (device.parent, device.root, device.numa_node, device.pcie) == (Unread.UNKNOWN,) * 3 + (Pcie(),)


def test_a_name_that_is_no_address_is_passed_by(tmp_path: Path) -> None:
    folder = "sys/bus/pci/devices/gpu"
    assert read_pci(write_tree(tmp_path, {f"{folder}/class": "0x030200", f"{folder}/vendor": "0x10de"})) == ()


def test_a_host_without_pci_has_no_bus(tmp_path: Path) -> None:
    assert read_pci(tmp_path) == ()


@pytest.mark.parametrize(
    ("speed", "generation"),
    [
        ("2.5 GT/s PCIe", 1),
        ("5.0 GT/s PCIe", 2),
        ("8.0 GT/s PCIe", 3),
        ("8 GT/s", 3),
        ("16.0 GT/s PCIe", 4),
        ("16 GT/s", 4),
        ("32.0 GT/s PCIe", 5),
        ("64.0 GT/s PCIe", 6),
        ("Unknown", Unread.UNKNOWN),
        ("Unknown speed", Unread.UNKNOWN),
        ("7.0 GT/s PCIe", Unread.UNKNOWN),
        ("", Unread.UNKNOWN),
    ],
)
def test_the_generation_is_told_by_the_speed(tmp_path: Path, speed: str, generation: int | Unread) -> None:
    device = bus_of(tmp_path, pci("pci0000:00/0000:00:05.0", speed=speed))["0000:00:05.0"]
    assert (device.pcie.generation, device.pcie.max_generation) == (generation, generation)


@pytest.mark.parametrize(
    ("width", "lanes"),
    [("16", 16), ("8", 8), ("1", 1), ("0", Unread.UNKNOWN), ("255", Unread.UNKNOWN), ("63", Unread.UNKNOWN)],
)
def test_a_width_that_there_is_not_is_unknown(tmp_path: Path, width: str, lanes: int | Unread) -> None:
    device = bus_of(tmp_path, pci("pci0000:00/0000:00:05.0", width=width))["0000:00:05.0"]
    assert (device.pcie.width, device.pcie.max_width) == (lanes, lanes)


def test_a_slow_port_bounds_what_is_possible(tmp_path: Path) -> None:
    slot = {"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "8"}
    tree = pci("pci0000:16/0000:16:01.0/0000:17:00.0", current_link_width="8", current_link_speed="2.5 GT/s PCIe")
    tree |= {f"{PORT}/{file}": text for file, text in slot.items()}
    devices = bus_of(tmp_path, tree)
    assert devices["0000:17:00.0"].pcie == Pcie(generation=1, width=8, max_generation=4, max_width=8)
    assert devices["0000:16:01.0"].pcie == Pcie(generation=5, width=16, max_generation=4, max_width=8)


def test_a_device_that_trained_too_narrow_is_seen_by_its_width(tmp_path: Path) -> None:
    device = bus_of(tmp_path, pci(NIC, kind="nic", current_link_width="8"))["0000:1a:00.0"]
    assert (device.pcie.width, device.pcie.max_width) == (8, 16)


def test_a_port_of_a_hypervisor_that_claims_less_than_what_runs_is_not_believed(tmp_path: Path) -> None:
    tree = pci("pci0000:16/0000:16:01.0/0000:17:00.0")
    tree |= {f"{PORT}/max_link_speed": "2.5 GT/s PCIe", f"{PORT}/max_link_width": "1"}
    assert bus_of(tmp_path, tree)["0000:17:00.0"].pcie == Pcie(generation=5, width=16, max_generation=5, max_width=16)


def test_the_slot_of_an_amd_board_is_above_its_own_switch(tmp_path: Path) -> None:
    slot = "pci0000:16/0000:16:01.0/0000:17:00.0"
    gpu = f"{slot}/0000:18:00.0/0000:19:00.0"
    inner = [pci(slot, kind="amd bridge", width="8"), pci(f"{slot}/0000:18:00.0", kind="amd bridge")]
    devices = bus_of(tmp_path, *inner, pci(gpu, kind="amd gpu"))
    assert (devices["0000:19:00.0"].kind, devices["0000:19:00.0"].name) == ("gpu", "1002:74a1")
    assert devices["0000:19:00.0"].pcie.width == 8


ACS_AT_140 = {0x100: 0x14010001, 0x140: 0x0001000D, 0x144: 0x001D_007F}


@pytest.mark.parametrize(
    ("words", "acs"),
    [
        (ACS_AT_140, ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")),
        ({**ACS_AT_140, 0x144: 0x0000_007F}, ()),
        ({**ACS_AT_140, 0x144: 0x0001_0000}, ("SrcValid",)),
        ({**ACS_AT_140, 0x144: 0x0062_0000}, ("TransBlk", "EgressCtrl", "DirectTrans")),
        ({0x100: 0x0001000D, 0x104: 0x0004_0000}, ("ReqRedir",)),
        ({0x100: 0x14010001, 0x140: 0x00010003}, Unread.NOT_SUPPORTED),
        ({}, Unread.NOT_SUPPORTED),
        ({0x100: 0x10010001}, Unread.NOT_SUPPORTED),
        ({0x100: 0xFFFFFFFF}, Unread.UNKNOWN),
    ],
    ids=["redirect", "all off", "validating", "rare ones", "first", "none", "empty", "a loop", "gone"],
)
def test_acs_is_read_where_the_whole_space_may_be(
    tmp_path: Path, words: dict[int, int], acs: tuple[str, ...] | Unread
) -> None:
    write_tree(tmp_path, pci(GPU))
    config(tmp_path, PORT, words)
    assert bus_of(tmp_path)["0000:16:01.0"].acs == acs


@pytest.mark.parametrize(("size", "acs"), [(64, Unread.NO_PERMISSION), (256, Unread.NOT_SUPPORTED)])
def test_acs_beyond_what_is_readable(tmp_path: Path, size: int, acs: Unread) -> None:
    write_tree(tmp_path, pci(GPU))
    config(tmp_path, PORT, {}, size=size)
    assert bus_of(tmp_path)["0000:16:01.0"].acs is acs


def test_acs_of_a_file_that_may_not_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, pci(GPU))
    config(tmp_path, PORT, ACS_AT_140)
    opened = os.open

    def refuse(path: str, flags: int) -> int:
        if str(path).endswith("config"):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, flags)

    monkeypatch.setattr(os, "open", refuse)
    assert bus_of(tmp_path)["0000:16:01.0"].acs is Unread.NO_PERMISSION


def test_acs_is_that_of_bridges_and_unknown_without_a_file(tmp_path: Path) -> None:
    devices = bus_of(tmp_path, pci(GPU))
    assert {device.acs for device in devices.values()} == {Unread.UNKNOWN}
    config(tmp_path, f"sys/devices/{GPU}", ACS_AT_140)
    assert bus_of(tmp_path)["0000:19:00.0"].acs is Unread.UNKNOWN


def test_nothing_may_be_read_and_nothing_is_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, pci(f"{switch(0)}/0000:1b:00.0"))
    opened = os.open

    def refuse(path: str, flags: int) -> int:
        if "link" in str(path) or "numa" in str(path):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, flags)

    monkeypatch.setattr(os, "open", refuse)
    gpu = bus_of(tmp_path)["0000:1b:00.0"]
    assert (gpu.numa_node, gpu.pcie.width, gpu.pcie.max_generation) == (Unread.NO_PERMISSION,) * 3
