"""A node in plain words: each fact where it is known, the word for why where it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuwire_checks.topology.describe import describe
from gpuwire_checks.topology.model import Cpu, Doubt, Link, Nic, NodeTopology, PairPath, Software, Unread
from gpuwire_checks.topology.readers.topo_matrix import read_topo_matrix
from gpuwire_checks.topology.wires import links_per_gpu, most_links_up, odd_one

DATA = Path(__file__).resolve().parents[1] / "data" / "topo_m"


def read_file(name: str) -> NodeTopology:
    return read_topo_matrix((DATA / name).read_text(), source=name)


def mesh(gpus: int, path: str, other: dict[tuple[int, int], str] | None = None) -> NodeTopology:
    """GPUs joined pair by pair with ``path``, but for the pairs in ``other``."""
    names = [f"GPU{at}" for at in range(gpus)]
    cells = {**{(a, b): path for a in range(gpus) for b in range(gpus)}, **(other or {})}
    rows = [
        [name, *("X" if a == b else cells[min(a, b), max(a, b)] for b in range(gpus))] for a, name in enumerate(names)
    ]
    return read_topo_matrix("\n".join(" ".join(row) for row in [names, *rows]), source="mesh")


def nic(name: str, *, rate_bits: int | Unread = Unread.UNKNOWN, up: bool | Unread = Unread.UNKNOWN) -> Nic:
    return Nic(name=name, kind="infiniband", rate_bits=rate_bits, up=up, numa_node=0)


def test_equal_pairs_are_said_once() -> None:
    lines = describe(read_file("hgx_six_gpus_two_nics.txt"))
    assert lines[:5] == [
        "hgx_six_gpus_two_nics.txt: 6 GPUs, model unknown",
        "NVLink: 18 links on all 15 GPU pairs",
        "NVLinks of a GPU, through a switch: 18 on all 6 GPUs",
        "joined by NVLink: all 6 GPUs",
        "path NV18: all 15 GPU pairs",
    ]


def test_nearest_nics_by_name_and_those_far_from_all() -> None:
    lines = describe(read_file("hgx_six_gpus_two_nics.txt"))
    assert "NICs, kind unknown, rate unknown, state unknown: NIC0 (mlx5_2), NIC1 (mlx5_bond_0)" in lines
    assert "nearest NIC of GPU0 GPU1: NIC0 (mlx5_2) at PIX" in lines
    assert "nearest NIC of GPU2: NIC0 (mlx5_2) at NODE" in lines
    assert "nearest NIC of GPU3 GPU4 GPU5: none nearer than SYS" in lines
    assert "NIC1 (mlx5_bond_0): SYS to every GPU" in lines
    assert not any(line.startswith("NIC0 (mlx5_2): SYS") for line in lines)


def test_tied_nics_are_all_named() -> None:
    node = mesh(2, "SYS")
    tied = (PairPath(a="GPU0", b="ib0", path="PXB"), PairPath(a="GPU0", b="ib1", path="PXB"))
    lines = describe(replace(node, nics=(nic("ib0"), nic("ib1")), paths=node.paths + tied))
    assert "nearest NIC of GPU0: ib0, ib1 at PXB" in lines
    assert "nearest NIC of GPU1: unknown" in lines


def test_numa_groups_and_cpu_affinity() -> None:
    lines = describe(read_file("hgx_six_gpus_two_nics.txt"))
    assert "NUMA node 0: GPU0 GPU1 GPU2" in lines
    assert "NUMA node 1: GPU3 GPU4 GPU5" in lines
    assert "CPU affinity 16-31: GPU3 GPU4 GPU5" in lines
    assert "NUMA node not supported: all 3 GPUs" in describe(read_file("pcie_workstation.txt"))


def test_a_cut_matrix_says_what_is_unknown_and_on_which_line() -> None:
    lines = describe(read_file("bridge_cut.txt"))
    assert "joined by NVLink: GPU0 GPU1 | GPU2 GPU3" in lines
    assert "path NV4: GPU0-GPU1, GPU2-GPU3" in lines
    assert "NUMA node unknown: GPU3" in lines
    assert "line 5: row GPU3 is cut after 1 of 5 cells" in lines
    assert "nearest NIC of GPU3: unknown" in lines


def test_pcie_only_is_not_called_a_fault() -> None:
    lines = describe(read_file("pcie_workstation.txt"))
    assert "NVLink: none shown on all 3 GPU pairs" in lines
    assert [line for line in lines if line.startswith("line 2: no NVLink cell")]
    assert not [line for line in lines if "fault" in line or "odd" in line]


def test_pairs_whose_path_is_unknown_are_listed() -> None:
    node = mesh(3, "NV4")
    lines = describe(replace(node, paths=node.paths[1:]))
    assert "path unknown: GPU0-GPU1" in lines
    assert "NVLink: 4 links on the 2 GPU pairs known of 3" in lines


def test_the_one_odd_pair_is_named() -> None:
    node = mesh(4, "NV4", {(0, 2): "NV3"})
    assert odd_one(node) == "GPU0-GPU2"
    assert "NVLink links per pair: 4 on 5 pairs, 3 on 1 pair" in describe(node)
    assert "odd one out: GPU0-GPU2; every other pair is NV4" in describe(node)


def test_the_one_odd_gpu_is_named() -> None:
    node = mesh(8, "NV18", {(a, 7): "NV17" for a in range(7)})
    assert odd_one(node) == "GPU7"
    lines = describe(node)
    assert "odd one out: GPU7; every other pair is NV18" in lines
    assert "NVLinks of a GPU, through a switch: 18 on GPU0 GPU1 GPU2 GPU3 GPU4 GPU5 GPU6; 17 on GPU7" in lines


def test_no_odd_one_among_equals_bridges_or_a_cube_mesh() -> None:
    assert odd_one(mesh(4, "NV6")) is None
    assert odd_one(mesh(3, "NODE", {(0, 1): "NV4"})) is None
    assert odd_one(mesh(4, "SYS", {(0, 1): "NV1", (2, 3): "NV2"})) is None


def test_links_whose_state_is_not_told_are_not_none_up() -> None:
    def node(up: bool | Unread) -> NodeTopology:
        made = mesh(2, "SYS")
        links = (Link(number=0, kind="nvlink", up=up),)
        return replace(made, gpus=tuple(replace(gpu, links=links) for gpu in made.gpus))

    assert [most_links_up(node(up)) for up in (True, False, Unread.UNKNOWN)] == [1, 0, Unread.UNKNOWN]


def test_a_pair_with_more_links_is_no_odd_one() -> None:
    assert odd_one(mesh(3, "NV1", {(0, 2): "NV2"})) is None
    assert odd_one(mesh(3, "NV2", {(0, 2): "NV1"})) == "GPU0-GPU2"


def test_links_add_up_over_direct_wires_and_not_behind_a_switch() -> None:
    assert set(links_per_gpu(mesh(4, "NV6")).values()) == {18}
    assert set(links_per_gpu(mesh(8, "NV12")).values()) == {12}
    assert links_per_gpu(mesh(3, "SYS", {(0, 1): "NV4"})) == {"GPU0": 4, "GPU1": 4, "GPU2": 0}


def test_whole_groups_are_said_as_groups_and_many_pairs_counted() -> None:
    far = {(a, b): "SYS" for a in range(4) for b in range(4, 8)}
    lines = describe(mesh(8, "PHB", far))
    assert "path PHB: within GPU0 GPU1 GPU2 GPU3 | GPU4 GPU5 GPU6 GPU7" in lines
    assert "path SYS: 16 GPU pairs" in lines


def test_host_facts_where_known() -> None:
    cpu = Cpu(model="Zen", sockets=2, cores=64, threads=128, usable=tuple(range(32)), last_level_cache_bytes=1 << 25)
    software = Software(kernel="6.8", python="3.12", torch=None, driver=Unread.NO_PERMISSION, cuda="13.0", nccl="2.27")
    node = replace(mesh(2, "NV4"), cpu=cpu, memory_bytes=64 << 30, virtualised=None, software=software, hostname="a7")
    lines = describe(node)
    for line in ("cpu: Zen", "sockets: 2", "cores: 64", "threads: 128, 32 usable", "memory: 64GiB", "virtualised: no"):
        assert line in lines
    assert "torch: not installed" in lines
    assert "no permission: driver" in lines
    assert "hostname: a7" in lines
    assert "virtualised: kvm" in describe(replace(node, virtualised="kvm"))


def test_host_facts_that_a_matrix_lacks_are_one_line() -> None:
    host = "cpu, hostname, memory, NUMA nodes, virtualised, kernel, python, torch, driver, cuda, nccl"
    lines = describe(mesh(2, "NV4"))
    assert f"unknown: NUMA node of the GPUs, CPU affinity of the GPUs, {host}" in lines
    assert not [line for line in lines if line.startswith(("NUMA node unknown", "CPU affinity unknown"))]


def test_no_path_known_is_among_the_unknown() -> None:
    lines = describe(replace(mesh(3, "NV4"), paths=()))
    assert [line for line in lines if line.startswith("unknown: paths between GPUs, ")]
    assert not [line for line in lines if line.startswith("path ")]


def test_xgmi_is_not_called_a_missing_nvlink() -> None:
    linked = describe(replace(mesh(2, "NV1"), paths=(PairPath(a="GPU0", b="GPU1", path="XGMI"),)))
    assert not [line for line in linked if "none shown" in line]
    node = mesh(2, "SYS")
    amd = tuple(replace(gpu, vendor="amd") for gpu in node.gpus)
    assert "xGMI: none shown on the GPU pair" in describe(replace(node, gpus=amd))


def test_nic_rates_and_states() -> None:
    nics = (nic("ib0", rate_bits=400_000_000_000, up=True), nic("ib1", rate_bits=Unread.NO_PERMISSION, up=False))
    lines = describe(replace(mesh(2, "NV4"), nics=nics))
    assert "NICs, infiniband, rate 400 Gbit/s, up: ib0" in lines
    assert "NICs, infiniband, rate no permission, down: ib1" in lines
    assert "NICs: none listed" in describe(mesh(2, "NV4"))


def test_models_are_counted() -> None:
    node = mesh(3, "NV4")
    gpus = (replace(node.gpus[0], model="H100"), replace(node.gpus[1], model="H100"), node.gpus[2])
    assert describe(replace(node, gpus=gpus))[0] == "mesh: 3 GPUs, 2 x H100, model unknown"


def test_no_gpu_and_a_doubt_without_a_line() -> None:
    node = replace(mesh(2, "NV4"), gpus=(), paths=(), doubts=(Doubt(line=None, text="nvidia-smi is not installed"),))
    lines = describe(node)
    assert lines[0] == "mesh: 0 GPUs"
    assert lines[-1] == "note: nvidia-smi is not installed"
