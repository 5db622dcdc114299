"""Rules about each NIC: it is there and up, at its rate, in its slot and place, and as near to each GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from gpuwire_checks.baseline.observed import gpu_nic_paths, physical_nics
from gpuwire_checks.baseline.wiring import ExpectedNic
from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.model import Nic, Pcie, Unread
from gpuwire_checks.units import format_rate
from gpuwire_checks.wiring.gpus import compare_pcie, present_gpu
from gpuwire_checks.wiring.held import Held, compare, not_run, verdict
from gpuwire_checks.wiring.rule import GpuNumber, Rule, gpu_label


def presence(held: Held, name: str) -> Verdict:
    """The NIC is there, of its kind, and up where the baseline knows a rate of it."""
    assert held.expected is not None
    nic, wanted = held.nic(name), held.expected.nic(name)
    if nic is None:
        return verdict(held, name, name, Outcome.MISSING, f"{name} is gone: {_gone_words(held, wanted)}")
    if wanted is None:
        if held.expected.nics is None:
            return compare(held, "kind", name, expected=None, actual=nic.kind)
        reason = f"{name} is here, and the baseline does not have it; record anew if it is meant to be"
        return verdict(held, name, name, Outcome.IMPROVED, reason)
    if nic.up is False and wanted.rate is not None:
        return verdict(held, name, name, Outcome.MISSING, f"{name} is down: {_down_words(nic)}")
    kind: str | Unread = Unread.UNKNOWN if nic.kind == "unknown" else nic.kind
    if isinstance(nic.up, Unread) and isinstance(nic.rate_bits, Unread) and wanted.rate is not None:
        # A rate is that of a link, and only one that is up has any.
        return compare(held, "state", name, expected="up", actual=nic.up)
    return compare(held, "kind", name, expected=wanted.kind, actual=kind, worse="MISSING")


def _gone_words(held: Held, wanted: ExpectedNic | None) -> str:
    """What is in its place, or how many of the baseline's NICs are left."""
    assert held.expected is not None
    address = wanted.pci_address if wanted else None
    renamed = [nic.name for nic in physical_nics(held.topology) if nic.pci_address == address]
    if address is not None and renamed:
        return f"{renamed[0]} is at its PCI address {address}; if it was renamed, record anew"
    left = sum(held.nic(nic.name) is not None for nic in held.expected.nics or ())
    return f"{left} of the baseline's {len(held.expected.nics or ())} NICs are here"


def _down_words(nic: Nic) -> str:
    told = [value for value in (nic.state, nic.physical) if not isinstance(value, Unread)]
    return (
        f"its port is {'/'.join(told)}; look at the cable and the switch"
        if told
        else "look at the cable and the switch"
    )


def _present(held: Held, rule: str, name: str) -> tuple[Nic, ExpectedNic | None] | Verdict:
    assert held.expected is not None
    nic = held.nic(name)
    if nic is None:
        return not_run(held, rule, name, f"{name} is gone")
    return nic, held.expected.nic(name)


def rate(held: Held, name: str) -> Verdict:
    """The port runs at its rate."""
    found = _present(held, "rate", name)
    if isinstance(found, Verdict):
        return found
    nic, expected = found
    if nic.up is False:
        return not_run(held, "rate", name, f"{name} is down")
    wanted, actual = expected.rate if expected else None, nic.rate_bits
    return compare(
        held,
        "rate",
        name,
        expected=None if wanted is None else format_rate(wanted, "Gbit/s"),
        actual=actual if isinstance(actual, Unread) else format_rate(actual, "Gbit/s"),
        better=wanted is not None and not isinstance(actual, Unread) and actual > wanted,
    )


def slot(held: Held, name: str) -> Verdict:
    """The PCIe slot of the NIC: x8 of x16 halves a port whose own rate looks right."""
    found = _present(held, "PCIe", name)
    if isinstance(found, Verdict):
        return found
    nic, expected = found
    width = nic.pcie.max_width if isinstance(nic.pcie.width, Unread) else nic.pcie.width
    reached = Pcie(generation=nic.pcie.max_generation, width=width)
    return compare_pcie(held, "PCIe", name, expected.pcie if expected else None, reached)


