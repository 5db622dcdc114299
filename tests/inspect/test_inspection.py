"""A pasted text from its detection to its verdict: each format, and what people do to them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from known_boards import reference
from nccl_logs import Made, log, rank_line
from pasted_outputs import ibstat, matrix
from wired import hgx_node

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.inspect.finding import Level
from gpuwire_checks.inspect.inspection import Inspection, inspect_text
from gpuwire_checks.topology.snapshot import Snapshot, snapshot_text

MIB = 1 << 20


def inspected(text: str) -> Inspection:
    return inspect_text(text, source="pasted.txt", references=())


def told(text: str, *levels: Level) -> list[str]:
    return [finding.text for finding in inspected(text).findings if finding.level in levels]


PEERS = " \tGPU0\tGPU1\t\n GPU0\tX\t{0}\t\n GPU1\t{0}\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
NVLINK = "GPU 0: NVIDIA Test (UUID: GPU-00000000-1111-2222-3333-444455556666)\n\t Link 0: 25 GB/s\n"
ROCM = """\
=========================== Link Type between two GPUs ===========================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
"""
AMD = json.dumps(
    [
        {
            "gpu": gpu,
            "bdf": f"0000:{gpu + 1:02x}:00.0",
            "links": [
                {"gpu": other, "weight": 15, "link_type": "XGMI", "num_hops": 1} for other in (0, 1) if other != gpu
            ],
        }
        for gpu in (0, 1)
    ]
)
BUS = "0000:3b:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2330] (rev a1)\n"
DUMP = """\
<system version="1"><cpu numaid="0" affinity="0000ffff" arch="x86_64"><pci busid="0000:11:00.0" class="0x030200"
link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci></cpu></system>
"""


def smi_xml(*gpus: str) -> str:
    return f"<nvidia_smi_log><driver_version>570.1</driver_version>{''.join(gpus)}</nvidia_smi_log>\n"


def gpu_xml(
    number: int = 0,
    *,
    generation: int = 5,
    width: int = 16,
    idle: bool = True,
    capped_us: int = 0,
    celsius: int = 35,
) -> str:
    reasons = "".join(
        f"<clocks_event_reason_{name}>{'Active' if active else 'Not Active'}</clocks_event_reason_{name}>"
        for name, active in (("gpu_idle", idle), ("sw_power_cap", False), ("hw_slowdown", False))
    )
    return (
        f'<gpu id="00000000:{number + 1:02X}:00.0"><product_name>NVIDIA Test</product_name>'
        f"<pci><pci_bus_id>00000000:{number + 1:02X}:00.0</pci_bus_id><pci_gpu_link_info><pcie_gen>"
        f"<max_link_gen>5</max_link_gen><current_link_gen>{generation}</current_link_gen></pcie_gen>"
        f"<link_widths><max_link_width>16x</max_link_width><current_link_width>{width}x</current_link_width>"
        f"</link_widths></pci_gpu_link_info></pci><clocks_event_reasons>{reasons}</clocks_event_reasons>"
        "<clocks_event_reasons_counters><clocks_event_reasons_counters_sw_power_cap>"
        f"{capped_us} us</clocks_event_reasons_counters_sw_power_cap></clocks_event_reasons_counters>"
        f"<temperature><gpu_temp>{celsius} C</gpu_temp></temperature></gpu>"
    )


QUERY = """\
==============NVSMI LOG==============

Driver Version                            : 580.1
Attached GPUs                             : 1
GPU 0000000F:01:00.0
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : Not Active
        SW Thermal Slowdown               : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : 1500 us
        SW Thermal Slowdown               : 777 us
        HW Thermal Slowdown               : 0 us
    Temperature
        GPU Current Temp                  : 80 C
        GPU T.Limit Temp                  : 14 C
