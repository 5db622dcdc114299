"""Single faults, put into a healthy node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gpuwire_checks.baseline.observed import is_in_rack
from gpuwire_checks.topology.model import Gpu, Link, Nic, NodeTopology, PairPath, Unread

Break = Callable[[NodeTopology], NodeTopology]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault, the one rule that must fail for it, and the part that its first line names."""

    breaks: Break
    rule: str
    part: str
    says: str
    fits: Callable[[NodeTopology], bool] = lambda _node: True


def with_gpu(number: int, **changes: Any) -> Break:
    def broken(node: NodeTopology) -> NodeTopology:
        return replace(node, gpus=tuple(replace(g, **changes) if g.index == number else g for g in node.gpus))

    return broken


def with_state(number: int, **changes: Any) -> Break:
    def broken(node: NodeTopology) -> NodeTopology:
        return with_gpu(number, state=replace(node.gpus[number].state, **changes))(node)

    return broken


def with_nic(name: str, **changes: Any) -> Break:
    def broken(node: NodeTopology) -> NodeTopology:
        return replace(node, nics=tuple(replace(n, **changes) if n.name == name else n for n in node.nics))

    return broken


def links_of(gpu: Gpu) -> tuple[Link, ...]:
    assert not isinstance(gpu.links, Unread)
    return gpu.links


def link_down(node: NodeTopology) -> NodeTopology:
    """The first link of GPU 0 is down; with it goes one link of the paths that ran over it, and its other end."""
    first = links_of(node.gpus[0])[0]
    gone = replace(first, up=False, speed_bytes=0.0)
    broken = with_gpu(0, links=(gone, *links_of(node.gpus[0])[1:]))(node)
    if first.remote == "NVSwitch":
        return replace(broken, paths=tuple(_less(pair) if pair.a == "GPU0" else pair for pair in node.paths))
    other = next(gpu for gpu in node.gpus if gpu.name == first.remote)
    back = next(link for link in links_of(other) if link.remote == "GPU0")
    ends = tuple(replace(link, up=False, speed_bytes=0.0) if link == back else link for link in links_of(other))
    paths = tuple(_less(p) if {p.a, p.b} == {"GPU0", other.name} else p for p in node.paths)
    return replace(with_gpu(other.index, links=ends)(broken), paths=paths)


def _less(pair: PairPath) -> PairPath:
    if not pair.links:
        return pair
    kind = "NV" if pair.path.startswith("NV") else "XGMI"
    return replace(pair, path=f"{kind}{pair.links - 1}" if pair.links > 1 else "SYS")


def half_speed(node: NodeTopology) -> NodeTopology:
    first = links_of(node.gpus[0])[0]
    assert not isinstance(first.speed_bytes, Unread)
    slow = replace(first, speed_bytes=first.speed_bytes / 2)
    return with_gpu(0, links=(slow, *links_of(node.gpus[0])[1:]))(node)


def without_gpu(number: int) -> Break:
    """One GPU gone, the others numbered anew, as a driver does."""

    def broken(node: NodeTopology) -> NodeTopology:
        left = [gpu for gpu in node.gpus if gpu.index != number]
        names = {gpu.name: f"GPU{at}" for at, gpu in enumerate(left)} | {nic.name: nic.name for nic in node.nics}
        gpus = tuple(replace(gpu, index=at, links=_renamed(links_of(gpu), names)) for at, gpu in enumerate(left))
        pairs = (p for p in node.paths if p.a in names and p.b in names)
        peers = (p for p in node.peers if p.a in names and p.b in names)
        return replace(
            node,
            gpus=gpus,
            paths=tuple(replace(p, a=names[p.a], b=names[p.b]) for p in pairs),
            peers=tuple(replace(p, a=names[p.a], b=names[p.b]) for p in peers),
            counters=tuple(c for c in node.counters if c.part != f"GPU{len(left)}"),
        )

    return broken


def _renamed(links: tuple[Link, ...], names: dict[str, str]) -> tuple[Link, ...]:
    return tuple(replace(link, remote=names.get(str(link.remote), link.remote)) for link in links)


def without_nic(name: str) -> Break:
    def broken(node: NodeTopology) -> NodeTopology:
        paths = tuple(pair for pair in node.paths if name not in (pair.a, pair.b))
        return replace(node, nics=tuple(nic for nic in node.nics if nic.name != name), paths=paths)

    return broken


