"""A pool whose ranks fail: each failure names the rank, ends what was started, and the next case is measured."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from gloo import case, spec

from gpuwire_checks.errors import MeasurementError
from gpuwire_checks.measure.faults import Fault
from gpuwire_checks.measure.launch import local
from gpuwire_checks.measure.pool import Pool
from gpuwire_checks.measure.ranks import Deadlines, Ranks

SHORT = Deadlines(start_seconds=60, floor_seconds=3, factor=1)


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def test_a_rank_that_ends_is_named_with_its_status_and_the_next_case_runs(folder: Path) -> None:
    before = children()
    ranks = Ranks(
        spec(), folder=folder, deadlines=Deadlines(), fault=Fault(kind="exit", rank=1, collective="broadcast")
    )
    with pytest.raises(
        MeasurementError, match=r"rank 1 ended with status 17 while measure_collective broadcast.*log: "
    ):
        ranks.measure(case("broadcast"))
    assert children() == before
    assert ranks.measure(case("all_reduce")).mismatches == ()
    ranks.close()
    assert children() == before


def test_a_rank_that_hangs_is_named_within_the_deadline(folder: Path) -> None:
    before = children()
    ranks = Ranks(spec(), folder=folder, deadlines=SHORT, fault=Fault(kind="hang", rank=1, collective="broadcast"))
    ranks.wait_ready()
    start = time.monotonic()
    with pytest.raises(MeasurementError, match=r"did not answer within 3 s while measure_collective broadcast"):
        ranks.measure(case("broadcast"))
    assert time.monotonic() - start < 15
    assert children() == before
    assert ranks.measure(case("all_reduce")).mismatches == ()
    ranks.close()


def test_a_rank_that_is_stopped_is_told_from_those_that_wait_for_it(folder: Path) -> None:
    before = children()
    ranks = Ranks(spec(), folder=folder, deadlines=SHORT)
    ranks.wait_ready()
    (stopped,) = (pid for pid in children() - before if psutil.Process(pid).environ().get("RANK") == "1")
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(
        MeasurementError, match=r"rank 0, 1 did not answer within 3 s .*; rank 1 is stopped \(SIGSTOP\)"
    ):
        ranks.measure(case())
    assert children() == before
    assert ranks.measure(case()).mismatches == ()
    ranks.close()


def test_a_missing_backend_is_one_clear_line(folder: Path) -> None:
    ranks = Ranks(spec(backend="nosuch"), folder=folder, deadlines=Deadlines())
    with pytest.raises(MeasurementError, match=r"rank \d .*this torch \(.*\) has no backend nosuch"):
        ranks.wait_ready()
    ranks.close()


def test_two_failed_starts_in_a_row_are_not_tried_a_third_time(folder: Path) -> None:
    ranks = Ranks(spec(backend="nosuch"), folder=folder, deadlines=Deadlines())
    for _ in range(2):
        with pytest.raises(MeasurementError):
            ranks.measure(case())
    start = time.monotonic()
    with pytest.raises(MeasurementError, match=r"ranks could not be started twice in a row: .*no backend nosuch"):
        ranks.measure(case())
    assert time.monotonic() - start < 0.1


def test_a_port_taken_in_between_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((local.LOOPBACK, 0)) as taken:
        monkeypatch.setattr(local, "free_port", lambda: taken.getsockname()[1])
        ranks = Ranks(spec(), folder=folder, deadlines=Deadlines(start_seconds=30))
        with pytest.raises(MeasurementError, match=r"rank 0 ended with status 1 while joining the process group"):
            ranks.wait_ready()
    monkeypatch.undo()
    assert ranks.measure(case()).mismatches == ()
    ranks.close()


def test_an_interpreter_that_cannot_start_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(folder / "no-python"))
    with pytest.raises(MeasurementError, match=r"rank 0 of 2 could not be started: .*No such file"):
        Ranks(spec(), folder=folder, deadlines=Deadlines()).wait_ready()


def test_a_stranger_on_the_control_port_is_not_listened_to(folder: Path) -> None:
    pool = Pool(spec(), folder=folder)
    try:
        with socket.create_connection(pool.control) as stranger:
            stranger.sendall(b'{"event": "ready", "rank": 0, "software": {}}\n')
            pool.wait_ready(seconds=60)
            stranger.settimeout(5)
            assert stranger.recv(1) == b""
    finally:
        pool.close()


def test_the_log_of_a_rank_is_kept(folder: Path) -> None:
    ranks = Ranks(spec(backend="nosuch"), folder=folder, deadlines=Deadlines())
    with pytest.raises(MeasurementError):
        ranks.wait_ready()
    assert "has no backend nosuch" in (folder / "rank-0.log").read_text()


def test_ranks_do_not_outlive_a_driver_that_was_killed(folder: Path) -> None:
    script = (
        "import sys, os, signal, time\n"
        "from pathlib import Path\n"
        "from gloo import spec\n"
        "from gpuwire_checks.measure.pool import Pool\n"
        "pool = Pool(spec(), folder=Path(sys.argv[1]))\n"
        "pool.wait_ready(seconds=60)\n"
        "print(*[rank.process.pid for rank in pool.ranks], flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as driver:
        assert driver.stdout is not None
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        driver.kill()
    assert len(pids) == 2
    deadline = time.monotonic() + 10
    while any(psutil.pid_exists(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(psutil.pid_exists(pid) for pid in pids)
