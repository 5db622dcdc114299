"""Ranks that answer from a script: what the suite makes of figures, without taking any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.errors import MeasurementError
from gpuwire_checks.records import LATENCY, Case, Measurement, Mismatch, SeenDevice
from gpuwire_checks.topology.model import CounterValue, NodeTopology, Pcie, Unread

Script = Callable[[Case, int], "float | Mismatch | str"]
"""From a case and the number of the attempt at it (from 0): a figure in the case's unit, a wrong result, or a reason
why it could not be measured."""


class FakeRanks:
    """Stands for ranks on a node. ``figure`` is asked for every attempt."""

    def __init__(self, figure: Script, *, slow_rank: int | None = None, devices: tuple[SeenDevice, ...] = ()) -> None:
        self.software: Mapping[str, str] = {"torch": "2.13.0"}
        self.devices = devices
        self._figure = figure
        self._slow_rank = slow_rank
        self._attempts: dict[Case, int] = {}

    def start(self) -> None:
        """Nothing to start."""

    def wait_ready(self) -> None:
        """Always ready."""

    def close(self) -> None:
        """Nothing to end."""

    def measure(self, case: Case, *, fresh: bool = False) -> Measurement:
        attempt = self._attempts.get(case, 0)
        self._attempts[case] = attempt + 1
        answer = self._figure(case, attempt)
        if isinstance(answer, str):
            raise MeasurementError(answer)
        wrong = (answer,) if isinstance(answer, Mismatch) else ()
        return measurement(case, 1.0 if isinstance(answer, Mismatch) else answer, wrong, slow_rank=self._slow_rank)


def seen_by_torch(node: NodeTopology) -> tuple[SeenDevice, ...]:
    """Every GPU of a node, as a framework that agrees with the driver sees it."""
    return tuple(
        SeenDevice(model=str(gpu.model), uuid=str(gpu.uuid).removeprefix("GPU-"), pci_address=str(gpu.pci_address))
        for gpu in node.gpus
    )


class FakeWires:
    """Stands for what is read while cases are measured: every GPU reaches its generation, counters grow on request."""

    def __init__(self, node: NodeTopology, *, grows: Mapping[str, int]) -> None:
        self._node = node
        self._grows = grows
        self._looks = 0

    def counters(self) -> tuple[CounterValue, ...]:
        self._looks += 1
        return tuple(
            replace(counter, value=counter.value + self._looks * self._grows.get(counter.part, 0))
            for counter in self._node.counters
            if not isinstance(counter.value, Unread)
        )

    def close(self) -> None:
        """Nothing was opened."""

    def pcie(self) -> Mapping[str, Pcie]:
        return {gpu.name: Pcie(generation=gpu.max_pcie_generation, width=gpu.pcie_width) for gpu in self._node.gpus}


def measurement(
    case: Case, value: float, mismatches: tuple[Mismatch, ...] = (), *, slow_rank: int | None = None
) -> Measurement:
    """A measurement whose figure is ``value``, in the case's unit; ``slow_rank`` arrives late at every call."""
    if case.metric is LATENCY:
        seconds = value / 1e6
    else:
        seconds = case.size_bytes * COLLECTIVES[case.collective].busbw_factor(case.world_size) / value / 1e9
    ranks = range(case.world_size)
    return Measurement(
        case=case,
        moved_bytes=case.size_bytes,
        pipelined=tuple((seconds,) * 3 for _ in ranks),
        per_call=tuple((seconds,) * 5 for _ in ranks),
        arrival_lag=tuple((seconds / 2 if rank == slow_rank else 0.0,) * 5 for rank in ranks),
        mismatches=mismatches,
        checked_ranks=case.world_size,
        calls_seconds=seconds * 8,
        wall_seconds=seconds * 8 + 0.001,
        started_at="2026-01-01T00:00:00.000+00:00",
        conditions={"clock": "monotonic", "backend": case.backend},
    )
