"""``gpuwire baseline diff`` and ``show``: what baselines say. Nothing is measured, and nothing written."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from gpuwire_checks.baseline.comparing import compare
from gpuwire_checks.baseline.finding import named_baseline
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.planned import case_of, planned_cases
from gpuwire_checks.baseline.schema import BoundEntry
from gpuwire_checks.baseline.store import load_baseline, load_baselines
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.harness.baseline_words import comparison_lines, floor_lines, head_lines
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.judge.bound_table import bound_table
from gpuwire_checks.judge.explain import Decisions, Explanation, explain
from gpuwire_checks.policy import Policy, load_policy

_NEAREST = 3


def diff_baselines(a: str, b: str, settings: Settings, *, echo: Callable[[str], object]) -> int:
    """Say what would change from one baseline to another; returns the exit status, 1 where something does.

    Args:
        a, b: files or names.

    Raises:
        BaselineError: there is no such baseline, or it cannot be read.
    """
    before, after = (_chosen(name, settings) for name in (a, b))
    found = compare(before, after)
    for line in comparison_lines(found, before, after):
        echo(line)
    return 0 if found.nothing else 1


def show_baseline(name: str, settings: Settings, *, patterns: Sequence[str], echo: Callable[[str], object]) -> None:
    """Say what a baseline holds its nodes to, under the policy.

    Args:
        name: a file or a name.
        patterns: of the cases to show; none for all.

    Raises:
        GpuwireError: there is no such baseline or case, or a baseline or the policy cannot be read.
    """
    baseline, policy = _chosen(name, settings), load_policy(settings.baselines)
    decisions = Decisions(
        cases=len(baseline.entries),
        tails=sum(entry.tail is not None for entry in baseline.entries),
        rolling=len(baseline.rolling),
    )
    abouts = _explained(baseline, policy, patterns, decisions)
    for line in head_lines(baseline, policy=policy.path, decisions=decisions.total):
        echo(line)
    for line in ["", *bound_table(abouts)] if abouts else []:
        echo(line)
    if baseline.floors:
        for line in ["", *floor_lines(baseline.floors)]:
            echo(line)
    elif not baseline.entries:
        echo("gpuwire: no figure of such a node was published: it states wiring alone")


def _explained(baseline: Baseline, policy: Policy, patterns: Sequence[str], decisions: Decisions) -> list[Explanation]:
    planned = planned_cases(policy, baseline.entries, tier=baseline.recorded.tier if baseline.recorded else None)
    cases = [case_of(entry, planned) for entry in _matching(baseline, patterns)]
    abouts = (explain(case, baseline, policy, sku=baseline.sku, decisions=decisions) for case in cases)
    return [about for about in abouts if about is not None]


def _matching(baseline: Baseline, patterns: Sequence[str]) -> list[BoundEntry]:
    """Bounds whose case fits a pattern, with or without its backend; every pattern fits one."""
    for pattern in patterns:
        if not any(_fits(entry, pattern) for entry in baseline.entries):
            names = [_short(entry) for entry in baseline.entries]
            near = difflib.get_close_matches(pattern, names, n=_NEAREST, cutoff=0.3) or names[:_NEAREST]
            told = f"; the nearest: {', '.join(dict.fromkeys(near))}" if near else ""
            raise BaselineError(
                f"{baseline.path}: no bound of its {len(names)} is for a case {pattern!r}{told}; a pattern such as"
                " 'all_reduce-*' takes several"
            )
    return [entry for entry in baseline.entries if not patterns or any(_fits(entry, pattern) for pattern in patterns)]


def _fits(entry: BoundEntry, pattern: str) -> bool:
    return fnmatchcase(_short(entry), pattern) or fnmatchcase(str(entry.case), pattern)


def _short(entry: BoundEntry) -> str:
    """A case as a run names it: without its backend."""
    return str(entry.case).removesuffix(f"-{entry.case.backend}")


def _chosen(name: str, settings: Settings) -> Baseline:
    """A baseline by file or name; where a file is given, the others need not be readable."""
    if Path(name).is_file():
        return load_baseline(Path(name))
    return named_baseline(name, load_baselines(settings.baselines))
