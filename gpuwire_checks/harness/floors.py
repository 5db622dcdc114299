"""A bound below what is published of its topology is not recorded: a broken node must not become the norm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuwire_checks.baseline.fleet_words import case_title
from gpuwire_checks.baseline.floors import floor_of_case
from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.schema import BoundEntry
from gpuwire_checks.errors import BaselineError
from gpuwire_checks.records import Case
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.topology.nvls import uses_nvls
from gpuwire_checks.units import format_value


def refuse_below_floor(
    bounds: Iterable[tuple[Case, BoundEntry]],
    known: Sequence[Baseline],
    *,
    topology: NodeTopology,
    environment: Mapping[str, str],
    command: str,
) -> None:
    """Refuse bounds that a published figure of this SKU contradicts.

    Args:
        known: baselines of the SKU, with what is published of it.
        environment: of the ranks, which says whether the switch was allowed to reduce.
        command: what records them all the same.

    Raises:
        BaselineError: one is below; names the case, the figure, the floor and who published it.
    """
    floors = [floor for baseline in known for floor in baseline.floors]
    nvls = uses_nvls(topology, environment)
    below = [
        f"{case_title(case)}: {format_value(entry.centre, entry.unit)} is below {floor.words}"
        for case, entry in bounds
        if (floor := floor_of_case(floors, case, nvls=nvls)) is not None and entry.centre < floor.value
    ]
    if below:
        more = f" (and {len(below) - 1} more)" if len(below) > 1 else ""
        raise BaselineError(
            f"nothing is recorded: {below[0]}{more}; a broken node must not become the norm: find out why it is slow,"
            f" or, where it is meant to be so, record it with: {command} --force"
        )
