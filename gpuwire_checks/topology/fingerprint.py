"""What a node should be (its SKU and the facts a person compares) and what it is (a hash of the exact graph)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gpuwire_checks.topology.graph import graph_hash
from gpuwire_checks.topology.model import Cpu, Gpu, Link, Nic, NodeTopology, Unread
from gpuwire_checks.topology.sku import sku
from gpuwire_checks.topology.wires import NEAR_TO_FAR, gpu_pairs, nic_paths

_UNTOLD = re.compile(rf"\b({'|'.join(unread.value for unread in Unread)})\b")
MEMORY_TOLERANCE = 0.05
"""Of memory_GiB: what a kernel or a hypervisor keeps for itself changes by a few percent between boots and versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """A node's two names.

    Attributes:
        sku: what it should be, for a person and a file name; a lost link or a lost GPU's silence leaves it as it is.
        exact: what it is, 12 hex digits; another wire gives another, another numbering or driver does not.
    """

    sku: str
    exact: str


def fingerprint(topology: NodeTopology) -> Fingerprint:
    """Both names of a node; nothing in them depends on its host name, software, or the order of its devices."""
    return Fingerprint(sku=sku(topology), exact=graph_hash(topology)[:12])


def facts(topology: NodeTopology) -> dict[str, str | int]:
    """What the wiring is, most telling first. A value that could not be read is the word for why."""
    return _gpu_facts(topology) if topology.gpus else _cpu_facts(topology)


def first_difference(expected: Mapping[str, object], actual: Mapping[str, object]) -> str | None:
    """The first fact that differs, as a sentence (``gpus is 7, the baseline says 8``); None when none does."""
    for name, value in expected.items():
        if name not in actual:
            return f"{name} is not known here, the baseline says {value}"
        if not _alike(name, value, actual[name]):
            return f"{name} is {actual[name]}, the baseline says {value}"
    extra = next((name for name in actual if name not in expected), None)
    return None if extra is None else f"{extra} is {actual[extra]}, the baseline does not say"


def is_told(fact: str | int) -> bool:
    """False for a fact of which some could not be read (``7 x NVIDIA H100, 1 x unknown``)."""
    return _UNTOLD.search(str(fact)) is None


def _alike(name: str, expected: object, actual: object) -> bool:
    if name == "memory_GiB" and isinstance(expected, int | float) and isinstance(actual, int | float):
        return abs(actual - expected) <= MEMORY_TOLERANCE * abs(expected)
    return expected == actual


def _gpu_facts(topology: NodeTopology) -> dict[str, str | int]:
    gpus = topology.gpus
    of_pairs: dict[str, str | int] = {}
    if len(gpus) > 1:
        of_pairs = {"nvlinks": _nvlinks(topology), "gpu_paths": _gpu_paths(topology)}
    nic_classes = Counter(path for paths in nic_paths(topology).values() for path in paths.values())
    return {
        "gpu_vendor": _counted(gpu.vendor for gpu in gpus),
        "gpu_model": _counted(_word(gpu.model) for gpu in gpus),
        "gpus": len(gpus),
        **of_pairs,
        **({"links": _counted(map(_links, gpus))} if any(map(_has_links, gpus)) else {}),
        **({"nic_paths": _classes(nic_classes)} if nic_classes else {}),
        "pcie": _counted(map(_pcie, gpus)),
        **_nic_pcie(topology),
        "numa_nodes": _numa_nodes(topology),
        "sockets": _of_cpu(topology, lambda cpu: cpu.sockets),
        "cores": _of_cpu(topology, lambda cpu: cpu.cores),
        "cpu_model": _of_cpu(topology, lambda cpu: cpu.model),
        "nics": _nics(topology),
        "virtualised": _virtualised(topology),
    }


def _cpu_facts(topology: NodeTopology) -> dict[str, str | int]:
    memory = topology.memory_bytes
    return {
        "cpu_model": _of_cpu(topology, lambda cpu: cpu.model),
        "sockets": _of_cpu(topology, lambda cpu: cpu.sockets),
        "cores": _of_cpu(topology, lambda cpu: cpu.cores),
        "numa_nodes": _numa_nodes(topology),
        "usable_cpus": _of_cpu(topology, lambda cpu: len(cpu.usable)),
        "nics": _nics(topology),
        **_nic_pcie(topology),
        "memory_GiB": memory.value if isinstance(memory, Unread) else round(memory / (1 << 30)),
        "virtualised": _virtualised(topology),
    }


def _virtualised(topology: NodeTopology) -> str:
    return "no" if topology.virtualised is None else str(_word(topology.virtualised))


def _of_cpu(topology: NodeTopology, value: Callable[[Cpu], str | int | Unread]) -> str | int:
    return _word(topology.cpu if isinstance(topology.cpu, Unread) else value(topology.cpu))


