"""Software and firmware held to the baseline: a change is told before any figure, and is no fault of a wire."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.model import Unread
from gpuwire_checks.wiring.gpus import of_gpus
from gpuwire_checks.wiring.held import Held, verdict
from gpuwire_checks.wiring.nics import of_nics
from gpuwire_checks.wiring.rule import Rule

NAMES = ("driver", "cuda", "rocm", "nccl", "torch", "kernel", "python")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def version(held: Held, name: str) -> Verdict:
    """A version is the one that the baseline says, or in its range."""
    installed = getattr(held.topology.software, name)
    wanted = held.software[name]
    if isinstance(installed, Unread):
        reason = f"{name}: its version cannot be read here: {installed.value}; the baseline says {wanted}"
        return verdict(held, name, name, Outcome.NOT_RUN, reason)
    if installed is None:
        return verdict(held, name, name, Outcome.MISSING, f"{name} is not installed; the baseline says {wanted}")
    if is_in_range(installed, wanted):
        return verdict(held, name, name, Outcome.PASS, f"{name} is {installed}")
    reason = (
        f"{name} is {installed}, the baseline says {wanted}: figures may differ by it and not by a wire; "
        "if it is meant, record anew with: gpuwire baseline record"
    )
    return verdict(held, name, name, Outcome.CHANGED, reason)


def is_in_range(installed: str, wanted: str) -> bool:
    """Whether a version is the one wanted, fits its pattern (``5.15.*``), or is in its range (``>=535,<580``).

    A range compares the numbers that a version starts with: a kernel's ``6.8.0-40-generic`` is 6.8.0.
    """
    if installed == wanted or fnmatchcase(installed, wanted):
        return True
    numbers = _NUMBERS.match(installed)
    if numbers is None:
        return False
    try:
        return SpecifierSet(wanted).contains(Version(numbers[0]), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False


def _stated(held: Held) -> list[str]:
    return [name for name in NAMES if name in held.software]


def _same(name: str) -> str:
    return name


SOFTWARE_RULES: dict[str, Rule[Any]] = {
    "software": Rule(
        what="software versions in the baseline", parts=_stated, label=_same, judge=version, software=True
    ),
    "vbios": of_gpus(
        "VBIOS",
        lambda wiring, number: wiring.vbios_of(number),
        lambda gpu: gpu.state.firmware,
        what="GPUs with a VBIOS version",
        worse="CHANGED",
    ),
    "nic_firmware": of_nics(
        "firmware",
        lambda nic: nic.firmware,
        lambda nic: nic.firmware,
        what="NICs with a firmware version",
        worse="CHANGED",
    ),
}
