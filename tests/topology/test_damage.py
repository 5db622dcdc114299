"""Whatever a paste does to a good text: the right facts, fewer with the line told, or a refusal. Never another fact."""

from __future__ import annotations

import os
from typing import Any

import pytest
from damage import Damage, Read, damages, of_node, outcome, stated_on
from hypothesis import given, settings

from gpuwire_checks.topology.readers.ibstat import read_ibstat
from gpuwire_checks.topology.readers.nvlink_status import read_nvlink_status
from gpuwire_checks.topology.readers.p2p_matrix import read_p2p_matrix
from gpuwire_checks.topology.readers.rocm_topo import read_rocm_topo
from gpuwire_checks.topology.readers.smi_query import read_smi_query
from gpuwire_checks.topology.readers.topo_matrix import read_topo_matrix

EXAMPLES = int(os.environ.get("GPUWIRE_DAMAGES", "250"))
"""Of each text; raise it to look for damages that were not met yet."""

BRIDGED = """\
      GPU0  GPU1  GPU2  CPU Affinity  NUMA Affinity
GPU0   X    NV2   SYS   0-7           0
GPU1  NV2    X    NV1   0-7           0
GPU2  SYS   NV1    X    8-15          1
"""
# The driver prints nothing where it cannot tell the affinity, and N/A for a GPU without memory of its own.
NO_AFFINITY = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tPIX\tPXB\tSYS\t\t\t\tN/A
GPU1\tPIX\t X \tNODE\tSYS\t\t\t\tN/A
NIC0\tPXB\tNODE\t X \tSYS\t\t\t\t
NIC1\tSYS\tSYS\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""
NAMED_NICS = """\
        GPU0    GPU1    mlx5_0  mlx5_3  CPU Affinity
GPU0     X      NV12    PIX     SYS     0-23,48-71
GPU1    NV12     X      SYS     PIX     24-47,72-95
mlx5_0  PIX     SYS      X      SYS
mlx5_3  SYS     PIX     SYS      X
"""
HIDDEN = """\
        GPU0    GPU1    GPU2    NIC0    CPU Affinity    NUMA Affinity
GPU0     X      PHB     SYS     PHB     0-63            0
GPU1    PHB      X      SYS     NODE    0-63            0
GPU2    SYS     SYS      X      SYS     64-127          1
NIC0    PHB     NODE    SYS      X

Legend:

  X    = Self
"""


