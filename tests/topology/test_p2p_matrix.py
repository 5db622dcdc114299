"""``nvidia-smi topo -p2p`` as pasted: the status of each ordered pair, doubts by line, and what is refused."""

from __future__ import annotations

import contextlib
import time
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.topology.readers.p2p_matrix import looks_like_p2p_matrix, read_p2p_matrix
from gpuwire_checks.topology.readers.topo_matrix import looks_like_topo_matrix

TRIO = """\
 \tGPU0\tGPU1\tGPU2\t
 GPU0\tX\tOK\tCNS\t
 GPU1\tOK\tX\tTNS\t
 GPU2\tCNS\tTNS\tX\t

Legend:

  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
  GNS  = GPU not supported
"""
TRIO_STATUSES = {
    "0>1": "OK",
    "0>2": "CNS",
    "1>0": "OK",
    "1>2": "TNS",
    "2>0": "CNS",
    "2>1": "TNS",
}
PATHS = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tNV4\t0-7\nGPU1\tNV4\tX\t0-7\n"


def read(text: str) -> NodeTopology:
    return read_p2p_matrix(text, source="pasted")


def statuses(node: NodeTopology, capability: str = "unknown") -> dict[str, str]:
    return {
        f"{peer.a.removeprefix('GPU')}>{peer.b.removeprefix('GPU')}": peer.status
        for peer in node.peers
        if peer.capability == capability
    }


def doubts(node: NodeTopology) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in node.doubts]


def edited(line: int, new: str) -> str:
    """TRIO with one line (from 1) replaced."""
    lines = TRIO.splitlines()
    lines[line - 1] = new
    return "\n".join(lines) + "\n"


def test_a_whole_table_is_read_without_doubt() -> None:
    node = read(TRIO)
    assert looks_like_p2p_matrix(TRIO)
    assert not looks_like_topo_matrix(TRIO)
    assert statuses(node) == TRIO_STATUSES
    assert [gpu.index for gpu in node.gpus] == [0, 1, 2]
    assert node.doubts == ()
    assert node.paths == ()


def test_the_capability_is_unknown_unless_the_command_stands_above() -> None:
    assert {peer.capability for peer in read(TRIO).peers} == {"unknown"}
    assert {peer.capability for peer in read(TRIO + "$ nvidia-smi topo -p2p w\n").peers} == {"unknown"}


@pytest.mark.parametrize(
    ("letter", "capability"),
    [("r", "read"), ("w", "write"), ("n", "nvlink"), ("a", "atomics"), ("p", "pcie")],
)
def test_the_command_names_the_capability(letter: str, capability: str) -> None:
    for command in (f"$ nvidia-smi topo -p2p {letter}", f"root@n1:~# nvidia-smi topo --p2pstatus {letter}"):
        assert statuses(read(f"{command}\n{TRIO}"), capability) == TRIO_STATUSES


def test_tables_of_several_capabilities_are_all_read() -> None:
    text = f"# nvidia-smi topo -p2p r\n{TRIO}# nvidia-smi topo -p2p w\n{TRIO.replace('CNS', 'NS')}"
    node = read(text)
    assert statuses(node, "read") == TRIO_STATUSES
    assert statuses(node, "write")["0>2"] == "NS"
    assert node.doubts == ()


def test_commands_of_one_line_belong_to_the_tables_in_their_order() -> None:
    text = f"nvidia-smi topo -m; nvidia-smi topo -p2p n; nvidia-smi topo -p2p a\n{PATHS}{TRIO}{TRIO}"
    node = read(text)
    assert [peer.capability for peer in node.peers] == ["nvlink"] * 6 + ["atomics"] * 6


def test_a_command_counts_for_one_table() -> None:
    node = read(f"nvidia-smi topo -p2p w\n{TRIO}{TRIO}")
    assert [peer.capability for peer in node.peers] == ["write"] * 6 + ["unknown"] * 6


