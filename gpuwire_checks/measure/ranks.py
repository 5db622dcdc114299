"""The ranks of a session: a pool that is there when a case needs it, and a new one after a failure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from gpuwire_checks.errors import MeasurementError
from gpuwire_checks.measure.faults import Fault
from gpuwire_checks.measure.launch.local import PoolSpec
from gpuwire_checks.measure.pool import Pool
from gpuwire_checks.records import Case, Measurement, Mismatch, Samples, SeenDevice, SizeClass

# Shifts the check's data from attempt to attempt; any odd number that is not a size.
_SHIFT_STEP = 7919


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long ranks may take.

    Attributes:
        start_seconds: to import torch and join the process group.
        floor_seconds: for any job, however short its prediction.
        factor: of a case's predicted seconds.
    """

    start_seconds: float = 120.0
    floor_seconds: float = 20.0
    factor: float = 10.0

    def of(self, predicted_seconds: float) -> float:
        """Seconds after which a job that was predicted to take so long is given up."""
        return max(self.floor_seconds, self.factor * predicted_seconds)


class Ranks:
    """Measures cases on ranks that live as long as nothing goes wrong."""

    def __init__(
        self, spec: PoolSpec, *, folder: Path, deadlines: Deadlines | None = None, fault: Fault | None = None
    ) -> None:
        self._spec = spec
        self._folder = folder
        self.deadlines = deadlines or Deadlines()
        self._fault = fault
        self._pool: Pool | None = None
        self._ready = False
        self._failed_starts: list[str] = []
        self._attempts = 0
        self.software: Mapping[str, str] = {}
        self.devices: tuple[SeenDevice, ...] | None = None

    def start(self) -> None:
        """Start the ranks without waiting for them, so that they import torch while the driver goes on."""
        if self._pool is None:
            self._pool = Pool(self._spec, folder=self._folder)

    def measure(self, case: Case, *, fresh: bool = False) -> Measurement:
        """One attempt at a case. ``fresh`` takes a new process group first: an attempt independent of the last.

        Raises:
            MeasurementError: a rank ended or did not answer; the next call starts a new pool.
        """
        self.wait_ready()
        seconds = self.deadlines.of(case.predicted_seconds)
        if fresh:
            self._ask("renew", {}, seconds=seconds)
        self._attempts += 1
        started_at = datetime.now(timezone.utc).isoformat(timespec="microseconds")
        start = time.perf_counter()
        answers = self._ask("measure_collective", self._parameters(case), seconds=seconds)
        return assemble(
            case, answers, wall_seconds=time.perf_counter() - start, started_at=started_at, software=self.software
        )

    def wait_ready(self) -> None:
        """Have a pool whose ranks have all joined.

        Raises:
            MeasurementError: they could not be started; after two failures in a row, at once and for good.
        """
        if self._ready:
            return
        if len(self._failed_starts) >= 2:
            raise MeasurementError(f"ranks could not be started twice in a row: {self._failed_starts[-1]}")
        try:
            self.start()
            assert self._pool is not None
            seen = self._pool.wait_ready(seconds=self.deadlines.start_seconds)
            self.software, self.devices = seen.software, seen.devices
        except MeasurementError as error:
            self._failed_starts.append(str(error))
            self._discard()
            raise
        self._failed_starts.clear()
        self._ready = True

    def close(self) -> None:
        """End the ranks."""
        pool, self._pool, self._ready = self._pool, None, False
        if pool is not None:
            pool.close()

    def _ask(self, job: str, parameters: Mapping[str, Any], *, seconds: float) -> list[Any]:
        assert self._pool is not None
        try:
            return self._pool.ask(job, parameters, seconds=seconds)
        except MeasurementError:
            self._discard()
            raise

    def _discard(self) -> None:
        pool, self._pool, self._ready = self._pool, None, False
        if pool is not None:
            pool.kill()

    def _parameters(self, case: Case) -> dict[str, Any]:
        return {
            "collective": case.collective,
            "size_bytes": case.size_bytes,
            "dtype": case.dtype,
            "seconds": case.seconds,
            "gate": "per_call" if case.size_class is SizeClass.LATENCY else "pipelined",
            "shift": self._attempts * _SHIFT_STEP,
            "fault": self._fault.as_parameters() if self._fault else None,
        }


def assemble(
    case: Case,
    answers: Sequence[Mapping[str, Any]],
    *,
    wall_seconds: float,
    started_at: str,
    software: Mapping[str, str],
) -> Measurement:
    """The ranks' answers, by rank, as one measurement."""
    entered = [answer["entered"] for answer in answers]
    first = [min(together) for together in zip(*entered, strict=True)]
    return Measurement(
        case=case,
        moved_bytes=answers[0]["moved_bytes"],
        pipelined=_samples(answer["pipelined"] for answer in answers),
        per_call=_samples(answer["per_call"] for answer in answers),
        arrival_lag=_samples([e - f for e, f in zip(times, first, strict=True)] for times in entered),
        mismatches=tuple(Mismatch(**answer["mismatch"]) for answer in answers if answer["mismatch"]),
        checked_ranks=sum(bool(answer["checked"]) for answer in answers),
        calls_seconds=max(answer["calls_seconds"] for answer in answers),
        wall_seconds=wall_seconds,
        started_at=started_at,
        conditions={**software, **answers[0]["conditions"]},
    )


def _samples(of_ranks: Any) -> Samples:
    return tuple(tuple(float(second) for second in seconds) for seconds in of_ranks)