def of_nics(
    rule: str,
    stated: Callable[[ExpectedNic], str | int | None],
    actual: Callable[[Nic], str | int | Unread],
    *,
    what: str,
    worse: Literal["REGRESSED", "CHANGED"] = "REGRESSED",
) -> Rule[str]:
    """A rule that compares one value of each NIC with the baseline's; a value that only CHANGED is of software."""

    def judge(held: Held, name: str) -> Verdict:
        found = _present(held, rule, name)
        if isinstance(found, Verdict):
            return found
        nic, expected = found
        wanted = stated(expected) if expected else None
        return compare(held, rule, name, expected=wanted, actual=actual(nic), worse=worse)

    return Rule(what=what, parts=_known(stated, actual), label=_same, judge=judge, software=worse == "CHANGED")


def gpu_paths(held: Held, number: GpuNumber) -> Verdict:
    """Each NIC is as near to the GPU as the baseline says."""
    assert held.expected is not None
    rule, part = "paths to NICs", gpu_label(number)
    gpu = present_gpu(held, rule, number)
    if isinstance(gpu, Verdict):
        return gpu
    wanted = {nic: path for (at, nic), path in held.expected.nic_path_of.items() if at == number}
    actual = {nic: path for (at, nic), path in gpu_nic_paths(held.topology).items() if at == gpu.index}
    if not wanted:
        return compare(
            held, rule, part, expected=None, actual=" ".join(f"{nic} {path}" for nic, path in actual.items())
        )
    for nic, path in wanted.items():
        if held.nic(nic) is not None and actual.get(nic) != path:
            there = f"{part}-{nic}"
            return compare(held, "path", there, expected=path, actual=actual.get(nic, Unread.UNKNOWN), worse="MISSING")
    return verdict(held, rule, part, Outcome.PASS, f"{part}: {len(wanted)} paths to NICs are as the baseline says")


def _names(held: Held) -> list[str]:
    if held.expected is None:
        return []
    stated = [nic.name for nic in held.expected.nics or ()]
    return [*stated, *(nic.name for nic in physical_nics(held.topology) if nic.name not in stated)]


def _known(stated: Callable[[ExpectedNic], object], actual: Callable[[Nic], object]) -> Callable[[Held], list[str]]:
    """NICs of which the baseline or the node knows a value."""

    def names(held: Held) -> list[str]:
        found = []
        for name in _names(held):
            expected, nic = held.expected.nic(name) if held.expected else None, held.nic(name)
            known = nic is not None and not isinstance(actual(nic), Unread)
            if (expected is not None and stated(expected) is not None) or known:
                found.append(name)
        return found

    return names


def _near_nics(held: Held) -> list[GpuNumber]:
    known = {gpu for gpu, _ in gpu_nic_paths(held.topology)}
    stated = {gpu for gpu, _ in held.expected.nic_path_of} if held.expected else set()
    return [n for n in held.numbers if n in stated or ((gpu := held.gpu(n)) is not None and gpu.index in known)]


def _same(name: str) -> str:
    return name


NIC_RULES: dict[str, Rule[str]] = {
    "nic": Rule(what="NICs", parts=_names, label=_same, judge=presence),
    "nic_rate": Rule(
        what="NICs with a rate",
        parts=_known(lambda nic: nic.rate, lambda nic: nic.rate_bits),
        label=_same,
        judge=rate,
    ),
    "nic_pcie": Rule(
        what="NICs in a PCIe slot",
        parts=_known(lambda nic: nic.pcie, lambda nic: nic.pcie.max_generation),
        label=_same,
        judge=slot,
    ),
    "nic_numa": of_nics("NUMA node", lambda nic: nic.numa_node, lambda nic: nic.numa_node, what="NICs on a NUMA node"),
}
NEAR_NIC_RULES: dict[str, Rule[GpuNumber]] = {
    "nic_paths": Rule(what="GPUs with NICs", parts=_near_nics, label=gpu_label, judge=gpu_paths)
}
