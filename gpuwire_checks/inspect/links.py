"""NVLink and peer access, as an output states them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.inspect.references import KnownLinks, References
from gpuwire_checks.topology.model import Gpu, Link, NodeTopology, PeerAccess, Unread

_WHY = {
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "NS": "not supported",
    "DR": "disabled by registry key",
    "U": "unknown",
}
"""The legend of ``nvidia-smi topo -p2p``."""


def link_findings(node: NodeTopology, references: References) -> Iterable[Finding]:
    """Of each GPU whose links are listed: how many are up, at what speed, against its reference or its peers."""
    listed = [gpu for gpu in node.gpus if not isinstance(gpu.links, Unread)]
    if not any(_links(gpu) for gpu in listed) and not _any_reference(listed, references):
        return
    silent = [gpu for gpu in listed if _links(gpu) and len(_unread(gpu)) == len(_links(gpu))]
    if silent:
        text = f"whether the links of {_names(silent)} are up is not told here; run nvidia-smi nvlink --status"
        yield Finding(level=Level.WARN, text=text)
    faults = [fault for gpu in listed if gpu not in silent for fault in _of_gpu(gpu, listed, references)]
    yield from faults
    known = {fault.part for fault in faults}
    yield from (slow for slow in _speeds(listed) if slow.part not in known)
    if len(silent) < len(listed) and not any(fault.level is Level.FAIL for fault in faults):
        yield Finding(level=Level.NOTE if faults else Level.PASS, text=_good_words(listed, len(node.gpus)))


def _any_reference(listed: Sequence[Gpu], references: References) -> bool:
    return any(references.links(gpu.model, gpus=len(listed)) for gpu in listed)


def _of_gpu(gpu: Gpu, listed: Sequence[Gpu], references: References) -> Iterable[Finding]:
    known = references.links(gpu.model, gpus=len(listed))
    up = len(_up(gpu))
    if known is not None:
        yield from _against(gpu, up, known, listed=listed)
        return
    down = [link for link in _links(gpu) if link.up is False]
    most = max(len(_up(other)) for other in listed)
    if down and up:
        text = f"{gpu.name} has {up} of {len(_links(gpu))} links up; {_numbers(down)} down"
        yield Finding(level=Level.WARN, text=f"{text}; fine only where the baseline says {up}", part=gpu.name)
    elif _unread(gpu):
        text = f"{gpu.name} has {up} of {len(_links(gpu))} links up{_unread_words(gpu)}"
        yield Finding(level=Level.WARN, text=text, part=gpu.name)
    elif up < most:
        others = ", ".join(other.name for other in listed if len(_up(other)) == most)
        text = (
            f"{gpu.name} has {'no link up' if not up else f'{up} links up'}, and {others} have {most}; fine where the "
            "baseline has it so, as with a bridge between the others"
        )
        yield Finding(level=Level.WARN, text=text, part=gpu.name)


def _against(gpu: Gpu, up: int, known: KnownLinks, *, listed: Sequence[Gpu]) -> Iterable[Finding]:
    expected, source = known.links, known.source
    wanted = expected.of(listed.index(gpu))
    if up < wanted:
        down = [link for link in _links(gpu) if link.up is False]
        named = f"; {_numbers(down)} down" if down and up else ""
        word = "NVLinks" if expected.kind == "nvlink" else "xGMI links"
        text = f"{gpu.name} has {up} of {wanted} {word} up{named}{_unread_words(gpu)}"
        unbridged = known.bridged and not up
        if unbridged:
            text += "; fine only where it has no bridge"
        may_be_up = up + len(_unread(gpu)) >= wanted
        level = Level.WARN if unbridged or may_be_up else Level.FAIL
        yield Finding(level=level, text=text, part=gpu.name, against=source)
    for link in _up(gpu):
        speed = link.speed_bytes
        if expected.speed is not None and not isinstance(speed, Unread) and speed < 0.99 * expected.speed:
            text = f"{gpu.name} link {link.number} runs at {speed / 1e9:g} GB/s, {expected.speed / 1e9:g} is its rate"
            yield Finding(level=Level.FAIL, text=text, part=f"{gpu.name} link {link.number}", against=source)


def _speeds(listed: Sequence[Gpu]) -> Iterable[Finding]:
    """Links that are slower than most."""
    every = [(gpu, link, link.speed_bytes) for gpu in listed for link in _up(gpu)]
    speeds = Counter(speed for _, _, speed in every if not isinstance(speed, Unread))
    if len(speeds) < 2:
        return
    usual = speeds.most_common(1)[0][0]
    for gpu, link, speed in every:
        if not isinstance(speed, Unread) and speed < usual:
            text = f"{gpu.name} link {link.number} runs at {speed / 1e9:g} GB/s, the others at {usual / 1e9:g}"
            yield Finding(level=Level.FAIL, text=text, part=f"{gpu.name} link {link.number}")


def _good_words(listed: Sequence[Gpu], gpus: int) -> str:
    counts = Counter(len(_up(gpu)) for gpu in listed)
    speeds = Counter(link.speed_bytes for gpu in listed for link in _up(gpu))
    at = " and ".join(f"{speed / 1e9:g}" for speed in speeds if not isinstance(speed, Unread))
    total = sum(len(_up(gpu)) for gpu in listed)
    if len(counts) == 1:
        of_each = f"{next(iter(counts))} links up on {'each of ' if len(listed) > 1 else ''}{_names(listed)}"
    else:
        of_each = "; ".join(f"{len(_up(gpu))} links up on {gpu.name}" for gpu in listed)
    rate = f" at {at} GB/s" if at else ""
    quiet = gpus - len(listed)
    rest = f"; {quiet} GPU{' says nothing of its' if quiet == 1 else 's say nothing of their'} links" if quiet else ""
    return f"{of_each}: {total} in all{rate}{rest}"


def _names(gpus: Sequence[Gpu]) -> str:
    if len(gpus) > 3 and [gpu.index for gpu in gpus] == list(range(gpus[0].index, gpus[0].index + len(gpus))):
        return f"{gpus[0].name} to {gpus[-1].name}"
    return ", ".join(gpu.name for gpu in gpus)


def _numbers(links: Sequence[Link]) -> str:
    numbers = ", ".join(str(link.number) for link in links)
    return f"link {numbers} is" if len(links) == 1 else f"links {numbers} are"


def _unread(gpu: Gpu) -> list[Link]:
    return [link for link in _links(gpu) if isinstance(link.up, Unread)]


def _unread_words(gpu: Gpu) -> str:
    """Links whose state could not be read: they are not down."""
    numbers = ", ".join(str(link.number) for link in _unread(gpu))
    link = "link" if len(_unread(gpu)) == 1 else "links"
    return f"; the state of {link} {numbers} could not be read" if numbers else ""


def _links(gpu: Gpu) -> tuple[Link, ...]:
    return () if isinstance(gpu.links, Unread) else gpu.links


def _up(gpu: Gpu) -> tuple[Link, ...]:
    return tuple(link for link in _links(gpu) if link.up is True)


def peer_findings(node: NodeTopology) -> Iterable[Finding]:
    """Peer access of all pairs alike, or the pairs that differ."""
    for capability in dict.fromkeys(access.capability for access in node.peers):
        table = [access for access in node.peers if access.capability == capability]
        yield from _of_table(table, "peer access" if capability == "unknown" else f"peer {capability}")


def _of_table(table: Sequence[PeerAccess], what: str) -> Iterable[Finding]:
    statuses = Counter(access.status for access in table)
    if set(statuses) == {"OK"}:
        yield Finding(level=Level.PASS, text=f"{what}: OK for all {len(table)} ordered pairs of GPUs")
        return
    if len(statuses) == 1:
        status = next(iter(statuses))
        text = f"no {what} on any pair of GPUs: {_WHY.get(status, status)} ({status})"
        yield Finding(level=Level.WARN, text=f"{text}; data goes through the host, and is slower for it")
        return
    usual = statuses.most_common(1)[0][0]
    odd = [access for access in table if access.status != usual]
    level = Level.FAIL if usual == "OK" and 2 * len(odd) < len(table) else Level.WARN
    named = ", ".join(f"{access.a}->{access.b} {access.status}" for access in odd[:8])
    more = f" and {len(odd) - 8} more" if len(odd) > 8 else ""
    pairs = {frozenset((access.a, access.b)) for access in odd}
    part = "-".join(sorted(next(iter(pairs)))) if len(pairs) == 1 else None
    yield Finding(level=level, text=f"{what}: {usual} on most pairs, but {named}{more}", part=part)
