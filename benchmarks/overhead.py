"""What the harness costs: per case, from start to first measured call, and at collection.

Beside it, the pattern that most suites use: processes spawned, torch imported and a process group made for every test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from statistics import mean, median
from typing import Any

from reporting import Target, finish

from gpuwire_checks.harness.node import survey
from gpuwire_checks.harness.options import make_settings
from gpuwire_checks.harness.starting import local_ranks
from gpuwire_checks.measure.launch.local import free_port
from gpuwire_checks.measure.ranks import Ranks
from gpuwire_checks.shipped import shipped_suites
from gpuwire_checks.topology.discover import discover
from gpuwire_checks.world import choose_world

STARTS = 15
SPAWNED_CASES = 4
ONCE_ONLY = 2
"""Cases that also pay for what a rank makes once: its memory, touched page by page, and the test data."""

BARE = """
import os, torch
import torch.distributed as dist
dist.init_process_group("gloo")
tensor = torch.ones(2048)
dist.all_reduce(tensor)
print("called", flush=True)
dist.destroy_process_group()
"""

COLLECT = """
import sys, pytest
status = pytest.main([sys.argv[1], "--collect-only", "-q", "-p", "no:cacheprovider"])
sys.exit(3 if "torch" in sys.modules else int(status))
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        every_case = overhead_per_case(work)
        first, cases = every_case[:ONCE_ONLY], every_case[ONCE_ONLY:]
        ours, bare = starts(work)
        collect_seconds, torch_in_driver = collection(work)
        kept, spawned = spawn_per_test(work)
    per_case = (
        f"mean {mean(cases) * 1e3:.1f} ms, median {median(cases) * 1e3:.1f} ms, longest {max(cases) * 1e3:.1f} ms"
    )
    print(
        f"once: {sum(first) * 1e3:.1f} ms in the first {ONCE_ONLY} cases, in which memory is taken and test data made"
    )
    print(f"overhead per case over {len(cases)} cases: {per_case}")
    print(f"start to first measured call: {median(ours):.2f} s; bare script: {median(bare):.2f} s ({STARTS} by turns)")
    print(f"collection, pytest's own start included: {collect_seconds:.2f} s")
    print(f"a case on ranks that live on: {kept:.3f} s; spawned for every test: {spawned:.3f} s")
    return finish(
        "overhead",
        [
            Target(name="overhead_per_case_ms", figure=mean(cases) * 1e3, high=10.0),
            Target(name="start_over_bare", figure=median(ours) / median(bare), high=1.25),
            Target(name="collection_seconds", figure=collect_seconds, high=1.0),
            Target(name="torch_in_driver", figure=float(torch_in_driver), high=0.0),
        ],
        spawn_per_test_over_ours=spawned / kept,
        overhead_median_ms=median(cases) * 1e3,
        first_cases_ms=sum(first) * 1e3,
        start_over_bare_median_of_pairs=median(o / b for o, b in zip(ours, bare, strict=True)),
        overhead_longest_ms=max(cases) * 1e3,
    )


def overhead_per_case(work: Path) -> list[float]:
    """Seconds of a session that are not inside collective calls, case by case.

    From the start of one measurement to the start of the next, less the wall seconds the busiest rank spent inside
    collective calls: everything else is ours, the check's comparison and pytest's own work included.
    """
    document = _session(work, "-k", "test_collective")
    attempts = [attempt for result in document["results"] for attempt in result["attempts"]]
    started = [datetime.fromisoformat(attempt["started_at"]).timestamp() for attempt in attempts]
    busy = [attempt["calls_seconds"] for attempt in attempts]
    return [after - before - calls for before, after, calls in zip(started, started[1:], busy, strict=False)]


def starts(work: Path) -> tuple[list[float], list[float]]:
    """Seconds to the first call, ours and the bare script's by turns."""
    ours, bare = [], []
    for _ in range(STARTS):
        start = time.time()
        document = _session(work, "-k", "barrier")
        ours.append(datetime.fromisoformat(document["results"][0]["attempts"][0]["started_at"]).timestamp() - start)
        bare.append(_bare())
    return ours, bare


def collection(work: Path) -> tuple[float, bool]:
    """Seconds of a whole `pytest --collect-only`, and whether torch was imported in it."""
    seconds, statuses = [], []
    for _ in range(5):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", COLLECT, str(shipped_suites())], cwd=work, stdout=subprocess.DEVNULL, check=False
        )
        seconds.append(time.perf_counter() - start)
        statuses.append(done.returncode)
    if not set(statuses) <= {0, 3}:
        raise SystemExit(f"collection failed with status {statuses}")
    return median(seconds), 3 in statuses


def spawn_per_test(work: Path) -> tuple[float, float]:
    """Seconds per case on ranks that live on, and with ranks started anew for every case."""
    topology = discover()
    world = choose_world(topology, device="cpu", world_size=2)
    node = survey(make_settings({"tier": "smoke"}, root=work), topology=topology, world=world)
    cases = node.plan.cases[:SPAWNED_CASES]

    def run(ranks: Ranks, number: int) -> None:
        ranks.measure(cases[number])

    folder = work / "ranks"
    folder.mkdir()
    lasting = local_ranks(topology, world, folder=folder)
    lasting.wait_ready()
    start = time.perf_counter()
    for number in range(SPAWNED_CASES):
        run(lasting, number)
    kept = (time.perf_counter() - start) / SPAWNED_CASES
    lasting.close()
    start = time.perf_counter()
    for number in range(SPAWNED_CASES):
        anew = local_ranks(topology, world, folder=folder)
        run(anew, number)
        anew.close()
    return kept, (time.perf_counter() - start) / SPAWNED_CASES


def _session(work: Path, *arguments: str) -> dict[str, Any]:
    """Run the suites against no baseline, so that every case is one attempt; returns the run document."""
    runs = work / f"runs-{time.monotonic_ns()}"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            str(shipped_suites()),
            f"--gpuwire-run-dir={runs}",
            f"--gpuwire-baselines={work / 'none'}",
            "--gpuwire-missing=warn",
            "-p",
            "no:cacheprovider",
            *arguments,
        ],
        cwd=work,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    (document,) = runs.glob("*/run.json")
    loaded: dict[str, Any] = json.loads(document.read_text())
    return loaded


def _bare() -> float:
    port = free_port()
    start = time.time()
    ranks: list[subprocess.Popen[bytes]] = []
    for number in range(2):
        contract = {"RANK": str(number), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **contract}
        ranks.append(subprocess.Popen([sys.executable, "-c", BARE], env=environment, stdout=subprocess.PIPE))
    for rank in ranks:
        assert rank.stdout is not None
        rank.stdout.readline()
    seconds = time.time() - start
    for rank in ranks:
        rank.communicate()
    return seconds


if __name__ == "__main__":
    sys.exit(main())
