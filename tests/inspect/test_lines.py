"""Inspections as lines and as JSON: the verdict first, then every finding with its line and its source."""

from __future__ import annotations

import json
from dataclasses import replace

from gpuwire_checks.inspect.finding import Finding, Level, gravest
from gpuwire_checks.inspect.inspection import Inspection
from gpuwire_checks.inspect.lines import inspection_lines, inspections_json

FAULT = Finding(level=Level.FAIL, text="GPU1 has 3 of 4 NVLinks up", part="GPU1", line=7, against="reference test-4x")
DOUBT = Finding(level=Level.WARN, text="row GPU3 is cut", line=9)
GOOD = Finding(level=Level.PASS, text="2 of 2 ports are up")
FACT = Finding(level=Level.NOTE, text="4 GPUs, model unknown")


def made(*findings: Finding) -> Inspection:
    return Inspection(source="topo.txt", format="nvidia-smi topo -m", findings=findings)


def test_the_verdict_is_that_of_the_gravest_finding() -> None:
    assert inspection_lines(made(FAULT, DOUBT, GOOD, FACT)) == [
        "FAIL topo.txt (nvidia-smi topo -m): GPU1 has 3 of 4 NVLinks up",
        "             line 7, against reference test-4x",
        "  WARN       row GPU3 is cut (line 9)",
        "  PASS       2 of 2 ports are up",
        "  NOTE       4 GPUs, model unknown",
    ]


def test_a_finding_without_line_and_source_has_no_tail() -> None:
    assert inspection_lines(made(GOOD, FACT)) == [
        "PASS topo.txt (nvidia-smi topo -m): 2 of 2 ports are up",
        "  NOTE       4 GPUs, model unknown",
    ]


def test_facts_alone_pass_and_the_first_is_in_the_verdict() -> None:
    assert inspection_lines(made(FACT, replace(FACT, text="NICs: none listed"))) == [
        "PASS topo.txt (nvidia-smi topo -m): 4 GPUs, model unknown",
        "  NOTE       NICs: none listed",
    ]


def test_without_a_finding_there_is_a_line_all_the_same() -> None:
    assert inspection_lines(made()) == ["PASS topo.txt (nvidia-smi topo -m): nothing to say of it"]


def test_many_notes_are_counted_and_no_other_finding_is_left_out() -> None:
    doubts = [Finding(level=Level.WARN, text=f"doubt {number}") for number in range(60)]
    notes = [Finding(level=Level.NOTE, text=f"note {number}") for number in range(43)]
    lines = inspection_lines(made(*doubts, *notes))
    assert sum("doubt" in line for line in lines) == 60
    assert sum(" note " in line for line in lines[:-1]) == 40
    assert lines[-1] == "  ... and 3 more notes (--json has them all)"


def test_levels_in_the_order_of_their_gravity() -> None:
    each = [Finding(level=level, text=level.value) for level in Level]
    assert [gravest(each[at:]) for at in range(5)] == list(Level)[:5]
    assert gravest([FACT]) is gravest([]) is Level.PASS


def test_json_has_each_file_and_everything_said_of_it() -> None:
    first, second = json.loads(inspections_json([made(FAULT, FACT), made(GOOD)]))
    assert (first["source"], first["format"], first["level"]) == ("topo.txt", "nvidia-smi topo -m", "FAIL")
    assert first["findings"][0] == {
        "level": "FAIL",
        "text": "GPU1 has 3 of 4 NVLinks up",
        "part": "GPU1",
        "line": 7,
        "against": "reference test-4x",
    }
    assert first["findings"][1]["part"] is first["findings"][1]["line"] is None
    assert second["level"] == "PASS"


def test_json_of_no_file_is_an_empty_array() -> None:
    assert json.loads(inspections_json([])) == []
