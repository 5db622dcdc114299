"""A recorded output, whatever it is: detect its format, read it, and say what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.errors import TopologyError
from gpuwire_checks.inspect.finding import Finding, Level, gravest
from gpuwire_checks.inspect.held import held_findings, held_log_findings, held_pair_findings
from gpuwire_checks.inspect.logs import compare_runs, inspect_log
from gpuwire_checks.inspect.matrices import inspect_pair_log
from gpuwire_checks.inspect.node import inspect_node
from gpuwire_checks.inspect.references import References
from gpuwire_checks.recorded.model import PairLog
from gpuwire_checks.recorded.nccl_json import looks_like_nccl_json, read_nccl_json
from gpuwire_checks.recorded.nccl_text import looks_like_nccl_text, read_nccl_text
from gpuwire_checks.recorded.nvbandwidth_json import looks_like_nvbandwidth_json, read_nvbandwidth_json
from gpuwire_checks.recorded.nvbandwidth_text import looks_like_nvbandwidth_text, read_nvbandwidth_text
from gpuwire_checks.recorded.p2p_bandwidth import looks_like_p2p_bandwidth, read_p2p_bandwidth
from gpuwire_checks.topology.formats import FORMATS, format_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What came of one file.

    Attributes:
        format: its name for a person.
        findings: the gravest first.
    """

    source: str
    format: str
    findings: tuple[Finding, ...]

    @property
    def level(self) -> Level:
        return gravest(self.findings)


PAIR_LOGS: tuple[tuple[str, Callable[[str], bool], Callable[..., PairLog]], ...] = (
    ("nvbandwidth JSON", looks_like_nvbandwidth_json, read_nvbandwidth_json),
    ("nvbandwidth", looks_like_nvbandwidth_text, read_nvbandwidth_text),
    ("p2pBandwidthLatencyTest", looks_like_p2p_bandwidth, read_p2p_bandwidth),
)
COLLECTIVE_LOGS = (
    ("nccl-tests JSON", looks_like_nccl_json, read_nccl_json),
    ("nccl-tests", looks_like_nccl_text, read_nccl_text),
)


def inspect_text(
    text: str, *, source: str, references: Sequence[Baseline], against: Baseline | None = None
) -> Inspection:
    """Everything to know of a recorded output.

    Args:
        references: looked up by GPU model where no baseline is given.
        against: the baseline that the node or its figures are held to.

    Raises:
        TopologyError: in no known format, or not to be read in the one that it is in; with file and line.
    """
    looked_up = References(references)
    for name, is_in, read in PAIR_LOGS:
        if is_in(text):
            log = read(text, source=source)
            doubts = [Finding(level=Level.WARN, text=doubt.text, line=doubt.line) for doubt in log.doubts]
            held = held_pair_findings(log, against) if against else []
            return _inspection(source, name, [*held, *inspect_pair_log(log), *doubts])
    for name, is_in, read_logs in COLLECTIVE_LOGS:
        if is_in(text):
            logs = read_logs(text, source=source)
            each = [finding for log in logs for finding in inspect_log(log, looked_up)]
            held = held_log_findings(logs, against) if against else []
            return _inspection(source, name, [*held, *compare_runs(logs), *each])
    found = format_of(text)
    if found is None:
        raise TopologyError(f"{source}:1: {_unknown_words()}")
    node = found.read(text, source=source)
    held = held_findings(node, against) if against else []
    return _inspection(source, found.name, [*held, *inspect_node(node, looked_up)])


def _inspection(source: str, name: str, findings: Sequence[Finding]) -> Inspection:
    order = list(Level)
    return Inspection(
        source=source, format=name, findings=tuple(sorted(findings, key=lambda finding: order.index(finding.level)))
    )


def _unknown_words() -> str:
    names = [name for name, _, _ in PAIR_LOGS] + [name for name, _, _ in COLLECTIVE_LOGS]
    known = ", ".join([*names, *(one.name for one in FORMATS)])
    return f"no format that is known here; known are {known}: paste the whole output of one of them"
