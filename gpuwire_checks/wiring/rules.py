"""Every rule by the name that a suite asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuwire_checks.records import Verdict
from gpuwire_checks.wiring.counters import COUNTER_RULES
from gpuwire_checks.wiring.framework import FRAMEWORK_RULES
from gpuwire_checks.wiring.gpus import GPU_RULES
from gpuwire_checks.wiring.held import Held
from gpuwire_checks.wiring.links import GPU_LINK_RULES, LINK_RULES, PAIR_RULES
from gpuwire_checks.wiring.nics import NEAR_NIC_RULES, NIC_RULES
from gpuwire_checks.wiring.rule import Rule
from gpuwire_checks.wiring.software import SOFTWARE_RULES

RULES: Mapping[str, Rule[Any]] = {
    **GPU_RULES,
    **FRAMEWORK_RULES,
    **GPU_LINK_RULES,
    **LINK_RULES,
    **PAIR_RULES,
    **NIC_RULES,
    **NEAR_NIC_RULES,
    **SOFTWARE_RULES,
    **COUNTER_RULES,
}


def at_rest(held: Held) -> list[Verdict]:
    """Every verdict on the wiring that can be told before anything is measured; software is not wiring."""
    return [
        rule.judge(held, part)
        for rule in RULES.values()
        if not rule.measured and not rule.software
        for part in rule.parts(held)
    ]


def faults(held: Held) -> list[Verdict]:
    """Those of them that are faults."""
    return [verdict for verdict in at_rest(held) if verdict.outcome.is_fault]