"""
P2P = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA Test, pciBusID: 1, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA Test, pciBusID: 2, pciDeviceID: 0, pciDomainID:0
Device: 2, NVIDIA Test, pciBusID: 3, pciDeviceID: 0, pciDomainID:0
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1      2
     0 900.10  21.90  22.00
     1  22.10 901.20  22.05
     2  21.95  22.00 900.70
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1      2
     0 900.10  {0}  {0}
     1  {0} 901.20  {0}
     2  {0}  {0} 900.70
"""
NVBANDWIDTH = """\
nvbandwidth Version: v0.4
Built from Git version:

Device 0: NVIDIA Test
Device 1: NVIDIA Test
Device 2: NVIDIA Test

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1         2
 0      0.00    275.10    274.90
 1    275.30      0.00    275.60
 2    274.95    275.20      0.00

SUM device_to_device_memcpy_read_ce 1651.05

"""
SNAPSHOT = snapshot_text(Snapshot(gpuwire="0", taken_at="2026-01-01", topology=hgx_node(), environment={}))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpuwire snapshot", SNAPSHOT),
        ("nvidia-smi topo -m", matrix(2, lambda a, b: "NV4")),
        ("nvidia-smi topo -p2p", PEERS.format("OK")),
        ("nvidia-smi nvlink", NVLINK),
        ("nvidia-smi -q", QUERY),
        ("nvidia-smi -q -x", smi_xml(gpu_xml())),
        ("NCCL topology XML", DUMP),
        ("rocm-smi --showtopo", ROCM),
        ("amd-smi --json", AMD),
        ("ibstat", ibstat("Active", "LinkUp", "400")),
        ("lspci", BUS),
        ("nccl-tests", log(Made())),
        ("nvbandwidth", NVBANDWIDTH),
        ("p2pBandwidthLatencyTest", P2P.format(" 22.00")),
    ],
    ids=lambda value: value if len(value) < 40 else "",
)
def test_each_format_is_told_from_the_others(name: str, text: str) -> None:
    inspection = inspected(text)
    assert (inspection.format, inspection.source) == (name, "pasted.txt")
    assert inspection.findings


@pytest.mark.parametrize("text", ["", "\n \n", "dear all,\nthe node is slow\n", "{}", "[]", "<html></html>"])
def test_a_text_in_no_known_format_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(TopologyError) as refused:
        inspected(text)
    said = str(refused.value)
    assert said.startswith("pasted.txt:1: no format that is known here; known are nvbandwidth JSON, nvbandwidth, p2p")
    assert said.endswith("nvidia-smi -q, ibstat, lspci: paste the whole output of one of them")


def test_findings_come_with_the_gravest_first() -> None:
    text = NVLINK + "GPU 1: NVIDIA Test (UUID: GPU-00000001-1111-2222-3333-444455556666)\n\t Link 0: <inactive>\n"
    order = list(Level)
    levels = [order.index(finding.level) for finding in inspected(text).findings]
    assert levels == sorted(levels)


def test_a_snapshot_of_a_healthy_node_has_no_fault() -> None:
    # Its GPUs are at gen 1, and why is not told.
    assert {text.split("; ")[1] for text in told(SNAPSHOT, Level.FAIL, Level.WARN)} == {
        "look again under load, where it must rise"
    }


@pytest.mark.parametrize(
    ("status", "level", "text"),
    [
        ("OK", Level.PASS, "peer access: OK for all 2 ordered pairs of GPUs"),
        (
            "GNS",
            Level.WARN,
            "no peer access on any pair of GPUs: GPU not supported (GNS); "
            "data goes through the host, and is slower for it",
        ),
    ],
)
def test_a_table_of_peer_access_is_none_of_paths(status: str, level: Level, text: str) -> None:
    inspection = inspected(PEERS.format(status))
    assert (inspection.level, inspection.findings[0].text) == (level, text)


def test_a_slot_of_half_the_width_is_a_doubt_even_of_an_idle_gpu() -> None:
    assert told(smi_xml(gpu_xml(width=8)), Level.WARN, Level.FAIL) == [
        "GPU0: PCIe width x8 of x16 at full generation 5 (width does not change with idle); "
        "fine only where the baseline says x8"
    ]


def test_a_low_generation_of_an_idle_gpu_is_no_fault() -> None:
    text = smi_xml(gpu_xml(generation=1))
    assert inspected(text).level is Level.PASS
    assert any("is no fault: the GPU is idle" in note for note in told(text, Level.NOTE))


def test_a_counter_that_one_gpu_has_is_told_from_what_is_active_now() -> None:
    text = smi_xml(gpu_xml(0, capped_us=4321), gpu_xml(1))
    (doubt,) = told(text, Level.WARN, Level.FAIL)
    assert doubt.startswith("GPU0: 4321 us of sw power cap since load; none is active at the instant of the reading")


def test_hotter_odd_gpus_of_a_healthy_board_are_no_fault() -> None:
    text = smi_xml(*(gpu_xml(at, celsius=52 if at % 2 else 38) for at in range(4)))
    assert inspected(text).level is Level.PASS
    assert any("odd-numbered GPUs are about 14 C hotter: air flow, not a fault" in n for n in told(text, Level.NOTE))


def test_time_lost_to_heat_is_told_from_an_excerpt() -> None:
    (doubt,) = told(QUERY, Level.WARN, Level.FAIL)
    assert "1500 us of sw power cap and 777 us of sw thermal slowdown since load" in doubt
    assert doubt.endswith("; 80 C, 14 C below the limit")


