"""Markers: the hardware a test needs, how many devices and hosts, and from which tier on it runs."""

from __future__ import annotations

import re

import pytest

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.topology.model import NodeTopology, Unread

TIERS = ("smoke", "nightly", "acceptance", "soak")

_ARCHITECTURES = {
    "volta": r"V100|TITAN V",
    "turing": r"T4\b|RTX 20\d\d|Quadro RTX",
    "ampere": r"A100|A800|A30\b|A40\b|A10\b|A16\b|A2\b|RTX A\d000|RTX 30\d\d",
    "ada": r"L40|L4\b|L20\b|RTX 40\d\d|Ada",
    "hopper": r"H100|H200|H800|H20\b|GH200",
    "blackwell": r"B100|B200|B300|GB200|GB300|GB10|RTX 50\d\d|RTX PRO \d000",
    "cdna2": r"MI2\d\d",
    "cdna3": r"MI3[0-2]\d",
}

HARDWARE = {
    "cpu": "runs on the host processors; every node has them",
    "pcie": "GPUs on PCIe",
    "nvlink": "at least one pair of GPUs joined by NVLink",
    "nvswitch": "every pair of more than four GPUs joined by the same number of NVLinks",
    "xgmi": "GPUs joined by xGMI (Infinity Fabric)",
    "infiniband": "at least one InfiniBand port",
    "roce": "at least one RDMA port over Ethernet",
    **{name: f"GPUs of the {name} generation" for name in _ARCHITECTURES},
}
_MODEL = re.compile(r"[a-z]{1,4}\d{1,4}[a-z]{0,2}")
"""A GPU's model as people say it: h100, l40s, mi300x."""


def register(config: pytest.Config) -> None:
    """Tell pytest every marker, so that --strict-markers refuses the others."""
    for name, description in HARDWARE.items():
        config.addinivalue_line("markers", f"{name}: needs {description}")
    config.addinivalue_line("markers", "rule(name): asks one rule of the wiring of every part that it is about")
    config.addinivalue_line("markers", "gpus(n): needs at least n visible GPUs")
    config.addinivalue_line("markers", "hosts(n): needs n hosts in one run")
    for tier in TIERS:
        config.addinivalue_line("markers", f"{tier}: runs in the {tier} tier and those above it")


def present_hardware(topology: NodeTopology) -> frozenset[str]:
    """The hardware markers that this node satisfies."""
    found = {"cpu"}
    if topology.gpus:
        found.add("pcie")
        found |= _architectures(topology) | _links(topology)
    found |= {nic.kind for nic in topology.nics if nic.kind in ("infiniband", "roce")}
    return frozenset(found)


def exercised_hardware(topology: NodeTopology, device: str) -> frozenset[str]:
    """The hardware markers of a case that runs on ``device``, so that ``-m nvlink`` selects what uses NVLink."""
    if device == "cpu":
        return frozenset({"cpu"})
    return present_hardware(topology) - {"cpu", "infiniband", "roce"}


def lacking(item: pytest.Item, topology: NodeTopology) -> str | None:
    """Why a test cannot run on this node, None when it can.

    Raises:
        ConfigError: a marker that is used wrongly.
    """
    present = present_hardware(topology)
    for marker in item.iter_markers():
        if marker.name in HARDWARE and marker.name not in present:
            return f"needs {marker.name} ({HARDWARE[marker.name]}), which this node does not have"
        if marker.name == "gpus" and len(topology.gpus) < (need := _number(item, marker)):
            return f"needs {need} GPUs; {len(topology.gpus)} are visible here"
        if marker.name == "hosts" and (need := _number(item, marker)) > 1:
            return f"needs {need} hosts in one run; this run has one"
    return None


def above_tier(item: pytest.Item, tier: str) -> bool:
    """Whether a test belongs to tiers above the one that runs only."""
    marked = [TIERS.index(marker.name) for marker in item.iter_markers() if marker.name in TIERS]
    return bool(marked) and min(marked) > TIERS.index(tier)


def check_requirements(required: tuple[str, ...]) -> None:
    """Raise ConfigError for a requirement that no marker stands for."""
    for name in required:
        if name not in HARDWARE and not _MODEL.fullmatch(name):
            raise ConfigError(
                f"--gpuwire-require: unknown hardware {name!r}; known: {', '.join(HARDWARE)}, or a model such as h100"
            )


def requirement_words(name: str) -> str:
    """What a requirement stands for."""
    return HARDWARE.get(name, f"a GPU of the model {name.upper()}")


def is_here(topology: NodeTopology, requirement: str) -> bool:
    """Whether a node has the hardware of a marker, or a GPU of the model that is named."""
    if requirement in HARDWARE:
        return requirement in present_hardware(topology)
    models = [gpu.model.lower() for gpu in topology.gpus if not isinstance(gpu.model, Unread)]
    return any(requirement in re.findall(r"[a-z0-9]+", model) for model in models)


def _number(item: pytest.Item, marker: pytest.Mark) -> int:
    if len(marker.args) != 1 or marker.kwargs or not isinstance(marker.args[0], int) or marker.args[0] < 1:
        raise ConfigError(f"{item.nodeid}: marker {marker.name} takes one positive number, such as {marker.name}(2)")
    return marker.args[0]


def _architectures(topology: NodeTopology) -> set[str]:
    models = [gpu.model for gpu in topology.gpus if type(gpu.model) is str]
    return {name for name, pattern in _ARCHITECTURES.items() if any(re.search(pattern, model) for model in models)}


def _links(topology: NodeTopology) -> set[str]:
    gpu_names = {gpu.name for gpu in topology.gpus}
    between = [pair for pair in topology.paths if {pair.a, pair.b} <= gpu_names]
    found = {"nvlink"} if any(pair.nvlinks for pair in between) else set()
    found |= {"xgmi"} if any(pair.path.startswith("XGMI") for pair in between) else set()
    pairs = len(gpu_names) * (len(gpu_names) - 1) // 2
    links = {pair.nvlinks for pair in between}
    # No direct mesh of more than four GPUs has equal links on all pairs: only a switch does.
    if len(gpu_names) > 4 and len(between) == pairs and len(links) == 1 and 0 not in links:
        found.add("nvswitch")
    return found
