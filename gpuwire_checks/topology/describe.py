"""A node's wiring in plain words, a line per fact. What could not be read is said as such, never left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import combinations
from typing import TypeVar

from gpuwire_checks.topology.model import Gpu, Nic, NodeTopology, PairPath, Unread
from gpuwire_checks.topology.wires import (
    gpu_pairs,
    is_switched,
    joined,
    links_per_gpu,
    nearest_nics,
    nic_paths,
    odd_one,
)
from gpuwire_checks.units import format_size

MOST_PAIRS = 8
"""Pairs of one path class listed by name; above that they are counted."""

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def describe(topology: NodeTopology) -> list[str]:
    """Lines for a person: devices, NVLink, paths, NUMA, NICs, the host where known, and every doubt with its line."""
    return [
        *_device_lines(topology),
        *_nvlink_lines(topology),
        *_path_lines(topology),
        *_numa_lines(topology),
        *_nic_lines(topology),
        *_host_lines(topology),
        *_doubt_lines(topology),
    ]


def _device_lines(topology: NodeTopology) -> list[str]:
    models = _grouped(topology.gpus, key=lambda gpu: gpu.model)
    named = "".join(f", {len(gpus)} x {model}" for model, gpus in models.items() if not isinstance(model, Unread))
    unread = "".join(f", model {model.value}" for model in models if isinstance(model, Unread))
    return [f"{topology.source}: {_count(len(topology.gpus), 'GPU')}{named}{unread}"]


def _nvlink_lines(topology: NodeTopology) -> list[str]:
    pairs = gpu_pairs(topology)
    if not any(pair.nvlinks for pair in pairs):
        linked = any(pair.links for pair in pairs)
        kind = "xGMI" if {gpu.vendor for gpu in topology.gpus} == {"amd"} else "NVLink"
        return [f"{kind}: none shown on {_every(pairs, topology)}"] if pairs and not linked else []
    by_links = _grouped(pairs, key=lambda pair: pair.nvlinks)
    where = [f"{links} on {_count(len(by_links[links]), 'pair')}" for links in sorted(by_links, reverse=True)]
    equal = f"{pairs[0].nvlinks} links on {_every(pairs, topology)}"
    lines = [f"NVLink: {equal}" if len(by_links) == 1 else f"NVLink links per pair: {', '.join(where)}"]
    if odd := odd_one(topology):
        usual = Counter(pair.path for pair in pairs).most_common(1)[0][0]
        lines.append(f"odd one out: {odd}; every other pair is {usual}")
    how = "through a switch" if is_switched(topology) else "added over its pairs"
    links, paired = links_per_gpu(topology), Counter(name for pair in pairs for name in (pair.a, pair.b))
    # Pairs that are not known may have links: none found among the others is no 0.
    by_count = _grouped(
        topology.gpus,
        key=lambda gpu: links[gpu.name] or (0 if paired[gpu.name] == len(topology.gpus) - 1 else "unknown"),
    )
    lines.append(f"NVLinks of a GPU, {how}: " + "; ".join(f"{n} on {_names(g, topology)}" for n, g in by_count.items()))
    groups = joined([pair for pair in pairs if pair.nvlinks], topology)
    lines.append("joined by NVLink: " + " | ".join(_names(group, topology) for group in groups))
    alone = [gpu for gpu in topology.gpus if not any(gpu in group for group in groups)]
    return [*lines, f"without a known NVLink: {_names(alone, topology)}"] if alone else lines


def _path_lines(topology: NodeTopology) -> list[str]:
    pairs = gpu_pairs(topology)
    known = {frozenset((pair.a, pair.b)) for pair in pairs}
    missing = [
        PairPath(a=a.name, b=b.name, path="unknown")
        for a, b in combinations(topology.gpus, 2)
        if frozenset((a.name, b.name)) not in known
    ]
    unknown = [f"path unknown: {_listed(missing, topology)}"] if missing and pairs else []
    by_path = _grouped(pairs, key=lambda pair: pair.path)
    if len(by_path) == 1:
        return [f"path {pairs[0].path}: {_every(pairs, topology)}", *unknown]
    return [*(f"path {path}: {_listed(group, topology)}" for path, group in by_path.items()), *unknown]


def _listed(pairs: list[PairPath], topology: NodeTopology) -> str:
    """Pairs by name; whole groups as such (``within GPU0 GPU1 | GPU2 GPU3``); many others by their number."""
    groups = joined(pairs, topology)
    if len(pairs) > len(groups) and sum(len(group) * (len(group) - 1) // 2 for group in groups) == len(pairs):
        return "within " + " | ".join(_names(group, topology) for group in groups)
    return ", ".join(f"{pair.a}-{pair.b}" for pair in pairs) if len(pairs) <= MOST_PAIRS else f"{len(pairs)} GPU pairs"


def _every(pairs: tuple[PairPath, ...], topology: NodeTopology) -> str:
    possible = len(topology.gpus) * (len(topology.gpus) - 1) // 2
    if len(pairs) < possible:
        return f"the {_count(len(pairs), 'GPU pair')} known of {possible}"
    return f"all {possible} GPU pairs" if possible > 1 else "the GPU pair"


def _numa_lines(topology: NodeTopology) -> list[str]:
    by_node = _grouped(topology.gpus, key=lambda gpu: gpu.numa_node)
    by_cpus = _grouped(topology.gpus, key=lambda gpu: gpu.cpu_affinity)
    return [
        f"{what} {_word(value)}: {_names(gpus, topology)}"
        for what, groups in (("NUMA node", by_node), ("CPU affinity", by_cpus))
        if not _untold(groups)
        for value, gpus in groups.items()
    ]


def _untold(groups: Iterable[str | int | Unread]) -> bool:
    """True where no GPU has the fact: it is among the unknown, and not a line of its own."""
    return set(groups) <= {Unread.UNKNOWN}


def _nic_lines(topology: NodeTopology) -> list[str]:
    if not topology.nics:
        return ["NICs: none listed"]
    alike = _grouped(topology.nics, key=_nic_facts)
    lines = [f"NICs, {facts}: {', '.join(map(_nic_name, nics))}" for facts, nics in alike.items()]
    paths = nic_paths(topology)
    nearest = _grouped(topology.gpus, key=lambda gpu: _nearest(paths[gpu.name], topology))
    lines += [f"nearest NIC of {_names(gpus, topology)}: {text}" for text, gpus in nearest.items()]
    return lines + [line for nic in topology.nics if (line := _far_from_all(nic, paths))]


def _nearest(paths: dict[str, str], topology: NodeTopology) -> str:
    near = nearest_nics(paths)
    if near is None:
        return "unknown"
    path, names = near
    among = (
        "" if len(paths) == len(topology.nics) else f", of the {len(paths)} of {len(topology.nics)} with a known path"
    )
    if path == "SYS":
        return f"none nearer than SYS{among}"
    return f"{', '.join(_nic_name(nic) for nic in topology.nics if nic.name in names)} at {path}{among}"


def _far_from_all(nic: Nic, paths: dict[str, dict[str, str]]) -> str | None:
    known = [to[nic.name] for to in paths.values() if nic.name in to]
    if set(known) != {"SYS"}:
        return None
    return f"{_nic_name(nic)}: SYS to {'every GPU' if len(known) == len(paths) else f'all {len(known)} GPUs known'}"


def _nic_name(nic: Nic) -> str:
    return nic.name if isinstance(nic.device, Unread) or nic.device == nic.name else f"{nic.name} ({nic.device})"


def _nic_facts(nic: Nic) -> str:
    kind = "kind unknown" if nic.kind == "unknown" else nic.kind
    rate = nic.rate_bits.value if isinstance(nic.rate_bits, Unread) else f"{nic.rate_bits / 1e9:g} Gbit/s"
    state = f"state {nic.up.value}" if isinstance(nic.up, Unread) else "up" if nic.up else "down"
    return f"{kind}, rate {rate}, {state}"


def _host_lines(topology: NodeTopology) -> list[str]:
    """A line per fact known, then one line per reason with the names of those that are not."""
    facts = {**_gpu_facts(topology), **_cpu_facts(topology), **_system_facts(topology)}
    lines = [f"{name}: {value}" for name, value in facts.items() if not isinstance(value, Unread)]
    unread = [(name, value) for name, value in facts.items() if isinstance(value, Unread)]
    by_reason = _grouped(unread, key=lambda fact: fact[1])
    return [*lines, *(f"{reason.value}: {', '.join(name for name, _ in group)}" for reason, group in by_reason.items())]


def _gpu_facts(topology: NodeTopology) -> dict[str, Unread]:
    """What nothing is known of for any GPU."""
    gpus = topology.gpus
    untold = {
        "paths between GPUs": len(gpus) > 1 and not gpu_pairs(topology),
        "NUMA node of the GPUs": all(gpu.numa_node is Unread.UNKNOWN for gpu in gpus),
        "CPU affinity of the GPUs": all(gpu.cpu_affinity is Unread.UNKNOWN for gpu in gpus),
    }
    return {name: Unread.UNKNOWN for name, is_untold in untold.items() if is_untold and gpus}


def _cpu_facts(topology: NodeTopology) -> dict[str, str | int | Unread]:
    cpu = topology.cpu
    if isinstance(cpu, Unread):
        return {"cpu": cpu}
    threads = f"{cpu.threads}, {len(cpu.usable)} usable"
    return {"cpu": cpu.model, "sockets": cpu.sockets, "cores": cpu.cores, "threads": threads}


def _system_facts(topology: NodeTopology) -> dict[str, str | int | Unread]:
    memory, software = topology.memory_bytes, topology.software
    versions = {name: getattr(software, name) for name in ("kernel", "python", "torch", "driver", "cuda", "nccl")}
    return {
        "hostname": topology.hostname,
        "memory": memory if isinstance(memory, Unread) else format_size(memory),
        "NUMA nodes": len(topology.numa) or Unread.UNKNOWN,
        "virtualised": "no" if topology.virtualised is None else topology.virtualised,
        **{name: "not installed" if version is None else version for name, version in versions.items()},
    }


def _doubt_lines(topology: NodeTopology) -> list[str]:
    return [f"line {doubt.line}: {doubt.text}" if doubt.line else f"note: {doubt.text}" for doubt in topology.doubts]


def _grouped(items: Iterable[_Item], *, key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    groups: defaultdict[_Key, list[_Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return dict(groups)


def _word(value: str | int | Unread) -> str:
    return value.value if isinstance(value, Unread) else str(value)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _names(gpus: Iterable[Gpu], topology: NodeTopology) -> str:
    some = list(gpus)
    whole = len(some) == len(topology.gpus) > 2
    return f"all {len(some)} GPUs" if whole else " ".join(gpu.name for gpu in some)
