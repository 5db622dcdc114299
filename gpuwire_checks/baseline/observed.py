"""The wiring of a node as a baseline records it: what could be read, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from gpuwire_checks.baseline.wiring import (
    ExpectedFabric,
    ExpectedLinks,
    ExpectedNic,
    ExpectedPcie,
    GpuPair,
    NicPair,
    Switched,
    Wiring,
    pair_table,
)
from gpuwire_checks.topology.model import PEER_UNKNOWN, Gpu, GpuState, Nic, NodeTopology, Pcie, Unread
from gpuwire_checks.topology.wires import gpu_pairs, nic_paths

_T = TypeVar("_T")
_UNREAD = frozenset(Unread)


def observed_wiring(topology: NodeTopology) -> Wiring:
    """What this node is, to hold it to from now on."""
    gpus, nics = topology.gpus, physical_nics(topology)
    pairs = gpu_pair_paths(topology)
    to_nics = gpu_nic_paths(topology)
    every = len(gpus) * (len(gpus) - 1) // 2
    return Wiring(
        gpus=len(gpus),
        model=_one(gpu.model for gpu in gpus),
        pci_addresses=_all(gpu.pci_address for gpu in gpus),
        numa_nodes=_all(gpu.numa_node for gpu in gpus),
        links=_links(gpus),
        pairs=pair_table(pairs, every=every),
        peers=pair_table(peer_statuses(topology), every=every),
        pcie=_pcie(gpus),
        ecc=_switched(gpus, lambda gpu: gpu.state.ecc),
        persistence=_switched(gpus, lambda gpu: gpu.state.persistence),
        mig=_switched(gpus, lambda gpu: gpu.state.mig),
        vbios=_vbios(gpus),
        fabric=_fabric(gpus),
        nics=tuple(map(_nic, nics)),
        nic_paths=pair_table(to_nics, every=len(gpus) * len(nics)),
    )


def physical_nics(topology: NodeTopology) -> tuple[Nic, ...]:
    """NICs with a device behind them; a container's or a bridge's interface comes and goes."""
    return tuple(nic for nic in topology.nics if nic.kind not in ("virtual", "unknown"))


def gpu_pair_paths(topology: NodeTopology) -> dict[GpuPair, str]:
    """The known path of each pair of GPUs by their numbers."""
    number = {gpu.name: gpu.index for gpu in topology.gpus}
    return {_ordered(number[pair.a], number[pair.b]): pair.path for pair in gpu_pairs(topology)}


def gpu_nic_paths(topology: NodeTopology) -> dict[NicPair, str]:
    """The known path of each GPU to each physical NIC."""
    number = {gpu.name: gpu.index for gpu in topology.gpus}
    names = {nic.name for nic in physical_nics(topology)}
    paths = nic_paths(topology)
    return {(number[gpu], nic): path for gpu, to in paths.items() for nic, path in to.items() if nic in names}


def peer_statuses(topology: NodeTopology) -> dict[GpuPair, str]:
    """Peer access of each pair: ``OK`` when the driver says so for reads and writes both ways, else its first word.

    A pair of which the driver tells nothing worse, and not all, is none of them.
    """
    number = {gpu.name: gpu.index for gpu in topology.gpus}
    found: dict[GpuPair, str] = {}
    for access in topology.peers:
        if access.capability in ("read", "write"):
            pair = _ordered(number[access.a], number[access.b])
            if found.get(pair, "OK") in ("OK", PEER_UNKNOWN) and access.status != "OK":
                found[pair] = access.status
            found.setdefault(pair, access.status)
    return {pair: status for pair, status in found.items() if status != PEER_UNKNOWN}


def observed_software(topology: NodeTopology) -> dict[str, str]:
    """The versions that could be read, to hold the node to; a site may widen them to ranges."""
    found = topology.software
    names = ("driver", "cuda", "rocm", "nccl", "torch", "kernel", "python")
    versions = {name: getattr(found, name) for name in names}
    return {name: version for name, version in versions.items() if isinstance(version, str) and version not in _UNREAD}


def _ordered(a: int, b: int) -> GpuPair:
    return (a, b) if a < b else (b, a)


def _links(gpus: Sequence[Gpu]) -> ExpectedLinks | None:
    """Only links that are up: what is down when a baseline is recorded is not expected to be up."""
    up = [None if isinstance(gpu.links, Unread) else [link for link in gpu.links if link.up is True] for gpu in gpus]
    if not up or any(links is None for links in up):
        return None
    counts = [len(links) for links in up if links is not None]
    every = [link for links in up for link in links or ()]
    return ExpectedLinks(
        kind=every[0].kind if every else "nvlink",
        per_gpu=counts[0] if len(set(counts)) == 1 else tuple(counts),
        speed=_one(link.speed_bytes for link in every),
        version=_one(link.version for link in every),
    )


def _pcie(gpus: Sequence[Gpu]) -> ExpectedPcie | tuple[ExpectedPcie, ...] | None:
    each = [expected_pcie(pcie_of(gpu)) for gpu in gpus]
    known = tuple(pcie for pcie in each if pcie is not None)
    if not known or len(known) < len(each):
        return None
    return known[0] if len(set(known)) == 1 else known


def _vbios(gpus: Sequence[Gpu]) -> str | tuple[str, ...] | None:
    """One version, or one for each GPU; boards of one node may differ after a replacement."""
    each = _all(gpu.state.firmware for gpu in gpus)
    return each[0] if each and len(set(each)) == 1 else each


def pcie_of(gpu: Gpu) -> Pcie:
    """A GPU's PCIe link in one piece."""
    return Pcie(
        generation=gpu.pcie_generation,
        width=gpu.pcie_width,
        max_generation=gpu.max_pcie_generation,
        max_width=gpu.max_pcie_width,
    )


