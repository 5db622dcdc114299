"""References of boards made up for tests of what is looked up in them."""

from __future__ import annotations

from pathlib import Path

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import FloorEntry
from gpuwire_checks.baseline.wiring import ExpectedLinks, Wiring

MODEL = "NVIDIA Test 80GB"


def reference(
    name: str,
    *,
    gpus: int = 8,
    links: int | tuple[int, ...] | None = 18,
    pairs: dict[str, str] | None = None,
    floors: tuple[FloorEntry, ...] = (),
    model: str = MODEL,
) -> Baseline:
    """A shipped reference of a board; ``links`` None where it states none."""
    expected = None if links is None else ExpectedLinks(kind="nvlink", per_gpu=links, speed=25e9)
    return Baseline(
        name=name,
        path=Path("baselines") / f"{name}.yaml",
        sku=name,
        exact=None,
        facts={"gpu_vendor": "nvidia", "gpu_model": model, "gpus": gpus},
        recorded=None,
        wiring=Wiring(gpus=gpus, model=model, links=expected, pairs=pairs or {}),
        floors=floors,
    )
