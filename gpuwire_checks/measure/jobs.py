"""The jobs a rank can be asked for. A message names one of them; nothing else can be run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from gpuwire_checks.collectives import moved_bytes
from gpuwire_checks.measure import faults
from gpuwire_checks.measure.case_run import CaseRun, RankState
from gpuwire_checks.measure.check import check
from gpuwire_checks.measure.placing import separate_gloo_threads

Job = Callable[[RankState, Mapping[str, Any]], dict[str, Any]]


def measure_collective(state: RankState, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Time one collective both ways, then check its results on refilled buffers.

    Parameters: ``collective``, ``size_bytes``, ``dtype``, ``seconds``, ``gate`` (``per_call`` or
    ``pipelined``: which calls most of the seconds are for), ``shift`` (where in the pattern the check
    starts, new for each attempt so that a stale result cannot pass) and ``fault`` (tests only).
    """
    run, moved = prepare(state, parameters)
    faults.strike_at_start(run.fault)
    effort = run.warm_up(float(parameters["seconds"]), gate_single_calls=parameters["gate"] == "per_call")
    repeats = [run.pipelined_repeat(effort) for _ in range(effort.repeats)]
    singles = [run.single_call(index) for index in range(effort.single_calls)]
    mismatch, checked = check(run, shift=int(parameters["shift"]))
    return {
        "moved_bytes": moved,
        "pipelined": repeats,
        "per_call": [single.seconds for single in singles],
        "entered": [single.entered for single in singles],
        "mismatch": mismatch,
        "checked": checked,
        "calls_seconds": run.calls_seconds,
        "conditions": {
            "clock": state.clock.name,
            "backend": state.backend,
            "pipelined_iterations": str(effort.iterations),
            "buffer_sets": str(len(run.slots)),
        },
    }


def renew(state: RankState, _parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A fresh process group on the same ranks: new connections or channels, no new processes."""
    dist.destroy_process_group()
    state.generation += 1
    init_process_group(state)
    return {"generation": state.generation}


JOBS: dict[str, Job] = {"measure_collective": measure_collective, "renew": renew}


def init_process_group(state: RankState) -> None:
    """Join the world under this generation's names in the store."""
    dist.init_process_group(
        state.backend,
        store=dist.distributed_c10d.PrefixStore(f"generation-{state.generation}", state.store),
        rank=state.rank,
        world_size=state.world_size,
        timeout=state.timeout,
        device_id=None if state.device.type == "cpu" else state.device,
    )
    separate_gloo_threads(main_cpus=state.main_cpus, loop_cpus=state.loop_cpus)


def prepare(state: RankState, parameters: Mapping[str, Any]) -> tuple[CaseRun, int]:
    """The case's buffers on this rank, and the bytes of the whole array that a call will move."""
    collective = str(parameters["collective"])
    dtype: torch.dtype = getattr(torch, str(parameters["dtype"] or "float32"))
    moved = moved_bytes(
        collective,
        size_bytes=int(parameters["size_bytes"]),
        world_size=state.world_size,
        item_bytes=dtype.itemsize,
    )
    slots = state.arena.slots(collective, moved_bytes=moved, dtype=dtype, world_size=state.world_size, rank=state.rank)
    fault = faults.fault_here(parameters.get("fault"), rank=state.rank, collective=collective)
    return CaseRun(state=state, collective=collective, slots=slots, fault=fault), moved


def software() -> dict[str, str]:
    """Versions of what the ranks run on, as the framework sees them."""
    versions = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        versions["cuda"] = str(torch.version.cuda)
    if dist.is_nccl_available() and torch.cuda.is_available():
        versions["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())  # type: ignore[no-untyped-call]
    return versions
