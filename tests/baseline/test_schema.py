"""What a baseline file may say: each rule with the fault it names."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from gloo import case
from hypothesis import given
from hypothesis import strategies as st

from gpuwire_checks.baseline.schema import BoundEntry, CaseEntry, case_key, round_figure
from gpuwire_checks.baseline.store import load_baseline
from gpuwire_checks.errors import BaselineError

SOUND: dict[str, Any] = {
    "schema": 1,
    "name": "node",
    "topology": {"sku": "cpu-2c", "exact": "0123", "facts": {"cores": 2}},
    "recorded": {"at": "2026-01-01T00:00:00+00:00", "hosts": 1, "gpuwire": "0.1.0", "tier": "nightly", "software": {}},
    "bounds": [
        {
            "metric": "busbw",
            "case": {
                "collective": "all_reduce",
                "size": "1MiB",
                "dtype": "float32",
                "world_size": 2,
                "backend": "gloo",
            },
            "unit": "GB/s",
            "better": "higher",
            "centre": 2.5,
            "spread": 0.02,
            "attempts": 5,
            "nodes": 1,
        },
        {
            "metric": "latency",
            "case": {"collective": "barrier", "world_size": 2, "backend": "gloo"},
            "unit": "us",
            "better": "lower",
            "centre": 80,
            "spread": 0.1,
            "attempts": 5,
            "nodes": 1,
        },
    ],
}
ABSENT = object()


def changed(key: str, value: object) -> dict[str, Any]:
    """The sound file with the value at ``bounds.0.unit`` or so replaced, or taken away."""
    content = copy.deepcopy(SOUND)
    at: Any = content
    *path, last = [int(part) if part.isdigit() else part for part in key.split(".")]
    for part in path:
        at = at[part]
    if value is ABSENT:
        del at[last]
    else:
        at[last] = value
    return content


def write(tmp_path: Path, content: dict[str, Any]) -> Path:
    path = tmp_path / "node.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False, default_flow_style=False))
    return path


def problem(tmp_path: Path, key: str, value: object) -> str:
    """What is said of the file so changed, from the line number on; there is one problem only."""
    path = write(tmp_path, changed(key, value))
    with pytest.raises(BaselineError) as caught:
        load_baseline(path)
    (text,) = str(caught.value).splitlines()
    assert text.startswith(f"{path}:")
    return text.removeprefix(f"{path}:")


def line_of(tmp_path: Path, text: str) -> int:
    """The first line that contains the text."""
    return next(n for n, row in enumerate((tmp_path / "node.yaml").read_text().splitlines(), 1) if text in row)


def test_a_sound_file_loads(tmp_path: Path) -> None:
    baseline = load_baseline(write(tmp_path, SOUND))
    assert (baseline.name, baseline.sku, baseline.exact, baseline.recorded and baseline.recorded.hosts) == (
        "node",
        "cpu-2c",
        "0123",
        1,
    )
    assert [str(entry.case) for entry in baseline.entries] == ["all_reduce-1MiB-float32-ws2-gloo", "barrier-ws2-gloo"]
    assert baseline.lines[baseline.entries[1].key] == line_of(tmp_path, "metric: latency")


def test_no_bound_yet_is_a_sound_file(tmp_path: Path) -> None:
    assert load_baseline(write(tmp_path, changed("bounds", []))).entries == ()


@pytest.mark.parametrize("metric", [0, 1])
def test_a_bound_in_the_wrong_unit_is_refused_with_its_line(tmp_path: Path, metric: int) -> None:
    name, right = [("busbw", "GB/s"), ("latency", "us")][metric]
    said = problem(tmp_path, f"bounds.{metric}.unit", "MB/s")
    line = line_of(tmp_path, f"metric: {name}")
    assert said == (f"{line}: bounds.{metric}: {name} is in {right}, not 'MB/s'; convert the figure, or record it anew")


def test_a_barrier_has_no_bandwidth(tmp_path: Path) -> None:
    content = changed("bounds.1.metric", "busbw")
    content["bounds"][1] |= {"unit": "GB/s", "better": "higher"}
    with pytest.raises(BaselineError) as caught:
        load_baseline(write(tmp_path, content))
    line = line_of(tmp_path, "collective: barrier") - 2
    assert str(caught.value) == (
        f"{tmp_path / 'node.yaml'}:{line}: bounds.1: barrier moves nothing: it is held to its latency, not to busbw"
    )


def test_the_good_side_must_be_given_and_be_the_metrics(tmp_path: Path) -> None:
    assert problem(tmp_path, "bounds.0.better", ABSENT).endswith(": 'bounds.0.better' is missing")
    assert problem(tmp_path, "bounds.0.better", "lower").endswith(": bounds.0: of busbw, higher is better, not lower")
    assert problem(tmp_path, "bounds.1.better", "higher").endswith(
        ": bounds.1: of latency, lower is better, not higher"
    )
    said = problem(tmp_path, "bounds.1.better", "slower")
    assert said.endswith(": bounds.1.better: Input should be 'higher' or 'lower', not 'slower'")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("bounds.0.centre", 0, "bounds.0.centre: Input should be greater than 0, not 0"),
        ("bounds.0.centre", -1.5, "bounds.0.centre: Input should be greater than 0, not -1.5"),
        ("bounds.0.centre", math.nan, "bounds.0.centre: Input should be a finite number, not nan"),
        ("bounds.0.centre", math.inf, "bounds.0.centre: Input should be a finite number, not inf"),
        ("bounds.0.centre", "2.5 GB/s", "bounds.0.centre: Input should be a valid number, "),
        ("bounds.0.spread", -0.1, "bounds.0.spread: Input should be greater than or equal to 0, not -0.1"),
        ("bounds.0.spread", math.nan, "bounds.0.spread: Input should be a finite number, not nan"),
        ("bounds.0.attempts", 0, "bounds.0.attempts: Input should be greater than or equal to 1, not 0"),
        ("bounds.0.attempts", 2.5, "bounds.0.attempts: Input should be a valid integer, "),
        ("bounds.0.nodes", 0, "bounds.0.nodes: Input should be greater than or equal to 1, not 0"),
        ("bounds.0.metric", "algbw", "bounds.0.metric: Input should be 'busbw' or 'latency', not 'algbw'"),
        ("bounds.0.cemtre", 1, "unknown key 'bounds.0.cemtre'; did you mean 'centre'?"),
        ("bounds.0.case.dtype", "fp8", "bounds.0.case.dtype: Input should be 'float32', 'float16' or 'bfloat16', "),
        ("bounds.0.case.world_size", 1, "bounds.0.case.world_size: Input should be greater than or equal to 2, not 1"),
        ("bounds.0.case.backend", "mpi", "bounds.0.case.backend: Input should be 'gloo', 'nccl' or 'xccl', not 'mpi'"),
        ("bounds.0.case.size", "8G", "bounds.0.case.size: '8G' is not a size; write bytes or a binary unit, "),
        ("bounds.0.case.size", -1, "bounds.0.case.size: Input should be greater than or equal to 0, not -1"),
        ("bounds.0.case.size", ABSENT, "bounds.0.case: size and dtype belong together: every collective but barrier"),
        ("bounds.0.case.dtype", ABSENT, "bounds.0.case: size and dtype belong together"),
        ("bounds.1.case.size", 8, "bounds.1.case: size and dtype belong together"),
        ("bounds.1.case.dtype", "float32", "bounds.1.case: size and dtype belong together"),
        ("bounds.0.case.collective", "allreduce", "bounds.0.case: unknown collective 'allreduce'; known: all_reduce, "),
        ("bounds.0.centre", True, "bounds.0.centre: true is a truth value in YAML, and such a file has none"),
        ("schema", 2, "schema: Input should be 1, not 2"),
        ("schema", True, "schema: true is a truth value in YAML"),
        ("schema", ABSENT, "'schema' is missing"),
        ("name", "", "name: String should have at least 1 character, not ''"),
        ("topology.sku", ABSENT, "'topology.sku' is missing"),
        ("topology.sku", "", "topology.sku: String should match pattern"),
        ("topology.sku", "../policy", "topology.sku: String should match pattern"),
        ("recorded.hosts", 0, "recorded.hosts: Input should be greater than or equal to 1, not 0"),
        ("recorded.at", "yesterday", "recorded.at: Input should be a valid datetime"),
        (
            "recorded.at",
            "2026-01-01T12:00:00",
            "recorded: 'at' needs a time zone, such as 2026-01-01T12:00:00+00:00",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, key: str, value: object, said: str) -> None:
    assert said in problem(tmp_path, key, value)


@pytest.mark.parametrize("at", ["2026-01-01T12:00:00Z", "2026-01-01T12:00:00+02:00"])
def test_a_time_with_its_zone_is_kept(tmp_path: Path, at: str) -> None:
    # As the file is written: unquoted, so YAML reads a time of its own.
    path = write(tmp_path, changed("recorded.at", at))
    path.write_text(path.read_text().replace(f"'{at}'", at))
    assert f"at: {at}" in path.read_text()
    recorded = load_baseline(path).recorded
    assert recorded is not None
    offset = recorded.at.utcoffset()
    assert offset is not None
    assert offset.total_seconds() == (7200 if "+02" in at else 0)


def test_a_time_without_its_zone_is_refused_unquoted_too(tmp_path: Path) -> None:
    path = write(tmp_path, SOUND)
    path.write_text(path.read_text().replace("'2026-01-01T00:00:00+00:00'", "2026-01-01T00:00:00"))
    with pytest.raises(BaselineError, match="'at' needs a time zone"):
        load_baseline(path)


def test_a_case_with_two_bounds_is_refused_with_both_lines(tmp_path: Path) -> None:
    content = copy.deepcopy(SOUND)
    again = copy.deepcopy(content["bounds"][0])
    again["case"]["size"] = 1 << 20  # the same size, written otherwise
    again["centre"] = 3.5
    content["bounds"].append(again)
    path = write(tmp_path, content)
    first, second = (n for n, row in enumerate(path.read_text().splitlines(), 1) if "metric: busbw" in row)
    wanted = (
        f"^{path}:{second}: busbw of all_reduce-1MiB-float32-ws2-gloo has a bound already on line {first}; leave one$"
    )
    with pytest.raises(BaselineError, match=wanted):
        load_baseline(path)


def test_bounds_that_differ_in_any_part_of_the_case_stand_together(tmp_path: Path) -> None:
    content = copy.deepcopy(SOUND)
    for change in ({"size": "2MiB"}, {"dtype": "bfloat16"}, {"world_size": 4}, {"backend": "nccl"}):
        other = copy.deepcopy(content["bounds"][0])
        other["case"].update(change)
        content["bounds"].append(other)
    assert len(load_baseline(write(tmp_path, content)).lines) == 6


def test_a_case_and_its_entry_have_one_key() -> None:
    entry = CaseEntry(collective="all_reduce", size=65536, dtype="float32", world_size=2, backend="gloo")
    bound = BoundEntry(
        metric="latency", case=entry, unit="us", better="lower", centre=1.0, spread=0.1, attempts=5, nodes=1
    )
    assert bound.key == case_key(case(size_bytes=65536))
    assert bound.key != case_key(case(size_bytes=131072))


@pytest.mark.parametrize(
    ("value", "digits", "rounded"),
    [(0.0, 5, 0.0), (123.4567, 5, 123.46), (0.0123456, 3, 0.0123), (123456.7, 3, 123000.0), (9.99996, 5, 10.0)],
)
def test_a_figure_is_rounded_to_its_significant_digits(value: float, digits: int, rounded: float) -> None:
    assert round_figure(value, digits) == rounded


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_rounding_a_figure_hardly_moves_it_and_only_once(value: float) -> None:
    rounded = round_figure(value)
    assert rounded == pytest.approx(value, rel=1e-4)
    assert round_figure(rounded) == rounded
