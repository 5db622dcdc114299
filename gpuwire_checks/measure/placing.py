"""Where the threads of a rank run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_TASKS = Path("/proc/self/task")
_GLOO_LOOP = "gloo_tcp_loop"
_GLOO_WORKERS = "pt_gloo_runloop"


def bind_process(cpus: Sequence[int]) -> None:
    """Run the calling thread, and threads it starts from now on, on these logical CPUs. Empty: leave as is."""
    if cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)


def separate_gloo_threads(*, main_cpus: Sequence[int], loop_cpus: Sequence[int]) -> None:
    """Put gloo's event loop on other CPUs than the threads that issue calls, this one among them.

    The loop takes a pair's lock by trying until it gets it. On the CPU of the thread that holds the lock it spins until
    the scheduler's next tick, 4 ms at 250 Hz, and a small call then takes 4 ms instead of 0.4, for seconds on end or
    not at all, as the scheduler happens to place the two. Apart, attempts at a small call differ by 10 % instead of a
    factor of ten (measured on two virtual CPUs, Linux 6.18).

    Threads are told by the names that gloo and torch give them; without those names nothing is moved.
    """
    if not (main_cpus and loop_cpus and _TASKS.is_dir()):
        return
    bind_process(main_cpus)
    for task in _TASKS.iterdir():
        name = _name(task)
        if name.startswith(_GLOO_LOOP):
            _bind(task, loop_cpus)
        elif name.startswith(_GLOO_WORKERS):
            _bind(task, main_cpus)


def _name(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except OSError:
        return ""  # the thread has ended in between


def _bind(task: Path, cpus: Sequence[int]) -> None:
    try:
        os.sched_setaffinity(int(task.name), cpus)
    except ProcessLookupError:
        return  # likewise
