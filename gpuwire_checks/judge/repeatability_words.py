"""What a trace shows, as lines: the finding first, then a line a case, then what is beside the noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import median

from gpuwire_checks.judge.columns import aligned
from gpuwire_checks.judge.explain import SEEN
from gpuwire_checks.judge.explain_words import signed_change
from gpuwire_checks.judge.repeatability import FEWEST, OUTLIER, AgainstItself, CaseNoise, Held, Repeatability
from gpuwire_checks.judge.words import change_words
from gpuwire_checks.policy import Policy
from gpuwire_checks.records import METRICS
from gpuwire_checks.statistics.series import BLOCK, FEWEST_BLOCKS
from gpuwire_checks.units import format_seconds, format_value

_NAMED = 3
"""Cases named one by one."""


def repeatability_lines(found: Repeatability, policy: Policy) -> list[str]:
    """The whole summary of an A/A run, against what the policy allows for."""
    return [headline(found), *_table(found.cases), *(f"gpuwire: {fact}" for fact in _facts(found, policy))]


def headline(found: Repeatability) -> str:
    """How well the node repeats, and the smallest change seen almost always; of few passes the first alone."""
    count = len(found.cases)
    of = f"median of {count} cases" if count > 1 else found.cases[0].case.case
    many = found.cases[0].held[1].attempts
    repeats = f"gpuwire: this node repeats within {_percent(median(noise.own for noise in found.cases))}"
    if found.passes < FEWEST:
        return f"{repeats} as far as {found.passes} passes tell ({of})"
    smallest = ", ".join(_by_metric(found.cases))
    return f"{repeats} ({of}); with {many} attempts recorded, what is seen {SEEN:.0%} of the time is {smallest}"


def _by_metric(cases: Sequence[CaseNoise]) -> Iterator[str]:
    for name, metric in METRICS.items():
        widths = [noise.held[1].seen for noise in cases if noise.case.metric == name]
        if widths:
            yield f"{change_words(median(widths), metric.better)} for {name}"


def _table(cases: Sequence[CaseNoise]) -> list[str]:
    few, many = (f"limit ({held.attempts})" for held in cases[0].held)
    head = ("case", "centre", "noise", "pooled", "drift", "disturbed", few, many, f"seen {SEEN:.0%}")
    return aligned([head, *map(_cells, cases)], left=1)


def _cells(noise: CaseNoise) -> tuple[str, ...]:
    case, (few, many) = noise.case, noise.held
    return (
        case.case,
        format_value(noise.centre, case.unit),
        _percent(noise.own),
        _percent(many.limits.spread),
        f"{_change(noise):+.1%}" if noise.level else "",
        str(noise.disturbed or ""),
        _limit(few),
        _limit(many),
        signed_change(many.seen, case.better),
    )


def _limit(held: Held) -> str:
    """A limit; in brackets where it is looser than what the policy calls one."""
    change = signed_change(held.limits.width, held.limits.better)
    return change if held.limits.enforceable else f"({change})"


def _facts(found: Repeatability, policy: Policy) -> Iterator[str]:
    passes = found.passes
    yield f"{passes} passes over {_count(len(found.cases), 'case')} in {format_seconds(_seconds(found))}"
    if passes < FEWEST:
        yield f"{passes} passes give no more than a first look: limits, drift and verdicts take {FEWEST} (--passes)"
    else:
        yield _drift(found)
        yield _shared(found, policy)
    yield _disturbed(found, policy)
    if passes >= FEWEST:
        yield from _loose(found)
        yield from _against_itself(found)


def _drift(found: Repeatability) -> str:
    fall = found.drift
    change = f"{_percent(abs(fall))} {'slower' if fall > 0 else 'faster'}"
    single = [noise for noise in found.cases if noise.drifts]
    if found.drifts:
        return (
            f"it DRIFTS: the second half is {change} than the first (median of cases), which noise does not explain;"
            " find what changed meanwhile before recording a baseline"
        )
    if single:
        named = ", ".join(f"{noise.case.case} ({_change(noise):+.1%})" for noise in single[:_NAMED])
        more = f" and {len(single) - _NAMED} more" if len(single) > _NAMED else ""
        verb = "case DRIFTS" if len(single) == 1 else "cases DRIFT"
        return f"{len(single)} {verb} from the first half to the second: {named}{more}"
    return f"no drift: the second half is {change} than the first (median of cases), which noise explains"


def _shared(found: Repeatability, policy: Policy) -> str:
    night = policy.noise.night
    if found.shared is None:
        return f"too few passes to tell what attempts close in time share: that needs {BLOCK * FEWEST_BLOCKS}"
    text = f"{BLOCK} attempts in a row share {found.shared:.2f} spreads; the policy allows {night:g} for a night"
    if found.drifts:
        return f"{text}, and the drift is in that"
    if found.shared > night:
        return (
            f"{text}: MORE than it allows; record the baseline in several runs, which tells how far they differ, or"
            f" raise noise.night in {policy.path}"
        )
    return f"{text} (noise.night). Other nights may share more: record a trace at another hour to see"


def _disturbed(found: Repeatability, policy: Policy) -> str:
    count, allowed = sum(noise.disturbed for noise in found.cases), policy.noise.disturbed
    text = (
        f"{count} of {found.attempts} attempts ({count / found.attempts:.1%}) are disturbed, more than {OUTLIER:g}"
        f" spreads to the bad side; the policy allows {allowed:.0%}"
    )
    if count <= allowed * found.attempts:
        return f"{text} (noise.disturbed)"
    worst = max(found.cases, key=lambda noise: noise.disturbed)
    return (
        f"{text}: MORE than it allows, most at {worst.case.case} ({worst.disturbed} of {len(worst.case.attempts)});"
        f" find what else runs here, or raise noise.disturbed in {policy.path}"
    )


def _loose(found: Repeatability) -> Iterator[str]:
    few, many = ([noise for noise in found.cases if not noise.held[at].limits.enforceable] for at in (0, 1))
    total, (recorded, more) = len(found.cases), (held.attempts for held in found.cases[0].held)
    if many:
        yield (
            f"{len(many)} of {total} cases cannot be enforced even with {more} attempts recorded, such as"
            f" {many[0].case.case}: their limits, in brackets, are looser than the policy's max_slack"
        )
    if len(few) > len(many):
        yield (
            f"{len(few)} of {total} cases cannot be enforced with the policy's {recorded} attempts recorded:"
            f" record more, with gpuwire baseline record --attempts {more}"
        )


def _against_itself(found: Repeatability) -> Iterator[str]:
    yield _verdicts("figures", [(noise, noise.level) for noise in found.cases if noise.level], found)
    tails = [(noise, noise.tails) for noise in found.cases if noise.tails]
    if tails:
        yield _verdicts("spreads within attempts", tails, found)


def _verdicts(by: str, held: Sequence[tuple[CaseNoise, AgainstItself]], found: Repeatability) -> str:
    failed = [(noise, against) for noise, against in held if against.failed]
    decisions = sum(against.decisions for _, against in held)
    text = (
        f"{len(failed)} of {_count(len(held), 'case')} failed against themselves by their {by}"
        f" ({sum(against.failed for _, against in failed)} of {decisions} decisions; baseline: the first"
        f" {found.recorded} attempts)"
    )
    if not failed:
        return text
    named = ", ".join(
        f"{noise.case.case} ({against.failed} of {against.decisions})" for noise, against in failed[:_NAMED]
    )
    return (
        f"{text}: {named}{', ...' if len(failed) > _NAMED else ''}; unless the node changed, these are false failures"
    )


def _change(noise: CaseNoise) -> float:
    """The drift as a change of the figure: a drop of a rate is negative, a rise of a latency positive."""
    return math.expm1(-noise.drift if noise.case.better == "higher" else noise.drift)


def _seconds(found: Repeatability) -> float:
    """From the first attempt's beginning to the last's."""
    times = [datetime.fromisoformat(attempt.at) for noise in found.cases for attempt in noise.case.attempts]
    return (max(times) - min(times)).total_seconds()


def _percent(width: float) -> str:
    return f"{math.expm1(width):.1%}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
