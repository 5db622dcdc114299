"""How strict a verdict is: a case's tolerance from the policy, and the level that the false-alarm budget leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.policy import Policy
from gpuwire_checks.statistics.level import least_lead
from gpuwire_checks.statistics.walk import Walk
from gpuwire_checks.tolerance import Tolerance


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How strict a verdict is.

    Attributes:
        min_effect: smallest change worth a failure, as a fraction of the centre.
        max_slack: change, likewise, from which on a limit is too loose to be worth enforcing.
        tail: smallest growth of the spread within attempts that is worth a failure, as a fraction.
        level: chance of a false failure that this decision may have.
        first: attempts before a case can pass.
        clear: lead of attempts inside the limit that ends a suspicion.
        most: attempts after which a suspicion is decided.
        disturbed: share of a healthy node's attempts that something else may spoil.
        night: standard deviation, in spreads, of what the attempts of one night have in common.
        warns_unstable: what cannot be enforced, or attempts that disagree, are a warning.
    """

    min_effect: float
    level: float
    max_slack: float = math.inf
    tail: float = math.inf
    first: int = 1
    clear: int = 3
    most: int = 20
    disturbed: float = 0.05
    night: float = 0.4
    warns_unstable: bool = False

    @cached_property
    def walk(self) -> Walk:
        """The shortest walk that keeps the level.

        Raises:
            ConfigError: there is none.
        """
        found = least_lead(self.each_level, disturbed=self.disturbed, clear=self.clear, most=self.most)
        if found is None:
            raise ConfigError(
                f"at most 1 false failure in {1 / self.each_level:,.0f} decisions (false_alarms) cannot be promised:"
                f" with {self.disturbed:.0%} of attempts disturbed (noise), {self.most} attempts are too few to tell;"
                " raise attempts.confirm, or allow for fewer disturbed ones"
            )
        return found

    @property
    def each_level(self) -> float:
        """The level of the walk from one first attempt."""
        return self.level / self.first


def make_rule(policy: Policy, tolerance: Tolerance, *, decisions: int) -> Rule:
    """A case's rule.

    Args:
        decisions: taken in one run on one node.

    Raises:
        ConfigError: the policy promises what its attempts cannot keep; with its file.
    """
    rule = Rule(
        min_effect=tolerance.min_effect,
        max_slack=tolerance.max_slack,
        tail=tolerance.tail,
        level=policy.level(decisions),
        first=policy.attempts.first,
        clear=policy.attempts.clear,
        most=policy.attempts.confirm,
        disturbed=policy.noise.disturbed,
        night=policy.noise.night,
        warns_unstable=tolerance.unstable == "warn",
    )
    try:
        assert rule.walk
    except ConfigError as problem:
        raise ConfigError(f"{policy.path}: {problem}") from problem
    return rule
