"""Rules about the wires between GPUs: links of each, what each carries, the path and the peer access of each pair."""

from __future__ import annotations

from itertools import combinations

from gpuwire_checks.baseline.observed import gpu_pair_paths, peer_statuses
from gpuwire_checks.records import Outcome, Verdict
from gpuwire_checks.topology.expand import format_ranges
from gpuwire_checks.topology.model import Gpu, Link, PairPath, Unread
from gpuwire_checks.units import format_rate
from gpuwire_checks.wiring.gpus import present_gpu
from gpuwire_checks.wiring.held import Held, compare, not_run, verdict
from gpuwire_checks.wiring.rule import GpuLink, GpuNumber, GpuPair, Rule, gpu_label, link_label, pair_label

_WORDS = {"nvlink": "NVLink", "xgmi": "xGMI link"}


def link_count(held: Held, number: GpuNumber) -> Verdict:
    """As many links are up as the baseline says; with one link down, P2P still says OK."""
    assert held.expected is not None
    gpu = present_gpu(held, "links", number)
    if isinstance(gpu, Verdict):
        return gpu
    part, wanted = gpu_label(number), held.expected.links.of(number) if held.expected.links else None
    unread = _unread(gpu)
    if unread is not None:
        return compare(held, "links", part, expected=wanted, actual=unread)
    links = _links(gpu)
    up = [link for link in links if link.up is True]
    if wanted is not None and len(up) < wanted:
        reason = f"{part}: {_down_words(links)}: {len(up)} of {wanted} {_kind(held)}s are up"
        return verdict(held, "links", part, Outcome.MISSING, reason)
    return compare(held, "links", part, expected=wanted, actual=len(up), words="{} up", better=True)


def _unread(gpu: Gpu) -> Unread | None:
    """Why the number of links that are up is not known; None when it is."""
    if isinstance(gpu.links, Unread):
        return gpu.links
    return next((link.up for link in gpu.links if isinstance(link.up, Unread)), None)


def _links(gpu: Gpu) -> tuple[Link, ...]:
    return () if isinstance(gpu.links, Unread) else gpu.links


def _down_words(links: tuple[Link, ...]) -> str:
    down = [link for link in links if link.up is False]
    if not down:
        return "no link is listed" if not links else f"only {len(links)} links are listed"
    numbers = format_ranges(link.number for link in down).replace(",", ", ")
    return f"{_WORDS[down[0].kind]} {numbers} {'is' if len(down) == 1 else 'are'} down"


def _kind(held: Held) -> str:
    return _WORDS[held.expected.links.kind if held.expected and held.expected.links else "nvlink"]


def _with_links(held: Held) -> list[GpuNumber]:
    """GPUs that have links here or in the baseline; a board without a bridge has none, and that is no fault."""
    stated = held.expected.links if held.expected else None
    return [
        number
        for number in held.numbers
        if (stated is not None and stated.of(number)) or ((gpu := held.gpu(number)) is not None and _links(gpu))
    ]


def link_speed(held: Held, link: GpuLink) -> Verdict:
    """A link that is up runs at the speed and the version of its generation."""
    assert held.expected is not None
    number, at = link
    rule, part = "speed", f"GPU{number} {_kind(held)} {at}"
    gpu = present_gpu(held, rule, number)
    if isinstance(gpu, Verdict):
        return gpu
    here = next((one for one in _links(gpu) if one.number == at), None)
    if here is None or here.up is not True:
        return not_run(held, rule, part, "the link is not up")
    wanted = held.expected.links
    version = wanted.version if wanted else None
    if version is not None and not isinstance(here.version, Unread) and here.version != version:
        reason = f"{part}: version is {here.version}, the baseline says {version}"
        return verdict(held, rule, part, Outcome.REGRESSED, reason)
    speed = None if wanted is None or wanted.speed is None else wanted.speed
    actual = here.speed_bytes
    better = speed is not None and not isinstance(actual, Unread) and actual > speed
    return compare(
        held,
        rule,
        part,
        expected=None if speed is None else format_rate(speed, "GB/s"),
        actual=actual if isinstance(actual, Unread) else format_rate(actual, "GB/s"),
        better=better,
    )


