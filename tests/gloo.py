"""Cases and pools for tests on real gloo ranks."""

from __future__ import annotations

from gpuwire_checks.measure.launch.local import PoolSpec
from gpuwire_checks.records import Case, SizeClass


def spec(*, world_size: int = 2, backend: str = "gloo", environment: tuple[tuple[str, str], ...] = ()) -> PoolSpec:
    return PoolSpec(
        world_size=world_size,
        backend=backend,
        device="cpu",
        cpus=((),) * world_size,
        main_cpus=((),) * world_size,
        loop_cpus=((),) * world_size,
        rotate_bytes=8 << 20,
        environment=environment,
    )


def case(
    collective: str = "all_reduce", *, size_bytes: int = 64 << 10, dtype: str | None = "float32", world_size: int = 2
) -> Case:
    if collective == "barrier":
        size_bytes, dtype = 0, None
    return Case(
        collective=collective,
        size_bytes=size_bytes,
        dtype=dtype,
        world_size=world_size,
        size_class=SizeClass.LATENCY if size_bytes <= 64 << 10 else SizeClass.BUCKET,
        backend="gloo",
        device="cpu",
        seconds=0.02,
        predicted_seconds=0.1,
    )
