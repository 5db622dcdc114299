"""``run.json``: valid after every write, nothing lost to a full disk or a kill, and as its schema says."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from report_builders import ENDING, hardware, head, measured, nothing_measured, result, verdict
from topologies import cpu_node, gpu_node

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.records import Mismatch, Outcome
from gpuwire_checks.report.document import RunDocument, RunFile, run_json_schema
from gpuwire_checks.report.reading import read_run
from gpuwire_checks.topology.model import Unread
from gpuwire_checks.topology.snapshot import allowed_environment

ROOT = Path(__file__).parents[2]
SCHEMA_FILE = ROOT / "docs" / "run.schema.json"


def on_disk(folder: Path) -> list[str]:
    """Node ids in the file, read as any program would read it."""
    return [entry["nodeid"] for entry in json.loads((folder / "run.json").read_bytes())["results"]]


class Disk:
    """Stands for ``os.pwrite`` on a disk with room for ``room`` bytes a file: it takes what fits, then refuses."""

    def __init__(self) -> None:
        self.room: float = math.inf
        self.writes: list[int] = []
        self._pwrite = os.pwrite

    def pwrite(self, file: int, data: bytes, offset: int) -> int:
        self.writes.append(len(data))
        fits = data[: max(0, int(min(self.room, 1 << 40)) - offset)]
        if not fits:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._pwrite(file, fits, offset)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(os, "pwrite", disk.pwrite)
    return disk


def test_is_a_whole_document_before_the_first_result_and_after_every_one(tmp_path: Path) -> None:
    document = RunDocument.start(tmp_path / "run", head())
    assert on_disk(tmp_path / "run") == []
    for count in range(1, 4):
        document.append(result(nodeid=f"n{count}"))
        assert on_disk(tmp_path / "run") == [f"n{i + 1}" for i in range(count)]
    document.finish(ENDING)
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["ending"]["exit_status"] == 1
    assert document.trouble is None


def test_everything_comes_back(tmp_path: Path) -> None:
    results = (
        result(verdict(slowest_rank=1), attempts=(measured(), measured(seconds=math.pi))),
        result(
            verdict(Outcome.WRONG, centre=None),
            attempts=(
                replace(measured(), mismatches=(Mismatch(rank=1, index=7, expected="5", got="nan", count=1, total=9),)),
            ),
        ),
        result(nothing_measured(Outcome.NOT_RUN)),
        result(hardware(Outcome.MISSING, "GPU3", "GPU3 is not there")),
    )
    begun = head(topology=gpu_node(), environment={"NCCL_DEBUG": "INFO"})
    document = RunDocument.start(tmp_path, begun)
    for each in results:
        document.append(each)
    assert read_run(tmp_path) == RunFile(run=begun, results=results)
    document.finish(ENDING)
    assert read_run(tmp_path / "run.json") == RunFile(run=begun, results=results, ending=ENDING)


def test_what_could_not_be_read_of_the_node_does_not_come_back_as_a_name(tmp_path: Path) -> None:
    node = replace(cpu_node(), hostname=Unread.NO_PERMISSION, memory_bytes=Unread.UNKNOWN, virtualised=Unread.UNKNOWN)
    RunDocument.start(tmp_path, head(topology=node))
    topology = read_run(tmp_path).run.topology
    assert topology.hostname is Unread.NO_PERMISSION
    assert topology.memory_bytes is Unread.UNKNOWN
    assert topology.virtualised is Unread.UNKNOWN
    assert topology.software.driver is None
    assert not isinstance(topology.source, Unread)


def test_an_append_writes_once_and_no_more_than_its_result(tmp_path: Path, disk: Disk) -> None:
    document = RunDocument.start(tmp_path, head())
    each = result(attempts=(measured(samples=200),))
    for _ in range(50):
        document.append(each)
    assert len(disk.writes) == 51
    assert len(set(disk.writes[1:])) == 1


def test_a_figure_that_is_no_number_is_valid_json_and_comes_back(tmp_path: Path) -> None:
    document = RunDocument.start(tmp_path, head())
    document.append(
        result(verdict(value=math.inf), attempts=(replace(measured(), pipelined=((math.nan, 1.0), (1.0, -math.inf))),))
    )
    text = (tmp_path / "run.json").read_text()
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    back = read_run(tmp_path).results[0]
    assert back.verdict.value == math.inf
    assert math.isnan(back.attempts[0].pipelined[0][0])
    assert back.attempts[0].pipelined[1] == (1.0, -math.inf)


def test_names_that_are_not_utf8_come_back(tmp_path: Path) -> None:
    odd = os.fsdecode(b"/site/gr\xfcn")
    begun = head(environment={"NCCL_TOPO_FILE": odd}, command=("gpuwire", odd))
    document = RunDocument.start(tmp_path, begun)
    document.append(result(verdict(reason=f"no bound ({odd})")))
    kept = read_run(tmp_path)
    assert kept.run == begun
    assert kept.results[0].verdict.reason == f"no bound ({odd})"


def test_only_variables_of_the_allow_list_are_kept() -> None:
    kept = {f"{prefix}_X": "1" for prefix in ("NCCL", "RCCL", "TORCH", "CUDA", "HIP", "ROCR", "GLOO", "OMP")}
    others = {"AWS_SECRET_ACCESS_KEY": "x", "MY_NCCL_KEY": "x", "PATH": "/bin", "NCCLX": "x", "nccl_debug": "x"}
    assert allowed_environment({**others, **kept}) == kept


KILLED = """
import sys
from pathlib import Path
from report_builders import head, measured, result
from gpuwire_checks.report.document import RunDocument