def test_a_second_table_of_a_capability_is_not_read() -> None:
    node = read(TRIO + TRIO.replace("CNS", "DR"))
    assert statuses(node) == TRIO_STATUSES
    assert doubts(node) == [(12, "a further table whose command is not shown: not read")]
    twice = f"nvidia-smi topo -p2p w\n{TRIO}nvidia-smi topo -p2p w\n{TRIO}"
    assert doubts(read(twice)) == [(14, "a second table of the capability 'write': not read")]


def test_a_path_matrix_beside_it_is_left_to_its_own_reader() -> None:
    assert statuses(read(PATHS + TRIO)) == TRIO_STATUSES
    assert not looks_like_p2p_matrix(PATHS)


def test_a_cell_and_its_mirror_are_kept_as_they_stand() -> None:
    node = read(edited(3, " GPU1\tGNS\tX\tTNS\t"))
    assert statuses(node) == {**TRIO_STATUSES, "1>0": "GNS"}
    text = "GPU0 to GPU1 is OK on line 2 and GPU1 to GPU0 is GNS on line 3: both are kept as they stand"
    assert doubts(node) == [(3, text)]


def test_a_missing_row_is_not_filled_from_its_mirror() -> None:
    node = read("\n".join(TRIO.splitlines()[:3]))
    assert "2>0" not in statuses(node)
    assert "2>1" not in statuses(node)
    assert len(node.gpus) == 3
    assert doubts(node) == [(3, "no row for GPU2")]


def test_a_cut_row_keeps_its_whole_cells() -> None:
    node = read("\n".join([*TRIO.splitlines()[:3], " GPU2\tCNS\tTN"]))
    assert statuses(node) == {key: value for key, value in TRIO_STATUSES.items() if key != "2>1"}
    assert doubts(node) == [
        (4, "row GPU2 is cut after 2 of 3 cells"),
        (4, "row GPU2: 'TN' under GPU1 is no P2P status"),
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("GPU1 OK X", "has 2 cells for 3 columns: those right of its X are not used"),
        ("GPU1 X TNS", "has 2 cells for 3 columns: those left of its X are not used"),
        ("GPU1 OK X TNS NS", "has 4 cells for 3 columns: those right of its X are not used"),
        ("GPU1 X OK TNS", "has 3 cells for 3 columns and its X in column 1, not 2: the row is not used"),
        ("GPU1 OK OK TNS", "has 3 cells for 3 columns and 0 X: the row is not used"),
    ],
)
def test_a_hole_or_a_cell_too_many_shifts_no_column(row: str, problem: str) -> None:
    node = read(edited(3, row))
    assert statuses(node).items() <= TRIO_STATUSES.items()
    assert doubts(node) == [(3, f"row GPU1 {problem}")]


def test_an_empty_cell_between_tabs_keeps_its_column() -> None:
    node = read(edited(2, " GPU0\tX\t\tCNS\t"))
    assert statuses(node) == {key: value for key, value in TRIO_STATUSES.items() if key != "0>1"}
    assert doubts(node) == [(2, "row GPU0 has 1 empty cell")]


def test_cells_run_together_are_parted_with_a_doubt() -> None:
    node = read(edited(3, "GPU1 OKX TNS"))
    assert statuses(node) == TRIO_STATUSES
    assert doubts(node) == [(3, "read 'OKX' as OK X")]


@pytest.mark.parametrize("cell", ["0K", "N/A", "ERR!", "[Unknown Error]", "NV4?"])
def test_a_word_that_is_no_status_is_doubted(cell: str) -> None:
    node = read(edited(2, f" GPU0\tX\t{cell}\tCNS"))
    assert "0>1" not in statuses(node)
    assert statuses(node)["0>2"] == "CNS"
    assert doubts(node) == [(2, f"row GPU0: '{cell}' under GPU1 is no P2P status")]


def test_a_lost_gpu_still_counts() -> None:
    node = read(edited(4, "GPU2  GPU is lost"))
    assert len(node.gpus) == 3
    assert doubts(node) == [(4, "GPU2 reads 'GPU is lost'")]


