"""Error counters, judged by how they grew while the wires carried data: what they stood at says nothing."""

from __future__ import annotations

from collections import Counter

from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.model import COUNTERS, Gpu, Nic, Unread
from gpuwire_checks.units import format_seconds
from gpuwire_checks.wiring.held import Growth, Held, not_run, verdict
from gpuwire_checks.wiring.rule import Rule

RARE = 1e-6
"""Chance that a wire at the highest error rate allowed shows more errors than a run tolerates."""
THROTTLED_SHARE = 0.05
"""Of the measured time. A clock is held back for a moment at many starts; a wire held back for longer is not itself."""
_NEVER = frozenset({"ecc uncorrected", "remapped rows", "link downed", "nvlink recovery", "link error recovery"})
"""Counters of events that no healthy part has in minutes of traffic."""
_SLOWDOWNS = frozenset({"sw thermal slowdown", "hw thermal slowdown", "hw power brake"})
_WIRES = {
    "pcie replay": "pcie",
    "nvlink replay": "nvlink",
    "nvlink crc": "nvlink",
    "xgmi errors": "nvlink",
    "symbol errors": "infiniband",
    "receive errors": "infiniband",
}
_PCIE_BITS = {1: 2e9, 2: 4e9, 3: 7.88e9, 4: 15.75e9, 5: 31.5e9, 6: 60.5e9}
"""Payload bits per second of one lane and direction, by generation (PCI Express Base Specification)."""


def growth(held: Held, device: str) -> Verdict:
    """No counter of this device or of its links grew by more than its wires' error rate allows."""
    watched, rule = held.watched, "counters"
    if watched is None or not watched.seconds:
        return not_run(held, rule, device, "nothing was measured in this run: counters are judged by their growth")
    if not any(_device(part) == device for part in watched.counted):
        return not_run(held, rule, device, f"its counters cannot be read here{_unread(held, device)}")
    faults = [fault for grown in _summed(watched.growth, device) if (fault := _fault(held, grown))]
    if faults:
        return verdict(held, rule, device, Outcome.REGRESSED, "; ".join(faults))
    reason = f"{device}: no counter grew beyond what its wires may{_unread(held, device)}"
    return verdict(held, rule, device, Outcome.PASS, reason)


def _unread(held: Held, device: str) -> str:
    """``; no permission: pcie replay``: counters that the device has and that tell nothing, or may have."""
    found: dict[Unread, dict[str, None]] = {Unread.NO_PERMISSION: {}, Unread.UNKNOWN: {}}
    for counter in held.topology.counters:
        if _device(counter.part) == device and isinstance(counter.value, Unread) and counter.value in found:
            found[counter.value][counter.name] = None
    return "".join(f"; {why.value}: {', '.join(names)}" for why, names in found.items() if names)


def _summed(growth: tuple[Growth, ...], device: str) -> list[Growth]:
    """Growth over the run of each counter of a device, with the case in which it grew most."""
    totals: Counter[tuple[str, str]] = Counter()
    most: dict[tuple[str, str], Growth] = {}
    for one in growth:
        key = (one.part, one.counter)
        if _device(one.part) == device:
            totals[key] += one.grown
            if key not in most or one.grown > most[key].grown:
                most[key] = one
    return [
        Growth(part=part, counter=counter, grown=total, case=most[part, counter].case, seconds=0.0)
        for (part, counter), total in totals.items()
    ]


def _fault(held: Held, grown: Growth) -> str | None:
    assert held.watched is not None
    allowed = _allowed(held, grown)
    if allowed is None or grown.grown <= allowed:
        return None
    unit = COUNTERS.get(grown.counter, "")
    amount = format_seconds(grown.grown / 1e6) if unit == "us" else f"{grown.grown}"
    limit = format_seconds(allowed / 1e6) if unit == "us" else f"{allowed:g}"
    return (
        f"{grown.part}: {grown.counter} grew by {amount} in {format_seconds(held.watched.seconds)} of measuring, "
        f"most in {grown.case}; at most {limit} is normal"
    )


def _allowed(held: Held, grown: Growth) -> float | None:
    """How much a counter may grow, in its unit; None where growth is no fault of a wire."""
    assert held.watched is not None
    seconds = held.watched.seconds
    if grown.counter in _NEVER:
        return 0
    if grown.counter in _SLOWDOWNS:
        return THROTTLED_SHARE * seconds * 1e6
    wire = _WIRES.get(grown.counter)
    if wire is None:
        return None
    expected = _bits_per_second(held, grown.part, wire) * seconds * held.bit_error_rates.get(wire, 0.0)
    if not expected:
        return 0
    from scipy.stats import poisson  # noqa: PLC0415 - a second that a run without growth need not wait for

    return float(poisson.ppf(1 - RARE, expected))


def _bits_per_second(held: Held, part: str, wire: str) -> float:
    """Payload bits per second of the wire at full rate; 0 where it is not known, so that any growth is told."""
    device = _device(part)
    gpu = next((gpu for gpu in held.topology.gpus if gpu.name == device), None)
    nic = held.nic(device)
    if wire == "pcie" and gpu is not None:
        lanes = _PCIE_BITS.get(gpu.max_pcie_generation, 0.0) if isinstance(gpu.max_pcie_generation, int) else 0.0
        return lanes * (0 if isinstance(gpu.pcie_width, Unread) else gpu.pcie_width)
    if wire == "nvlink" and gpu is not None:
        return _link_bits(gpu, part)
    return _nic_bits(nic)


def _link_bits(gpu: Gpu, part: str) -> float:
    links = () if isinstance(gpu.links, Unread) else gpu.links
    speeds = [link.speed_bytes for link in links if part.endswith(f" {link.number}")]
    return next((8 * speed for speed in speeds if not isinstance(speed, Unread)), 0.0)


def _nic_bits(nic: Nic | None) -> float:
    return 0.0 if nic is None or isinstance(nic.rate_bits, Unread) else float(nic.rate_bits)


def _device(part: str) -> str:
    """``GPU0`` of ``GPU0 NVLink 3``."""
    return part.split(" ", 1)[0]


def _counted(held: Held) -> list[str]:
    """Devices that have counters, as far as the baseline expects them; a lost one's are not asked."""
    if held.expected is None:
        return []
    # An Ethernet interface carries the traffic of everybody: its errors are not those of what is measured.
    shared = {nic.name for nic in held.topology.nics if nic.kind == "ethernet"}
    devices = dict.fromkeys(_device(counter.part) for counter in held.topology.counters)
    return [device for device in devices if device not in shared]


COUNTER_RULES: dict[str, Rule[str]] = {
    "counters": Rule(
        what="devices with error counters", parts=_counted, label=lambda part: part, judge=growth, measured=True
    )
}