document = RunDocument.start(Path(sys.argv[1]), head())
each = result(attempts=(measured(samples=400),))
for count in range(1, 2000):
    document.append(each)
    print(count, flush=True)
"""


@pytest.mark.parametrize("after", [1, 7, 40])
def test_a_killed_run_keeps_every_result_that_it_had(tmp_path: Path, after: int) -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "run")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    ) as child:
        assert child.stdout is not None
        for _ in range(after):
            child.stdout.readline()
        child.kill()
        told = [after, *(int(line) for line in child.stdout if line.endswith(b"\n"))][-1]
    kept = read_run(tmp_path / "run")
    assert kept.ending is None
    assert told <= len(kept.results) <= told + 1
    assert all(each == kept.results[0] for each in kept.results)


def every_kill_within(old: bytes, new: bytes) -> Iterator[bytes]:
    """What is in the file when a process is killed within the write that makes ``new`` of ``old``.

    After each of the first bytes, which stand beside what is left of the old brackets, and after every 13th from there.
    """
    start = next(at for at, (before, after) in enumerate(zip(old, new, strict=False)) if before != after)
    for count in (*range(start, start + 20), *range(start + 20, len(new), 13), len(new) - 1):
        yield new[:count] + old[count:]


def test_a_kill_within_a_write_costs_no_more_than_what_was_being_written(tmp_path: Path) -> None:
    document, file = RunDocument.start(tmp_path, head()), tmp_path / "run.json"
    for before in range(3):
        old = file.read_bytes()
        document.append(result(nodeid=f"n{before}"))
        new = file.read_bytes()
        for killed in every_kill_within(old, new):
            file.write_bytes(killed)
            kept = [each.nodeid for each in read_run(file).results]
            assert kept in ([f"n{i}" for i in range(before)], [f"n{i}" for i in range(before + 1)])
        file.write_bytes(new)
    old = file.read_bytes()
    document.finish(ENDING)
    for killed in every_kill_within(old, file.read_bytes()):
        file.write_bytes(killed)
        assert [each.nodeid for each in read_run(file).results] == ["n0", "n1", "n2"]


def test_a_full_disk_costs_nothing_once_there_is_room_again(tmp_path: Path, disk: Disk) -> None:
    document = RunDocument.start(tmp_path, head())
    document.append(result(nodeid="n1"))
    size = (tmp_path / "run.json").stat().st_size
    for room, nodeid in ((size, "n2"), (size + 50, "n3"), (0, "n4")):
        disk.room = room
        document.append(result(nodeid=nodeid))
        assert document.trouble == f"{tmp_path}/run.json: No space left on device"
        if room:
            assert on_disk(tmp_path) == ["n1"]
    disk.room = math.inf
    document.append(result(nodeid="n5"))
    assert document.trouble is None
    assert on_disk(tmp_path) == ["n1", "n2", "n3", "n4", "n5"]


def test_an_ending_that_finds_no_room_leaves_the_results_whole(tmp_path: Path, disk: Disk) -> None:
    document = RunDocument.start(tmp_path, head())
    document.append(result(nodeid="n1"))
    disk.room = (tmp_path / "run.json").stat().st_size + 5
    document.finish(ENDING)
    assert document.trouble is not None
    assert on_disk(tmp_path) == ["n1"]
    disk.room = math.inf
    document.finish(ENDING)
    assert document.trouble is None
    assert read_run(tmp_path).ending == ENDING


def test_a_disk_that_takes_a_little_at_a_time_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, offset: pwrite(file, data[:100], offset))
    document = RunDocument.start(tmp_path, head())
    document.append(result(nodeid="n1"))
    document.finish(ENDING)
    assert document.trouble is None
    assert read_run(tmp_path).ending == ENDING


def test_a_document_that_somebody_removes_is_told_and_not_begun_anew_half_way(tmp_path: Path) -> None:
    document = RunDocument.start(tmp_path, head())
    document.append(result())
    (tmp_path / "run.json").unlink()
    document.append(result())
    assert document.trouble == f"{tmp_path}/run.json: No such file or directory"
    assert not (tmp_path / "run.json").exists()


def test_a_run_folder_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as in_a_file:
        RunDocument.start(tmp_path / "file", head())
    assert str(in_a_file.value) == (
        f"cannot write the run document {tmp_path}/file/run.json: Not a directory;"
        " choose another folder with --gpuwire-run-dir"
    )
    with pytest.raises(ConfigError, match=r"below: Not a directory; choose another folder"):
        RunDocument.start(tmp_path / "file" / "below", head())


def test_a_folder_that_is_read_only_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: Path, mode: int = 0o666, exist_ok: bool = True) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "touch", read_only)
    with pytest.raises(
        ConfigError, match=r"run\.json: Read-only file system; choose another folder with --gpuwire-run"
    ):
        RunDocument.start(tmp_path, head())


def test_a_disk_that_is_full_at_the_start_says_what_to_do_and_leaves_nothing(tmp_path: Path, disk: Disk) -> None:
    disk.room = 100
    with pytest.raises(ConfigError, match=r"run\.json: No space left on device; choose another folder with --gpuwire"):
        RunDocument.start(tmp_path, head())
    assert list(tmp_path.iterdir()) == []


def test_another_run_s_document_is_never_written_over(tmp_path: Path) -> None:
    RunDocument.start(tmp_path, head()).append(result(nodeid="n1"))
    with pytest.raises(ConfigError, match=r"run\.json: File exists; choose another folder with --gpuwire-run-dir"):
        RunDocument.start(tmp_path, head())
    assert on_disk(tmp_path) == ["n1"]


def test_the_published_schema_is_that_of_the_code() -> None:
    text = json.dumps(run_json_schema(), indent=1) + "\n"
    assert SCHEMA_FILE.read_text() == text, (
        "docs/run.schema.json is out of date; python -m gpuwire_checks.report.document > docs/run.schema.json"
    )


def test_documents_validate_against_the_published_schema(tmp_path: Path) -> None:
    schema = json.loads(SCHEMA_FILE.read_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    document = RunDocument.start(tmp_path, head(topology=gpu_node(), baseline=None))
    for each in (result(attempts=(measured(),)), result(hardware(Outcome.MISSING, "GPU3", "GPU3 is not there"))):
        document.append(each)
        validator.validate(json.loads((tmp_path / "run.json").read_bytes()))
    document.finish(ENDING)
    data = json.loads((tmp_path / "run.json").read_bytes())
    validator.validate(data)
    del data["results"][0]["verdict"]["outcome"]
    assert [error.message for error in validator.iter_errors(data)] == ["'outcome' is a required property"]
