"""Many nodes judged in arrays: cell by cell what one node's judge says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuwire_checks.judge.fleet import Code, FleetStanding, fleet_standing, worst_cells
from gpuwire_checks.judge.limits import Limits
from gpuwire_checks.judge.rule import Rule
from gpuwire_checks.judge.standing import Standing, standing
from gpuwire_checks.statistics.level import Uncertainty, least_lead

RULE = Rule(min_effect=0.1, level=1e-4)
NAN = math.nan


def limits(width: float = 0.1, *, spread: float = 0.02, better: str = "higher", max_slack: float = 1.0) -> Limits:
    known = Uncertainty(degrees=20, shared=0.5, shared_degrees=math.inf, disturbed=0.05)
    return Limits(
        centre=100.0,
        spread=spread,
        multiplier=3.0,
        min_effect=width,
        max_slack=max_slack,
        uncertainty=known,
        better=better,
    )


def found(*cells: tuple[float, ...], of: Limits | None = None, rule: Rule = RULE) -> FleetStanding:
    """One metric on as many nodes as there are cells, each filled up with attempts that were not made."""
    most = max(len(cell) for cell in cells)
    values = np.array([[(*cell, *[NAN] * (most - len(cell)))] for cell in cells])
    return fleet_standing(values, [of or limits()], rule)


def codes(*cells: tuple[float, ...], of: Limits | None = None, rule: Rule = RULE) -> list[Code]:
    return [Code(int(code)) for code in found(*cells, of=of, rule=rule).codes[:, 0]]


def promised(rule: Rule) -> bool:
    """Whether its attempts can keep its level; no other rule is made of a policy."""
    return least_lead(rule.each_level, disturbed=rule.disturbed, clear=rule.clear, most=rule.most) is not None


# As the judge of one node

widths = st.builds(
    limits,
    st.floats(0.01, 0.5),
    spread=st.sampled_from([0.0, 0.003, 0.02, 0.1]),
    better=st.sampled_from(["higher", "lower"]),
    max_slack=st.just(10.0),
)
values = st.floats(60, 160) | st.sampled_from([100.0, 95.0, 90.0, 80.0, 75.0, 70.0, 125.0, 150.0])
attempts = st.integers(1, 24).flatmap(lambda count: st.lists(values, min_size=count, max_size=count))
rules = st.builds(
    Rule,
    min_effect=st.just(0.1),
    level=st.sampled_from([1e-1, 1e-2, 1e-4, 1e-6]),
    first=st.integers(1, 4),
    clear=st.integers(1, 4),
    most=st.sampled_from([4, 7, 20]),
).filter(promised)


@settings(max_examples=400, deadline=None)
@given(st.lists(attempts, min_size=1, max_size=4), widths, rules)
def test_every_cell_stands_as_one_node_would(cells: list[list[float]], of: Limits, rule: Rule) -> None:
    expected = [Code[standing(cell, of, rule).name] for cell in cells]
    assert codes(*map(tuple, cells), of=of, rule=rule) == expected


@example(0.25, "higher")
@given(st.floats(0.01, 0.9), st.sampled_from(["higher", "lower"]))
def test_a_figure_on_its_very_limit_is_on_the_same_side_of_it(fraction: float, better: str) -> None:
    of = limits(-math.log1p(-fraction), spread=0.0, better=better, max_slack=10.0)
    edges = [100 * (1 - fraction), 100 / (1 - fraction), *of.accepted]
    assert codes(*((edge,) for edge in edges), of=of) == [Code[standing([edge], of, RULE).name] for edge in edges]


def test_every_standing_has_a_code() -> None:
    assert {one.name for one in Standing} <= {code.name for code in Code}


def test_each_metric_has_its_own_limits_and_good_side() -> None:
    three = [limits(0.1), limits(0.3), limits(0.1, better="lower")]
    judged = fleet_standing(np.array([[80.0, 80.0, 80.0], [120.0, 120.0, 120.0]]), three, RULE)
    assert judged.codes.tolist() == [
        [Code.OPEN, Code.INSIDE, Code.OPEN],
        [Code.OPEN, Code.INSIDE, Code.OPEN],
    ]
    assert judged.falls[0].tolist() == pytest.approx([-math.log(0.8), -math.log(0.8), math.log(0.8)])


def test_a_node_that_is_down_is_worse_and_its_healthy_neighbour_inside() -> None:
    assert codes((80.0,) * 4, (100.0,)) == [Code.WORSE, Code.INSIDE]


def test_attempts_that_ran_out_leave_nothing_open() -> None:
    few = Rule(min_effect=0.1, level=0.01, most=7)
    assert codes((80.0, 100.0) * 3, (*(80.0, 100.0) * 3, 80.0), rule=few) == [Code.OPEN, Code.UNDECIDED]


def test_attempts_that_disagree_come_and_go() -> None:
    assert codes((80.0, 80.0, 100.0, 80.0, 80.0, 80.0)) == [Code.COMES_AND_GOES]


# Nothing passes by absence


@pytest.mark.parametrize("figure", [NAN, 0.0, -1.0, math.inf, -math.inf])
def test_what_is_no_figure_was_not_measured(figure: float) -> None:
    judged = found((figure,), (100.0,))
    assert judged.codes[:, 0].tolist() == [Code.NOT_MEASURED, Code.INSIDE]
    assert math.isnan(judged.falls[0, 0])


def test_a_later_attempt_that_is_no_figure_spoils_its_cell() -> None:
    assert codes((88.0, 0.0), (88.0, math.inf), (88.0, 100.0, -3.0)) == [Code.NOT_MEASURED] * 3


def test_a_gap_between_attempts_is_not_read_as_their_end() -> None:
    assert codes((88.0, NAN, 100.0), (NAN, 100.0, 100.0)) == [Code.NOT_MEASURED] * 2


def test_an_array_that_nobody_filled_holds_no_pass() -> None:
    assert Code(0) is Code.NOT_MEASURED


def test_a_limit_too_loose_to_be_enforced_is_no_pass() -> None:
    loose = limits(0.1, max_slack=0.05)
    assert codes((100.0,), (130.0,) * 4, (80.0,) * 4, of=loose) == [Code.TOO_LOOSE, Code.TOO_LOOSE, Code.WORSE]


def test_fewer_attempts_than_a_pass_needs_leave_it_open() -> None:
    assert codes((100.0,), (100.0, 100.0), rule=replace(RULE, first=2)) == [Code.OPEN, Code.INSIDE]


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 3, 1, 1)])
def test_figures_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"for 1 metrics: expected \[nodes, metrics\(, attempts\)\]"):
        fleet_standing(np.ones(shape), [limits()], RULE)


# Many at a time


def test_nodes_are_judged_alike_wherever_they_are_in_the_array(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(3)
    values = 100 * np.exp(-0.1 * noise.standard_normal((50, 3, 7)))
    at_once = fleet_standing(values, [limits()] * 3, RULE)
    monkeypatch.setattr("gpuwire_checks.judge.fleet._CELLS", 50)
    in_parts = fleet_standing(values, [limits()] * 3, RULE)
    assert (at_once.codes == in_parts.codes).all()
    assert (at_once.falls == in_parts.falls).all()
    assert sum(at_once.count(code) for code in Code) == 150


def test_no_nodes_are_no_cells() -> None:
    nothing = fleet_standing(np.ones((0, 2)), [limits()] * 2, RULE)
    assert nothing.codes.shape == (0, 2)
    assert worst_cells(nothing) == []


# The worst


def test_the_worst_cells_come_first_and_by_their_median() -> None:
    judged = found((80.0, 100.0, 81.0), (100.0,), (50.0,), (NAN,), (120.0,))
    worst = worst_cells(judged, most=3)
    assert [cell.node for cell in worst] == [2, 0, 1]
    assert [cell.code for cell in worst] == [Code.OPEN, Code.OPEN, Code.INSIDE]
    assert [cell.fall for cell in worst] == pytest.approx([math.log(2), -math.log(0.81), 0.0])


def test_cells_that_are_alike_are_listed_in_their_order() -> None:
    judged = fleet_standing(np.full((2, 3), 50.0), [limits()] * 3, RULE)
    assert [(cell.node, cell.metric) for cell in worst_cells(judged, most=4)] == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_the_worst_are_the_same_however_many_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    values = 100 * np.exp(-0.1 * np.random.default_rng(5).standard_normal((40, 3)))
    values[::2] = NAN
    judged = fleet_standing(values, [limits()] * 3, RULE)
    at_once = worst_cells(judged, most=50)
    assert [cell.fall for cell in at_once] == sorted((cell.fall for cell in at_once), reverse=True)
    assert len(at_once) == 50
    monkeypatch.setattr("gpuwire_checks.judge.fleet._CELLS", 7)
    assert worst_cells(judged, most=50) == at_once
    assert worst_cells(judged, most=3) == at_once[:3]
    assert worst_cells(judged, most=0) == []


def test_few_figures_among_many_that_are_missing_are_all_found() -> None:
    assert [cell.node for cell in worst_cells(found(*[(NAN,)] * 5, (100.0,), (80.0,)), most=3)] == [6, 5]


def test_what_was_not_measured_is_not_among_the_worst() -> None:
    assert [cell.node for cell in worst_cells(found((NAN,), (100.0,), (0.0,)))] == [1]
