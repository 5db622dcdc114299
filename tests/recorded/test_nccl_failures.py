"""Why a log has no figures, or no more: what the library, the launcher and the kernel say."""

from __future__ import annotations

import pytest
from nccl_logs import UNKNOWN, Made, fields, header, log, rank_line, row

from gpuwire_checks.recorded.model import CollectiveLog, Failure
from gpuwire_checks.recorded.nccl_text import looks_like_nccl_text, read_nccl_text

HEAD = f"{rank_line(0)}\n{rank_line(1)}\n#\n{header('current')}\n{row(Made(), 64)}\n"


def read(text: str) -> CollectiveLog:
    logs = read_nccl_text(text, source="pasted")
    assert len(logs) == 1
    return logs[0]


def failure(text: str) -> Failure:
    found = read(text).failure
    assert found is not None
    return found


SLOTS = """\
--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 24
slots that were requested by the application:

  /opt/nccl-tests/build/broadcast_perf

Either request fewer procs for your application, or make more slots
available for use.
"""


def test_mpirun_without_slots_started_nothing_and_names_the_program() -> None:
    assert looks_like_nccl_text(SLOTS)
    one = read(SLOTS)
    assert (one.collective, one.rows, one.ranks, one.ended) == ("broadcast", (), (), False)
    assert one.failure is not None
    assert (one.failure.kind, one.failure.line, one.failure.host) == ("launcher", 2, UNKNOWN)
    assert "to satisfy the 24 slots that were requested" in one.failure.text


@pytest.mark.parametrize(
    ("line", "kind", "text", "host", "where"),
    [
        (
            "kiln-3: Test NCCL failure common.cu:961 'unhandled system error / remote died'",
            "library",
            "Test NCCL failure common.cu:961 'unhandled system error / remote died'",
            "kiln-3",
            "common.cu:961",
        ),
        (
            "3: kiln-4: Test CUDA failure all_gather.cu:77 'out of memory'",
            "library",
            "Test CUDA failure all_gather.cu:77 'out of memory'",
            "kiln-4",
            "all_gather.cu:77",
        ),
        (
            "NCCL failure reduce.cu:95 'unhandled cuda error'",
            "library",
            "NCCL failure reduce.cu:95 'unhandled cuda error'",
            UNKNOWN,
            "reduce.cu:95",
        ),
        (
            " .. kiln-5 pid 88: Test failure common.cu:377",
            "library",
            "Test failure common.cu:377",
            "kiln-5",
            "common.cu:377",
        ),
        (
            "kiln-5: Test timeout (120s) common.cu:523",
            "library",
            "Test timeout (120s) common.cu:523",
            "kiln-5",
            "common.cu:523",
        ),
        (
            "kiln-6:88:99 [2] transport/net_ib.cc:94 NCCL WARN NET/IB : Got completion from peer with status=12",
            "library",
            "NCCL WARN NET/IB : Got completion from peer with status=12",
            "kiln-6",
            UNKNOWN,
        ),
        ("[kiln-7:88] *** Process received signal ***", "library", "Process received signal", UNKNOWN, UNKNOWN),
        (
            "srun: error: kiln-8: task 17: Exited with exit code 3",
            "launcher",
            "srun: error: kiln-8: task 17: Exited with exit code 3",
            "kiln-8",
            UNKNOWN,
        ),
        (
            "slurmstepd: error: *** STEP 8.0 ON kiln-9 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***",
            "launcher",
            "slurmstepd: error:  STEP 8.0 ON kiln-9 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT",
            "kiln-9",
            UNKNOWN,
        ),
        (
            "mpirun noticed that process rank 3 with PID 0 on node kiln-2 exited on signal 9 (Killed).",
            "launcher",
            "mpirun noticed that process rank 3 with PID 0 on node kiln-2 exited on signal 9 (Killed).",
            "kiln-2",
            UNKNOWN,
        ),
        (
            "Invalid number of GPUs: 8 requested but only 4 were found.",
            "launcher",
            "Invalid number of GPUs: 8 requested but only 4 were found.",
            UNKNOWN,
            UNKNOWN,
        ),
        (
            "[ERROR] The number of requested GPUs (8) is greater than the number available (6) on node (kiln-1)",
            "launcher",
            "The number of requested GPUs (8) is greater than the number available (6) on node (kiln-1)",
            "kiln-1",
            UNKNOWN,
        ),
        (
            "All nodes which are allocated for this job are already filled.",
            "launcher",
            "All nodes which are allocated for this job are already filled.",
            UNKNOWN,
            UNKNOWN,
        ),
        (
            "bash: line 1: ./all_reduce_perf: No such file or directory",
            "launcher",
            "bash: line 1: ./all_reduce_perf: No such file or directory",
            UNKNOWN,
            UNKNOWN,
        ),
        (
            "kernel: NVRM: Xid (PCI:0000:b3:00): 79, pid=88, GPU has fallen off the bus.",
            "lost",
            "kernel: NVRM: Xid (PCI:0000:b3:00): 79, pid=88, GPU has fallen off the bus.",
            UNKNOWN,
            UNKNOWN,
        ),
        (
            "Feb 03 04:05:06 kiln-4 kernel: NVRM: Xid (PCI:0000:b3:00): 79",
            "lost",
            "Feb 03 04:05:06 kiln-4 kernel: NVRM: Xid (PCI:0000:b3:00): 79",
            "kiln-4",
            UNKNOWN,
        ),
        (
            "kiln-4:1:1 [0] include/alloc.h:99 NCCL WARN Cuda failure 'GPU is lost'",
            "lost",
            "kiln-4:1:1 [0] include/alloc.h:99 NCCL WARN Cuda failure 'GPU is lost'",
            "kiln-4",
            UNKNOWN,
        ),
        ("NVRM: Xid (PCI:0000:b3:00): 31, pid=88", "library", "Xid (PCI:0000:b3:00): 31, pid=88", UNKNOWN, UNKNOWN),
    ],
)
def test_what_a_line_tells_of_a_failure(line: str, kind: str, text: str, host: str, where: str) -> None:
    one = failure(f"{HEAD}{line}\n")
    assert (one.line, one.kind, one.host, one.where) == (6, kind, host, where)
    assert " ".join(one.text.split()) == " ".join(text.split()) or one.text.startswith(text)


