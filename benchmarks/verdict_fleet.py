"""What it costs to judge a fleet in one process: seconds and peak memory, in a process of its own each time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from verdict_noise import Array, Noise
from verdict_rules import TRUE, record

from gpuwire_checks.judge.fleet import Code, fleet_standing, worst_cells
from gpuwire_checks.judge.rule import Rule

METRICS = 200
SIZES = ((2_000, 1), (10_000, 1), (50_000, 1), (10_000, 5))
"""Nodes, and attempts of each metric."""
ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of judging so many nodes: best seconds of five, and peak memory of the process in MB (1e6 bytes)."""

    nodes: int
    attempts: int
    seconds: float
    peak_mb: float
    found: dict[str, int]

    @property
    def microseconds_a_node(self) -> float:
        return self.seconds / self.nodes * 1e6


def fleet_costs() -> list[Cost]:
    """A process each, smallest first."""
    here = Path(__file__)
    costs = []
    for nodes, attempts in SIZES:
        command = [sys.executable, str(here), str(nodes), str(attempts)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        costs.append(Cost(**json.loads(run.stdout)))
    return costs


def main() -> None:
    nodes, attempts = int(sys.argv[1]), int(sys.argv[2])
    rule = Rule(min_effect=0.03, max_slack=0.15, level=1 / 140_000)
    noise = Noise(name="normal", shape="normal", sigma=0.01)
    recorded = record(noise, rule, families=METRICS // 20, attempts=20, seed=3)
    values = _fleet(noise, nodes, attempts)
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        found = fleet_standing(values, recorded.limits, rule)
        worst_cells(found)
        seconds.append(time.perf_counter() - start)
    counts = {code.name: found.count(code) for code in Code}
    cost = Cost(nodes=nodes, attempts=attempts, seconds=min(seconds), peak_mb=_peak_mb(), found=counts)
    print(json.dumps(asdict(cost)))


def _fleet(noise: Noise, nodes: int, attempts: int) -> Array:
    """Figures of a fleet, every hundredth node of which is down by 10 %, with one figure in 1000 missing."""
    chance = np.random.default_rng(4)
    values: Array = chance.standard_normal((nodes, METRICS, attempts))
    values *= -noise.sigma
    np.exp(values, out=values)
    values *= TRUE
    values[::100] *= 0.9
    values[chance.random((nodes, METRICS)) < 1e-3] = np.nan
    return values


def _peak_mb() -> float:
    """Peak resident memory of this process: its parent's, which getrusage takes over, is not in it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError("/proc/self/status has no VmHWM")


if __name__ == "__main__":
    main()
