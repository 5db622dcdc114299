"""Why an nccl-tests log has no figures, or no more: what the library, the launcher and the kernel say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gpuwire_checks.recorded.model import Failure
from gpuwire_checks.topology.model import Unread

Kind = Literal["launcher", "library", "lost"]
_HOST = r"(?<![\w.-])(?P<host>[A-Za-z0-9][\w.-]{0,254})"
_WHERE = r"(?P<where>[\w./-]{1,200}:[0-9]{1,6})(?![0-9])"

_LOST = re.compile(r"GPU is lost|fallen off the bus|\bXid\b(?:\s{0,4}\([^)]{0,40}\))?[:\s]{1,4}79\b", re.IGNORECASE)
_TEST = re.compile(rf"{_HOST}: (?P<text>Test (?:NCCL|CUDA|HIP) failure {_WHERE}.{{0,300}})")
_TIMEOUT = re.compile(rf"{_HOST}: (?P<text>Test timeout \([0-9]{{1,9}}s\) {_WHERE})")
_RELAYED = re.compile(rf"\.\. {_HOST}(?: pid [0-9]{{1,9}})?: (?P<text>Test failure {_WHERE})")
_OLD = re.compile(rf"(?<!\w)(?P<text>(?:NCCL|Cuda|CUDA) failure {_WHERE}.{{0,300}})")
_XID = re.compile(r"(?P<text>\bXid\b(?:\s{0,4}\([^)]{0,40}\))?[:\s]{1,4}[0-9]{1,4}\b.{0,200})")
_CRASH = re.compile(r"(?P<text>(?:Segmentation fault|Caught signal|Process received signal).{0,200})")
_WARN = re.compile(rf"{_HOST}:[0-9]{{1,9}}:[0-9]{{1,9}} \[[0-9]{{1,4}}\] .{{0,80}}(?P<text>NCCL WARN .{{0,300}})")
_SLOTS = re.compile(r"(?P<text>There are not enough slots available in the system to satisfy the\b.{0,200})")
_SRUN = re.compile(r"(?P<text>srun: error: (?P<host>[\w.,\[\]-]{1,255}): tasks? .{1,200})")
_LAUNCHER = re.compile(
    r"(?P<text>(?:srun: error: |slurmstepd: error: "
    r"|(?:mpirun|mpiexec|prterun|orterun)\b[^:]{0,60}(?:noticed|detected|unable)"
    r"|Primary job\s{1,4}terminated normally, but|Invalid number of GPUs: |The number of requested GPUs"
    r"|ORTE was unable|ORTE daemon has unexpectedly|All nodes which are allocated for this job are already filled"
    r"|error while loading shared libraries|DUE TO TIME LIMIT|DUE TO PREEMPTION|execve\(\): ).{0,300})"
)
_NO_PROGRAM = re.compile(r"_perf\b.{0,40}(?:command not found|No such file or directory)")
_HOSTS = (
    re.compile(r" on node \(?(?P<host>[A-Za-z0-9][\w.-]{0,254})\)?"),
    re.compile(r" ON (?P<host>[A-Za-z0-9][\w.-]{0,254}) CANCELLED AT "),
    re.compile(r"^\s{0,20}(?P<host>[A-Za-z0-9][\w.-]{0,254}):[0-9]{1,9}:[0-9]{1,9} \["),
    re.compile(r"(?<![\w.-])(?P<host>[A-Za-z0-9][\w.-]{0,254}) kernel: "),
)

_RULES: tuple[tuple[Kind, int, re.Pattern[str]], ...] = (
    ("lost", 0, _LOST),
    ("library", 1, _TEST),
    ("library", 1, _TIMEOUT),
    ("library", 1, _OLD),
    ("library", 2, _XID),
    ("library", 2, _CRASH),
    ("library", 3, _RELAYED),
    ("launcher", 4, _SLOTS),
    ("launcher", 4, _SRUN),
    ("launcher", 4, _LAUNCHER),
    ("launcher", 4, _NO_PROGRAM),
    ("library", 5, _WARN),
)
_HINTS = re.compile(
    r"failure|timeout|Xid|is lost|off the bus|not enough slots|error: |mpirun|mpiexec|prterun|orterun|Primary job"
    r"|ORTE|already filled|WARN|number of |DUE TO|execve|not found|No such file|Segmentation|signal|shared libraries"
)
_TEXT_AT_MOST = 300
_DEFINITE = 3
MAX_SEARCHED = 400
"""Characters of a line that are searched."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failure line.

    Attributes:
        weight: 0 is the cause that says most, higher ones are what follows from it.
    """

    failure: Failure
    weight: int

    @property
    def definite(self) -> bool:
        """True for what ends a program; a launcher's word or a warning may follow a run that is whole."""
        return self.weight <= _DEFINITE

    @property
    def before_start(self) -> bool:
        """True when the launcher says that it started nothing."""
        return "slots" in self.failure.text and self.failure.kind == "launcher"


def read_trouble(text: str, *, line: int, after: str) -> Trouble | None:
    """The failure a line tells of, None for any other line.

    Args:
        after: the line below, which may end the sentence.
    """
    text = text[:MAX_SEARCHED].replace("\t", " ")
    if _HINTS.search(text) is None:
        return None
    for kind, weight, rule in _RULES:
        if match := rule.search(text):
            return Trouble(_failure(kind, match, text, line=line, after=after), weight)
    return None


def _failure(kind: Kind, match: re.Match[str], text: str, *, line: int, after: str) -> Failure:
    groups = match.groupdict()
    said = groups.get("text") or text
    if match.re is _SLOTS and not re.search(r"[0-9]\s+slots", said):
        said = f"{said} {after[:_TEXT_AT_MOST]}"
    host = groups.get("host") or next((found["host"] for rule in _HOSTS if (found := rule.search(text))), None)
    return Failure(
        line=line,
        kind=kind,
        text=" ".join(said.split())[:_TEXT_AT_MOST],
        host=host or Unread.UNKNOWN,
        where=groups.get("where") or Unread.UNKNOWN,
    )


def main_failure(troubles: Sequence[Trouble], *, ended: bool) -> Failure | None:
    """The one that says most of why there are no figures, or no more; the first of these."""
    counted = [trouble for trouble in troubles if not ended or trouble.definite]
    return min(counted, key=lambda trouble: trouble.weight).failure if counted else None
