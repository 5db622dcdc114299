"""Which baseline is a node's, or has a name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.store import load_baseline, load_baselines
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.topology.fingerprint import first_difference
from gpuwire_checks.topology.model import Unread

_COUNT = re.compile(r"-(\d+)x(?=-|$)")
"""The number of GPUs in a SKU."""
_MOST_NAMES = 8
"""Names told where none is the one asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The baseline of a node.

    Attributes:
        exact: the node is wired to the last link as the baseline says; a reference says no more than its facts.
        nearest: with no match, the baseline with most in common.
        difference: the first difference to ``baseline`` or ``nearest``, in a sentence.
    """

    baseline: Baseline | None
    exact: bool = False
    nearest: Baseline | None = None
    difference: str | None = None


def find_baseline(
    directories: Sequence[Path],
    *,
    sku: str,
    exact: str,
    facts: Mapping[str, str | int],
    expect: str | None,
    site: Path | None = None,
    links: int | Unread = Unread.UNKNOWN,
) -> Match:
    """The baseline for a node, the first directory's before the next's.

    Args:
        expect: the name of the baseline to take, whatever the node looks like.
        links: of the GPU that has most links up. Fewer on every GPU than the only baseline of these GPUs states is a
            loss, as when a switch is dead, and no other SKU.
        site: where recorded baselines lie; a node with fewer GPUs than one of those, and nothing else of its own, is
            held to it: it has lost a GPU. None where GPUs are hidden on purpose.

    Raises:
        BaselineError: a file that cannot be read, or no baseline of the name expected.
    """
    known: list[Baseline] = []
    found: list[Baseline] = []
    for directory in directories:
        # Every file of a directory is read, so that a broken one is told; the next only without an exact match here.
        known += load_baselines([directory])
        found = _candidates(known, sku=sku, expect=expect, site=site, links=links)
        if any(baseline.exact == exact for baseline in found):
            break
    if found:
        return _match(found, exact, facts)
    if expect is not None:
        raise unknown_name(expect, known)
    alike = [(len(baseline.facts.items() & facts.items()), baseline) for baseline in known]
    most, nearest = max(alike, key=lambda pair: pair[0], default=(0, None))
    if not most or nearest is None:
        return Match(baseline=None)
    return Match(baseline=None, nearest=nearest, difference=first_difference(nearest.facts, facts))


def _candidates(
    known: Sequence[Baseline], *, sku: str, expect: str | None, site: Path | None, links: int | Unread
) -> list[Baseline]:
    if expect is not None:
        return [baseline for baseline in known if baseline.name == expect]
    same = [baseline for baseline in known if baseline.sku == sku]
    return same or _with_more_links(known, sku, site, links) or _with_more_gpus(known, sku, site)


def named_baseline(name: str, known: Sequence[Baseline]) -> Baseline:
    """A baseline by its file or its name; of two with one name the first.

    Raises:
        BaselineError: there is none, with the names most like it; or its file cannot be read.
    """
    if Path(name).is_file():
        return load_baseline(Path(name))
    found = next((baseline for baseline in known if baseline.name == name), None)
    if found is None:
        raise unknown_name(name, known)
    return found


def unknown_name(name: str, known: Sequence[Baseline]) -> BaselineError:
    """The error that says which names there are: those recorded here, then references, the most alike first."""
    if not known:
        return BaselineError(f"no baseline is named {name!r}; there is none at all")
    ordered = sorted(known, key=lambda baseline: (baseline.recorded is None, -_likeness(name, baseline.name)))
    names = list(dict.fromkeys(baseline.name for baseline in ordered))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return BaselineError(f"no baseline is named {name!r}; known: {', '.join(names[:_MOST_NAMES])}{more}")


def _likeness(a: str, b: str) -> float:
    """How many words two names share, and how alike they are besides."""
    return len(set(a.split("-")) & set(b.split("-"))) + difflib.SequenceMatcher(a=a, b=b).ratio()


def _with_more_links(known: Sequence[Baseline], sku: str, site: Path | None, links: int | Unread) -> list[Baseline]:
    """Baselines of as many of the same GPUs, with more links on each than any GPU here has up.

    Of the shipped ones not those with bridges between boards: boards are sold without a bridge as well.
    """
    if isinstance(links, Unread):
        return []
    return [
        baseline
        for baseline in known
        if baseline.wiring is not None
        and baseline.wiring.most_links > links
        and _model_and_count(baseline.sku) == _model_and_count(sku)
        and (not baseline.wiring.is_bridged or (site is not None and baseline.path.is_relative_to(site)))
    ]


def _with_more_gpus(known: Sequence[Baseline], sku: str, site: Path | None) -> list[Baseline]:
    """The site's baselines of the same GPUs, more of them; the nearest number first.

    Not the shipped ones: a node with four L40S may be meant so, and nobody here has said otherwise.
    """
    model, count = _model_and_count(sku)
    larger: list[tuple[int, Baseline]] = []
    for baseline in known:
        its_model, its_count = _model_and_count(baseline.sku)
        if site is not None and its_model == model and its_count > count > 0 and baseline.path.is_relative_to(site):
            larger.append((its_count, baseline))
    return [baseline for _, baseline in sorted(larger, key=lambda pair: pair[0])]


def _model_and_count(sku: str) -> tuple[str, int]:
    match = _COUNT.search(sku)
    return (sku[: match.start()], int(match[1])) if match else (sku, 0)


def _match(found: Sequence[Baseline], exact: str, facts: Mapping[str, str | int]) -> Match:
    for baseline in found:
        if baseline.exact == exact:
            return Match(baseline=baseline, exact=True)
    best = found[0]
    if best.exact is None:
        difference = first_difference(best.facts, {name: facts[name] for name in best.facts if name in facts})
        return Match(baseline=best, exact=difference is None, difference=difference)
    return Match(baseline=best, difference=first_difference(best.facts, facts))