def test_p2p_that_is_slower_than_none_is_a_fault_with_its_line() -> None:
    inspection = inspected(P2P.format(" 10.00"))
    (fault,) = [finding for finding in inspection.findings if finding.level is Level.FAIL]
    assert "P2P=Enabled Bandwidth (P2P Writes) is about half of P2P=Disabled on every pair" in fault.text
    assert fault.text.endswith("try NCCL_P2P_DISABLE=1")
    assert fault.line == 10
    assert not any(finding.level is Level.FAIL for finding in inspected(P2P.format(" 26.00")).findings)


def test_a_diagonal_of_zeros_is_no_dead_pair() -> None:
    inspection = inspected(NVBANDWIDTH)
    assert inspection.level is Level.PASS
    assert "274.90 to 275.60 GB/s on 6 ordered pairs of 3 GPUs" in inspection.findings[0].text


def test_doubts_of_matrices_keep_their_lines() -> None:
    inspection = inspected(NVBANDWIDTH.replace("    275.60\n", "    27x.60\n"))
    assert inspection.level is not Level.PASS
    assert any(finding.line == 12 for finding in inspection.findings if finding.level is Level.WARN)


WHOLE = log(Made(sizes=(MIB, 8 * MIB)))
LAUNCHERS = {
    "srun": "0: {}",
    "mpirun": "[1,0]<stdout>:{}",
    "padded": "[1,0]<stdout>: {}" + " " * 90,
    "host": "kiln-3: {}",
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launcher_s_label_changes_no_verdict(launcher: str) -> None:
    labelled = "\n".join(LAUNCHERS[launcher].format(line) for line in WHOLE.splitlines()) + "\n"
    inspection = inspected(labelled)
    assert inspection.level is Level.PASS
    assert told(labelled, Level.PASS) == told(WHOLE, Level.PASS)


def test_lost_blanks_change_no_verdict() -> None:
    stripped = "\n".join(" ".join(line.split()) for line in WHOLE.splitlines()) + "\n"
    assert told(stripped, Level.PASS) == told(WHOLE, Level.PASS)
    assert inspected(stripped).level is Level.PASS


def test_debug_lines_between_rows_change_no_verdict() -> None:
    info = "kiln-3:7100:7120 [0] NCCL INFO comm 0x55aa rank 0 nranks 8 - Init COMPLETE"
    mixed = "\n".join(part for line in WHOLE.splitlines() for part in (line, info)) + "\n"
    assert inspected(mixed).level is Level.PASS
    assert told(mixed, Level.PASS) == told(WHOLE, Level.PASS)


def test_two_nodes_are_told_by_their_hosts() -> None:
    made = Made(world_size=16, sizes=(MIB, 8 * MIB), rate=90.0)
    text = log(made)
    for rank in range(8, 16):
        text = text.replace(rank_line(rank), rank_line(rank, host="kiln-4"))
    assert inspected(text).level is Level.PASS
    assert told(text, Level.NOTE)[-1].startswith("nccl-tests: all_reduce, 16 ranks on 2 hosts, 2 rows of figures")


def test_a_head_that_is_half_lost_leaves_the_figures() -> None:
    rows = [line for line in WHOLE.splitlines() if line.split()[:1] in ([str(MIB)], [str(8 * MIB)])]
    end = [line for line in WHOLE.splitlines() if line.startswith(("# Out", "# Avg"))]
    inspection = inspected("\n".join(["in-place", *rows, *end]) + "\n")
    assert inspection.level is Level.PASS
    assert inspection.findings[0].text.startswith("busbw at the largest size, 8MiB: ")


def test_references_are_looked_up_by_model_and_a_baseline_is_held_to() -> None:
    good = matrix(8, lambda a, b: "NV8")
    against = reference("test-8x", pairs={"NV18": "all"})
    assert inspect_text(good, source="x", references=(against,)).level is Level.PASS
    held = inspect_text(good, source="x", references=(), against=against)
    assert held.level is Level.FAIL
    assert held.findings[0].against == "baselines/test-8x.yaml"


def test_every_finding_of_several_runs_is_kept() -> None:
    one = Made(sizes=(8 * MIB,))
    text = log(one) + log(replace(one, rate=2.0))
    inspection = inspected(text)
    assert inspection.level is Level.FAIL
    assert inspection.findings[0].text.startswith("runs of the same size differ: run 1 ")
    assert len([finding for finding in inspection.findings if "busbw at the largest size" in finding.text]) == 2
