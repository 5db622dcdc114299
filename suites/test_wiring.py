"""The node is wired the way its baseline expects, part by part, and has the hardware that it is required to have."""

from __future__ import annotations

import pytest

from gpuwire_checks.harness.expect import Expect
from gpuwire_checks.harness.trial import Trial


@pytest.mark.rule("gpu")
def test_gpu(judged: Trial, expect: Expect) -> None:
    """Every GPU is there, answers its driver, and is the model that it was."""
    expect.met(judged)


@pytest.mark.rule("framework")
def test_framework(judged: Trial, expect: Expect) -> None:
    """Torch sees each GPU, under the number that its driver gives it: otherwise the wrong one would be blamed."""
    expect.met(judged)


@pytest.mark.rule("links")
def test_links(judged: Trial, expect: Expect) -> None:
    """Every NVLink or xGMI link of a GPU is up: with one down, P2P still works and is slower."""
    expect.met(judged)


@pytest.mark.rule("link_speed")
def test_link_speed(judged: Trial, expect: Expect) -> None:
    """Each link that is up runs at the speed of its generation."""
    expect.met(judged)


@pytest.mark.rule("path")
def test_path(judged: Trial, expect: Expect) -> None:
    """Each pair of GPUs is joined as it was: the same links, or the same way over PCIe."""
    expect.met(judged)


@pytest.mark.rule("peer_access")
def test_peer_access(judged: Trial, expect: Expect) -> None:
    """Each pair of GPUs reaches each other's memory where it could before."""
    expect.met(judged)


@pytest.mark.rule("pcie")
def test_pcie(judged: Trial, expect: Expect) -> None:
    """Each GPU has the PCIe generation and width of its slot."""
    expect.met(judged)


@pytest.mark.rule("numa")
def test_numa(judged: Trial, expect: Expect) -> None:
    """Each GPU is on its NUMA node."""
    expect.met(judged)


@pytest.mark.rule("ecc")
def test_ecc(judged: Trial, expect: Expect) -> None:
    """Memory is protected on each GPU as it was."""
    expect.met(judged)


@pytest.mark.rule("persistence")
def test_persistence(judged: Trial, expect: Expect) -> None:
    """The driver stays loaded for each GPU as it did: without it, the first call pays for a start."""
    expect.met(judged)


@pytest.mark.rule("mig")
def test_mig(judged: Trial, expect: Expect) -> None:
    """Each GPU is whole, or cut in slices, as it was."""
    expect.met(judged)


@pytest.mark.rule("row_remap")
def test_row_remap(judged: Trial, expect: Expect) -> None:
    """No memory row of a GPU waits to be replaced, or could not be."""
    expect.met(judged)


@pytest.mark.rule("fabric")
def test_fabric(judged: Trial, expect: Expect) -> None:
    """The NVLink fabric of each GPU is up and healthy."""
    expect.met(judged)


@pytest.mark.rule("nic")
def test_nic(judged: Trial, expect: Expect) -> None:
    """Every NIC is there, and up."""
    expect.met(judged)


@pytest.mark.rule("nic_rate")
def test_nic_rate(judged: Trial, expect: Expect) -> None:
    """Each port runs at its rate."""
    expect.met(judged)


@pytest.mark.rule("nic_pcie")
def test_nic_pcie(judged: Trial, expect: Expect) -> None:
    """Each NIC has the PCIe generation and width of its slot: a narrow slot halves a port whose rate looks right."""
    expect.met(judged)


@pytest.mark.rule("nic_numa")
def test_nic_numa(judged: Trial, expect: Expect) -> None:
    """Each NIC is on its NUMA node."""
    expect.met(judged)


@pytest.mark.rule("nic_paths")
def test_nic_paths(judged: Trial, expect: Expect) -> None:
    """Each GPU is as near to each NIC as it was."""
    expect.met(judged)


@pytest.mark.rule("pcie_under_load")
def test_pcie_under_load(judged: Trial, expect: Expect) -> None:
    """Each GPU reaches its PCIe generation and width while it carries data; at rest the generation drops."""
    expect.met(judged)


@pytest.mark.rule("counters")
def test_counters(judged: Trial, expect: Expect) -> None:
    """No error counter grew by more than its wires may while they carried data; what it stood at says nothing."""
    expect.met(judged)


def test_topology(wiring: Trial, expect: Expect) -> None:
    """Everything together is joined as it was, to the last wire that no test above is about."""
    expect.met(wiring)


def test_required_hardware(required: Trial, expect: Expect) -> None:
    """Hardware named with --gpuwire-require is here: its tests may not be skipped for want of it."""
    expect.present(required)
