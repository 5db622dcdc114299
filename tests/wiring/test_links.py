"""Rules about the wires between GPUs: what cannot be read of them is no fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
from wired import hgx_node

from gpuwire_checks.baseline.observed import observed_wiring, peer_statuses
from gpuwire_checks.records import Outcome
from gpuwire_checks.topology.model import NodeTopology
from gpuwire_checks.wiring.held import Held
from gpuwire_checks.wiring.rules import RULES


def with_peers(statuses: tuple[str, str]) -> NodeTopology:
    """A node in which GPU 0 reaches GPU 1 with the first status for reads, and with the second for writes."""
    node, by_capability = hgx_node(), dict(zip(("read", "write"), statuses, strict=True))
    peers = tuple(
        replace(peer, status=by_capability[peer.capability]) if (peer.a, peer.b) == ("GPU0", "GPU1") else peer
        for peer in node.peers
    )
    return replace(node, peers=peers)


@pytest.mark.parametrize("statuses", [("U", "U"), ("OK", "U"), ("U", "OK")])
def test_peer_access_that_the_driver_does_not_tell_is_not_run(statuses: tuple[str, str]) -> None:
    held = Held(topology=with_peers(statuses), expected=observed_wiring(hgx_node()), where="")
    verdict = RULES["peer_access"].judge(held, (0, 1))
    assert verdict.outcome is Outcome.NOT_RUN
    assert verdict.reason == "GPU0-GPU1: peer access cannot be read here: unknown; the baseline says OK"
    assert (0, 1) not in observed_wiring(held.topology).peer_of


@pytest.mark.parametrize("statuses", [("U", "CNS"), ("CNS", "U"), ("OK", "CNS")])
def test_a_refusal_in_one_way_is_told_whatever_the_other_is(statuses: tuple[str, str]) -> None:
    assert peer_statuses(with_peers(statuses))[0, 1] == "CNS"
