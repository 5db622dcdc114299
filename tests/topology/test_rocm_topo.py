"""``rocm-smi --showtopo`` as pasted: what is read, what is doubted on which line, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.topology.readers.rocm_topo import looks_like_rocm_topo, read_rocm_topo

GOOD = """\
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
GPU[2]\t\t: (Topology) Numa Node: -1
GPU[2]\t\t: (Topology) Numa Affinity: -1
=============================== End of ROCm SMI Log ================================
"""
PAIRS = {"GPU0-GPU1": ("XGMI", 1, 15), "GPU0-GPU2": ("PCIE", 3, 72), "GPU1-GPU2": ("PCIE", 3, 72)}


def read(text: str) -> NodeTopology:
    return read_rocm_topo(text, source="topo.txt")


def pairs(node: NodeTopology) -> dict[str, tuple[str, object, object]]:
    return {f"{pair.a}-{pair.b}": (pair.path, pair.hops, pair.weight) for pair in node.paths}


def doubts(node: NodeTopology) -> list[str]:
    return [f"{doubt.line}: {doubt.text}" for doubt in node.doubts]


def without(text: str, *numbers: int) -> str:
    return "\n".join(line for at, line in enumerate(text.split("\n"), start=1) if at not in numbers)


def test_a_whole_output_is_read_without_doubt() -> None:
    node = read(GOOD)
    assert pairs(node) == PAIRS
    assert [gpu.numa_node for gpu in node.gpus] == [0, 0, Unread.UNKNOWN]
    assert {gpu.vendor for gpu in node.gpus} == {"amd"}
    assert doubts(node) == []


def test_it_is_told_from_other_tables() -> None:
    assert looks_like_rocm_topo(GOOD)
    assert not looks_like_rocm_topo("\tGPU0\tGPU1\nGPU0\t X \tNV4\n")


def test_a_launcher_s_label_and_blanks_are_no_matter() -> None:
    labelled = "".join(f"node7: {line}   \n" for line in GOOD.splitlines())
    assert pairs(read(labelled)) == PAIRS
    assert pairs(read(GOOD.replace("            ", "\t"))) == PAIRS


def test_a_missing_row_leaves_the_mirror_and_a_doubt() -> None:
    node = read(without(GOOD, 16))
    assert pairs(node) == PAIRS
    assert doubts(node) == ["15: Link Type: no row for GPU0"]


def test_a_missing_table_is_told() -> None:
    node = read(without(GOOD, *range(8, 13)))
    assert pairs(node)["GPU0-GPU1"] == ("XGMI", Unread.UNKNOWN, 15)
    assert doubts(node) == ["None: no table of hops between GPUs"]


@pytest.mark.parametrize(
    ("old", "new", "doubt"),
    [
        (
            "GPU1   XGMI         0            PCIE",
            "GPU1   XGMI         0",
            "17: Link Type: the row of GPU1 is left out: 2 cells for 3 columns",
        ),
        (
            "GPU1   XGMI         0            PCIE",
            "GPU1   XGMI0        PCIE         PCIE",
            "17: Link Type: the row of GPU1 is left out: 'XGMI0' is no link type",
        ),
        (
            "GPU1   1            0            3",
            "GPU1   0            1            3",
            "11: Hops: the row of GPU1 is left out: 0 stands for the GPU itself, and here it stands under GPU0",
        ),
        (
            "GPU0   0            XGMI         PCIE",
            "GPU0   0            PCIE         PCIE",
            "17: Link Type: GPU0-GPU1 is PCIE on line 16, and XGMI the other way; left out",
        ),
    ],
)
def test_a_damaged_row_is_left_out_and_told(old: str, new: str, doubt: str) -> None:
    node = read(GOOD.replace(old, new))
    assert doubts(node) == [doubt]
    assert all(PAIRS[name][0] == found[0] for name, found in pairs(node).items())


def test_nothing_that_can_be_placed_is_refused_with_the_reason() -> None:
    with pytest.raises(TopologyError) as refused:
        read("========= ROCm System Management Interface =========\nGPU0 is busy\n")
    assert str(refused.value).startswith("topo.txt:1: no table of weights, hops or link types can be read")


def test_a_cut_number_is_not_read() -> None:
    """72 cut to 7 would be another weight."""
    node = read(GOOD[: GOOD.index("GPU1   15") + len("GPU1   15           0            7")])
    assert ("GPU1", "GPU2") not in {(pair.a, pair.b) for pair in node.paths}
    assert any("the text ends within it" in doubt for doubt in doubts(node))


@settings(max_examples=200, deadline=None)
@given(cut=st.integers(0, len(GOOD)), blanks=st.sampled_from([" ", "\t", "    "]), label=st.sampled_from(["", "0: "]))
def test_a_cut_or_realigned_text_never_gives_another_pair(cut: int, blanks: str, label: str) -> None:
    text = "\n".join(label + blanks.join(line.split()) if line else "" for line in GOOD[:cut].split("\n"))
    try:
        node = read(text)
    except TopologyError:
        return
    for name, (path, hops, weight) in pairs(node).items():
        right = PAIRS[name]
        assert path == right[0]
        assert hops in (right[1], Unread.UNKNOWN)
        assert weight in (right[2], Unread.UNKNOWN)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_cell_never_gives_another_pair_without_a_doubt(data: st.DataObject) -> None:
    lines = GOOD.split("\n")
    at = data.draw(st.sampled_from([n for n, line in enumerate(lines) if line.startswith("GPU") and "[" not in line]))
    words = lines[at].split()
    cell = data.draw(st.integers(1, len(words) - 1))
    words[cell : cell + 1] = data.draw(st.sampled_from([[], ["?"], ["XGMI", "XGMI"], [words[cell] + "x"], ["N/A"]]))
    lines[at] = "   ".join(words)
    node = read("\n".join(lines))
    assert all(pairs(node)[name][0] == PAIRS[name][0] for name in pairs(node))
    assert node.doubts
