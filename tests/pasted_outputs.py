"""Small outputs of tools, as people paste them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Path = Callable[[int, int], str]


def matrix(gpus: int, path: Path, *, numa: Sequence[str] = (), nics: Sequence[Sequence[str]] = ()) -> str:
    """``nvidia-smi topo -m`` of GPUs in order; ``nics`` has the path of each GPU to each NIC."""
    names = [f"GPU{gpu}" for gpu in range(gpus)] + [f"NIC{nic}" for nic in range(len(nics))]
    lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])]
    for gpu in range(gpus):
        cells = ["X" if other == gpu else path(min(gpu, other), max(gpu, other)) for other in range(gpus)]
        cells += [of_gpus[gpu] for of_gpus in nics]
        lines.append("\t".join([names[gpu], *cells, f"{8 * gpu}-{8 * gpu + 7}", numa[gpu] if numa else "0"]))
    for number, of_gpus in enumerate(nics):
        others = ["X" if other == number else "SYS" for other in range(len(nics))]
        lines.append("\t".join([f"NIC{number}", *of_gpus, *others, ""]))
    return "\n".join(lines) + "\n"


def ibstat(state: str, physical: str, rate: str, *, layer: str = "InfiniBand") -> str:
    return (
        "CA 'mlx5_4'\n\tCA type: MT4125\n\tNumber of ports: 1\n\tFirmware version: 22.36.1010\n"
        "\tHardware version: 0\n\tNode GUID: ...\n\tSystem image GUID: ...\n"
        f"\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: {physical}\n\t\tRate: {rate}\n\t\tBase lid: 0\n"
        "\t\tLMC: 0\n\t\tSM lid: 0\n\t\tCapability mask: 0x00010000\n\t\tPort GUID: ...\n"
        f"\t\tLink layer: {layer}\n"
    )
