"""The site's baseline that recorded runs go into: the one that is there, or a new one made of what the runs saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from gpuwire_checks import __version__
from gpuwire_checks.baseline.finding import named_baseline
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.observed import observed_software, observed_wiring
from gpuwire_checks.baseline.schema import RecordedEntry
from gpuwire_checks.baseline.store import load_baselines
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.harness.options import Settings
from gpuwire_checks.harness.run_figures import GivenRun, tier_of
from gpuwire_checks.records import Outcome
from gpuwire_checks.topology.fingerprint import facts, first_difference
from gpuwire_checks.topology.model import Unread
from gpuwire_checks.wiring.held import Held
from gpuwire_checks.wiring.rules import faults


def site_baseline(runs: Sequence[GivenRun], settings: Settings, *, to: str | None = None) -> Baseline | None:
    """The site's baseline of these runs' nodes; None where nothing was recorded yet.

    Args:
        to: the name or file of the baseline that is meant.

    Raises:
        BaselineError: there is none of that name, or it is of nodes that are wired otherwise.
    """
    sku, exact = runs[0].sku, runs[0].exact
    if to is not None:
        found = [named_baseline(to, load_baselines(settings.baselines))]
    else:
        of_site = load_baselines([settings.site]) if settings.site.is_dir() else []
        found = [baseline for baseline in of_site if baseline.sku == sku]
    if not found:
        return None
    target = next((baseline for baseline in found if baseline.exact == exact), found[0])
    if target.sku != sku or target.exact not in (exact, None):
        difference = first_difference(target.facts, facts(runs[0].file.run.topology))
        raise BaselineError(
            f"{target.path}: the node of {runs[0].path} is not wired as it says:"
            f" {difference or 'the same parts are joined differently'}; give runs of such nodes, or name another"
            " baseline with --to"
        )
    return None if target.recorded is None else target


def references(runs: Sequence[GivenRun], settings: Settings) -> list[Baseline]:
    """Every baseline known of these nodes' SKU, for what is published of it."""
    return [baseline for baseline in load_baselines(settings.baselines) if baseline.sku == runs[0].sku]


def new_baseline(runs: Sequence[GivenRun], settings: Settings, *, hosts: int) -> Baseline:
    """A baseline without bounds, of the wiring and the software that these runs saw."""
    topology = runs[-1].file.run.topology
    return Baseline(
        name=runs[0].sku,
        path=settings.site,
        sku=runs[0].sku,
        exact=runs[0].exact,
        facts=facts(topology),
        recorded=RecordedEntry(
            at=datetime.now(timezone.utc),
            gpuwire=__version__,
            tier=tier_of(runs),
            hosts=hosts,
            software=_software(runs),
        ),
        wiring=observed_wiring(topology),
        expected_software=observed_software(topology),
    )


def sound_runs(runs: Sequence[GivenRun], known: Sequence[Baseline]) -> tuple[list[GivenRun], list[str]]:
    """Runs of nodes whose wiring is healthy and as a baseline says, and a line for each other one."""
    expected = next((baseline.wiring for baseline in known if baseline.wiring is not None), None)
    sound, lines = [], []
    for run in runs:
        topology = run.file.run.topology
        held = Held(topology=topology, expected=expected or observed_wiring(topology), where=str(run.path))
        found = [result.verdict for result in run.file.results if result.verdict.case is None]
        # Other software is told beside it, and breaks no wire.
        wrong = [*faults(held), *(one for one in found if one.is_fault and one.outcome is not Outcome.CHANGED)]
        if wrong:
            lines.append(f"{run.path} is left out, its node {run.file.run.host} is broken: {wrong[0].reason}")
        else:
            sound.append(run)
    return sound, lines


def software_lines(runs: Sequence[GivenRun]) -> list[str]:
    """A line for each version that is not the same in all runs: figures may differ by it."""
    lines = []
    for name, versions in _versions(runs).items():
        if len(versions) > 1:
            told = ", ".join(f"{version} in {count}" for version, count in versions.most_common())
            lines.append(f"{name} is not the same in all runs ({told}): figures may differ by it")
    return lines


def _software(runs: Sequence[GivenRun]) -> dict[str, str | None]:
    """The version that most runs have, of each name."""
    return {name: versions.most_common(1)[0][0] for name, versions in _versions(runs).items()}


def _versions(runs: Sequence[GivenRun]) -> dict[str, Counter[str | None]]:
    names = ("kernel", "driver", "cuda", "nccl", "torch", "python")
    found = [run.file.run.topology.software for run in runs]
    return {name: Counter(_word(getattr(software, name)) for software in found) for name in names}


def _word(version: str | Unread | None) -> str | None:
    return version.value if isinstance(version, Unread) else version


def with_hosts(baseline: Baseline, *, more: int) -> Baseline:
    """The baseline with more nodes behind it, as of now."""
    assert baseline.recorded is not None
    recorded = baseline.recorded
    at = datetime.now(timezone.utc)
    return replace(baseline, recorded=recorded.model_copy(update={"at": at, "hosts": recorded.hosts + more}))
