"""What a run says before it measures: where, against what, with what, how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from gpuwire_checks.plan import Plan
from gpuwire_checks.report.document import BaselineHead, RunHead
from gpuwire_checks.topology.model import Cpu, NodeTopology, Unread
from gpuwire_checks.units import format_size


def header_lines(
    head: RunHead, plan: Plan, *, bounds: int, software: Mapping[str, str | None], changes: Sequence[str] = ()
) -> list[str]:
    """The lines under pytest's own header.

    Args:
        bounds: planned cases that the baseline has a bound for.
        changes: software that is another than at the last run.
    """
    world = plan.world
    lines = [
        f"gpuwire {head.gpuwire} on {head.host}: {head.fingerprint['sku']} ({topology_words(head.topology)})",
        f"baseline: {baseline_words(head.baseline, now=datetime.now(timezone.utc))}"
        f"; {bounds} of {len(plan.cases)} planned cases have a bound",
        f"software: {software_words(software)}",
        f"plan: tier {plan.tier}, {head.planned} tests on {world.size} {world.backend} ranks ({world.device}),"
        f" about {max(1, round(head.predicted_seconds))} s",
    ]
    if changes:
        lines.append(f"CHANGED since the last run here: {', '.join(changes)}: figures may differ by it")
    if head.fault:
        lines.append(f"FAULT INJECTED: {head.fault}: this run says nothing about the node")
    return lines


def topology_words(topology: NodeTopology) -> str:
    """The node in half a line: GPUs first, then processors and memory."""
    parts = [_gpu_words(topology), _cpu_words(topology.cpu)]
    if topology.numa:
        parts.append(f"{len(topology.numa)} NUMA node{'s' if len(topology.numa) > 1 else ''}")
    if isinstance(topology.memory_bytes, int):
        parts.append(f"{topology.memory_bytes / (1 << 30):.0f} GiB")
    if isinstance(topology.virtualised, str) and not isinstance(topology.virtualised, Unread):
        parts.append(topology.virtualised)
    return ", ".join(parts)


def baseline_words(baseline: BaselineHead | None, *, now: datetime) -> str:
    """The baseline's name, age and file."""
    if baseline is None:
        return "none for this node"
    origin = "a reference that nobody recorded here"
    if baseline.recorded_at is not None:
        origin = f"recorded {age_words((now - datetime.fromisoformat(baseline.recorded_at)).total_seconds())} ago"
    drift = "" if baseline.exact else ", and the node does not look as it says"
    return f"{baseline.name}, {origin}, {baseline.path}{drift}"


def software_words(software: Mapping[str, str | None]) -> str:
    """Versions in one line; what is not installed is left out."""
    return ", ".join(f"{name} {version}" for name, version in software.items() if version)


def age_words(seconds: float) -> str:
    """An age in its largest whole unit: ``3 minutes``, ``12 days``."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a minute"


def _gpu_words(topology: NodeTopology) -> str:
    if not topology.gpus:
        return "no GPU"
    model = topology.gpus[0].model
    return f"{len(topology.gpus)} x {model.value if isinstance(model, Unread) else model}"


def _cpu_words(cpu: Cpu | Unread) -> str:
    if isinstance(cpu, Unread):
        return f"CPU {cpu.value}"
    cores = cpu.cores.value if isinstance(cpu.cores, Unread) else cpu.cores
    cache = cpu.last_level_cache_bytes
    cache_words = "" if isinstance(cache, Unread) else f" with {format_size(cache)} L3"
    return f"{cpu.model}, {cores} cores{cache_words}"
