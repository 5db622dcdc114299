"""Cases of the plan by the names that a user gives."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.plan import Plan
from gpuwire_checks.records import Case

_NEAREST = 3


def named_cases(plan: Plan, patterns: Sequence[str]) -> tuple[Case, ...]:
    """Cases whose name is one of these or fits one of these patterns, in the plan's order; every pattern fits one.

    Raises:
        ConfigError: a pattern that fits none, with the names most like it.
    """
    for pattern in patterns:
        if not any(fnmatchcase(case.id, pattern) for case in plan.cases):
            raise _no_such_case(plan, pattern)
    return tuple(case for case in plan.cases if any(fnmatchcase(case.id, pattern) for pattern in patterns))


def _no_such_case(plan: Plan, pattern: str) -> ConfigError:
    names = [case.id for case in plan.cases]
    near = difflib.get_close_matches(pattern, names, n=_NEAREST, cutoff=0.3) or names[:_NEAREST]
    return ConfigError(
        f"no case {pattern!r} among the {len(names)} of tier {plan.tier} with {plan.world.size} ranks; the nearest:"
        f" {', '.join(near)}; a pattern such as 'all_reduce-*' takes several, --tier and --world-size plan others"
    )
