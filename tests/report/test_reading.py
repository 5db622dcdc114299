"""Files that are no run document of ours: each message says what is wrong and what to give."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_builders import ENDING, head, result

from gpuwire_checks.errors import GpuwireError
from gpuwire_checks.report.document import RunDocument
from gpuwire_checks.report.reading import read_run

GIVE = "; give a run folder or the run.json in it"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A finished run of two results."""
    document = RunDocument.start(tmp_path / "run", head())
    document.append(result(nodeid="n1"))
    document.append(result(nodeid="n2"))
    document.finish(ENDING)
    return tmp_path / "run" / "run.json"


def told(path: Path) -> str:
    with pytest.raises(GpuwireError) as error:
        read_run(path)
    return str(error.value)


def test_nothing_there(tmp_path: Path) -> None:
    assert told(tmp_path) == f"cannot read {tmp_path}/run.json: No such file or directory{GIVE}"
    assert told(tmp_path / "gone") == f"cannot read {tmp_path}/gone: No such file or directory{GIVE}"


@pytest.mark.parametrize("data", [b"", b"gpuwire run", b"\xff\xfe\x00", b'{"run":{"schema":1,"gpuw', b"[" * 100_000])
def test_not_json_or_cut_before_the_first_result(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(data)
    text = told(file)
    assert text.startswith(f"{file} is not JSON, or was cut: ")
    assert text.endswith(f"{GIVE}, whole")


@pytest.mark.parametrize(
    "data", ["null", "3", "[]", "{}", '{"run": null}', '{"run": []}', '{"run": "x"}', '{"run": {}}', '{"results": []}']
)
def test_json_of_somebody_else(tmp_path: Path, data: str) -> None:
    file = tmp_path / "run.json"
    file.write_text(data)
    assert told(file) == f"{file} is JSON, but not a run document{GIVE}"


def changed(file: Path, change: Callable[[Any], object]) -> Path:
    data = json.loads(file.read_bytes())
    change(data)
    file.write_text(json.dumps(data))
    return file


def test_a_schema_of_another_time_names_the_version_that_reads_it(file: Path) -> None:
    changed(file, lambda data: data["run"].update(schema=2, gpuwire="9.1"))
    assert told(file) == (f"{file} has schema 2, and this gpuwire reads 1; read it with the gpuwire that wrote it, 9.1")


def test_a_changed_file_names_the_place(file: Path) -> None:
    changed(file, lambda data: data["results"][1]["verdict"].update(outcome="FINE"))
    text = told(file)
    assert text.startswith(f"{file} is not as gpuwire wrote it: results.1.verdict.outcome: Input should be 'PASS'")
    assert text.endswith(f"{GIVE}, unchanged")


def test_a_part_that_is_gone_is_named(file: Path) -> None:
    changed(file, lambda data: data.pop("results"))
    assert "not as gpuwire wrote it: results: Field required" in told(file)
    changed(file, lambda data: data["run"].pop("host"))
    assert "not as gpuwire wrote it: run.host: Field required" in told(file)


def test_damage_before_the_last_result_is_not_taken_for_a_kill(file: Path) -> None:
    text = file.read_text()
    file.write_text(text.replace('"nodeid":"n1"', '"nodeid":"n1', 1))
    assert "result 1 is damaged, and others follow it" in told(file)


def test_a_file_that_is_cut_after_a_result_reads_as_a_run_without_an_ending(file: Path) -> None:
    text = file.read_text()
    file.write_text(text[: text.index('"ending"')])
    kept = read_run(file)
    assert [each.nodeid for each in kept.results] == ["n1", "n2"]
    assert kept.ending is None


def test_what_a_later_gpuwire_adds_is_ignored(file: Path) -> None:
    changed(file, lambda data: data["results"][0].update(findings=["new"]))
    assert len(read_run(file).results) == 2