def test_the_source_file_of_an_error_names_the_collective() -> None:
    text = f"{header('oldest')}\nNCCL failure broadcast.cu:95 'unhandled cuda error'\n"
    assert read(text).collective == "broadcast"


def test_the_gravest_line_is_the_failure_whatever_comes_first() -> None:
    text = (
        f"{HEAD}srun: error: kiln-8: task 1: Exited with exit code 3\n"
        "kiln-3: Test NCCL failure common.cu:961 'unhandled cuda error'\n"
        " .. kiln-3 pid 88: Test failure common.cu:377\n"
    )
    assert (failure(text).line, failure(text).kind) == (7, "library")
    lost = text + "NVRM: Xid (PCI:0000:b3:00): 79, GPU has fallen off the bus.\n"
    assert failure(lost).kind == "lost"


def test_a_failure_in_the_middle_of_a_row_cuts_it() -> None:
    words = "  ".join(fields(Made(), 1 << 20)[:5])
    one = read(f"{HEAD}{words}kiln-3: Test NCCL failure common.cu:961 'unhandled cuda error'\n")
    assert (one.cut_at, len(one.rows)) == (6, 2)
    assert one.failure is not None
    assert (one.failure.host, one.failure.line) == ("kiln-3", 6)


def test_a_warning_or_an_exit_status_after_a_whole_run_is_no_failure() -> None:
    whole = log(Made())
    late = "kiln-3:1:1 [0] misc/socket.cc:1 NCCL WARN socket closed\nsrun: error: kiln-8: task 1: Exited\n"
    assert read(whole + late).failure is None
    assert read(whole).failure is None


def test_a_failure_after_a_whole_run_is_of_the_next_one() -> None:
    first, second = read_nccl_text(f"{log(Made())}{SLOTS}", source="pasted")
    assert (first.failure, second.rows, second.collective) == (None, (), "broadcast")
    assert second.failure is not None
    assert second.failure.kind == "launcher"


def test_a_failed_run_is_followed_by_another() -> None:
    options = "# nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: 2(factor) validation: 1\n"
    text = f"{options}kiln-3: Test NCCL failure common.cu:961 'x'\n{log(Made())}"
    failed, good = read_nccl_text(text, source="pasted")
    assert failed.failure is not None
    assert (good.failure, good.ended, good.first_line) == (None, True, 3)


@pytest.mark.parametrize(
    "line",
    [
        "# step timeouts are set to 30 s",
        "NCCL_IB_TIMEOUT=22",
        "the failure rate of this rack is low",
        "kiln-3:1:1 [0] NCCL INFO Test NCCL failure mode off",
        "signal strength 12",
    ],
)
def test_other_lines_are_no_failure(line: str) -> None:
    assert read(f"{HEAD}{line}\n").failure is None


def test_many_failures_keep_the_first() -> None:
    text = HEAD + "".join(f"kiln-{number}: Test NCCL failure common.cu:961 'x'\n" for number in range(5000))
    assert failure(text).host == "kiln-0"
