"""What it costs to know a node's wiring: a large one read whole, fingerprinted, compared, and drawn as a graph.

Sixteen GPUs of 18 links each on NVSwitches, and 40 NICs, from a recorded /sys and an NVML of canned answers. The time
of that NVML itself is in the figures; a real one takes longer, as the driver does.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import TypeVar

from reporting import Target, finish

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "topology"))

from fake_nvml import SWITCH, FakeNvml, cards
from trees import large_node, write_tree

from gpuwire_checks.topology.discover import discover
from gpuwire_checks.topology.fingerprint import facts, fingerprint, first_difference
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.topology.nic_counters import nic_counters
from gpuwire_checks.topology.nvml import NvmlSource
from gpuwire_checks.topology.pci import read_pci
from gpuwire_checks.topology.routes import node_graph, route
from gpuwire_checks.topology.sysfs import read_host

GPUS, NICS, LINKS = 16, 40, 18
ROUNDS = 25
DISCOVER_MS, FINGERPRINT_MS = 50.0, 50.0

_T = TypeVar("_T")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        root = write_tree(Path(folder), large_node(GPUS, NICS))
        nvml = NvmlSource(FakeNvml(cards(GPUS, [(SWITCH, "")] * LINKS)), root=root)
        node, whole = timed(lambda: discover(root=root, gpus=nvml))
        parts = {
            "  GPUs through NVML": timed(nvml.read)[1],
            "  host and NICs": timed(lambda: read_host(root))[1],
            "  PCI bus": timed(lambda: read_pci(root))[1],
            "  NIC counters": timed(lambda: nic_counters(root))[1],
        }
    _, named = timed(lambda: fingerprint(node))
    _, scattered_named = timed(lambda: fingerprint(scattered(node)))
    _, compared = timed(lambda: first_difference(facts(node), facts(node)))
    graph, drawn = timed(lambda: node_graph(node))
    names = [*(gpu.name for gpu in node.gpus), *(nic.name for nic in node.nics)]
    pairs = list(combinations(names, 2))
    start = time.perf_counter()
    routed = sum(bool(route(node, a, b, graph=graph)) for a, b in pairs)
    each_route = (time.perf_counter() - start) / len(pairs) * 1e3
    print(f"{GPUS} GPUs of {LINKS} links, {NICS} NICs, {len(node.pci)} PCI functions, {len(node.counters)} counters")
    rows = {
        "discover": whole,
        **parts,
        "fingerprint": named,
        "  of NICs no two of which are alike": scattered_named,
        "facts and first difference": compared,
        "graph of named parts": drawn,
        f"route, of {routed} pairs": each_route,
    }
    for name, milliseconds in rows.items():
        print(f"{name:<40} {milliseconds:8.2f} ms")
    return finish(
        "wiring",
        [
            Target(name="discover_ms", figure=whole, high=DISCOVER_MS),
            Target(name="fingerprint_ms", figure=named, high=FINGERPRINT_MS),
            Target(name="pairs_without_route", figure=float(len(pairs) - routed), high=0.0),
        ],
        gpus=GPUS,
        nics=NICS,
        rounds=ROUNDS,
        **{name.strip().replace(" ", "_"): round(milliseconds, 3) for name, milliseconds in rows.items()},
    )


def timed(call: Callable[[], _T]) -> tuple[_T, float]:
    """What a call returns, and the least of its milliseconds: whatever else runs here only adds to them."""
    result, seconds = call(), []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return result, min(seconds) * 1e3


def scattered(node: NodeTopology) -> NodeTopology:
    """The node with each GPU-NIC path drawn by lot, so that the hash finds no two NICs alike."""
    lot, nics = Random(0), {nic.name for nic in node.nics}
    classes = ("PIX", "PXB", "NODE", "SYS")
    return replace(node, paths=tuple(replace(p, path=lot.choice(classes)) if p.b in nics else p for p in node.paths))


if __name__ == "__main__":
    sys.exit(main())
