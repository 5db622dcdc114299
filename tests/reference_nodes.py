"""A healthy node for any wiring that a baseline states."""

from __future__ import annotations

from itertools import combinations

from gpuwire_checks.baseline.wiring import ExpectedFabric, Wiring
from gpuwire_checks.topology.model import (
    CounterValue,
    Cpu,
    Gpu,
    GpuState,
    Link,
    Nic,
    NodeTopology,
    NumaNode,
    PairPath,
    Pcie,
    PeerAccess,
    Software,
    Unread,
)

NUM_NICS = 8


def node_of(wiring: Wiring, sku: str) -> NodeTopology:
    """A node that meets ``wiring`` in everything, with what it leaves out filled in: two NUMA nodes, eight NICs.

    Deterministic, and healthy: every link is up, no row waits for a remap, no error was counted but 174 PCIe replays a
    GPU. GPUs are at ``0000:10:00.0`` and on, half of them on each NUMA node; NICs are ``mlx5_0`` to ``mlx5_7``, each on
    the switch of one GPU. A pair whose path is not stated is NODE or SYS by its NUMA nodes, or XGMI if the links are;
    one whose peer access is not stated has it.
    Links end at the GPUs that the stated pairs name, or at an NVSwitch where the pairs have more links than a GPU.

    Args:
        wiring: what the node has; of NICs, NUMA nodes and addresses it must say nothing.
        sku: of the reference; one of AMD's begins with ``mi``.
    """
    gpus = tuple(_gpu(wiring, number, sku) for number in range(wiring.gpus))
    return NodeTopology(
        source="live",
        hostname="node-1",
        cpu=Cpu(
            model="Test CPU",
            sockets=2,
            cores=64,
            threads=64,
            usable=tuple(range(64)),
            last_level_cache_bytes=32 << 20,
        ),
        memory_bytes=1 << 40,
        numa=tuple(NumaNode(number=n, cpus=tuple(range(32 * n, 32 * n + 32)), memory_bytes=1 << 39) for n in range(2)),
        virtualised=None,
        nics=tuple(_nic(number) for number in range(NUM_NICS)),
        gpus=gpus,
        paths=(*_gpu_paths(wiring), *_nic_paths(wiring)),
        peers=_peers(wiring),
        counters=tuple(CounterValue(part=part, name="pcie replay", value=174) for part in (gpu.name for gpu in gpus)),
        software=Software(
            kernel="6.8.0-40-generic", python="3.11.7", torch="2.13.0", driver="570.86.15", cuda="12.8", nccl="2.27.5"
        ),
    )


def _gpu(wiring: Wiring, number: int, sku: str) -> Gpu:
    pcie = wiring.pcie_of(number)
    generation, width = (pcie.generation, pcie.width) if pcie else (5, 16)
    fabric = wiring.fabric
    return Gpu(
        index=number,
        vendor="amd" if sku.startswith("mi") else "nvidia",
        model=wiring.model or Unread.UNKNOWN,
        memory_bytes=80 << 30,
        pci_address=f"0000:{0x10 + number:02x}:00.0",
        pcie_generation=1,
        pcie_width=width,
        max_pcie_generation=generation,
        max_pcie_width=width,
        numa_node=_numa_of(number, wiring.gpus),
        cpu_affinity=Unread.UNKNOWN,
        uuid=f"GPU-{number:08x}",
        links=_links(wiring, number),
        state=GpuState(
            ecc=wiring.ecc != "disabled",
            persistence=True,
            mig=False,
            remap_pending=False,
            remap_failed=False,
            fabric=fabric.state if fabric else Unread.NOT_SUPPORTED,
            fabric_status=fabric.status if fabric else Unread.NOT_SUPPORTED,
            fabric_clique=0 if fabric else Unread.NOT_SUPPORTED,
            fabric_cluster=_cluster(fabric) if fabric else Unread.NOT_SUPPORTED,
            fabric_unhealthy=() if fabric else Unread.NOT_SUPPORTED,
            firmware="96.00.61.00.01",
        ),
    )


