"""For each reference: a healthy node meets it in everything, and one with a single fault fails exactly its rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from faulty import FAULTS, Fault
from reference_nodes import node_of

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.observed import observed_software, observed_wiring
from gpuwire_checks.baseline.store import baseline_files, load_baseline
from gpuwire_checks.baseline.wiring import Wiring
from gpuwire_checks.records import Outcome, SeenDevice, Verdict
from gpuwire_checks.topology.model import NodeTopology, Pcie
from gpuwire_checks.wiring.held import Growth, Held, Watched
from gpuwire_checks.wiring.rules import RULES

SHIPPED = Path(__file__).resolve().parents[2] / "baselines"
REFERENCES = {path.stem: load_baseline(path) for path in baseline_files(SHIPPED)}
RATES = {"pcie": 1e-12, "nvlink": 1e-12, "infiniband": 1e-12}


def site(reference: Baseline) -> tuple[NodeTopology, Wiring]:
    """A healthy node, and the wiring that a site records of it: what the reference says, and all that it leaves out."""
    assert reference.wiring is not None
    node = node_of(reference.wiring, reference.sku)
    return node, observed_wiring(node)


def loaded(node: NodeTopology, *growth: Growth) -> Watched:
    """A run in which every GPU reached its slot's generation, and torch saw what the driver lists."""
    pcie = {gpu.name: Pcie(generation=gpu.max_pcie_generation, width=gpu.pcie_width) for gpu in node.gpus}
    counted = frozenset(counter.part for counter in node.counters)
    seen = tuple(SeenDevice(model=str(gpu.model), pci_address=str(gpu.pci_address)) for gpu in node.gpus)
    return Watched(seconds=10.0, pcie=pcie, growth=growth, counted=counted, devices=seen)


def verdicts(node: NodeTopology, wiring: Wiring, healthy: NodeTopology, *growth: Growth) -> Mapping[str, list[Verdict]]:
    held = Held(
        topology=node,
        expected=wiring,
        where="site/node.yaml",
        software=observed_software(healthy),
        watched=loaded(node, *growth),
        bit_error_rates=RATES,
    )
    return {name: [rule.judge(held, part) for part in rule.parts(held)] for name, rule in RULES.items()}


def failing(found: Mapping[str, list[Verdict]]) -> dict[str, list[Verdict]]:
    faults = {name: [verdict for verdict in given if verdict.outcome.is_fault] for name, given in found.items()}
    return {name: given for name, given in faults.items() if given}


def test_there_are_references() -> None:
    assert len(REFERENCES) >= 20


@pytest.mark.parametrize("name", REFERENCES)
def test_a_healthy_node_meets_its_reference(name: str) -> None:
    """Nothing that the reference states is a fault, or cannot be told."""
    reference = REFERENCES[name]
    node, _ = site(reference)
    assert reference.wiring is not None
    outcomes = {
        (rule, verdict.outcome): verdict.reason
        for rule, given in verdicts(node, reference.wiring, node).items()
        for verdict in given
    }
    assert {outcome for _, outcome in outcomes} <= {Outcome.PASS, Outcome.NO_BASELINE}, outcomes


@pytest.mark.parametrize("name", REFERENCES)
def test_a_healthy_node_meets_what_it_recorded(name: str) -> None:
    node, wiring = site(REFERENCES[name])
    outcomes = {verdict.outcome for given in verdicts(node, wiring, node).values() for verdict in given}
    assert outcomes == {Outcome.PASS}


FITTING = [
    pytest.param(name, what, id=f"{name}-{what}")
    for name, reference in REFERENCES.items()
    for what, fault in FAULTS.items()
    if fault.fits(site(reference)[0])
]


@pytest.mark.parametrize(("name", "what"), FITTING)
def test_a_single_fault_fails_exactly_its_rule_and_names_its_part(name: str, what: str) -> None:
    healthy, wiring = site(REFERENCES[name])
    fault = FAULTS[what]
    _fails_exactly(fault, failing(verdicts(fault.breaks(healthy), wiring, healthy)))


def test_every_fault_happens_to_some_reference() -> None:
    assert {str(param.values[1]) for param in FITTING} == set(FAULTS)


def _fails_exactly(fault: Fault, found: Mapping[str, list[Verdict]]) -> None:
    assert list(found) == [fault.rule], {name: [v.reason for v in given] for name, given in found.items()}
    first = found[fault.rule][0]
    assert first.reason.startswith(fault.part)
    assert fault.says in first.reason
    # A direct link has two ends, and both say that it is down.
    assert len(found[fault.rule]) <= (2 if fault.rule == "links" else 1)


@pytest.mark.parametrize("name", REFERENCES)
def test_replays_that_grow_fail_exactly_the_counters(name: str) -> None:
    healthy, wiring = site(REFERENCES[name])
    grown = Growth(part="GPU0", counter="pcie replay", grown=5000, case="all_reduce-1GiB", seconds=10.0)
    found = failing(verdicts(healthy, wiring, healthy, grown))
    assert list(found) == ["counters"]
    assert found["counters"][0].reason.startswith("GPU0: pcie replay grew by 5000")


@pytest.mark.parametrize("name", REFERENCES)
def test_a_generation_that_does_not_come_up_fails_exactly_under_load(name: str) -> None:
    healthy, wiring = site(REFERENCES[name])
    held = Held(
        topology=healthy,
        expected=wiring,
        where="",
        watched=Watched(seconds=1.0, pcie={"GPU0": Pcie(generation=1, width=16)}, growth=(), counted=frozenset()),
    )
    verdict = RULES["pcie_under_load"].judge(held, 0)
    assert verdict.outcome is Outcome.REGRESSED
    assert verdict.reason.startswith("GPU0: PCIe under load is gen 1 x16")


@pytest.mark.parametrize("name", [name for name, reference in REFERENCES.items() if len(site(reference)[0].gpus) > 2])
def test_a_lost_gpu_leaves_what_depends_on_it_not_run_with_the_cause(name: str) -> None:
    healthy, wiring = site(REFERENCES[name])
    found = verdicts(FAULTS["a GPU is gone"].breaks(healthy), wiring, healthy)
    waiting = [verdict for verdict in found["path"] + found["pcie"] if verdict.outcome is Outcome.NOT_RUN]
    assert waiting
    assert all("GPU1 (0000:11:00.0) is gone" in verdict.reason for verdict in waiting)


def test_the_faults_are_faults_of_different_rules() -> None:
    wiring = {"links", "link_speed", "gpu", "pcie", "numa", "row_remap", "peer_access", "fabric"}
    assert {fault.rule for fault in FAULTS.values()} >= wiring | {"nic", "nic_rate", "software"}


def test_replace_is_all_that_breaks_a_node() -> None:
    """A break changes the copy, not the node that others are tested with."""
    healthy, _ = site(next(iter(REFERENCES.values())))
    before = replace(healthy)
    for fault in FAULTS.values():
        if fault.fits(healthy):
            fault.breaks(healthy)
    assert healthy == before
