"""A snapshot that was edited, cut or made up: read as it was written, or refused with the reason."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from wired import hgx_node

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.snapshot import Snapshot, looks_like_snapshot, read_snapshot, snapshot_text

NODE = hgx_node()
TEXT = snapshot_text(Snapshot(gpuwire="0", taken_at="2026-01-01", topology=NODE, environment={}))
GPU = json.loads(TEXT)["topology"]["gpus"][0]
HEAD = '{"gpuwire_snapshot": 1, "topology": '


def edited(*path: Any, value: Any) -> str:
    """The snapshot with the value at a path in its topology replaced."""
    document = json.loads(TEXT)
    inside = document["topology"]
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return json.dumps(document)


def refusal(text: str) -> str:
    assert looks_like_snapshot(text)
    begin = time.process_time()
    with pytest.raises(TopologyError) as caught:
        read_snapshot(text, source="node.json")
    assert time.process_time() - begin < 1
    return str(caught.value)


def test_a_snapshot_is_read_as_it_was_written() -> None:
    assert read_snapshot(TEXT, source="live") == NODE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"gpuwire_snapshot": 2}', "node.json:1: a snapshot of schema 2; this gpuwire reads 1: take it anew"),
        ('{"gpuwire_snapshot": "1"}', "a snapshot of schema '1'"),
        ('{"gpuwire_snapshot": [1]}', r"a snapshot of schema \[1\]"),
        ('{"gpuwire_snapshot": 1}', "node.json:1: topology: "),
        (HEAD + "[]}", "node.json:1: topology: "),
        (TEXT[:3000], r"node.json:\d{2,}: a snapshot that was cut, or is no JSON: .*; take it anew"),
        (HEAD + "[" * 100_000, "nested too deeply to be a snapshot; take it anew"),
        (HEAD + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        (HEAD + '{"a":' * 100_000, "nested too deeply"),
        (HEAD + "1" * 1_000_000 + "}", "no snapshot as it was written: a number of 1000000 digits; take it anew"),
        (HEAD + "NaN}", "NaN is no number that was measured"),
        (HEAD + "-Infinity}", "-Infinity is no number that was measured"),
        (HEAD + "1e999}", "1e999 is no number that was measured"),
        (HEAD + "[" + "1," * 6_000_000, "more than 500000 values, so no snapshot of a node"),
        (HEAD + "[" + "{}," * 4_000_000, "more than 500000 values"),
        (HEAD + '"' + "\\" * 5_000_000, "cut, or is no JSON"),
        (TEXT.replace('"hostname"', '"hostname": "other", "hostname"', 1), "'hostname' is stated twice in one object"),
    ],
    ids=[
        "newer", "a word", "a list", "no node", "a list as node", "cut", "deep lists", "deep closed lists",
        "deep objects", "digits", "NaN", "Infinity", "1e999", "numbers", "objects", "backslashes", "a key twice",
    ],
)  # fmt: skip
def test_what_gpuwire_did_not_write_is_refused(text: str, says: str) -> None:
    message = refusal(text)
    assert re.search(says, message), message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (edited("gpus", 0, "index", value="one"), "gpus.0.index: .*; take the snapshot anew"),
        (edited("gpus", 0, "index", value=1), "GPU1 is listed twice; take the snapshot anew"),
        (edited("paths", 0, "path", value="NV" + "9" * 5000), "the path GPU0-GPU1 is 'NV99999999999999'"),
        (edited("gpus", value=[{**GPU, "index": number} for number in range(1000)]), "1000 gpus, and no node has more"),
        (edited("doubts", value=[{"line": 1, "text": "x"}] * 6000), "6000 doubts, and no node has more than 5000"),
    ],
    ids=["a type", "a GPU twice", "a path", "GPUs", "doubts"],
)
def test_a_node_that_none_can_be_is_refused(text: str, says: str) -> None:
    message = refusal(text)
    assert re.search(says, message), message
