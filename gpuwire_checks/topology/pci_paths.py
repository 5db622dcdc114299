"""Path classes that the PCI bus shows: PIX, PXB, PHB, NODE, SYS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from gpuwire_checks.topology.model import Gpu, Nic, PairPath, PciDevice, Unread
from gpuwire_checks.topology.pci import is_on_amd_board


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a device is on the bus.

    Attributes:
        bridges: above it, the nearest first.
        root: its root complex; *unknown* too where not all bridges are known.
    """

    bridges: tuple[str, ...] = ()
    root: str | Unread = Unread.UNKNOWN
    numa_node: int | Unread = Unread.UNKNOWN


def path_class(a: Place, b: Place) -> str | None:
    """PIX through one switch, PXB through several, PHB within a root complex, NODE within a NUMA node, SYS beyond.

    None where what is known does not tell. A switch is two bridges deep: its upstream port, which all devices below
    share, and a downstream port of each.

    Source: the legend of ``nvidia-smi topo -m``.
    """
    shared = next((bridge for bridge in a.bridges if bridge in b.bridges), None)
    if shared is not None:
        return "PIX" if max(a.bridges.index(shared), b.bridges.index(shared)) <= 1 else "PXB"
    if isinstance(a.root, Unread) or isinstance(b.root, Unread):
        return None
    if a.root == b.root:
        return "PHB"
    if isinstance(a.numa_node, Unread) or isinstance(b.numa_node, Unread):
        return None
    return "NODE" if a.numa_node == b.numa_node else "SYS"


def pci_paths(
    pci: Sequence[PciDevice], gpus: Sequence[Gpu], nics: Sequence[Nic], *, known: Sequence[PairPath] = ()
) -> tuple[PairPath, ...]:
    """Path classes that the bus shows, in nvidia-smi's words: of GPUs without a known path, and of each GPU and NIC.

    Two GPUs have one only where their links are known to lead elsewhere: it would pass for their best path otherwise.

    Args:
        known: paths that a driver told; these pairs are left out.
    """
    by_address = {device.address: device for device in pci if not isinstance(device.address, Unread)}
    places = {gpu.name: _place(by_address, gpu.pci_address) for gpu in gpus}
    places |= {nic.name: _place(by_address, nic.pci_address) for nic in nics}
    told = {names for pair in known for names in ((pair.a, pair.b), (pair.b, pair.a))}
    of_gpus = ((a.name, b.name) for a, b in combinations(gpus, 2) if _apart(a, b) and _apart(b, a))
    to_nics = ((gpu.name, nic.name) for gpu, nic in product(gpus, nics))
    return tuple(
        PairPath(a=a, b=b, path=path)
        for a, b in (*of_gpus, *to_nics)
        if (a, b) not in told and (path := path_class(places[a], places[b])) is not None
    )


def bridges_above(by_address: Mapping[str, PciDevice], device: PciDevice) -> tuple[tuple[str, ...], bool]:
    """The bridges above a device, the nearest first, and whether the last one is right under the root complex."""
    bridges: list[str] = []
    parent = device.parent
    while parent is not None and not isinstance(parent, Unread) and parent not in bridges:
        bridges.append(parent)
        parent = by_address[parent].parent if parent in by_address else Unread.UNKNOWN
    return tuple(bridges), parent is None


def _place(by_address: Mapping[str, PciDevice], address: str | Unread) -> Place:
    device = None if isinstance(address, Unread) else by_address.get(address)
    if device is None:
        return Place()
    bridges, whole = bridges_above(by_address, device)
    # The switch of a board itself is no step between the board and its neighbours.
    outer = tuple(at for at in bridges if at not in by_address or not is_on_amd_board(by_address[at]))
    return Place(bridges=outer, root=device.root if whole else Unread.UNKNOWN, numa_node=device.numa_node)


def _apart(a: Gpu, b: Gpu) -> bool:
    """True when the links of ``a`` are known, and none that may be up can lead to ``b``."""
    return not isinstance(a.links, Unread) and all(
        link.up is False or (not isinstance(link.remote, Unread) and link.remote not in ("NVSwitch", b.name))
        for link in a.links
    )
