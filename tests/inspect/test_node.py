"""What is said of a node that an output describes: the odd part, ports, the bus, and what was not read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pasted_outputs import Path, ibstat, matrix
from topologies import cpu_node, gpu_node

from gpuwire_checks.inspect.finding import Finding, Level, gravest
from gpuwire_checks.inspect.inspection import Inspection, inspect_text
from gpuwire_checks.inspect.node import inspect_node
from gpuwire_checks.inspect.references import References
from gpuwire_checks.topology.model import Doubt, Nic, NodeTopology, PciDevice, Pcie, Unread


def inspected(text: str) -> Inspection:
    return inspect_text(text, source="pasted", references=())


def worst(text: str) -> list[tuple[Level, str]]:
    """Findings that are more than a fact."""
    findings = inspected(text).findings
    return [(f.level, f.text) for f in findings if f.level not in (Level.PASS, Level.NOTE)]


def notes(text: str) -> list[str]:
    return [finding.text for finding in inspected(text).findings if finding.level is Level.NOTE]


def said(node: NodeTopology) -> list[Finding]:
    return inspect_node(node, References([]))


def on_socket(inside: str, across: str = "SYS", *, size: int = 4) -> Path:
    return lambda a, b: inside if a // size == b // size else across


def among(pairs: dict[str, str], rest: str) -> Path:
    """``{"NV4": "0-2 1-3"}`` and the rest."""
    named = {pair: path for path, words in pairs.items() for pair in words.split()}
    return lambda a, b: named.get(f"{a}-{b}", rest)


CUBE_MESH = {"NV2": "0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7", "NV1": "0-1 0-2 1-3 2-6 3-7 4-5 4-6 5-7"}


@pytest.mark.parametrize(
    ("gpus", "path", "words"),
    [
        pytest.param(8, lambda a, b: "NV12", "8 GPUs, NV12 on every pair", id="through a switch"),
        pytest.param(4, lambda a, b: "NV6", "4 GPUs, NV6 on every pair", id="a mesh of four is full with six"),
        pytest.param(8, lambda a, b: "NV8", "8 GPUs, NV8 on every pair", id="a product with fewer links"),
        pytest.param(16, lambda a, b: "NV6", "16 GPUs, NV6 on every pair", id="sixteen with two-digit names"),
        pytest.param(2, lambda a, b: "NV2", "2 GPUs, NV2 on every pair", id="one bridge"),
        pytest.param(3, among({"NV4": "0-1"}, "NODE"), "3 GPUs, NODE on 2, NV4 on 1 pairs", id="a card without"),
        pytest.param(
            4,
            among({"NV4": "0-2 1-3", "PHB": "0-1 2-3"}, "NODE"),
            "4 GPUs, PHB on 2, NV4 on 2, NODE on 2 pairs",
            id="crossed bridges",
        ),
        pytest.param(
            8,
            among({"NV4": "0-1 2-3 4-5 6-7"}, "SYS"),
            "8 GPUs, SYS on 24, NV4 on 4 pairs",
            id="four bridges",
        ),
        pytest.param(8, among(CUBE_MESH, "SYS"), "8 GPUs, SYS on 12, NV1 on 8, NV2 on 8 pairs", id="cube mesh"),
    ],
)
def test_a_wiring_that_is_meant_so_has_no_odd_one_out(gpus: int, path: Path, words: str) -> None:
    inspection = inspected(matrix(gpus, path))
    assert inspection.level is Level.PASS
    assert f"{words}; no odd one out" in [finding.text for finding in inspection.findings]


@pytest.mark.parametrize(
    ("odd", "named"),
    [({"NV17": "2-5"}, "GPU2-GPU5"), ({"NV17": "0-3 1-3 2-3 3-4 3-5 3-6 3-7"}, "GPU3")],
    ids=["pair", "GPU"],
)
def test_the_odd_one_out_is_named(odd: dict[str, str], named: str) -> None:
    (finding,) = [f for f in inspected(matrix(8, among(odd, "NV18"))).findings if f.level is Level.FAIL]
    assert finding.text == f"{named} is the odd one out: every other pair of GPUs is NV18"
    assert finding.part == named


@pytest.mark.parametrize(
    ("gpus", "path"),
    [
        (2, lambda a, b: "PHB"),
        (4, on_socket("NODE", size=2)),
        (8, on_socket("NODE")),
        (8, lambda a, b: "PIX" if a // 2 == b // 2 else on_socket("PHB")(a, b)),
    ],
    ids=["two", "two sockets of two", "two sockets of four", "pairs on switches"],
)
def test_no_nvlink_at_all_is_a_doubt_that_says_what_to_run(gpus: int, path: Path) -> None:
    ((level, text),) = worst(matrix(gpus, path))
    assert level is Level.WARN
    assert "`nvidia-smi topo -mp`, which hides it; run `nvidia-smi topo -m`" in text


def test_the_table_of_pcie_alone_loses_no_nvlink() -> None:
    text = matrix(8, on_socket("PHB"), nics=[["PHB"] * 4 + ["SYS"] * 4])
    assert {level for level, _ in worst(text)} == {Level.WARN}


def test_numa_affinity_that_is_not_told_is_no_matter() -> None:
    assert worst(matrix(2, lambda a, b: "NV2", numa=["N/A", "N/A"])) == []


def test_gpus_that_are_not_pinned_to_one_numa_node_are_a_doubt() -> None:
    ((level, text),) = worst(matrix(8, among(CUBE_MESH, "PHB"), numa=["0-1"] * 8))
    assert level is Level.WARN
    assert text.startswith("NUMA Affinity '0-1' of GPU0, GPU1,")
    assert "is not one node: not pinned to one, as is usual in a virtual machine" in text


def test_partners_on_other_numa_nodes_are_no_matter() -> None:
    assert worst(matrix(4, among({"NV4": "0-1 2-3"}, "SYS"), numa=["3", "2", "1", "0"])) == []


def test_nics_are_told_by_their_place() -> None:
    told = notes(matrix(2, lambda a, b: "NV18", nics=[["SYS", "SYS"], ["NODE", "PIX"], ["PIX", "NODE"]]))
    assert "nearest NIC of GPU0: NIC2 at PIX" in told
    assert "nearest NIC of GPU1: NIC1 at PIX" in told
    assert "NIC0: SYS to every GPU" in told


def test_a_cut_matrix_is_a_doubt_with_its_line() -> None:
    whole = matrix(8, lambda a, b: "NV12")
    cut = "\n".join(whole.splitlines()[:8]) + "\nGPU7\tNV12\tNV12\tNV"
    doubts = [finding for finding in inspected(cut).findings if finding.level is Level.WARN]
    assert [finding.line for finding in doubts] == [9]
    assert "row GPU7 is cut" in doubts[0].text
    assert gravest(inspected(cut).findings) is Level.WARN


def test_rows_that_are_missing_leave_the_rest_healthy() -> None:
    cut = "\n".join(matrix(16, lambda a, b: "NV6").splitlines()[:5]) + "\n"
    findings = inspected(cut).findings
    assert {finding.line for finding in findings if finding.level is Level.WARN} == {5}
    assert "16 GPUs, of 120 pairs NV6 on 54; no odd one out" in [finding.text for finding in findings]


def test_names_typed_by_hand_are_a_doubt_and_are_read() -> None:
    typed = "     GP0   GP1   GP2\nGP0  X     NV1   NV1\nGP1. NV1   X     NV1.\nGP2  NV1   NV1   X\n"
    findings = inspected(typed).findings
    assert {finding.level for finding in findings} == {Level.WARN, Level.PASS, Level.NOTE}
    assert "read 'GP1.' as GPU1, 'NV1.' as NV1" in [f.text for f in findings if f.line == 3]


def table(title: str, gpus: int, cell: str, own: str = "0") -> str:
    rows = [f"GPU{a}   " + "".join((own if a == b else cell).ljust(13) for b in range(gpus)) for a in range(gpus)]
    head = "       " + "".join(f"GPU{gpu}".ljust(13) for gpu in range(gpus))
    return "\n".join([f" {title} ".center(84, "="), head, *rows, "", ""])


def rocm(gpus: int, kind: str, *, hops: int, weight: int) -> str:
    return (
        table("Weight between two GPUs", gpus, str(weight))
        + table("Hops between two GPUs", gpus, str(hops))
        + table("Link Type between two GPUs", gpus, kind)
    )


def test_a_mesh_of_xgmi() -> None:
    inspection = inspected(rocm(4, "XGMI", hops=1, weight=15))
    assert "4 GPUs, XGMI on every pair; no odd one out" in [
        f.text for f in inspection.findings if f.level is Level.PASS
    ]


def test_without_xgmi_the_way_through_the_cpus_is_said() -> None:
    told = [f.text for f in inspected(rocm(4, "PCIE", hops=3, weight=52)).findings if f.level is Level.PASS]
    assert told == ["4 GPUs, no xGMI link: every pair is joined over PCIe over 3 hops, through the CPUs"]
    near = [f.text for f in inspected(rocm(2, "PCIE", hops=2, weight=40)).findings if f.level is Level.PASS]
    assert near == ["2 GPUs, no xGMI link: every pair is joined over PCIe"]


def ports(*nics: Nic) -> list[Finding]:
    return [f for f in said(replace(cpu_node(), nics=nics)) if f.level is not Level.NOTE]


PORT = Nic(name="mlx5_0", kind="infiniband", rate_bits=400 * 10**9, up=True, numa_node=0)
DOWN = replace(PORT, name="mlx5_7", up=False, rate_bits=Unread.UNKNOWN, state="Down", physical="Polling")


def test_ports_that_are_all_up() -> None:
    (finding,) = ports(PORT, replace(PORT, name="mlx5_1"))
    assert (finding.level, finding.text) == (Level.PASS, "2 of 2 ports are up: 2 at 400 Gbit/s")


def test_a_port_that_is_down_says_its_state_and_what_to_look_at() -> None:
    (finding,) = ports(PORT, DOWN)
    assert finding.level is Level.FAIL
    assert finding.text == (
        "mlx5_7 port 1 is Down/Polling: no link; look at the cable, the transceiver and the switch port"
    )
    assert finding.part == "mlx5_7 port 1"


def test_a_second_port_has_its_number() -> None:
    (finding,) = ports(replace(DOWN, name="mlx5_7:2"))
    assert finding.part == "mlx5_7 port 2"


def test_ports_of_other_rates_are_a_doubt() -> None:
    good, doubt = ports(PORT, PORT, replace(PORT, rate_bits=100 * 10**9))
    assert good.level is Level.PASS
    assert (doubt.level, doubt.text) == (
        Level.WARN,
        "ports differ in rate: 2 at 400 Gbit/s, 1 at 100 Gbit/s",
    )


def test_a_port_whose_state_could_not_be_read_is_neither_up_nor_down() -> None:
    assert ports(replace(PORT, up=Unread.UNKNOWN)) == []


def test_pasted_ports() -> None:
    down = inspected(ibstat("Down", "Polling", "10"))
    assert (down.level, down.findings[0].part) == (Level.FAIL, "mlx5_4 port 1")
    assert not any("at 10 Gbit/s" in finding.text for finding in down.findings)
    up = inspected(ibstat("Active", "LinkUp", "100", layer="Ethernet"))
    assert (up.level, up.findings[0].text) == (Level.PASS, "1 of 1 ports are up: 1 at 100 Gbit/s")


GPU_LINK = Pcie(generation=4, width=16, max_generation=4, max_width=16)


def bus(*devices: PciDevice) -> list[Finding]:
    node = replace(cpu_node(), nics=(), pci=devices)
    return [f for f in said(node) if f.level is not Level.NOTE]


def device(number: int, kind: str, **changes: object) -> PciDevice:
    made = PciDevice(address=f"0000:{number:02x}:00.0", pcie=GPU_LINK, acs=Unread.NO_PERMISSION)
    return replace(made, kind=kind, **changes)  # type: ignore[arg-type]


def test_what_is_on_the_bus_is_counted() -> None:
    (finding,) = bus(
        *(device(at, "gpu") for at in range(8)),
        *(device(8 + at, "nvswitch") for at in range(6)),
        *(device(16 + at, "nic", class_code=0x020700) for at in range(2)),
        device(20, "nic", class_code=0x020000),
        device(21, "switch"),
    )
    assert finding.level is Level.PASS
    assert finding.text == ("on the PCI bus: 8 GPUs, 6 NVSwitches, 2 InfiniBand NICs, 1 Ethernet NIC, 1 PCI bridge")


@pytest.mark.parametrize("kind", ["gpu", "nic"])
def test_a_narrow_slot_on_the_bus(kind: str) -> None:
    (_, finding) = bus(device(0x3B, kind, pcie=replace(GPU_LINK, width=8)))
    assert finding.level is Level.WARN
    assert finding.text == "0000:3b:00.0 runs x8 of x16; fine only where the baseline says x8"
    assert finding.part == "0000:3b:00.0"


def test_a_narrow_bridge_and_an_unread_width_are_quiet() -> None:
    narrow = replace(GPU_LINK, width=8)
    assert bus(device(1, "switch", pcie=narrow)) == []
    assert gravest(bus(device(1, "gpu", pcie=replace(narrow, width=Unread.UNKNOWN)))) is Level.PASS


def test_acs_that_redirects_names_its_bridges_and_what_to_do() -> None:
    on = ("SrcValid", "ReqRedir", "UpstreamFwd")
    (finding,) = bus(device(0x3A, "switch", acs=on), device(0x4A, "switch", acs=()), device(0x5A, "switch", acs=on))
    assert finding.level is Level.FAIL
    assert finding.text == (
        "ACS redirect (ReqRedir, UpstreamFwd) is on at 2 of 3 bridges: 0000:3a:00.0, 0000:5a:00.0: peer traffic goes "
        "through the root complex, slower, or hangs; turn ACS off on the bridges above the GPUs (a reboot turns it on "
        "again)"
    )


def test_acs_that_only_validates_is_a_doubt_and_one_that_is_off_is_good() -> None:
    (doubt,) = bus(device(1, "switch", acs=("SrcValid",)), device(2, "switch", acs=()))
    assert (doubt.level, doubt.text) == (
        Level.WARN,
        "ACS SrcValid is on at 1 of 2 bridges, but ReqRedir, CmpltRedir, UpstreamFwd are off on all 2",
    )
    (good,) = bus(device(1, "switch", acs=()))
    assert (good.level, good.text) == (
        Level.PASS,
        "ACS: ReqRedir, CmpltRedir, UpstreamFwd are off on all 1",
    )


@pytest.mark.parametrize("unread", [Unread.NO_PERMISSION, Unread.NOT_SUPPORTED, Unread.UNKNOWN])
def test_acs_that_could_not_be_read_is_not_off(unread: Unread) -> None:
    assert bus(device(1, "switch", acs=unread)) == []


OFF = "ACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-\n"


def test_acs_lines_alone_do_not_tell_of_which_bridges() -> None:
    text = "".join(f"\t\t{line}" for line in (OFF, OFF.replace("SrcValid-", "SrcValid+"), OFF))
    (acs, which) = worst(text)
    assert acs == (
        Level.WARN,
        "ACS SrcValid is on at 1 of 3 bridges, but ReqRedir, CmpltRedir, UpstreamFwd are off on all 3",
    )
    assert "paste all of `sudo lspci -vv`" in which[1]


def test_a_pasted_bus() -> None:
    lines = [f"{at:04x}:00:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:20b2]" for at in (1, 2)]
    lines += [f"{at:04x}:00:00.0 Bridge [0680]: NVIDIA Corporation Device [10de:1af1] (rev a1)" for at in (11, 12)]
    lines += ["0101:00:02.0 Infiniband controller [0207]: Mellanox Technologies Device [15b3:101c]"]
    inspection = inspected("\n".join(lines) + "\n")
    assert inspection.level is Level.PASS
    assert inspection.findings[0].text == "on the PCI bus: 2 GPUs, 2 NVSwitches, 1 InfiniBand NIC"


def test_what_a_reader_doubts_is_a_doubt_with_its_line() -> None:
    node = replace(gpu_node(), doubts=(Doubt(line=7, text="row GPU3 is cut"), Doubt(line=None, text="no legend")))
    doubts = [(f.text, f.line) for f in said(node) if f.level is Level.WARN]
    assert doubts == [("row GPU3 is cut", 7), ("no legend", None)]
    facts = [f.text for f in said(node) if f.level is Level.NOTE]
    assert not any("row GPU3 is cut" in fact or "no legend" in fact for fact in facts)


def test_there_is_always_something_to_say() -> None:
    assert said(replace(cpu_node(), nics=()))


TEMPLATE = """\
<system version="1">
 <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
  <pci busid="0001:00:00.0" class="0x030200" link_speed="{speed}" link_width="16"/>
  <pci busid="0101:00:00.0" class="0x020700" link_speed="{speed}" link_width="16"/>
 </cpu>