def sixteen() -> str:
    """A matrix of 16 GPUs on two boards, as a driver prints it."""
    names = [f"GPU{number}" for number in range(16)]
    lines = ["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for at, name in enumerate(names):
        cells = [" X " if at == to else "NV18" if at // 8 == to // 8 else "SYS" for to in range(16)]
        cpus = "0-55,112-167" if at < 8 else "56-111,168-223"
        lines.append("\t".join([name, *cells, cpus, str(at // 8), "", "N/A"]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", ""])


PEERS = """\
 \tGPU0\tGPU1\tGPU2\t
 GPU0\tX\tOK\tCNS\t
 GPU1\tOK\tX\tTNS\t
 GPU2\tCNS\tTNS\tX\t

Legend:

  X    = Self
  OK   = Status Ok
"""
LINKS = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1045314e-d34b-bbd3-7d17-a044d62ff2f5)
\t Link 0: 25 GB/s
\t Link 1: <inactive>
\t Link 2: 25 GB/s
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-09b67a6b-4301-01e6-026d-24f4f15e1f0a)
\t Link 0: 25 GB/s
\t Link 1: 25 GB/s
\t Link 2: 25 GB/s
"""
XGMI = """\
========================= ROCm System Management Interface =========================
============================= Weight between two GPUs ==============================
       GPU0         GPU1         GPU2
GPU0   0            15           72
GPU1   15           0            72
GPU2   72           72           0

============================== Hops between two GPUs ===============================
       GPU0         GPU1         GPU2
GPU0   0            1            3
GPU1   1            0            3
GPU2   3            3            0

============================ Link Type between two GPUs ============================
       GPU0         GPU1         GPU2
GPU0   0            XGMI         PCIE
GPU1   XGMI         0            PCIE
GPU2   PCIE         PCIE         0

==================================== Numa Nodes ====================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 0
GPU[1]\t\t: (Topology) Numa Affinity: 0
=============================== End of ROCm SMI Log ================================
"""
PORTS = """\
CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tHardware version: 0
\tNode GUID: 0x0c42a1030071f5b0
\tSystem image GUID: 0x0c42a1030071f5b0
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 17
\t\tLMC: 0
\t\tSM lid: 1
\t\tCapability mask: 0xa751e848
\t\tPort GUID: 0x0c42a1030071f5b0
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tHardware version: 0
\tNode GUID: 0x0c42a1030071f5b1
\tSystem image GUID: 0x0c42a1030071f5b1
\tPort 1:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 10
\t\tBase lid: 65535
\t\tLMC: 0
\t\tSM lid: 0
\t\tCapability mask: 0xa751e848
\t\tPort GUID: 0x0c42a1030071f5b1
\t\tLink layer: Ethernet
"""
QUERY = """\

==============NVSMI LOG==============

Timestamp                                 : Mon Feb  2 10:00:00 2026
Driver Version                            : 570.86.15
CUDA Version                              : 12.8

Attached GPUs                             : 2
GPU 00000000:19:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Persistence Mode                      : Enabled
    Serial Number                         : 1650522000111
    GPU UUID                              : GPU-1045314e-d34b-bbd3-7d17-a044d62ff2f5
    PCI
        Bus                               : 0x19
        Bus Id                            : 00000000:19:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 5
            Link Width
                Max                       : 16x
                Current                   : 16x
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Persistence Mode                      : Enabled
    PCI
        Bus Id                            : 00000000:3B:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 1
    ECC Mode
        Current                           : Disabled
"""
MATRIX, PEER, LINK, ROCM, PORT, SMI = map(
    of_node, (read_topo_matrix, read_p2p_matrix, read_nvlink_status, read_rocm_topo, read_ibstat, read_smi_query)
)
TABLES = {
    "bridged": (BRIDGED, MATRIX),
    "no affinity": (NO_AFFINITY, MATRIX),
    "named NICs": (NAMED_NICS, MATRIX),
    "topo -mp": (HIDDEN, MATRIX),
    "16 GPUs": (sixteen(), MATRIX),
    "topo -p2p": (PEERS, PEER),
    "rocm-smi": (XGMI, ROCM),
}
LISTS = {"nvlink": (LINKS, LINK), "ibstat": (PORTS, PORT), "nvidia-smi -q": (QUERY, SMI)}
STATED_TWICE = ("path",)


def is_of(part: tuple[Any, ...], keys: frozenset[tuple[Any, ...]]) -> bool:
    return any(part[:2] == key[:2] for key in keys)


def check(text: str, read: Read, damage: Damage, *, table: bool) -> None:
    """No other fact but a value of the damaged cell itself, and a loss is told.

    A digit of a value that stands once may change unseen: the text is as good as another.
    """
    result = outcome(read, text, damage)
    if result is None:
        return
    other, more, missing, doubted = result
    own = stated_on(read, text, damage.line) if damage.line else frozenset()
    told = not set(doubted) <= set(read(text)[1])
    if damage.kind not in ("cell gone", "character"):
        assert not other
        assert not more
    strange = {key: value for key, value in other.items() if key not in own or key[0] in STATED_TWICE}
    assert not {key for key in strange if key[0] in STATED_TWICE}
    assert told or not strange
    assert told or not more or own & missing.keys(), "a part under another name"
    begun = damage.kind != "cut" or damage.text.rpartition("\n")[2].strip()
    # `nvidia-smi nvlink -i 7` prints one GPU, so that another number for the first one is as good a text.
    renamed = bool(more) and not table
    lost = {key for key in missing if table or key in own} if begun and not renamed else set()
    # Of the hundreds of names of nvidia-smi -q most are of no use here, so that one which is damaged is one of those.
    assert told or not lost or (read is SMI and damage.kind != "cut") or lost <= legend(text, damage), lost


def legend(text: str, damage: Damage) -> set[tuple[Any, ...]]:
    """NICs whose device is lost with the end of a text: many paste no legend."""
    return (
        {("nic", f"NIC{at}", "device") for at in range(2)} if "NIC Legend" in text and damage.kind == "cut" else set()
    )


@pytest.mark.parametrize(("text", "read"), TABLES.values(), ids=list(TABLES))
def test_a_damaged_table_states_nothing_else(text: str, read: Read) -> None:
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(damage=damages(text))
    def examples(damage: Damage) -> None:
        check(text, read, damage, table=True)

    examples()


@pytest.mark.parametrize(("text", "read"), LISTS.values(), ids=list(LISTS))
def test_a_damaged_list_states_nothing_else(text: str, read: Read) -> None:
    @settings(max_examples=EXAMPLES, deadline=None)
    @given(damage=damages(text))
    def examples(damage: Damage) -> None:
        check(text, read, damage, table=False)

    examples()
