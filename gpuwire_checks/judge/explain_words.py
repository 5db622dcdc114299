"""An explanation as lines: a fact a line, with where it stands. Pure: numbers in, words out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpuwire_checks.judge.columns import aligned
from gpuwire_checks.judge.explain import SEEN, Explanation, lowest_unsuspicious
from gpuwire_checks.judge.families import family_words
from gpuwire_checks.judge.words import case_words, change_words
from gpuwire_checks.records import TAIL
from gpuwire_checks.statistics.pooling import Spread
from gpuwire_checks.statistics.robust import centre_error
from gpuwire_checks.units import format_value


def explanation_lines(about: Explanation) -> list[str]:
    """The accepted range, and below it how it came about, a step a line."""
    unit = about.bound.metric.unit
    low, high = (format_value(figure, unit) for figure in about.limits.accepted)
    title = f"{case_words(about.case)}: accepted from {low} to {high}"
    return [title, *aligned([(f"  {label}", text) for label, text in _facts(about)], left=2)]


def _facts(about: Explanation) -> Iterator[tuple[str, str]]:
    yield "bound", _bound(about)
    yield "own noise", _spread(about.noise.own)
    yield "family", _family(about)
    yield "noise used", _used(about)
    yield "budget", _budget(about)
    yield "disturbed", _walk(about)
    yield "shared", _shared(about)
    yield from _limit(about)
    yield "max_slack", _slack(about)
    yield "screen", _screen(about)
    yield "tail", _tail(about)
    yield "last runs", _rolling(about)
    yield "seen", _seen(about)
    if about.left_out:
        marks = ", ".join(about.left_out)
        yield "left out", f"rows for the marker {marks}: they count for tests that bear it, and no test is run here"


def _bound(about: Explanation) -> str:
    bound, recorded = about.bound, about.recorded_at
    when = f"; last recorded {recorded:%Y-%m-%d %H:%M} {recorded.tzname()}" if recorded else ""
    return (
        f"{format_value(bound.centre, bound.metric.unit)}: the median of {_count(bound.attempts, 'attempt')} in"
        f" {_count(bound.runs, 'run')} on {_count(bound.nodes, 'node')}{when} ({bound.where})"
    )


def _family(about: Explanation) -> str:
    noise, name = about.noise, family_words(about.family)
    if noise.family.degrees <= 0:
        return f"{name}: no other case of it is recorded"
    return f"{name}: {_count(noise.members, 'other')}, typically {_spread(noise.family)}"


def _used(about: Explanation) -> str:
    noise = about.noise
    if noise.used.degrees <= 0:
        return "nothing is known of it, and min_effect alone decides: record it with two attempts or more"
    if noise.keeps_own:
        return f"{_spread(noise.used)}: keeps its own, it is clearly noisier than its family"
    if noise.own.degrees <= 0:
        return f"{_spread(noise.used)}: its family's, it has none of its own"
    if noise.family.degrees <= 0:
        return f"{_spread(noise.used)}: its own alone"
    return f"{_spread(noise.used)}: its own, drawn towards its family's"


def _budget(about: Explanation) -> str:
    alarms, decisions = about.policy.false_alarms, about.decisions
    beside = [(decisions.tails, "spread within attempts"), (decisions.rolling, "last good runs")]
    parts = [_count(decisions.cases, "case"), *(f"{count} of the {what}" for count, what in beside if count)]
    first = f" ({about.rule.first} first attempts share it)" if about.rule.first > 1 else ""
    return (
        f"{_count(alarms.per_week, 'false failure')} a week over {_count(alarms.nodes, 'node')} of"
        f" {_count(alarms.runs_per_week, 'run')} each, and {_count(decisions.total, 'decision')} a run"
        f" ({', '.join(parts)}): 1 in {1 / about.rule.level:,.0f} a decision{first}"
    )


def _walk(about: Explanation) -> str:
    walk = about.rule.walk
    return (
        f"{about.rule.disturbed:.0%} of a healthy node's attempts may be spoilt: {walk.lead} more outside than inside"
        f" is a failure, {walk.clear} more inside a pass, neither in {walk.most} attempts UNSTABLE"
    )


def _shared(about: Explanation) -> str:
    uncertainty, bound = about.limits.uncertainty, about.bound
    total = f"{uncertainty.shared:.2f} spreads between the baseline and a whole night (in steps of 5%)"
    if math.isinf(uncertainty.shared_degrees):
        return (
            f"{total}: the error of a median of {_count(bound.attempts, 'attempt')} is"
            f" {centre_error(bound.attempts):.2f}, what attempts of a night share {about.rule.night:.2f}, tonight and"
            " when recorded"
        )
    assert bound.between is not None
    of = f"{bound.groups} {'nodes' if bound.nodes > 1 else 'runs'}"
    return f"{total}: its {of} differ by {_percent(bound.between)}, which is more than chance and a night explain"


def _limit(about: Explanation) -> Iterator[tuple[str, str]]:
    limits, better = about.limits, about.bound.metric.better
    if limits.spread > 0:
        noise = f"{change_words(limits.noise, better)}: {limits.multiplier:.2f} spreads of {_percent(limits.spread)}"
        yield "noise limit", noise
    why = about.tolerance.said_by["min_effect"][1].why
    yield "min_effect", f'{change_words(limits.min_effect, better)} ({_row(about, "min_effect")}: "{why}")'
    if limits.noise > limits.min_effect:
        yield "limit", f"{change_words(limits.width, better)}: noise decides, it can do more than min_effect"
    else:
        yield "limit", f"{change_words(limits.width, better)}: min_effect decides, noise does less"


def _slack(about: Explanation) -> str:
    if math.isinf(about.limits.max_slack):
        return "none in the policy: any limit is enforced"
    most = f"{change_words(about.limits.max_slack, about.bound.metric.better)} ({_row(about, 'max_slack')})"
    if about.limits.enforceable:
        return f"{most}: the limit is within it and can be enforced"
    ends = "a warning by policy" if about.rule.warns_unstable else "a fault"
    return f"{most}: the limit is looser and cannot be enforced: inside it the case is UNSTABLE, {ends}"


def _screen(about: Explanation) -> str:
    side = "below" if about.bound.metric.better == "higher" else "above"
    figure = format_value(lowest_unsuspicious(about.limits), about.bound.metric.unit)
    return f"a first figure {side} {figure} is measured again"


def _tail(about: Explanation) -> str:
    if about.bound.tail is None:
        return f"the spread within attempts was not recorded: an attempt has too few single calls for {TAIL.unit}"
    if about.tail is None:
        return "the policy says nothing of the spread within attempts"
    return (
        f"{TAIL.unit} of single calls up to {about.tail.worst:.2f} ({about.tail.centre:.2f} when recorded;"
        f" {_row(about, 'tail')})"
    )


def _rolling(about: Explanation) -> str:
    if about.rolling is None:
        return "none are kept beside the bound"
    unit, bound = about.bound.metric.unit, about.bound.rolling
    assert bound is not None
    low, high = (format_value(figure, unit) for figure in about.rolling.accepted)
    return (
        f"accepted from {low} to {high} around {format_value(bound.centre, unit)}, the median of"
        f" {_count(bound.attempts, 'attempt')} in {_count(bound.runs, 'run')}"
    )


def _seen(about: Explanation) -> str:
    if math.isinf(about.seen):
        return f"no change, however great, is seen {SEEN:.0%} of the time: record it on more nodes, or more often"
    change = change_words(about.seen, about.bound.metric.better)
    return f"{change} is seen {SEEN:.0%} of the time, a smaller one less often"


def explanation_table(abouts: Sequence[Explanation]) -> list[str]:
    """One line a case, for many of them."""
    rows = [("case", "decided by", "centre", "noise", "limit", f"seen {SEEN:.0%}", "figure"), *map(_cells, abouts)]
    return aligned(rows, left=2)


def _cells(about: Explanation) -> tuple[str, ...]:
    limits, unit, better = about.limits, about.bound.metric.unit, about.bound.metric.better
    decides = "noise" if limits.noise > limits.min_effect else "min_effect"
    sign = ">=" if better == "higher" else "<="
    return (
        about.case.id,
        decides if limits.enforceable else f"{decides}, too loose",
        format_value(limits.centre, unit),
        _percent(limits.spread),
        signed_change(limits.width, better),
        signed_change(about.seen, better),
        f"{sign} {format_value(limits.worst, unit)}",
    )


def signed_change(width: float, better: str) -> str:
    """A distance to the bad side for a table: ``-5.1%``, ``+20.0%``, ``x12``."""
    if math.isinf(width):
        return "never"
    if better == "higher":
        return f"{math.expm1(-width):+.1%}"
    return f"x{math.exp(width):.0f}" if width > math.log(10) else f"{math.expm1(width):+.1%}"


def _row(about: Explanation, value: str) -> str:
    """File and line of the policy's row that gives a value."""
    index, _ = about.tolerance.said_by[value]
    return about.policy.places[index]


def _spread(spread: Spread) -> str:
    if spread.degrees <= 0:
        return "none: it takes two attempts to tell"
    return f"{_percent(spread.spread)} between attempts, with {spread.degrees:.0f} degrees of freedom"


def _percent(log_spread: float) -> str:
    return f"{math.expm1(log_spread):.1%}"


def _count(count: float, what: str) -> str:
    return f"{count:g} {what}{'' if count == 1 else 's'}"
