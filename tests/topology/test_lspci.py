"""``lspci`` as pasted: kinds, links, ACS and NUMA nodes of functions, doubts by line, and refusals."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import NodeTopology, PciDevice, Pcie, Unread
from gpuwire_checks.topology.readers.lspci import looks_like_lspci, read_lspci

TERSE = """\
0000:00:00.0 Host bridge [0600]: Intel Corporation Device [8086:09a2] (rev 04)
0000:3a:00.0 PCI bridge [0604]: Broadcom / LSI PEX890xx PCIe Gen 5 Switch [1000:c030] (rev b0)
0000:3b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
0000:3c:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
0000:3d:00.0 Ethernet controller [0200]: Intel Corporation Ethernet Controller X710 [8086:1572] (rev 02)
0000:44:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:22a3] (rev a1)
0000:50:00.0 VGA compatible controller [0300]: ASPEED Technology, Inc. ASPEED Graphics Family [1a03:2000] (rev 52)
0000:51:00.0 Non-Volatile memory controller [0108]: Samsung Electronics Co Ltd Device [144d:a824]
"""
ACS_OFF = "SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
ACS_ON = "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
FULL = f"""\
3a:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0) (prog-if 00 [Normal decode])
\tNUMA node: 0
\tBus: primary=39, secondary=3b, subordinate=3b, sec-latency=0
\tCapabilities: [68] Express (v2) Downstream Port (Slot+), MSI 00
\t\tLnkCap:\tPort #1, Speed 16GT/s, Width x8, ASPM L1, Exit Latency L1 <64us
\t\tLnkSta:\tSpeed 16GT/s (ok), Width x8 (ok)
\t\t\tTrErr- Train- SlotClk+ DLActive+ BWMgmt- ABWMgmt-
\t\tLnkCap2: Supported Link Speeds: 2.5-32GT/s, Crosslink- Retimer+ 2Retimers+ DRS-
\t\tLnkSta2: Current De-emphasis Level: -3.5dB, EqualizationComplete+
\tCapabilities: [148 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\t{ACS_ON}
\tKernel driver in use: pcieport

3b:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)
\tSubsystem: NVIDIA Corporation Device 1533
\tNUMA node: 1
\tCapabilities: [78] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
\tCapabilities: [100 v1] Virtual Channel
\tCapabilities: [128 v1] Power Budgeting <?>
\tKernel driver in use: nvidia
"""


def read(text: str) -> NodeTopology:
    return read_lspci(text, source="pasted")


def at(node: NodeTopology, address: str) -> PciDevice:
    return next(device for device in node.pci if device.address == address)


def doubts(node: NodeTopology) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in node.doubts]


def acs(text: str) -> str:
    return f"\t\tACSCtl:\t{text}\n"


def test_kinds_and_classes_of_a_terse_list() -> None:
    node = read(TERSE)
    assert looks_like_lspci(TERSE)
    assert [device.kind for device in node.pci] == [
        "other",
        "switch",
        "gpu",
        "nic",
        "nic",
        "nvswitch",
        "other",
        "other",
    ]
    assert at(node, "0000:3b:00.0").class_code == 0x030200
    assert at(node, "0000:51:00.0").class_code is Unread.UNKNOWN
    assert at(node, "0000:3c:00.0").name == "Mellanox Technologies MT2910 Family [ConnectX-7]"
    assert node.doubts == ()


def test_gpus_are_those_of_nvidia_and_amd_in_bus_order() -> None:
    text = (
        "0002:01:00.0 Processing accelerators [1200]: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram "
        "[Instinct MI300X] [1002:74a1]\n"
        "0001:c1:00.0 Display controller [0380]: Advanced Micro Devices, Inc. [AMD/ATI] Device [1002:740f]\n"
        "0001:0a:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 40GB] [10de:20b0] (rev a1)\n"
        "0001:0a:00.1 Audio device [0403]: NVIDIA Corporation Device [10de:1aef] (rev a1)\n"
    )
    node = read(text)
    assert [(gpu.index, gpu.pci_address, gpu.vendor, gpu.model) for gpu in node.gpus] == [
        (0, "0001:0a:00.0", "nvidia", "A100 SXM4 40GB"),
        (1, "0001:c1:00.0", "amd", Unread.UNKNOWN),
        (2, "0002:01:00.0", "amd", "Instinct MI300X"),
    ]
    assert node.pci[0].address == "0002:01:00.0", "the bus is listed as it is printed"


def test_what_is_not_told_is_unknown() -> None:
    node = read(TERSE)
    gpu = at(node, "0000:3b:00.0")
    assert gpu.acs is gpu.numa_node is gpu.parent is gpu.pcie.width is Unread.UNKNOWN
    assert node.gpus[0].uuid is node.gpus[0].links is Unread.UNKNOWN


def test_without_numbers_and_domain_the_words_tell() -> None:
    node = read(
        "3b:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)\n"
        "41:00.0 Bridge: NVIDIA Corporation Device 1af1 (rev a1)\n"
        "c1:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon PRO W7900]\n"
    )
    assert [(device.address, device.kind) for device in node.pci] == [
        ("0000:3b:00.0", "gpu"),
        ("0000:41:00.0", "nvswitch"),
        ("0000:c1:00.0", "gpu"),
    ]
    assert [gpu.vendor for gpu in node.gpus] == ["nvidia", "amd"]
    assert at(node, "0000:3b:00.0").class_code == 0x030200


def test_numbers_alone() -> None:
    text = "3b:00.0 0302: 10de:20b5 (rev a1)\n5e:00.0 0207: 15b3:1021\n"
    node = read(text)
    assert looks_like_lspci(text)
    assert [device.kind for device in node.pci] == ["gpu", "nic"]
    assert node.pci[0].name is node.gpus[0].model is Unread.UNKNOWN


def test_an_old_chipset_of_nvidia_is_no_nvswitch() -> None:
    assert (
        read("00:14.0 Bridge [0680]: nVidia Corporation MCP51 Ethernet [10de:0269] (rev a3)\n").pci[0].kind == "other"
    )


def test_links_acs_and_numa_nodes_of_a_full_list() -> None:
    node = read(FULL)
    bridge, gpu = node.pci
    assert looks_like_lspci(FULL)
    assert bridge.pcie == Pcie(generation=4, width=8, max_generation=4, max_width=8)
    assert gpu.pcie == Pcie(generation=1, width=8, max_generation=4, max_width=16)
    assert (bridge.numa_node, gpu.numa_node) == (0, 1)
    assert bridge.acs == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    assert bridge.class_code == 0x060400
    assert node.doubts == ()


def test_a_device_hangs_from_the_bridge_before_its_bus() -> None:
    node = read(FULL)
    assert at(node, "0000:3b:00.0").parent == "0000:3a:00.0"
    assert at(node, "0000:3a:00.0").parent is Unread.UNKNOWN


def test_a_gpu_can_do_what_it_and_its_slot_allow() -> None:
    (gpu,) = read(FULL).gpus
    assert (gpu.pcie_generation, gpu.pcie_width) == (1, 8)
    assert (gpu.max_pcie_generation, gpu.max_pcie_width) == (4, 8)
    (alone,) = read(FULL[FULL.index("3b:00.0") :]).gpus
    assert alone.max_pcie_width is Unread.UNKNOWN


def test_a_device_without_acs_among_its_capabilities_does_not_support_it() -> None:
    assert at(read(FULL), "0000:3b:00.0").acs is Unread.NOT_SUPPORTED
    cut = FULL[: FULL.index("\tCapabilities: [128")]
    assert at(read(cut), "0000:3b:00.0").acs is Unread.UNKNOWN
    assert read(FULL.replace("[100 v1]", "[60]").replace("[128 v1]", "[70]")).pci[1].acs is Unread.UNKNOWN


def test_capabilities_that_only_root_reads_are_no_permission() -> None:
    text = TERSE + "\tCapabilities: <access denied>\n\tNUMA node: 3\n"
    device = read(text).pci[-1]
    assert device.acs is device.pcie.width is device.pcie.max_generation is Unread.NO_PERMISSION
    assert device.numa_node == 3
    denied = read("3b:00.0 3D controller: NVIDIA Corporation GA100 [A100]\n\tCapabilities: <access denied>\n")
    assert denied.gpus[0].pcie_width is denied.gpus[0].max_pcie_width is Unread.NO_PERMISSION


def test_acs_lines_alone_are_bridges_without_address() -> None:
    text = acs(ACS_OFF) + acs(ACS_ON) + acs(ACS_OFF.replace("SrcValid-", "SrcValid+"))
    node = read(text)
    assert looks_like_lspci(text)
    assert [device.acs for device in node.pci] == [
        (),
        ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"),
        ("SrcValid",),
    ]
    assert {(device.address, device.kind) for device in node.pci} == {(Unread.UNKNOWN, "switch")}
    assert doubts(node) == [
        (
            1,
            "3 ACSCtl lines are without the line of a device: of which bridges is not known; "
            "paste all of `sudo lspci -vv`",
        )
    ]


def test_acs_lines_under_their_devices() -> None:
    lines = TERSE.splitlines(keepends=True)
    node = read("".join([*lines[:2], acs(ACS_ON), *lines[2:]]))
    assert at(node, "0000:3a:00.0").acs == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")
    assert at(node, "0000:3b:00.0").acs is Unread.UNKNOWN
    assert node.doubts == ()


def test_several_acs_lines_under_one_device_belong_to_others_too() -> None:
    lines = TERSE.splitlines(keepends=True)
    node = read("".join([*lines[:2], acs(ACS_ON), acs(ACS_OFF), *lines[2:]]))
    assert at(node, "0000:3a:00.0").acs is Unread.UNKNOWN
    assert [device.acs for device in node.pci if device.address is Unread.UNKNOWN][1] == ()
    assert doubts(node)[0][0] == 3


def test_an_acs_line_that_is_cut_is_unknown_and_a_wrapped_one_is_whole() -> None:
    node = read("\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir- Cmplt")
    assert node.pci[0].acs is Unread.UNKNOWN
    assert (1, "this ACSCtl line does not state all controls: not known") in doubts(node)
    wrapped = FULL.replace("UpstreamFwd+ EgressCtrl- DirectTrans-", "UpstreamFwd+\nEgressCtrl- DirectTrans-")
    assert at(read(wrapped), "0000:3a:00.0").acs == ("SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd")


@pytest.mark.parametrize(
    ("speed", "generation"),
    [("2.5GT/s", 1), ("5GT/s", 2), ("8GT/s", 3), ("16GT/s", 4), ("32GT/s", 5), ("64GT/s", 6), ("unknown", None)],
)
def test_generations(speed: str, generation: int | None) -> None:
    node = read(f"3b:00.0 3D controller: NVIDIA Corporation GA100 [A100]\n\t\tLnkSta:\tSpeed {speed}, Width x4\n")
    assert node.pci[0].pcie == Pcie(generation=generation or Unread.UNKNOWN, width=4)


def test_no_lanes_and_a_width_that_may_be_cut_are_unknown() -> None:
    head = "3b:00.0 3D controller: NVIDIA Corporation GA100 [A100]\n\t\tLnkSta:\tSpeed 8GT/s, Width x"
    assert read(f"{head}0 (downgraded)\n").pci[0].pcie.width is Unread.UNKNOWN
    assert read(f"{head}1").pci[0].pcie.width is Unread.UNKNOWN
    assert read(f"{head}1\n").pci[0].pcie.width == 1


def test_a_device_that_does_not_answer_is_told() -> None:
    text = TERSE.replace("[10de:2330] (rev a1)", "[10de:2330] (rev ff)") + "\t!!! Unknown header type 7f\n"
    assert doubts(read(text)) == [(3, "0000:3b:00.0 does not answer (rev ff): it has fallen off the bus, or sleeps")]


def test_a_cut_device_line_is_not_sure() -> None:
    text = TERSE[: TERSE.index(" Corporation GH100")].replace("NVIDIA", "NVI")
    node = read(text)
    assert node.pci[-1].kind == "other"
    assert doubts(node) == [(3, "0000:3b:00.0: its line may be cut, and its kind is not sure")]
    assert doubts(read(TERSE + "0000:5")) == [(9, "the line of a device is cut: '0000:5'")]
    assert read(TERSE.rstrip()).doubts == ()


def test_the_same_device_twice_is_put_together_and_another_is_not() -> None:
    both = read(FULL + FULL)
    assert both.pci == read(FULL).pci
    assert doubts(both)[0] == (24, "0000:3a:00.0 again, as on line 1: not read")
    assert at(read(TERSE + FULL[FULL.index("3b:00.0") :]), "0000:3b:00.0").numa_node == 1
    node = read(TERSE + "3b:00.0 Ethernet controller [0200]: Intel Corporation X [8086:1]\n\tNUMA node: 7\n")
    assert at(node, "0000:3b:00.0").kind == "gpu"
    assert at(node, "0000:3b:00.0").numa_node is Unread.UNKNOWN
    assert doubts(node) == [(9, "0000:3b:00.0 again, as another device than on line 3: not read")]


def test_lines_of_other_programs_are_named() -> None:
    lines = TERSE.splitlines(keepends=True)
    node = read("".join(["$ lspci -nn\n", *lines[:3], "hello there\n", *lines[3:]]))
    assert doubts(node) == [(5, "no line of `lspci`, not read: 'hello there'")]


@pytest.mark.parametrize("prefix", ["0: ", "[1,0]<stdout>:", "node-a7: ", "> ", "2031-04-05T06:07:08.123Z "])
def test_a_launcher_prefix_is_no_address(prefix: str) -> None:
    for text in (TERSE, FULL, acs(ACS_ON)):
        prefixed = "".join(f"{prefix}{line}\n" for line in text.splitlines())
        assert looks_like_lspci(prefixed)
        assert read(prefixed) == read(text)


def test_another_node_of_a_launcher_is_left_out() -> None:
    other = TERSE.replace("10de", "1af4").splitlines()
    node = read("".join(f"n1: {a}\nn2: {b}\n" for a, b in zip(TERSE.splitlines(), other, strict=True)))
    assert node.pci == read(TERSE).pci
    assert doubts(node) == [(2, "8 lines are not labelled 'n1:' and are left out")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "pasted:1: nothing here that `lspci -vv` prints; paste all of its output"),
        ("\t\tLnkSta:\tSpeed 8GT/s, Width x4\n", "pasted:1: nothing here that `lspci -vv` prints"),
        ("x" * (5 << 20), "pasted:1: 5242880 characters"),
        (
            "".join(f"{n:04x}:00:00.0 PCI bridge: x\n" for n in range(11_000)),
            "pasted:1: 11000 devices; at most 10000",
        ),
    ],
    ids=["empty", "no device", "long", "devices"],
)
def test_what_is_no_lspci_is_refused(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "[  3.1] pci 0000:3b:00.0: [10de:20b5] type 00 class 0x030200\n",
        "mlx5_core 0000:3c:00.0 eth0: Link up\n",
        "#  Rank  0 Group  0 Pid  7 on n1 device  0 [0000:3b:00] NVIDIA A100\n",
        "GPU 00000000:3B:00.0\n    Product Name : NVIDIA A100\n",
    ],
)
def test_other_texts_are_not_taken_for_it(text: str) -> None:
    assert not looks_like_lspci(text)


def test_it_is_found_after_a_thousand_other_lines() -> None:
    assert looks_like_lspci("[0] NCCL INFO comm 0x5581 busId 3b000\n" * 1000 + TERSE)


@pytest.mark.parametrize(
    "text",
    [
        "3b:00.0 PCI bridge: x\n" + acs(ACS_ON) * 45_000,
        "3b:00.0 PCI bridge: x\n" + "ACSCtl: SrcValid+\n" + "EgressCtrl-\n" * 45_000,
        "3b:00.0 PCI bridge: x\n" + "hello\n" * 45_000,
        "3b:00.0 PCI bridge: " + "[" * 1900 + "\n",
        ("3b:00.0 " + "A" * 1900 + "\n") * 2000,
        "00:00.0 A" * 1_200_000,
    ],
    ids=["acs", "wrapped", "strays", "brackets", "letters", "ten megabytes"],
)
def test_hostile_text_ends_soon(text: str) -> None:
    begin = time.monotonic()
    looks_like_lspci(text)
    with contextlib.suppress(TopologyError):
        assert len(read(text).doubts) <= 201
    assert time.monotonic() - begin < 5


@settings(max_examples=200, deadline=None)
@given(end=st.integers(1, len(FULL)), listed=st.sampled_from([TERSE, FULL]))
def test_a_cut_text_gives_the_right_values_or_none(end: int, listed: str) -> None:
    right = {device.address: device for device in read(listed).pci}
    try:
        node = read(listed[:end])
    except TopologyError as refusal:
        assert str(refusal).startswith("pasted:1: ")  # noqa: PT017
        return
    for device in node.pci:
        whole = right[device.address]
        assert device.kind == whole.kind or node.doubts
        for found, true in (
            (device.acs, whole.acs),
            (device.numa_node, whole.numa_node),
            (device.pcie.width, whole.pcie.width),
            (device.pcie.max_width, whole.pcie.max_width),
            (device.pcie.generation, whole.pcie.generation),
        ):
            assert found == true or isinstance(found, Unread)
