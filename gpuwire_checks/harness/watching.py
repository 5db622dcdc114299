"""What the wires show while they carry data: counters before and after each case, PCIe links during it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from gpuwire_checks.harness.trial import Measures
from gpuwire_checks.records import Case, Measurement, SeenDevice
from gpuwire_checks.topology.model import CounterValue, Pcie, Unread
from gpuwire_checks.wiring.held import Growth, Watched

_LOOKS_APART_SECONDS = 0.05
"""Between two looks at PCIe links: a generation rises within a millisecond of traffic and drops a second after it."""


class Watcher(Protocol):
    """Reads what changes under load: a vendor's library and sysfs, or a fake."""

    def counters(self) -> tuple[CounterValue, ...]:
        """Every counter of GPUs, their links, and NICs."""
        ...

    def pcie(self) -> Mapping[str, Pcie]:
        """Of each GPU by name, its PCIe link at this moment; empty where there is none."""
        ...

    def close(self) -> None:
        """Let go of what was opened for it."""
        ...


class Watch:
    """Keeps what was seen, case by case."""

    def __init__(self, watcher: Watcher, *, has_gpus: bool) -> None:
        self._watcher = watcher
        self._has_gpus = has_gpus
        self._seconds = 0.0
        self._pcie: dict[str, Pcie] = {}
        self._growth: list[Growth] = []
        self._counted: set[str] = set()

    @property
    def watched(self) -> Watched:
        return Watched(
            seconds=self._seconds,
            pcie=dict(self._pcie),
            growth=tuple(self._growth),
            counted=frozenset(self._counted),
        )

    def close(self) -> None:
        self._watcher.close()

    @contextmanager
    def window(self, case: str) -> Iterator[None]:
        """Look before, during and after what is measured within."""
        before = self._read()
        start = time.perf_counter()
        with self._looks():
            yield
        seconds = time.perf_counter() - start
        self._seconds += seconds
        after = self._read()
        self._counted |= {part for part, _ in before.keys() & after.keys()}
        self._growth += [
            Growth(part=part, counter=counter, grown=after[part, counter] - value, case=case, seconds=seconds)
            for (part, counter), value in before.items()
            if after.get((part, counter), value) > value
        ]

    def _read(self) -> dict[tuple[str, str], int]:
        return {
            (counter.part, counter.name): counter.value
            for counter in self._watcher.counters()
            if not isinstance(counter.value, Unread)
        }

    @contextmanager
    def _looks(self) -> Iterator[None]:
        """Look at PCIe links from a thread of its own, as this one waits for the ranks; no thread without a GPU."""
        if not self._has_gpus:
            yield
            return
        done = threading.Event()
        thread = threading.Thread(target=self._look_until, args=(done,), name="gpuwire-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _look_until(self, done: threading.Event) -> None:
        while True:
            for name, link in self._watcher.pcie().items():
                self._pcie[name] = _higher(self._pcie.get(name), link)
            if done.wait(_LOOKS_APART_SECONDS):
                return


class WatchedRanks:
    """Ranks, watched while they measure."""

    def __init__(self, ranks: Measures, watch: Watch) -> None:
        self._ranks = ranks
        self._watch = watch

    @property
    def software(self) -> Mapping[str, str]:
        return self._ranks.software

    @property
    def devices(self) -> tuple[SeenDevice, ...] | None:
        return self._ranks.devices

    def start(self) -> None:
        self._ranks.start()

    def wait_ready(self) -> None:
        self._ranks.wait_ready()

    def measure(self, case: Case, *, fresh: bool = False) -> Measurement:
        self._ranks.wait_ready()  # start-up is no traffic
        with self._watch.window(case.id):
            return self._ranks.measure(case, fresh=fresh)

    def close(self) -> None:
        self._ranks.close()


def _higher(seen: Pcie | None, now: Pcie) -> Pcie:
    """The highest generation seen, with the width it had."""
    if seen is None or isinstance(seen.generation, Unread):
        return now
    if isinstance(now.generation, Unread) or now.generation < seen.generation:
        return seen
    return now
