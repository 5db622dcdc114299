"""What a careful engineer would say of a node that an output describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.inspect.links import link_findings, peer_findings
from gpuwire_checks.inspect.references import References
from gpuwire_checks.inspect.state import state_findings
from gpuwire_checks.topology.describe import describe
from gpuwire_checks.topology.model import Nic, NodeTopology, PciDevice, Unread
from gpuwire_checks.topology.wires import gpu_pairs, odd_one

_REDIRECT = ("ReqRedir", "CmpltRedir", "UpstreamFwd")
"""ACS controls that send peer traffic up through the root complex (PCI Express Base Specification, ACS Control)."""


_NIC_CLASSES = {0x0200: "ethernet", 0x0207: "infiniband"}
"""PCI class and subclass, by the PCI Code and ID Assignment Specification."""
_BUS_WORDS = {
    "gpu": ("GPU", "GPUs"),
    "nvswitch": ("NVSwitch", "NVSwitches"),
    "nic": ("NIC", "NICs"),
    "infiniband": ("InfiniBand NIC", "InfiniBand NICs"),
    "ethernet": ("Ethernet NIC", "Ethernet NICs"),
    "switch": ("PCI bridge", "PCI bridges"),
}


def inspect_node(node: NodeTopology, references: References) -> list[Finding]:
    """Findings, the grave ones first within each subject; at least one."""
    rules: tuple[Callable[[], Iterable[Finding]], ...] = (
        lambda: link_findings(node, references),
        lambda: peer_findings(node),
        lambda: state_findings(node),
        lambda: _pair_findings(node),
        lambda: _port_findings(node),
        lambda: _bus_findings(node.pci),
        lambda: _doubt_findings(node),
        lambda: _facts(node),
    )
    return [finding for rule in rules for finding in rule()]


def _facts(node: NodeTopology) -> Iterable[Finding]:
    lines = describe(node)[: -len(node.doubts) or None]
    return [Finding(level=Level.NOTE, text=line.removeprefix(f"{node.source}: ")) for line in lines]


def _doubt_findings(node: NodeTopology) -> Iterable[Finding]:
    return [Finding(level=Level.WARN, text=doubt.text, line=doubt.line) for doubt in node.doubts]


def _pair_findings(node: NodeTopology) -> Iterable[Finding]:
    """The odd GPU or pair; otherwise that there is none."""
    if not node.paths or len(node.gpus) < 2:
        return
    odd = odd_one(node)
    if odd is not None:
        usual = Counter(pair.path for pair in node.paths if pair.nvlinks).most_common(1)[0][0]
        text = f"{odd} is the odd one out: every other pair of GPUs is {usual}"
        yield Finding(level=Level.FAIL, text=text, part=odd)
        return
    if any(pair.links for pair in node.paths):
        yield Finding(level=Level.PASS, text=f"{len(node.gpus)} GPUs, {_paths_words(node)}; no odd one out")
    elif any(pair.path == "PCIE" for pair in node.paths):
        hops = {pair.hops for pair in node.paths if not isinstance(pair.hops, Unread)}
        over = f" over {max(hops)} hops, through the CPUs" if hops and max(hops) > 2 else ""
        text = f"{len(node.gpus)} GPUs, no xGMI link: every pair is joined over PCIe{over}"
        yield Finding(level=Level.PASS, text=text)


def _paths_words(node: NodeTopology) -> str:
    counts = Counter(pair.path for pair in gpu_pairs(node))
    possible = len(node.gpus) * (len(node.gpus) - 1) // 2
    if counts.total() == possible and len(counts) == 1:
        return f"{next(iter(counts))} on every pair"
    known = "" if counts.total() == possible else f"of {possible} pairs "
    each = (f"{path} on {count}" for path, count in counts.most_common())
    return f"{known}{', '.join(each)}{'' if known else ' pairs'}"


def _port_findings(node: NodeTopology) -> Iterable[Finding]:
    ports = [nic for nic in node.nics if not isinstance(nic.up, Unread)]
    down = [nic for nic in ports if nic.up is False]
    for nic in down:
        told = "/".join(str(v) for v in (nic.state, nic.physical) if not isinstance(v, Unread)) or "down"
        text = f"{_port(nic)} is {told}: no link; look at the cable, the transceiver and the switch port"
        yield Finding(level=Level.FAIL, text=text, part=_port(nic))
    if ports and not down:
        rates = Counter(nic.rate_bits for nic in ports if not isinstance(nic.rate_bits, Unread))
        named = ", ".join(f"{count} at {rate / 1e9:g} Gbit/s" for rate, count in rates.most_common())
        yield Finding(level=Level.PASS, text=f"{len(ports)} of {len(ports)} ports are up: {named or 'rates unknown'}")
        if len(rates) > 1:
            yield Finding(level=Level.WARN, text=f"ports differ in rate: {named}")


def _port(nic: Nic) -> str:
    name, _, port = nic.name.partition(":")
    return f"{name} port {port or 1}"


def _bus_findings(pci: tuple[PciDevice, ...]) -> Iterable[Finding]:
    kinds = Counter(_bus_kind(device) for device in pci)
    named = [f"{count} {_BUS_WORDS[kind][count > 1]}" for kind, count in kinds.items() if kind in _BUS_WORDS]
    if any(kinds[kind] for kind in _BUS_WORDS if kind != "switch"):
        yield Finding(level=Level.PASS, text=f"on the PCI bus: {', '.join(named)}")
    yield from _narrow(pci)
    yield from _acs(pci)


def _bus_kind(device: PciDevice) -> str:
    """The kind, and of a NIC which by its PCI class."""
    if device.kind != "nic" or isinstance(device.class_code, Unread):
        return device.kind
    return _NIC_CLASSES.get(device.class_code >> 8, "nic")


def _narrow(pci: tuple[PciDevice, ...]) -> Iterable[Finding]:
    for device in pci:
        width, most = device.pcie.width, device.pcie.max_width
        if device.kind in ("gpu", "nic") and isinstance(width, int) and isinstance(most, int) and width < most:
            text = f"{device.address} runs x{width} of x{most}; fine only where the baseline says x{width}"
            yield Finding(level=Level.WARN, text=text, part=str(device.address))


def _acs(pci: tuple[PciDevice, ...]) -> Iterable[Finding]:
    """ACS that redirects sends peer traffic through the CPU, or hangs it; source validation alone does not."""
    told = [device for device in pci if not isinstance(device.acs, Unread)]
    if not told:
        return
    redirecting = [device for device in told if any(name in device.acs for name in _REDIRECT)]
    if redirecting:
        where = ", ".join(str(d.address) for d in redirecting if not isinstance(d.address, Unread))
        names = sorted({name for d in redirecting for name in d.acs if name in _REDIRECT})
        text = (
            f"ACS redirect ({', '.join(names)}) is on at {len(redirecting)} of {len(told)} bridges"
            f"{f': {where}' if where else ''}: peer traffic goes through the root complex, slower, or hangs; "
            "turn ACS off on the bridges above the GPUs (a reboot turns it on again)"
        )
        yield Finding(level=Level.FAIL, text=text)
        return
    validating = sum("SrcValid" in device.acs for device in told)
    off = f"{', '.join(_REDIRECT)} are off on all {len(told)}"
    if validating:
        text = f"ACS SrcValid is on at {validating} of {len(told)} bridges, but {off}"
        yield Finding(level=Level.WARN, text=text)
    else:
        yield Finding(level=Level.PASS, text=f"ACS: {off}")
