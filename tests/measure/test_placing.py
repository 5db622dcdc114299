"""Threads are put where they belong, and only those that are known by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuwire_checks.measure import placing


@pytest.fixture
def bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """A made-up process with four threads, and what they were bound to."""
    for thread, name in ((1, "python"), (2, "gloo_tcp_loop"), (3, "pt_gloo_runloop"), (4, "pt_tcpstore_uv")):
        (tmp_path / str(thread)).mkdir()
        (tmp_path / str(thread) / "comm").write_text(f"{name}\n")
    calls: dict[int, list[int]] = {}
    monkeypatch.setattr(placing, "_TASKS", tmp_path)
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cpus: calls.__setitem__(thread, list(cpus)))
    return calls


def test_the_event_loop_is_kept_from_the_threads_that_issue_calls(bound: dict[int, list[int]]) -> None:
    placing.separate_gloo_threads(main_cpus=[0], loop_cpus=[1])
    assert bound == {0: [0], 2: [1], 3: [0]}


@pytest.mark.parametrize(("main_cpus", "loop_cpus"), [([], []), ([0], []), ([], [1])])
def test_with_nowhere_to_put_them_they_stay(
    bound: dict[int, list[int]], main_cpus: list[int], loop_cpus: list[int]
) -> None:
    placing.separate_gloo_threads(main_cpus=main_cpus, loop_cpus=loop_cpus)
    assert bound == {}


def test_a_thread_that_has_ended_in_between_is_no_error(
    bound: dict[int, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(thread: int, cpus: list[int]) -> None:
        if thread:
            raise ProcessLookupError

    monkeypatch.setattr(os, "sched_setaffinity", gone)
    placing.separate_gloo_threads(main_cpus=[0], loop_cpus=[1])


def test_a_process_without_cpus_of_its_own_is_left_alone(bound: dict[int, list[int]]) -> None:
    placing.bind_process([])
    assert bound == {}
