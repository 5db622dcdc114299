"""Small nodes for tests."""

from __future__ import annotations

from gpuwire_checks.topology.model import Cpu, Gpu, Nic, NodeTopology, NumaNode, PairPath, Software, Unread

SOFTWARE = Software(kernel="6.1.0", python="3.11.7", torch="2.13.0", driver=None, cuda=None, nccl=None)


def cpu_node(
    *, cores: int = 2, numa_nodes: int = 1, memory_bytes: int = 32 << 30, model: str = "Test CPU"
) -> NodeTopology:
    """A node without a GPU."""
    each = cores // numa_nodes
    return NodeTopology(
        source="live",
        hostname="node-1",
        cpu=Cpu(
            model=model,
            sockets=1,
            cores=cores,
            threads=cores,
            usable=tuple(range(cores)),
            last_level_cache_bytes=32 << 20,
        ),
        memory_bytes=memory_bytes,
        numa=tuple(
            NumaNode(number=n, cpus=tuple(range(n * each, (n + 1) * each)), memory_bytes=memory_bytes // numa_nodes)
            for n in range(numa_nodes)
        ),
        virtualised=None,
        nics=(Nic(name="eth0", kind="ethernet", rate_bits=25_000_000_000, up=True, numa_node=0),),
        gpus=(),
        paths=(),
        software=SOFTWARE,
    )


def gpu_node(
    *,
    gpus: int = 8,
    numa_nodes: int = 2,
    path: str = "NV18",
    lost_link: int | None = None,
    memory_bytes: int = 80 << 30,
    model: str = "NVIDIA H100 80GB HBM3",
) -> NodeTopology:
    """A node of GPUs joined pairwise by ``path``, half of them on each NUMA node; GPU ``lost_link`` lacks one link."""
    host = cpu_node(cores=64, numa_nodes=numa_nodes)
    cards = tuple(
        Gpu(
            index=index,
            vendor="nvidia",
            model=model,
            memory_bytes=memory_bytes,
            pci_address=f"0000:{index + 1:02x}:00.0",
            pcie_generation=5,
            pcie_width=16,
            max_pcie_generation=5,
            max_pcie_width=16,
            numa_node=index * numa_nodes // gpus,
            cpu_affinity=Unread.UNKNOWN,
        )
        for index in range(gpus)
    )
    paths = tuple(
        PairPath(a=f"GPU{a}", b=f"GPU{b}", path="NV17" if lost_link in (a, b) else path)
        for a in range(gpus)
        for b in range(a + 1, gpus)
    )
    return NodeTopology(
        source="live",
        hostname="node-1",
        cpu=host.cpu,
        memory_bytes=host.memory_bytes,
        numa=host.numa,
        virtualised=None,
        nics=host.nics,
        gpus=cards,
        paths=paths,
        software=SOFTWARE,
    )
