"""Bounds as cases of the plan, and those that no plan uses. No node is asked: a policy and a baseline tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BoundEntry, CaseKey, case_key
from gpuwire_checks.plan import plannable
from gpuwire_checks.policy import Policy
from gpuwire_checks.records import LATENCY, Case, SizeClass
from gpuwire_checks.world import BACKENDS, World

_DEVICES = {backend: device for device, backend in BACKENDS.items()}
_DTYPES = ("float32", "float16", "bfloat16")
"""Any of them can be measured beside the tier's, with --dtypes."""
_MOST_BUCKET = 64 << 20


def planned_cases(policy: Policy, entries: Iterable[BoundEntry], *, tier: str | None) -> dict[CaseKey, Case]:
    """Every case that a tier may plan in the worlds of these bounds, by what its bound is found by.

    A peak that is chosen from the node's memory is every size that some memory leads to: the baseline does not say how
    much there is.

    Args:
        tier: the one that says first of which class a size is; they do not all call it the same.
    """
    worlds = dict.fromkeys((entry.case.world_size, entry.case.backend) for entry in entries)
    tiers = sorted(policy.tiers.values(), key=lambda known: known.name != tier)
    found: dict[CaseKey, Case] = {}
    for size, backend in worlds:
        world = World(size=size, device=_DEVICES[backend], backend=backend)
        for known in tiers:
            for case in plannable(known, world, extra_dtypes=_DTYPES):
                found.setdefault(case_key(case), case)
    return found


def case_of(entry: BoundEntry, planned: Mapping[CaseKey, Case]) -> Case:
    """The case of a bound: as it is planned, or, where none plans it, of the class that its size is in."""
    case = entry.case
    size_class = SizeClass.BUCKET if case.size <= _MOST_BUCKET else SizeClass.PEAK
    return planned.get(entry.key) or Case(
        collective=case.collective,
        size_bytes=case.size,
        dtype=case.dtype,
        world_size=case.world_size,
        size_class=SizeClass.LATENCY if entry.metric == LATENCY.name else size_class,
        backend=case.backend,
        device=_DEVICES[case.backend],
    )


def gpus_of(baseline: Baseline) -> int | None:
    """How many GPUs such a node has; None where the baseline does not say."""
    if baseline.wiring is not None:
        return baseline.wiring.gpus
    told = baseline.facts.get("gpus")
    return told if isinstance(told, int) else None


def why_unused(entry: BoundEntry, baseline: Baseline, planned: Mapping[CaseKey, Case]) -> str | None:
    """Why no planned case of any tier uses a bound, and what to do; None where one does.

    Fewer ranks than GPUs are planned with ``--world-size``, and on a CPU any number of them.
    """
    if entry.key not in planned:
        return "no tier of the policy plans it; remove the line, or add its size to a tier"
    gpus = gpus_of(baseline)
    if _DEVICES[entry.case.backend] != "cpu" and gpus is not None and entry.case.world_size > gpus:
        has = "no GPU" if gpus == 0 else f"{gpus} GPU{'' if gpus == 1 else 's'}"
        return f"it is of {entry.case.world_size} ranks, and such a node has {has}; remove the line"
    return None