def _cluster(fabric: ExpectedFabric) -> str:
    return (
        "1f0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0" if fabric.cluster == "rack" else "00000000-0000-0000-0000-000000000000"
    )


def _numa_of(number: int, gpus: int) -> int:
    return 2 * number // max(1, gpus)


def _links(wiring: Wiring, number: int) -> tuple[Link, ...]:
    if wiring.links is None:
        return ()
    remotes = _remotes(wiring, number)
    return tuple(
        Link(
            number=at,
            kind=wiring.links.kind,
            up=True,
            speed_bytes=wiring.links.speed or Unread.UNKNOWN,
            version=wiring.links.version or Unread.UNKNOWN,
            remote=remotes[at] if at < len(remotes) else "NVSwitch",
        )
        for at in range(wiring.links.of(number))
    )


def _remotes(wiring: Wiring, number: int) -> list[str]:
    """The GPUs at the other ends of direct links; none where the pairs have more links than a GPU, as with a switch.

    An xGMI link of no stated pair ends at the other die of the board.
    """
    if wiring.links is not None and wiring.links.kind == "xgmi" and not wiring.path_of:
        return [f"GPU{number ^ 1}"] * wiring.links.of(number)
    ends: list[str] = []
    for (a, b), path in wiring.path_of.items():
        if number in (a, b):
            pair = PairPath(a=f"GPU{a}", b=f"GPU{b}", path=path)
            ends += [f"GPU{b if number == a else a}"] * pair.links
    own = wiring.links.of(number) if wiring.links else 0
    return ends if len(ends) == own else []


def _gpu_paths(wiring: Wiring) -> tuple[PairPath, ...]:
    return tuple(
        PairPath(a=f"GPU{a}", b=f"GPU{b}", path=wiring.path_of.get((a, b)) or _unstated_path(wiring, a, b))
        for a, b in combinations(range(wiring.gpus), 2)
    )


def _unstated_path(wiring: Wiring, a: int, b: int) -> str:
    if wiring.links is not None and wiring.links.kind == "xgmi":
        return "XGMI"
    return "NODE" if _numa_of(a, wiring.gpus) == _numa_of(b, wiring.gpus) else "SYS"


def _peers(wiring: Wiring) -> tuple[PeerAccess, ...]:
    return tuple(
        PeerAccess(a=f"GPU{a}", b=f"GPU{b}", capability=capability, status=status)
        for pair in combinations(range(wiring.gpus), 2)
        for status in [wiring.peer_of.get(pair, "OK")]
        for a, b in (pair, pair[::-1])
        for capability in ("read", "write")
    )


def _nic(number: int) -> Nic:
    return Nic(
        name=f"mlx5_{number}",
        kind="infiniband",
        rate_bits=400_000_000_000,
        up=True,
        numa_node=_numa_of(number, NUM_NICS),
        pci_address=f"0000:{0x40 + number:02x}:00.0",
        device=f"mlx5_{number}",
        state="Active",
        physical="LinkUp",
        firmware="28.39.1002",
        pcie=Pcie(generation=5, width=16, max_generation=5, max_width=16),
    )


def _nic_paths(wiring: Wiring) -> tuple[PairPath, ...]:
    return tuple(
        PairPath(a=f"GPU{gpu}", b=f"mlx5_{nic}", path=_nic_path(gpu, nic, wiring.gpus))
        for gpu in range(wiring.gpus)
        for nic in range(NUM_NICS)
    )


def _nic_path(gpu: int, nic: int, gpus: int) -> str:
    if nic == gpu * NUM_NICS // max(1, gpus):
        return "PIX"
    return "NODE" if _numa_of(gpu, gpus) == _numa_of(nic, NUM_NICS) else "SYS"
