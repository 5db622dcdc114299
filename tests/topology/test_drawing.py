"""A node drawn for a terminal: what is not read has its reason, where this source could have told it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from topologies import gpu_node

from gpuwire_checks.topology.describe import describe
from gpuwire_checks.topology.drawing import drawing
from gpuwire_checks.topology.model import Link, NodeTopology, Unread


def with_first(gpu: Mapping[str, Any], others: Mapping[str, Any]) -> NodeTopology:
    node = gpu_node(gpus=3)
    return replace(node, gpus=tuple(replace(one, **(others if one.index else gpu)) for one in node.gpus))


def line_of(node: NodeTopology, part: str) -> str:
    return next(line for line in drawing(node) if f"─ {part} " in f"{line} ")


@pytest.mark.parametrize("unread", list(Unread))
def test_a_value_that_others_have_is_not_left_out(unread: Unread) -> None:
    node = with_first({"model": unread, "pcie_width": unread, "links": unread}, {"links": ()})
    line = line_of(node, "GPU0")
    assert f"model {unread.value}" in line
    assert f"PCIe {unread.value}" in line
    assert f"links {unread.value}" in line


def test_what_a_source_tells_of_no_part_is_left_out() -> None:
    silent = {"model": Unread.UNKNOWN, "pcie_width": Unread.UNKNOWN, "links": Unread.UNKNOWN}
    assert "unknown" not in line_of(with_first(silent, silent), "GPU0")


def test_a_link_whose_state_is_not_read_is_not_down() -> None:
    states: tuple[bool | Unread, ...] = (True, True, False, Unread.UNKNOWN, Unread.NO_PERMISSION)
    links = tuple(Link(number=at, kind="nvlink", up=up) for at, up in enumerate(states))
    assert "2 of 5 links up, 1 unknown, 1 no permission" in line_of(with_first({"links": links}, {}), "GPU0")


def test_a_gpu_of_which_no_pair_is_known_has_no_0_links() -> None:
    node = gpu_node(gpus=3)
    known = tuple(pair for pair in node.paths if "GPU2" not in (pair.a, pair.b))
    (line,) = (line for line in describe(replace(node, paths=known)) if line.startswith("NVLinks of a GPU"))
    assert line.endswith("; unknown on GPU2")
