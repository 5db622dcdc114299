"""A node held to what its baseline expects of its wiring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

from gpuwire_checks.baseline.wiring import Wiring
from gpuwire_checks.records import Outcome, SeenDevice, Verdict
from gpuwire_checks.topology.model import Gpu, Nic, NodeTopology, Pcie, Unread
from gpuwire_checks.wiring.matching import Matching, match_gpus

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How much a counter grew while one case was measured, over ``seconds`` of traffic."""

    part: str
    counter: str
    grown: int
    case: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What was seen of the wires while they were under load.

    Attributes:
        seconds: of measuring, all cases together.
        pcie: of each GPU by name, the highest generation and width seen.
        growth: counters that grew.
        counted: the parts whose counters could be read.
        devices: the accelerators that the framework sees, by their number there; None when nobody looked.
    """

    seconds: float
    pcie: Mapping[str, Pcie]
    growth: tuple[Growth, ...]
    counted: frozenset[str]
    devices: tuple[SeenDevice, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Held:
    """What every rule sees.

    Attributes:
        expected: None where no baseline states any wiring; then no rule has a part.
        software: versions expected, by name, as ranges or patterns.
        where: the baseline's file, for messages.
        watched: None until something was measured.
        bit_error_rates: the most that each kind of wire may have (``pcie``, ``nvlink``, ``infiniband``).
    """

    topology: NodeTopology
    expected: Wiring | None
    where: str
    software: Mapping[str, str] = field(default_factory=dict)
    watched: Watched | None = None
    bit_error_rates: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def matching(self) -> Matching:
        if self.expected is None:
            return Matching(here={}, gone=(), named=True, extra=())
        return match_gpus(self.expected, self.topology)

    @property
    def numbers(self) -> range:
        """The baseline's GPU numbers."""
        return range(self.expected.gpus if self.expected else 0)

    def gpu(self, number: int) -> Gpu | None:
        """The GPU here that stands for a number of the baseline; None when it is gone."""
        return self.matching.here.get(number)

    def nic(self, name: str) -> Nic | None:
        return next((nic for nic in self.topology.nics if nic.name == name), None)

    def cause_of_absence(self, number: int) -> str | None:
        """Why nothing can be said of a GPU of the baseline: it is gone. None when it is here."""
        if number in self.matching.here:
            return None
        if self.matching.named:
            return f"{self.gone_words((number,))} is gone"
        return f"{len(self.matching.gone)} of {len(self.numbers)} GPUs gone, and which is not known"

    def gone_words(self, numbers: tuple[int, ...]) -> str:
        """GPUs of the baseline by name, with the address where it has one."""
        addresses = self.expected.pci_addresses if self.expected else None
        return ", ".join(f"GPU{n}{f' ({addresses[n]})' if addresses else ''}" for n in numbers)


def verdict(held: Held, rule: str, part: str, outcome: Outcome, reason: str) -> Verdict:
    """A rule's verdict on one part, the baseline's file behind a fault."""
    where = f" ({held.where})" if outcome.is_fault else ""
    return Verdict(
        outcome=outcome,
        case=None,
        name=part if rule == part else f"{part} {rule}",
        metric="wiring",
        unit="",
        reason=f"{reason}{where}",
    )


def compare(
    held: Held,
    rule: str,
    part: str,
    *,
    expected: _T | None,
    actual: _T | Unread,
    words: str = "{}",
    worse: Literal["MISSING", "REGRESSED", "CHANGED"] = "REGRESSED",
    better: bool = False,
) -> Verdict:
    """PASS when both are equal; otherwise a fault that names the part, what it has and what it should have.

    What the baseline does not state is NO BASELINE; what it states and cannot be read here is NOT RUN: it may be good.

    Args:
        words: how a value is said, such as ``x{} lanes``.
        better: whether a difference is for the better.
    """
    if isinstance(actual, Unread):
        said = "" if expected is None else f"; the baseline says {words.format(expected)}"
        return verdict(held, rule, part, Outcome.NOT_RUN, f"{part}: {rule} cannot be read here: {actual.value}{said}")
    has = words.format(actual)
    if expected is None:
        reason = f"{part}: {rule} is {has}, and the baseline does not say; record one with: gpuwire baseline record"
        return verdict(held, rule, part, Outcome.NO_BASELINE, reason)
    if actual == expected:
        return verdict(held, rule, part, Outcome.PASS, f"{part}: {rule} is {has}")
    outcome = Outcome.IMPROVED if better else Outcome(worse)
    return verdict(held, rule, part, outcome, f"{part}: {rule} is {has}, the baseline says {words.format(expected)}")


def not_run(held: Held, rule: str, part: str, cause: str) -> Verdict:
    """A rule that another fault stands in the way of."""
    return verdict(held, rule, part, Outcome.NOT_RUN, f"{part}: {cause}")
