"""``gpuwire policy explain``: the accepted range of a case on this node, and where each number in it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.harness.cases import named_cases
from gpuwire_checks.harness.node import Node, survey
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.harness.showing import observed
from gpuwire_checks.judge.explain import Decisions, Explanation, explain
from gpuwire_checks.judge.explain_words import explanation_lines, explanation_table
from gpuwire_checks.judge.words import no_bound
from gpuwire_checks.records import Case
from gpuwire_checks.world import choose_world

_IN_DETAIL = 5
"""Cases explained in full; more are a table."""


def explain_cases(pattern: str, settings: Settings, *, echo: Callable[[str], object]) -> int:
    """Explain the planned cases of this name or pattern; returns the exit status, 1 where one has no bound.

    Raises:
        GpuwireError: a policy, baseline or recorded node that cannot be read, or no such case in the plan.
    """
    topology = observed(settings.source)
    world = choose_world(topology, device=settings.device, world_size=settings.world_size)
    node = survey(settings, topology=topology, world=world)
    cases, baseline = named_cases(node.plan, [pattern]), node.match.baseline
    if baseline is not None and not node.match.exact:
        difference = node.match.difference or "the same parts are joined differently"
        echo(f"gpuwire: this node differs from {baseline.name}: {difference}")
    found = [] if baseline is None else _explained(node, baseline, cases)
    for line in _lines(found):
        echo(line)
    explained = {about.case for about in found}
    missing = [case for case in cases if case not in explained]
    for case in missing[:_IN_DETAIL]:
        echo(f"gpuwire: {no_bound(case, node.where)}")
    if len(missing) > _IN_DETAIL:
        echo(f"gpuwire: ... and {len(missing) - _IN_DETAIL} more without a bound")
    return 1 if missing else 0


def decisions_of(node: Node) -> Decisions:
    """What a run of this node's plan decides."""
    bounds = [bound for case in node.plan.cases if (bound := node.bound_for(case)) is not None]
    return Decisions(
        cases=len(node.plan.cases),
        tails=sum(bound.tail is not None for bound in bounds),
        rolling=sum(bound.rolling is not None for bound in bounds),
    )


def _explained(node: Node, baseline: Baseline, cases: Sequence[Case]) -> list[Explanation]:
    decisions, sku = decisions_of(node), node.fingerprint.sku
    abouts = (explain(case, baseline, node.policy, sku=sku, decisions=decisions) for case in cases)
    return [about for about in abouts if about is not None]


def _lines(found: Sequence[Explanation]) -> list[str]:
    if len(found) > _IN_DETAIL:
        return [
            *explanation_table(found),
            f"gpuwire: {len(found)} cases; each number of one comes with: gpuwire policy explain {found[0].case.id}",
        ]
    lines: list[str] = []
    for about in found:
        lines += ["", *explanation_lines(about)] if lines else explanation_lines(about)
    return lines