def _nvlinks(topology: NodeTopology) -> str:
    """``NV18 on 28 of 28 pairs``."""
    pairs = gpu_pairs(topology)
    counts = Counter(pair.nvlinks for pair in pairs if pair.nvlinks)
    possible = _possible_pairs(topology)
    where = [f"NV{links} on {counts[links]} of {possible} pairs" for links in sorted(counts, reverse=True)]
    return ", ".join(where) or ("none" if len(pairs) == possible else Unread.UNKNOWN.value)


def _gpu_paths(topology: NodeTopology) -> str:
    """``4 PIX, 8 NODE, 16 SYS``; a pair without a known path is counted as such."""
    classes = Counter(pair.path for pair in gpu_pairs(topology))
    classes[Unread.UNKNOWN.value] = _possible_pairs(topology) - classes.total()
    return _classes(classes)


def _classes(classes: Counter[str]) -> str:
    """Path classes with their number: NVLink first, then PCIe near to far, then any other."""
    order = {path: rank for rank, path in enumerate(NEAR_TO_FAR)}

    def nearness(path: str) -> tuple[int, int, str]:
        links = path.removeprefix("NV")
        return (0, -int(links), path) if links.isdecimal() else (1, order.get(path, len(order)), path)

    return ", ".join(f"{classes[path]} {path}" for path in sorted(classes, key=nearness) if classes[path])


def _has_links(gpu: Gpu) -> bool:
    return not isinstance(gpu.links, Unread) and bool(gpu.links)


def _links(gpu: Gpu) -> str:
    """``18 NVLink4 at 25 GB/s``, or each kind of link of a GPU with its number, those that are down last."""
    if isinstance(gpu.links, Unread):
        return gpu.links.value
    counts = Counter(map(_link, gpu.links))
    order = sorted(counts, key=lambda words: (words.endswith("down"), -counts[words], words))
    return " + ".join(f"{counts[words]} {words}" for words in order) or "none"


def _link(link: Link) -> str:
    kind, speed = {"nvlink": "NVLink", "xgmi": "xGMI"}[link.kind], link.speed_bytes
    if link.up is not True:
        return f"{kind} {'down' if link.up is False else link.up.value}"
    version = "" if isinstance(link.version, Unread) else str(link.version)
    return f"{kind}{version} at {f'speed {speed.value}' if isinstance(speed, Unread) else f'{speed / 1e9:.3g} GB/s'}"


def _pcie(gpu: Gpu) -> str:
    """``gen 5 x16``: the generation that GPU and slot allow together, and the width that the link has."""
    return _slot(gpu.max_pcie_generation, gpu.max_pcie_width if isinstance(gpu.pcie_width, Unread) else gpu.pcie_width)


def _slot(generation: int | Unread, width: int | Unread) -> str:
    return f"gen {_word(generation)} {f'width {width.value}' if isinstance(width, Unread) else f'x{width}'}"


def _nic_pcie(topology: NodeTopology) -> dict[str, str | int]:
    """``8 x gen 5 x16, 1 x gen 4 x8``: the width that physical NICs have; no fact where none is known."""
    links = [nic.pcie for nic in topology.nics if nic.kind != "virtual"]
    widths = [pcie.max_width if isinstance(pcie.width, Unread) else pcie.width for pcie in links]
    if all(isinstance(width, Unread) for width in widths):
        return {}
    return {"nic_pcie": _counted(_slot(pcie.max_generation, width) for pcie, width in zip(links, widths, strict=True))}


def _numa_nodes(topology: NodeTopology) -> str | int:
    """NUMA nodes that have CPUs; the others are memory, such as that of a Grace GPU."""
    return sum(bool(node.cpus) for node in topology.numa) or Unread.UNKNOWN.value


def _nics(topology: NodeTopology) -> str:
    """``8 x infiniband 400 Gbit/s, 1 x ethernet 25 Gbit/s``: NICs with a device behind them."""
    kinds = Counter(_nic(nic) for nic in topology.nics if nic.kind != "virtual")
    return ", ".join(f"{kinds[kind]} x {kind}" for kind in sorted(kinds)) or "none"


def _nic(nic: Nic) -> str:
    rate = f"rate {nic.rate_bits.value}" if isinstance(nic.rate_bits, Unread) else f"{nic.rate_bits / 1e9:g} Gbit/s"
    return f"{nic.kind} down" if nic.up is False else f"{nic.kind} {rate}"


def _counted(values: Iterable[str | int]) -> str:
    """The one value, or each with its number, the most frequent first (``7 x NVIDIA H200, 1 x unknown``)."""
    counts = Counter(map(str, values))
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(
        f"{number} x {value}" for value, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def _word(value: str | int | Unread) -> str | int:
    return value.value if isinstance(value, Unread) else value


def _possible_pairs(topology: NodeTopology) -> int:
    return len(topology.gpus) * (len(topology.gpus) - 1) // 2
