"""``gpuwire doctor``: what is here, what is missing and why that matters, and what would run."""

from __future__ import annotations

from datetime import datetime, timezone

from gpuwire_checks import __version__
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.errors import GpuwireError
from gpuwire_checks.harness.markers import present_hardware
from gpuwire_checks.harness.node import Node, survey
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.harness.recording import known_software
from gpuwire_checks.harness.showing import observed
from gpuwire_checks.report.header import age_words, software_words
from gpuwire_checks.topology.describe import describe
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.units import format_seconds
from gpuwire_checks.world import choose_world


def examine(settings: Settings) -> tuple[list[str], bool]:
    """What a person wants to know before the first run, here or on a recorded node, and whether it could be judged."""
    topology = observed(settings.source)
    lines = [f"gpuwire {__version__}", "", "here:", *_indented(describe(topology))]
    missing = what_is_missing(topology)
    lines += ["", "missing:", *_indented(missing or ["nothing that matters"])]
    try:
        world = choose_world(topology, device=settings.device, world_size=settings.world_size)
        node = survey(settings, topology=topology, world=world)
    except GpuwireError as error:
        return [*lines, "", f"cannot plan a run: {error}"], False
    lines += ["", "software:", *_indented([software_words(known_software(node, {}))])]
    baseline, judged = _baseline(node)
    lines += ["", "baseline:", *_indented(baseline)]
    lines += ["", "would run:", *_indented(_plan(node))]
    return lines, judged and topology.software.torch is not None


def what_is_missing(topology: NodeTopology) -> list[str]:
    """Each thing that is not here, and what is lost without it."""
    found = []
    if topology.software.torch is None:
        found.append("torch is not installed: nothing can be measured; pip install torch")
    if not topology.gpus:
        found.append("no GPU is visible: only the host is measured, with gloo between CPU ranks")
    elif len(topology.gpus) == 1:
        found.append("one GPU only: there is no wire between GPUs to measure; collectives run on the CPU")
    if topology.gpus and topology.software.nccl in (None, Unread.UNKNOWN):
        found.append("no NCCL package is known: its version is asked of torch when ranks start")
    return [*found, *(doubt.text for doubt in topology.doubts)]


def _baseline(node: Node) -> tuple[list[str], bool]:
    match = node.match
    looked = ", ".join(str(directory) for directory in node.settings.baselines) or "no directory"
    if match.baseline is None:
        lines = [f"none for {node.fingerprint.sku} ({node.fingerprint.exact}); looked in {looked}"]
        if match.nearest is not None:
            lines.append(f"nearest: {match.nearest.name}; {match.difference}")
        return [*lines, "record one with: gpuwire baseline record"], False
    lines = [f"{match.baseline.name} ({match.baseline.path}), {_origin(match.baseline)}"]
    if not match.exact:
        lines.append(f"this node differs from it: {match.difference or 'the same parts are joined differently'}")
    lines.append(f"{node.bounds} of {len(node.plan.cases)} planned cases have a bound")
    orphans = match.baseline.orphans(node.plan.cases)
    if orphans:
        lines.append(f"{len(orphans)} bounds are used by no planned case of this tier, such as {orphans[0]}")
    return lines, node.bounds == len(node.plan.cases)


def _origin(baseline: Baseline) -> str:
    if baseline.recorded is None:
        return "a reference that nobody recorded here"
    return f"recorded {age_words((datetime.now(timezone.utc) - baseline.recorded.at).total_seconds())} ago"


def _plan(node: Node) -> list[str]:
    plan, tier = node.plan, node.policy.tiers[node.plan.tier]
    return [
        f"tier {plan.tier}: {tier.description}",
        f"{len(plan.cases)} cases on {plan.world.size} {plan.world.backend} ranks ({plan.world.device}),"
        f" about {format_seconds(plan.predicted_seconds)}",
        f"markers satisfied here: {', '.join(sorted(present_hardware(node.topology)))}",
    ]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
