"""Bounds and baselines of a node with eight GPUs: every field can be named, most need not be."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BoundEntry, RecordedEntry
from gpuwire_checks.baseline.store import baseline_text

RECORDED_AT = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
SKU = "a100-sxm4-80gb-8x-nv12"


def gpu_bound(
    size: str = "64MiB",
    *,
    collective: str = "all_reduce",
    latency: bool = False,
    dtype: str = "float32",
    world_size: int = 8,
    backend: str = "nccl",
    **more: object,
) -> BoundEntry:
    """A bound of 20 attempts on one node: 200 GB/s, or 30 us."""
    barrier = collective == "barrier"
    sized = {} if barrier else {"size": size, "dtype": dtype}
    lower = latency or barrier
    content = {
        "metric": "latency" if lower else "busbw",
        "case": {"collective": collective, **sized, "world_size": world_size, "backend": backend},
        "unit": "us" if lower else "GB/s",
        "better": "lower" if lower else "higher",
        "centre": 30.0 if lower else 200.0,
        "spread": 0.01,
        "attempts": 20,
        "nodes": 1,
    }
    return BoundEntry.model_validate({**content, **more})


def gpu_baseline(*entries: BoundEntry, name: str = "pod", sku: str = SKU, **more: object) -> Baseline:
    content: dict[str, object] = {
        "path": Path(f"{name}.yaml"),
        "exact": "0123abcd",
        "facts": {"gpu_vendor": "nvidia", "gpus": 8},
        "recorded": recorded(),
        **more,
    }
    return Baseline(name=name, sku=sku, entries=entries, **content)  # type: ignore[arg-type]  # any field can be named


def recorded(*, at: datetime = RECORDED_AT, tier: str = "nightly") -> RecordedEntry:
    return RecordedEntry(at=at, gpuwire="0.1.0", tier=tier, hosts=1, software={"torch": "2.13.0", "nccl": None})


def put_baseline(path: Path, what: Baseline) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(baseline_text(what))
    return path