def _links_up(held: Held) -> list[GpuLink]:
    """Links that are up here, where the baseline or the driver knows a speed."""
    stated = held.expected is not None and held.expected.links is not None and held.expected.links.speed is not None
    return [
        (number, link.number)
        for number in held.numbers
        if (gpu := held.gpu(number)) is not None
        for link in _links(gpu)
        if link.up is True and (stated or not isinstance(link.speed_bytes, Unread))
    ]


def pair_path(held: Held, pair: GpuPair) -> Verdict:
    """Two GPUs reach each other the way the baseline says: NV18, PIX, PXB, PHB, NODE, SYS, XGMI."""
    assert held.expected is not None
    part = pair_label(pair)
    gpus = _both(held, "path", pair)
    if isinstance(gpus, Verdict):
        return gpus
    for number in pair:
        links = link_count(held, number) if number in _with_links(held) else None
        if links is not None and links.outcome is Outcome.MISSING:
            return not_run(held, "path", part, f"explained by {links.reason}")
    a, b = gpus
    actual = gpu_pair_paths(held.topology).get((min(a.index, b.index), max(a.index, b.index)), Unread.UNKNOWN)
    wanted = held.expected.path_of.get(pair)
    return compare(
        held, "path", part, expected=wanted, actual=actual, worse="MISSING", better=_has_more_links(actual, wanted)
    )


def _has_more_links(actual: str | Unread, wanted: str | None) -> bool:
    if isinstance(actual, Unread) or wanted is None:
        return False
    return PairPath(a="", b="", path=actual).links > PairPath(a="", b="", path=wanted).links


def peer_access(held: Held, pair: GpuPair) -> Verdict:
    """Two GPUs reach each other's memory, for reads and writes and both ways, where the baseline says so."""
    assert held.expected is not None
    gpus = _both(held, "peer access", pair)
    if isinstance(gpus, Verdict):
        return gpus
    a, b = gpus
    actual = peer_statuses(held.topology).get((min(a.index, b.index), max(a.index, b.index)), Unread.UNKNOWN)
    wanted = held.expected.peer_of.get(pair)
    return compare(held, "peer access", pair_label(pair), expected=wanted, actual=actual, better=actual == "OK")


def _both(held: Held, rule: str, pair: GpuPair) -> tuple[Gpu, Gpu] | Verdict:
    gpus = [present_gpu(held, rule, number) for number in pair]
    gone = next((gpu for gpu in gpus if isinstance(gpu, Verdict)), None)
    if gone is not None:
        return not_run(held, rule, pair_label(pair), gone.reason)
    a, b = (gpu for gpu in gpus if isinstance(gpu, Gpu))
    return a, b


def _paths(held: Held) -> list[GpuPair]:
    return _pairs(held, held.expected.path_of if held.expected else {}, gpu_pair_paths(held.topology))


def _peers(held: Held) -> list[GpuPair]:
    return _pairs(held, held.expected.peer_of if held.expected else {}, peer_statuses(held.topology))


def _pairs(held: Held, stated: dict[GpuPair, str], actual: dict[GpuPair, str]) -> list[GpuPair]:
    return [pair for pair in combinations(held.numbers, 2) if pair in stated or actual]


GPU_LINK_RULES: dict[str, Rule[GpuNumber]] = {
    "links": Rule(what="NVLink or xGMI links", parts=_with_links, label=gpu_label, judge=link_count)
}
LINK_RULES: dict[str, Rule[GpuLink]] = {
    "link_speed": Rule(what="NVLink or xGMI links that are up", parts=_links_up, label=link_label, judge=link_speed)
}
PAIR_RULES: dict[str, Rule[GpuPair]] = {
    "path": Rule(what="pairs of GPUs", parts=_paths, label=pair_label, judge=pair_path),
    "peer_access": Rule(what="pairs of GPUs", parts=_peers, label=pair_label, judge=peer_access),
}