def expected_pcie(pcie: Pcie) -> ExpectedPcie | None:
    """The highest generation, which a device at rest does not show, and the width it has now."""
    width = pcie.max_width if isinstance(pcie.width, Unread) else pcie.width
    if isinstance(pcie.max_generation, Unread) or isinstance(width, Unread):
        return None
    return ExpectedPcie(generation=pcie.max_generation, width=width)


def _fabric(gpus: Sequence[Gpu]) -> ExpectedFabric | None:
    state, status = _one(gpu.state.fabric for gpu in gpus), _one(gpu.state.fabric_status for gpu in gpus)
    if state is None or status is None:
        return None
    in_rack = all(is_in_rack(gpu.state) is True for gpu in gpus)
    return ExpectedFabric(state=state, status=status, cluster="rack" if in_rack else None)


def is_in_rack(state: GpuState) -> bool | Unread:
    """Whether a GPU is in a rack's NVLink domain."""
    cluster = state.fabric_cluster
    return cluster if isinstance(cluster, Unread) else bool(cluster.strip("0-"))


def _nic(nic: Nic) -> ExpectedNic:
    return ExpectedNic(
        name=nic.name,
        kind=nic.kind if nic.kind in ("ethernet", "infiniband", "roce") else "ethernet",
        rate=None if isinstance(nic.rate_bits, Unread) else float(nic.rate_bits),
        numa_node=None if isinstance(nic.numa_node, Unread) else nic.numa_node,
        pcie=expected_pcie(nic.pcie),
        firmware=None if isinstance(nic.firmware, Unread) else nic.firmware,
        pci_address=None if isinstance(nic.pci_address, Unread) else nic.pci_address,
    )


def _switched(gpus: Sequence[Gpu], mode: Callable[[Gpu], bool | Unread]) -> Switched | None:
    on = _one(map(mode, gpus))
    return None if on is None else ("enabled" if on else "disabled")


def _one(values: Iterable[_T | Unread]) -> _T | None:
    """The value that all have; None when they differ or one cannot be read."""
    found = set(values)
    only = next(iter(found)) if len(found) == 1 else None
    return None if isinstance(only, Unread) else only


def _all(values: Iterable[_T | Unread]) -> tuple[_T, ...] | None:
    """Every value; None when there is none, or one cannot be read."""
    found = tuple(values)
    known = tuple(value for value in found if not isinstance(value, Unread))
    return known if found and len(known) == len(found) else None