def no_peer_access(node: NodeTopology) -> NodeTopology:
    """P2P is off between GPU 0 and GPU 1, both ways."""
    ends = {"GPU0", "GPU1"}
    peers = tuple(replace(p, status="CNS") if {p.a, p.b} == ends else p for p in node.peers)
    return replace(node, peers=peers)


def new_driver(node: NodeTopology) -> NodeTopology:
    return replace(node, software=replace(node.software, driver="575.51.03"))


def _has_links(node: NodeTopology) -> bool:
    return bool(links_of(node.gpus[0]))


def _has_speed(node: NodeTopology) -> bool:
    return _has_links(node) and not isinstance(links_of(node.gpus[0])[0].speed_bytes, Unread)


def _has_peers(node: NodeTopology) -> bool:
    return any({p.a, p.b} == {"GPU0", "GPU1"} and p.status == "OK" for p in node.peers)


def _has_fabric(node: NodeTopology) -> bool:
    return not isinstance(node.gpus[0].state.fabric, Unread)


def _in_rack(node: NodeTopology) -> bool:
    return is_in_rack(node.gpus[0].state) is True


def _nvidia(node: NodeTopology) -> bool:
    return node.gpus[0].vendor == "nvidia"


def _nic(node: NodeTopology) -> Nic:
    return node.nics[3]


FAULTS = {
    "a link is down": Fault(breaks=link_down, rule="links", part="GPU0", says="0 is down", fits=_has_links),
    "a link at half speed": Fault(breaks=half_speed, rule="link_speed", part="GPU0", says="speed is", fits=_has_speed),
    "a GPU is gone": Fault(
        breaks=without_gpu(1), rule="gpu", part="GPU1", says="is gone", fits=lambda node: len(node.gpus) > 2
    ),
    "x8": Fault(breaks=with_gpu(0, pcie_width=8), rule="pcie", part="GPU0", says="x8"),
    "one generation down": Fault(
        breaks=lambda node: with_gpu(0, max_pcie_generation=int(node.gpus[0].max_pcie_generation) - 1)(node),
        rule="pcie",
        part="GPU0",
        says="PCIe is gen",
    ),
    "wrong NUMA node": Fault(breaks=with_gpu(0, numa_node=1), rule="numa", part="GPU0", says="NUMA node is 1"),
    "a NIC is gone": Fault(breaks=without_nic("mlx5_3"), rule="nic", part="mlx5_3", says="mlx5_3 is gone"),
    "a NIC at half rate": Fault(
        breaks=with_nic("mlx5_3", rate_bits=200_000_000_000), rule="nic_rate", part="mlx5_3", says="200 Gbit/s"
    ),
    "a NIC is down": Fault(
        breaks=with_nic("mlx5_3", up=False, rate_bits=Unread.UNKNOWN, state="Down", physical="Polling"),
        rule="nic",
        part="mlx5_3",
        says="Down/Polling",
    ),
    "a row remap is pending": Fault(
        breaks=with_state(0, remap_pending=True), rule="row_remap", part="GPU0", says="pending", fits=_nvidia
    ),
    "a row could not be remapped": Fault(
        breaks=with_state(0, remap_failed=True), rule="row_remap", part="GPU0", says="could not be", fits=_nvidia
    ),
    "P2P off on one pair": Fault(
        breaks=no_peer_access, rule="peer_access", part="GPU0-GPU1", says="peer access is CNS", fits=_has_peers
    ),
    "an unhealthy fabric route": Fault(
        breaks=with_state(0, fabric_unhealthy=("route unhealthy",)),
        rule="fabric",
        part="GPU0",
        says="Completed, and unhealthy: route unhealthy",
        fits=_has_fabric,
    ),
    "another driver": Fault(breaks=new_driver, rule="software", part="driver", says="driver is 575.51.03"),
    "a fabric without its rack": Fault(
        breaks=with_state(0, fabric_cluster="00000000-0000-0000-0000-000000000000"),
        rule="fabric",
        part="GPU0",
        says="in no rack's NVLink domain",
        fits=_in_rack,
    ),
    "another VBIOS": Fault(
        breaks=with_state(0, firmware="96.00.99.00.01"), rule="vbios", part="GPU0", says="VBIOS is 96.00.99.00.01"
    ),
    "another NIC firmware": Fault(
        breaks=with_nic("mlx5_3", firmware="28.40.1000"), rule="nic_firmware", part="mlx5_3", says="firmware is 28.40"
    ),
    "ECC off": Fault(breaks=with_state(0, ecc=False), rule="ecc", part="GPU0", says="ECC is disabled"),
}