def test_retyped_words_are_read_with_a_doubt() -> None:
    node = read(edited(2, "gpu0 x ok cns"))
    assert statuses(node) == TRIO_STATUSES
    assert doubts(node) == [(2, "read 'gpu0' as GPU0, 'x' as X, 'ok' as OK, 'cns' as CNS")]


def test_a_misnamed_column_is_not_used() -> None:
    node = read(edited(1, "GPU0 GPU12 GPU2"))
    assert statuses(node) == {"0>2": "CNS", "2>0": "CNS"}
    assert (4, "no row for GPU12, and rows have other names: the cells under it are not used") in doubts(node)
    assert (3, "row GPU1 has no column in the header: not read") in doubts(node)


def test_a_line_of_a_log_is_no_row() -> None:
    node = read("\n".join([*TRIO.splitlines()[:3], "GPU2: OK"]))
    assert statuses(node) == {key: value for key, value in TRIO_STATUSES.items() if not key.startswith("2")}


def test_log_lines_between_and_a_second_row_are_named() -> None:
    lines = TRIO.splitlines()
    node = read("\n".join([*lines[:2], "GPU1 is waking up", lines[2], lines[2], *lines[3:]]))
    assert statuses(node) == TRIO_STATUSES
    assert doubts(node) == [
        (5, "a second row of one device, not read: 'GPU1 OK X TNS'"),
        (3, "not part of the table, not read: 'GPU1 is waking up'"),
    ]


@pytest.mark.parametrize("prefix", ["0: ", "[1,0]<stdout>:", "node-a7: ", "> ", "2031-04-05T06:07:08.123Z "])
def test_a_launcher_prefix_is_no_cell(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in TRIO.splitlines() if line)
    assert looks_like_p2p_matrix(text)
    assert statuses(read(text)) == TRIO_STATUSES
    assert read(text).doubts == ()


def test_two_ranks_interleaved_are_not_mixed() -> None:
    other = TRIO.replace("CNS", "DR").splitlines()
    node = read("".join(f"0: {a}\n1: {b}\n" for a, b in zip(TRIO.splitlines(), other, strict=True)))
    assert statuses(node) == TRIO_STATUSES
    assert doubts(node) == [(2, "a further table whose command is not shown: not read")]


def test_escapes_and_a_markdown_table() -> None:
    assert statuses(read(TRIO.replace("\tGPU0\tGPU1\tGPU2\t", "\t\x1b[4mGPU0\tGPU1\tGPU2\x1b[0m"))) == TRIO_STATUSES
    table = "| | GPU0 | GPU1 |\n|---|---|---|\n| **GPU0** | X | DR |\n| **GPU1** | DR | X |\n"
    assert statuses(read(table)) == {"0>1": "DR", "1>0": "DR"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "pasted:1: no `nvidia-smi topo -p2p` table"),
        (PATHS, "pasted:1: no `nvidia-smi topo -p2p` table"),
        ("GPU0 X OK\nGPU1 OK X\n", "pasted:1: no `nvidia-smi topo -p2p` table"),
        ("x" * (2 << 20), "pasted:1: 2097152 characters"),
        ("\n" * 30_000, "pasted:1: 30000 characters in 30001 lines"),
    ],
    ids=["empty", "paths", "no header", "long", "lines"],
)
def test_what_is_no_table_is_refused(text: str, says: str) -> None:
    assert not looks_like_p2p_matrix(text)
    with pytest.raises(TopologyError, match=says):
        read(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\nGPU0 GPU0\nGPU0 X OK\n", "pasted:2: the header names GPU0 twice"),
        (" ".join(f"GPU{i}" for i in range(300)) + "\nGPU0 X OK\n", "pasted:1: the header names 300 devices; at most"),
        ("GPU0 GPU1\nGPU0 OK OK\n\nLegend:", "pasted:1: no cell under this header can be placed; row GPU0 has 2 cells"),
    ],
    ids=["twice", "devices", "no X"],
)
def test_a_table_that_cannot_be_placed_is_refused_with_the_reason(text: str, says: str) -> None:
    assert looks_like_p2p_matrix(text)
    with pytest.raises(TopologyError, match=says):
        read(text)


