"""What a node's pairs say together: links per GPU, groups joined by NVLink, the odd one, the NICs nearest to a GPU."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable

from gpuwire_checks.topology.model import Gpu, NodeTopology, PairPath, Unread

NEAR_TO_FAR = ("PIX", "PXB", "PHB", "NODE", "SYS")
MOST_LINKS = 18
"""NVLinks a GPU has at most, up to Blackwell (nvidia-smi nvlink --status)."""


def gpu_pairs(topology: NodeTopology) -> tuple[PairPath, ...]:
    """The pairs of two GPUs whose path is known."""
    names = {gpu.name for gpu in topology.gpus}
    return tuple(pair for pair in topology.paths if pair.a in names and pair.b in names)


def links_per_gpu(topology: NodeTopology) -> dict[str, int]:
    """NVLinks of each GPU as its known pairs show them.

    Direct wires add up over a GPU's pairs (3 peers x 6 = 18). Behind a switch the same links reach every peer, so the
    sum exceeds what a GPU has, and the count is that of its widest pair.
    """
    combine = max if is_switched(topology) else operator.add
    links = dict.fromkeys((gpu.name for gpu in topology.gpus), 0)
    for pair in gpu_pairs(topology):
        links[pair.a] = combine(links[pair.a], pair.nvlinks)
        links[pair.b] = combine(links[pair.b], pair.nvlinks)
    return links


def most_links_up(topology: NodeTopology) -> int | Unread:
    """Links of the GPU that has most of them up.

    That none is up takes a source that lists links: pairs without any may come from one that shows none.
    """
    links = [gpu.links for gpu in topology.gpus if not isinstance(gpu.links, Unread)]
    if any(isinstance(link.up, Unread) for listed in links for link in listed):
        return Unread.UNKNOWN
    if links:
        return max(sum(link.up is True for link in listed) for listed in links)
    return max(links_per_gpu(topology).values(), default=0) or Unread.UNKNOWN


def is_switched(topology: NodeTopology) -> bool:
    """True when a GPU's pairs show more NVLinks than a GPU has: a switch gives every peer the same ones."""
    sums: Counter[str] = Counter()
    for pair in gpu_pairs(topology):
        sums.update({pair.a: pair.nvlinks, pair.b: pair.nvlinks})
    return max(sums.values(), default=0) > MOST_LINKS


def joined(pairs: Iterable[PairPath], topology: NodeTopology) -> tuple[tuple[Gpu, ...], ...]:
    """GPUs that these pairs connect, at one or more hops; a GPU in no pair is in no group."""
    group_of = {gpu.name: {gpu.name} for gpu in topology.gpus}
    for pair in pairs:
        if group_of[pair.a] is not group_of[pair.b]:
            both = group_of[pair.a] | group_of[pair.b]
            group_of.update(dict.fromkeys(both, both))
    groups = {tuple(gpu for gpu in topology.gpus if gpu.name in group): None for group in group_of.values()}
    return tuple(group for group in groups if len(group) > 1)


def odd_one(topology: NodeTopology) -> str | None:
    """The one GPU, or the one pair (``GPU0-GPU1``), with fewer NVLinks than most pairs have; None otherwise.

    One with more is no loss: three of the GPUs of a cube mesh are joined so.
    """
    pairs = gpu_pairs(topology)
    common, count = Counter(pair.path for pair in pairs).most_common(1)[0] if pairs else ("", 0)
    others = [pair for pair in pairs if pair.path != common]
    if not others or not common.startswith("NV") or 2 * count <= len(pairs):
        return None
    usual = PairPath(a="", b="", path=common).nvlinks
    if any(pair.nvlinks > usual for pair in others):
        return None
    if len(others) == 1:
        return f"{others[0].a}-{others[0].b}"
    shared = set.intersection(*({pair.a, pair.b} for pair in others))
    of_one = [pair for pair in pairs if shared & {pair.a, pair.b}]
    return shared.pop() if len(shared) == 1 and len(of_one) == len(others) else None


def nic_paths(topology: NodeTopology) -> dict[str, dict[str, str]]:
    """Of each GPU the known paths to NICs, by their names."""
    nics = {nic.name for nic in topology.nics}
    paths: dict[str, dict[str, str]] = {gpu.name: {} for gpu in topology.gpus}
    for pair in topology.paths:
        for gpu, nic in ((pair.a, pair.b), (pair.b, pair.a)):
            if gpu in paths and nic in nics:
                paths[gpu][nic] = pair.path
    return paths


def nearest_nics(paths: dict[str, str]) -> tuple[str, tuple[str, ...]] | None:
    """The nearest path class of one GPU's paths to NICs and the NICs at it; None when no such path is known."""
    near = next((path for path in NEAR_TO_FAR if path in paths.values()), None)
    return (near, tuple(nic for nic, path in paths.items() if path == near)) if near else None
