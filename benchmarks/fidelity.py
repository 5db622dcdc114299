"""Is the pipelined figure what a bare torch loop would give?

The same calls on the same buffers in the same ranks, ours and bare by turns in one run: what the harness adds to a
timed call shows as a ratio above 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median

from gpuwire_checks.units import format_seconds, format_size

RANKS = 2
SIZES = (256 << 10, 1 << 20, 16 << 20)
SECONDS_PER_SIZE = 20.0
ALTERNATIONS_AT_LEAST = 9


def main() -> int:
    from reporting import Target, finish

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
        environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **os.environ}
        subprocess.run([*command, __file__, folder], check=True, env=environment)
        by_rank = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(RANKS)]
    targets = []
    print(f"{'all_reduce':>12} {'alternations':>13} {'ours':>10} {'bare':>10} {'ratio':>8}")
    for of_ranks in zip(*by_rank, strict=True):
        ours = [max(together) for together in zip(*(turns["ours"] for turns in of_ranks), strict=True)]
        bare = [max(together) for together in zip(*(turns["bare"] for turns in of_ranks), strict=True)]
        ratio = median(o / b for o, b in zip(ours, bare, strict=True))
        size = format_size(of_ranks[0]["size_bytes"])
        medians = f"{format_seconds(median(ours)):>10} {format_seconds(median(bare)):>10}"
        print(f"{size:>12} {len(ours):>13} {medians} {ratio:>8.4f}")
        targets.append(Target(name=f"ratio_{size}", figure=ratio, low=0.98, high=1.02))
        targets.append(Target(name=f"alternations_{size}", figure=len(ours), low=ALTERNATIONS_AT_LEAST))
    return finish("fidelity", targets)


def rank_main(folder: Path) -> None:
    import torch
    import torch.distributed as dist

    from gpuwire_checks.measure.buffers import Arena
    from gpuwire_checks.measure.case_run import RankState
    from gpuwire_checks.measure.placing import separate_gloo_threads
    from gpuwire_checks.measure.timing import clock_for

    dist.init_process_group("gloo")
    rank, device = dist.get_rank(), torch.device("cpu")
    cpus = sorted(os.sched_getaffinity(0))
    separate_gloo_threads(main_cpus=[cpus[rank % len(cpus)]], loop_cpus=[cpus[(rank + 1) % len(cpus)]])
    torch.set_num_threads(1)
    state = RankState(
        rank=rank,
        world_size=RANKS,
        backend="gloo",
        device=device,
        clock=clock_for(device),
        arena=Arena(device, rotate_bytes=64 << 20),
        store=dist.distributed_c10d._get_default_store(),
        timeout=timedelta(seconds=60),
    )
    turns = [alternate(state, size) for size in SIZES]
    (folder / f"{rank}.json").write_text(json.dumps(turns))
    dist.destroy_process_group()


def alternate(state: object, size_bytes: int) -> dict[str, object]:
    """Ours and bare by turns, in the order ABBA so that drift falls on both."""
    from gpuwire_checks.measure.case_run import Effort, RankState
    from gpuwire_checks.measure.jobs import prepare

    assert isinstance(state, RankState)
    run, _ = prepare(state, {"collective": "all_reduce", "size_bytes": size_bytes, "dtype": "float32"})
    probe = Effort(repeats=3, iterations=8, single_calls=3, warm_up=0)
    agreed = _agreed(median(run.pipelined_repeat(probe) for _ in range(5)))
    effort = Effort(repeats=3, iterations=max(2, int(0.01 / agreed)), single_calls=3, warm_up=0)
    count = max(ALTERNATIONS_AT_LEAST, int(SECONDS_PER_SIZE / (2 * agreed * (effort.iterations + 1.5))))
    ours: list[float] = []
    bare: list[float] = []
    for turn in range(count):
        for mine in (True, False) if turn % 2 == 0 else (False, True):
            if mine:
                ours.append(run.pipelined_repeat(effort))
            else:
                bare.append(bare_loop([slot.send for slot in run.slots], effort.iterations))
    return {"size_bytes": size_bytes, "iterations": effort.iterations, "ours": ours, "bare": bare}


def bare_loop(buffers: list[object], iterations: int) -> float:
    """What anybody would write."""
    import torch.distributed as dist

    dist.barrier()
    dist.all_reduce(buffers[0])
    start = time.perf_counter()
    for i in range(iterations):
        dist.all_reduce(buffers[i % len(buffers)])
    return (time.perf_counter() - start) / iterations


def _agreed(seconds: float) -> float:
    import torch

    from gpuwire_checks.measure.collectives import agree

    return agree(seconds, device=torch.device("cpu"))


if __name__ == "__main__":
    if "RANK" in os.environ:
        rank_main(Path(sys.argv[1]))
    else:
        sys.exit(main())