def test_the_table_is_found_after_a_thousand_other_lines() -> None:
    assert looks_like_p2p_matrix("[0] NCCL INFO comm 0x5581 rank 0\n" * 1000 + TRIO)


@pytest.mark.parametrize(
    "text",
    [
        "GPU0 GPU1\n" * 15_000,
        "GPU0 GPU1\nGPU0 X OK\n" * 9_000,
        "GPU0 GPU1\nGPU0 " + "X " * 400_000,
        "GPU0 GPU1\nGPU0 X " + "OK" * 400_000,
        "GPU1" * 200_000,
        "GPU0 " * 2_000_000,
    ],
    ids=["headers", "tables", "cells", "fused", "labels", "ten megabytes"],
)
def test_hostile_text_ends_soon(text: str) -> None:
    begin = time.monotonic()
    looks_like_p2p_matrix(text)
    with contextlib.suppress(TopologyError):
        assert len(read(text).doubts) <= 201
    assert time.monotonic() - begin < 5


TABLES = st.integers(2, 5).flatmap(
    lambda gpus: st.lists(
        st.sampled_from(["OK", "CNS", "GNS", "TNS", "NS", "DR", "U"]), min_size=gpus * gpus, max_size=gpus * gpus
    ).map(lambda cells: [cells[at * gpus : (at + 1) * gpus] for at in range(gpus)])
)


def lines_of(table: list[list[str]]) -> list[list[str]]:
    """The words of each line; symmetrical, as drivers print it."""
    gpus = range(len(table))
    cells = [["X" if a == b else table[min(a, b)][max(a, b)] for b in gpus] for a in gpus]
    return [[f"GPU{a}" for a in gpus], *([f"GPU{a}", *row] for a, row in enumerate(cells))]


def truth(table: list[list[str]]) -> dict[str, str]:
    return {f"{a}>{b}": table[min(a, b)][max(a, b)] for a, b in permutations(range(len(table)), 2)}


def check(text: str, right: dict[str, str]) -> None:
    """The right table, a doubt that names a line, or a refusal."""
    try:
        node = read(text)
    except TopologyError as refusal:
        assert str(refusal).startswith("pasted:")  # noqa: PT017
        return
    found = statuses(node)
    wrong = {pair for pair, status in found.items() if right.get(pair) != status}
    assert not wrong, (text, wrong)
    if found != right:
        assert any(doubt.line for doubt in node.doubts), text


@settings(max_examples=100, deadline=None)
@given(table=TABLES, at=st.integers(0, 400), prefix=st.sampled_from(["", "0: ", "node3: "]), gap=st.sampled_from("\t "))
def test_a_cut_text_gives_the_right_cells_or_a_doubt(table: list[list[str]], at: int, prefix: str, gap: str) -> None:
    text = "".join(f"{prefix}{gap.join(words)}\n" for words in lines_of(table))
    check(text[: at % len(text)], truth(table))


@settings(max_examples=200, deadline=None)
@given(
    table=TABLES,
    place=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    damage=st.sampled_from(["remove", "twice", "fuse", "??", "ERR!", "0-3", "N/A", "X", "X X", "empty"]),
    legend=st.booleans(),
    data=st.data(),
)
def test_one_damaged_cell_gives_the_right_cells_or_a_doubt(
    table: list[list[str]], place: tuple[int, int], damage: str, legend: bool, data: st.DataObject
) -> None:
    lines = lines_of(table)
    row, column = (1 + (at - 1) % len(table) for at in place)
    words = lines[row]
    if damage == "remove":
        del words[column]
    elif damage == "twice":
        words.insert(column, words[column])
    elif damage == "fuse":
        words[column - 1 : column + 1] = ["".join(words[column - 1 : column + 1])]
    else:
        words[column] = "" if damage == "empty" else damage
    gap = "\t" if damage == "empty" else data.draw(st.sampled_from(["\t", "  ", " \t "]))
    text = "\n".join(gap.join(words) for words in lines) + ("\n\nLegend:\n" if legend else "\n")
    check(text, truth(table))
