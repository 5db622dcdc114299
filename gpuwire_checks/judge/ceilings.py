"""What the wires can carry at most: a figure beyond it is a wrong measurement, and not a fast node.

Every GPU of a collective has to take in, and to send out, a share of the array that no schedule can save. Bus
bandwidth is defined such that this share over the time is the rate of the wire (NVIDIA/nccl-tests doc/PERFORMANCE.md).
So the wire of the slowest GPU is the ceiling of every collective, and of all_reduce as long as GPUs do the adding.

Where the NVSwitch adds up (NVLS), all_reduce of S bytes on n ranks takes less. Each rank sends its S to the switch,
which adds up; each takes S/n of the sum from there, and sends it back to be spread to all. So S (n+1)/n go out of a GPU
and as many come in, where GPUs that add up themselves move 2 S (n-1)/n. The ceiling of the algorithm bandwidth is the
wire times n/(n+1), and that of busbw, which is 2 (n-1)/n of it, the wire times 2 (n-1)/(n+1): 700 GB/s for 8 GPUs on
450 GB/s. Source: NVIDIA/nccl-tests pull request 239 (a maintainer of NCCL: algobw = busbw * n / (n+1)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuwire_checks.records import LATENCY, Case, Measurement, Outcome, Verdict
from gpuwire_checks.topology.link_rates import pcie_bytes
from gpuwire_checks.topology.model import Gpu, NodeTopology, Pcie, Unread
from gpuwire_checks.topology.nvls import may_reduce_in_switch
from gpuwire_checks.topology.wires import NEAR_TO_FAR, gpu_pairs, joined
from gpuwire_checks.units import format_value

_SLACK = 0.05
"""By so much a figure may exceed the arithmetic: clocks of links differ, and so do those that time them."""
_KINDS = {"nvlink": "NVLink", "xgmi": "xGMI link"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The highest busbw that the wires allow, in GB/s (1e9 bytes a second), and why: ``450 GB/s that ...``."""

    value: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wires:
    """What joins one GPU to the others: bytes per second in one direction, and what it is."""

    rate: float
    words: str


def ceiling_of(topology: NodeTopology, case: Case) -> Ceiling | None:
    """The ceiling of a case's busbw; None for a latency, on a CPU, and where a wire's rate is not known."""
    ranks = case.world_size
    if case.device == "cpu" or case.metric is LATENCY or not 2 <= ranks <= len(topology.gpus):
        return None
    meshed = _links_join_all(topology)
    wires = [wire for gpu in topology.gpus if (wire := _wires(gpu, topology, meshed=meshed)) is not None]
    if len(wires) < len(topology.gpus):
        return None
    # Which GPUs fewer ranks run on is not asked: the fastest ones, to be on the safe side.
    slowest = sorted(wires, key=lambda wire: wire.rate, reverse=True)[ranks - 1]
    rate = slowest.rate / 1e9
    carried = f"{format_value(rate, 'GB/s')} that {slowest.words} carry one way"
    lifted = 2 * (ranks - 1) / (ranks + 1)
    if case.collective != "all_reduce" or not may_reduce_in_switch(topology, world_size=ranks) or lifted <= 1:
        return Ceiling(value=rate, words=carried)
    value = rate * lifted
    words = f"{format_value(value, 'GB/s')} to which adding up in the switch can lift the {carried}"
    return Ceiling(value=value, words=words)


def too_fast(attempts: Sequence[Measurement], ceiling: Ceiling | None) -> str | None:
    """Why these attempts cannot be true; None where they can."""
    if ceiling is None:
        return None
    fastest = max(attempt.value for attempt in attempts)
    if fastest <= (1 + _SLACK) * ceiling.value:
        return None
    figure = format_value(fastest, "GB/s")
    return (
        f"busbw {figure} is more than the {ceiling.words}: the measurement is wrong, not the node fast;"
        " the calls did not move what they should, or the clock is wrong"
    )


def possible(verdict: Verdict, attempts: Sequence[Measurement], topology: NodeTopology) -> Verdict:
    """The same verdict, or ERROR where a figure is more than the wires can carry; a wrong result stays WRONG."""
    if not attempts or verdict.outcome is Outcome.WRONG:
        return verdict
    reason = too_fast(attempts, ceiling_of(topology, attempts[0].case))
    if reason is None:
        return verdict
    nothing = replace(verdict, value=None, centre=None, accepted=None, slowest_rank=None, warned=False)
    return replace(nothing, outcome=Outcome.ERROR, reason=reason)


def _wires(gpu: Gpu, topology: NodeTopology, *, meshed: bool) -> _Wires | None:
    """The links of a GPU, and its PCIe slot where links do not join all GPUs; None where a rate is not known."""
    links = _link_wires(gpu, topology)
    if links is None or (meshed and links.rate):
        return links
    slot = Pcie(width=gpu.pcie_width, max_generation=gpu.max_pcie_generation, max_width=gpu.max_pcie_width)
    rate = pcie_bytes(slot)
    if rate is None:
        return None
    width = slot.max_width if isinstance(slot.width, Unread) else slot.width
    words = f"the lanes of PCIe Gen{slot.max_generation} x{width}"
    return _Wires(rate=links.rate + rate, words=f"{links.words} and {words}" if links.rate else words)


def _link_wires(gpu: Gpu, topology: NodeTopology) -> _Wires | None:
    """The links of a GPU that are not down; of rate 0 where there are none, None where that is not known."""
    if isinstance(gpu.links, Unread):
        return _Wires(rate=0.0, words="") if _only_pcie(gpu, topology) else None
    live = [link for link in gpu.links if link.up is not False]
    speeds = [link.speed_bytes for link in live if not isinstance(link.speed_bytes, Unread)]
    if len(speeds) < len(live):
        return None
    kind = _KINDS[live[0].kind] if live else ""
    return _Wires(rate=sum(speeds), words=f"{len(live)} {kind}s")


def _only_pcie(gpu: Gpu, topology: NodeTopology) -> bool:
    """Whether the paths to all other GPUs are known, and go over PCIe."""
    paths = [pair.path for pair in gpu_pairs(topology) if gpu.name in (pair.a, pair.b)]
    return len(paths) == len(topology.gpus) - 1 and all(path in NEAR_TO_FAR for path in paths)


def _links_join_all(topology: NodeTopology) -> bool:
    """Whether every GPU reaches every other over links, by a switch or from GPU to GPU."""
    ends = [{link.remote for link in gpu.links} for gpu in topology.gpus if not isinstance(gpu.links, Unread)]
    if len(ends) == len(topology.gpus) and all("NVSwitch" in end for end in ends):
        return True
    groups = joined([pair for pair in gpu_pairs(topology) if pair.links], topology)
    return len(groups) == 1 and len(groups[0]) == len(topology.gpus)