</system>
"""


@pytest.mark.parametrize("speed", ["16 GT/s", "16.0 GT/s PCIe"])
def test_a_topology_file_for_a_virtual_machine_is_no_dump(speed: str) -> None:
    inspection = inspected(TEMPLATE.format(speed=speed))
    assert (inspection.format, inspection.level) == ("NCCL topology XML", Level.WARN)
    assert inspection.findings[0].text == "not a dump: no gpu element; links unknown"
    assert "on the PCI bus: 1 GPU, 1 InfiniBand NIC" in [finding.text for finding in inspection.findings]


def rccl(gpus: int, *, xgmi: bool) -> str:
    """A dump of RCCL with one GPU a bus number."""
    inner = []
    for gpu in range(gpus):
        peers = [
            f'<xgmi target="0000:{16 * (other + 1):02x}:00.0" count="1" tclass="0x038000"/>'
            for other in range(gpus)
            if other != gpu and xgmi
        ]
        inner.append(
            f'<pci busid="0000:{16 * (gpu + 1):02x}:00.0" class="0x038000" link_speed="32.0 GT/s PCIe" '
            f'link_width="16"><gpu dev="{gpu}" gcn="942" rank="{gpu}" gdr="1">{"".join(peers)}</gpu></pci>'
        )
    cpu = '<cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">'
    return f'<system version="1">{cpu}{"".join(inner)}</cpu></system>\n'


def test_a_dump_with_a_mesh_of_xgmi_and_one_without() -> None:
    mesh = [f.text for f in inspected(rccl(4, xgmi=True)).findings if f.level is Level.PASS]
    assert mesh[:2] == [
        "3 links up on each of GPU0 to GPU3: 12 in all",
        "4 GPUs, XGMI on every pair; no odd one out",
    ]
    without = inspected(rccl(4, xgmi=False))
    assert without.level is not Level.FAIL
    assert not any("XGMI on" in finding.text for finding in without.findings)
