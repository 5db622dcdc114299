"""docs/baselines.md: it is what the shipped files say, and leaves nothing of a reference out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.baseline.wiring import Wiring
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.report.reference_page import load_references, reference_page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "baselines.md"
MESH: dict[str, Any] = {
    "gpus": 4,
    "model": "NVIDIA Z9",
    "links": {"kind": "nvlink", "per_gpu": 6, "speed": "20 GB/s", "version": 7},
    "pairs": {"NV2": "all"},
    "peers": {"OK": "0-1 2-3"},
    "pcie": {"generation": 6, "width": 8},
    "ecc": "disabled",
    "fabric": {"state": "Completed", "status": "Success"},
}


def reference(wiring: dict[str, Any] | None = None, **more: Any) -> Baseline:
    return Baseline(
        name="z9-4x-nv2",
        path=Path("site/nvidia/z9-4x-nv2.yaml"),
        sku="z9-4x-nv2",
        exact=None,
        facts={"gpus": 4},
        recorded=None,
        sources={"links": "Z9 data sheet"},
        wiring=Wiring.model_validate(wiring or {"gpus": 4}),
        **more,
    )


def row(wiring: dict[str, Any]) -> str:
    return next(line for line in reference_page([reference(wiring)]) if line.startswith("| [z9"))


def test_the_page_is_that_of_the_shipped_files() -> None:
    text = "\n".join(reference_page(load_references(ROOT / "baselines"))) + "\n"
    assert PAGE.read_text() == text, (
        "docs/baselines.md is out of date; python -m gpuwire_checks.report.reference_page > docs/baselines.md"
    )


def test_what_a_reference_states_is_a_row() -> None:
    assert row(MESH) == (
        "| [z9-4x-nv2](#z9-4x-nv2) | 4 x NVIDIA Z9 | 6 x 20 GB/s = 120 GB/s NVLink 7 | NV2 all | OK 0-1 2-3 "
        "| gen 6 x8 | disabled | Completed, Success |"
    )


def test_what_it_leaves_out_is_said_to_be_left_out() -> None:
    assert row({"gpus": 4}) == "| [z9-4x-nv2](#z9-4x-nv2) | 4 x - | - | - | - | - | - | - |"


def test_links_that_differ_between_gpus_are_all_there() -> None:
    links = {"kind": "xgmi", "per_gpu": [3, 2, 3, 2], "speed": "50 GB/s"}
    assert "| 3 x 50 GB/s = 150 GB/s or 2 x 50 GB/s = 100 GB/s xGMI |" in row({"gpus": 4, "links": links})


def test_links_without_a_speed_are_counted() -> None:
    assert "| 7 xGMI |" in row({"gpus": 4, "links": {"kind": "xgmi", "per_gpu": 7}})


def test_notes_figures_and_sources_stand_under_the_name() -> None:
    given = [
        {"figure": "all_reduce", "size": "8GiB", "world_size": 4, "kind": "floor", "value": "99.5 GB/s", "source": "X"},
        {"figure": "host_to_device", "kind": "measured", "value": 11e9, "condition": "a | b", "source": "Y"},
    ]
    floors = tuple(FloorEntry.model_validate(one) for one in given)
    lines = reference_page([reference(notes=("NV2 is full.",), floors=floors)])
    assert lines[lines.index("## z9-4x-nv2") :] == [
        "## z9-4x-nv2",
        "",
        "`baselines/nvidia/z9-4x-nv2.yaml`",
        "",
        "* NV2 is full.",
        "",
        "| Figure | Size | World size | GB/s | Kind | Condition | Source |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| all_reduce | 8GiB | 4 | 99.5 | floor | - | X |",
        r"| host_to_device | - | - | 11 | measured | a \| b | Y |",
        "",
        "Sources:",
        "",
        "* links: Z9 data sheet",
    ]


def test_a_recorded_baseline_is_no_reference(tmp_path: Path) -> None:
    (tmp_path / "here.yaml").write_text(
        "schema: 1\nname: here\ntopology: {sku: here, exact: abc, facts: {}}\n"
        "recorded: {at: '2026-01-01T12:00:00+00:00', hosts: 1, gpuwire: 0.1.0, tier: nightly, software: {}}\n"
    )
    (tmp_path / "known.yaml").write_text("schema: 1\nname: known\ntopology: {sku: known, facts: {}}\nsources: {a: b}\n")
    assert [one.path.name for one in load_references(tmp_path)] == ["known.yaml"]


def test_a_file_that_says_nothing_of_its_sources_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "known.yaml").write_text("schema: 1\nname: known\ntopology: {sku: known, facts: {}}\n")
    with pytest.raises(
        BaselineError, match=r"known\.yaml:1: 'recorded' is missing; a reference, which nobody recorded"
    ):
        load_references(tmp_path)
