"""What is said of NVLink and of peer access: each rule with the fault it names, and where it stays quiet."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from known_boards import MODEL, reference
from topologies import gpu_node

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.store import load_baselines
from gpuwire_checks.inspect.finding import Finding, Level, gravest
from gpuwire_checks.inspect.inspection import inspect_text
from gpuwire_checks.inspect.links import link_findings, peer_findings
from gpuwire_checks.inspect.references import References
from gpuwire_checks.topology.model import Link, NodeTopology, PeerAccess, Unread

SHIPPED = load_baselines([Path(__file__).resolve().parents[2] / "baselines"])
NONE = References([])
BRIDGED = reference("test-2x", gpus=2, links=4, pairs={"NV4": "0-1"})
BOARD = reference("test-4x", gpus=4, links=4)


def links(up: int, *, down: int = 0, unread: int = 0, speed: float = 25e9) -> tuple[Link, ...]:
    """Links in their order: those that are up, those that are down, those whose state could not be read."""
    states: list[bool | Unread] = [*[True] * up, *[False] * down, *[Unread.UNKNOWN] * unread]
    return tuple(
        Link(number=number, kind="nvlink", up=state, speed_bytes=speed if state is True else 0.0)
        for number, state in enumerate(states)
    )


def node(*of_gpus: tuple[Link, ...] | Unread, model: str = MODEL) -> NodeTopology:
    made = gpu_node(gpus=len(of_gpus), model=model)
    gpus = tuple(replace(gpu, links=its) for gpu, its in zip(made.gpus, of_gpus, strict=True))
    return replace(made, gpus=gpus, paths=())


def said(made: NodeTopology, *baselines: Baseline) -> list[Finding]:
    return list(link_findings(made, References(baselines)))


def test_links_that_are_all_up_are_counted_with_their_speed() -> None:
    (finding,) = said(node(*[links(12)] * 8))
    assert finding.level is Level.PASS
    assert finding.text == "12 links up on each of GPU0 to GPU7: 96 in all at 25 GB/s"


def test_links_as_the_reference_has_them() -> None:
    (finding,) = said(node(*[links(4)] * 4), BOARD)
    assert (finding.level, finding.text) == (
        Level.PASS,
        "4 links up on each of GPU0 to GPU3: 16 in all at 25 GB/s",
    )


def test_fewer_links_than_the_reference() -> None:
    (finding,) = said(node(links(4), links(3, down=1), links(4), links(4)), BOARD)
    assert finding.level is Level.FAIL
    assert finding.text == "GPU1 has 3 of 4 NVLinks up; link 3 is down"
    assert (finding.part, finding.against) == ("GPU1", "reference test-4x")


def test_all_links_that_are_down_are_named() -> None:
    (finding,) = said(node(links(4), links(4), links(2, down=2), links(4)), BOARD)
    assert finding.text == "GPU2 has 2 of 4 NVLinks up; links 2, 3 are down"


def test_a_gpu_that_lists_no_link_is_held_to_its_reference() -> None:
    (finding,) = said(node(*[()] * 4), BOARD)[:1]
    assert (finding.level, finding.text) == (Level.FAIL, "GPU0 has 0 of 4 NVLinks up")


def test_a_gpu_without_links_and_without_a_reference_is_no_matter() -> None:
    assert said(node((), ())) == []


def test_links_that_nothing_is_told_of_are_no_matter() -> None:
    assert said(node(Unread.UNKNOWN, Unread.NOT_SUPPORTED), BOARD) == []


def test_a_board_without_its_bridge_is_a_doubt() -> None:
    first, second, rest = said(node((), ()), BRIDGED)
    assert {first.level, second.level} == {Level.WARN}
    assert second.text == "GPU1 has 0 of 4 NVLinks up; fine only where it has no bridge"
    assert rest.level is Level.NOTE


def test_a_bridge_that_is_partly_up_is_a_fault() -> None:
    (first, _) = said(node(links(3, down=1), links(3, down=1)), BRIDGED)
    assert (first.level, first.text) == (Level.FAIL, "GPU0 has 3 of 4 NVLinks up; link 3 is down")


def test_a_link_whose_state_could_not_be_read_is_not_down() -> None:
    findings = said(node(links(4), links(3, unread=1), links(4), links(4)), BOARD)
    assert gravest(findings) is Level.WARN
    assert findings[0].text == "GPU1 has 3 of 4 NVLinks up; the state of link 3 could not be read"
    assert findings[0].part == "GPU1"


def test_unread_links_do_not_hide_those_that_are_down() -> None:
    (finding,) = said(node(links(4), links(2, down=1, unread=1), links(4), links(4)), BOARD)
    assert finding.level is Level.FAIL
    assert finding.text == "GPU1 has 2 of 4 NVLinks up; link 2 is down; the state of link 3 could not be read"


def test_where_no_state_is_told_no_link_is_down() -> None:
    (finding,) = said(node(*[links(0, unread=4)] * 4), BOARD)
    assert finding.level is Level.WARN
    assert finding.text == ("whether the links of GPU0 to GPU3 are up is not told here; run nvidia-smi nvlink --status")


def test_more_links_than_the_reference_are_no_fault() -> None:
    assert gravest(said(node(*[links(6)] * 4), BOARD)) is Level.PASS


def test_xgmi_links_are_called_so() -> None:
    expected = BOARD.wiring
    assert expected is not None
    assert expected.links is not None
    amd = replace(
        BOARD, wiring=expected.model_copy(update={"links": expected.links.model_copy(update={"kind": "xgmi"})})
    )
    assert said(node(links(3), *[links(4)] * 3), amd)[0].text == "GPU0 has 3 of 4 xGMI links up"


def test_a_link_below_its_rate_is_named_once() -> None:
    slow = (*links(3), replace(links(4)[3], speed_bytes=12.5e9))
    faults = [f for f in said(node(links(4), slow, links(4), links(4)), BOARD) if f.level is Level.FAIL]
    assert [(f.part, f.text) for f in faults] == [
        ("GPU1 link 3", "GPU1 link 3 runs at 12.5 GB/s, 25 is its rate"),
    ]


def test_a_link_slower_than_the_others_without_a_reference() -> None:
    slow = (*links(3), replace(links(4)[3], speed_bytes=12.5e9))
    faults = [f for f in said(node(links(4), slow)) if f.level is Level.FAIL]
    assert [(f.part, f.text) for f in faults] == [
        ("GPU1 link 3", "GPU1 link 3 runs at 12.5 GB/s, the others at 25"),
    ]


def test_a_rate_that_is_printed_with_its_overhead_is_not_slow() -> None:
    assert gravest(said(node(*[links(4, speed=26.5625e9)] * 4), BOARD)) is Level.PASS


def test_a_rate_that_could_not_be_read_is_not_slow() -> None:
    unread = tuple(replace(link, speed_bytes=Unread.UNKNOWN) for link in links(4))
    (finding,) = said(node(*[unread] * 4), BOARD)
    assert (finding.level, finding.text) == (Level.PASS, "4 links up on each of GPU0 to GPU3: 16 in all")


def test_without_a_reference_a_link_down_is_a_doubt() -> None:
    findings = said(node(links(3, down=1), links(4)))
    assert findings[0].level is Level.WARN
    assert findings[0].text == "GPU0 has 3 of 4 links up; link 3 is down; fine only where the baseline says 3"
    assert findings[-1].text == "3 links up on GPU0; 4 links up on GPU1: 7 in all at 25 GB/s"


@pytest.mark.parametrize(
    ("third", "words"), [((), "no link up"), (links(2), "2 links up")], ids=["no link", "fewer links"]
)
def test_without_a_reference_a_gpu_with_fewer_links_than_its_peers(third: tuple[Link, ...], words: str) -> None:
    (finding, _) = said(node(links(4), links(4), third))
    assert finding.level is Level.WARN
    assert finding.text.startswith(f"GPU2 has {words}, and GPU0, GPU1 have 4; fine where the baseline has it so")
    assert finding.part == "GPU2"


def test_without_a_reference_an_unread_link_is_not_fewer() -> None:
    findings = said(node(links(4), links(3, unread=1)))
    assert findings[0].level is Level.WARN
    assert findings[0].text == "GPU1 has 3 of 4 links up; the state of link 3 could not be read"


def test_gpus_that_say_nothing_are_counted() -> None:
    (finding,) = said(node(links(4), links(4), Unread.UNKNOWN))
    assert finding.text == "4 links up on each of GPU0, GPU1: 8 in all at 25 GB/s; 1 GPU says nothing of its links"


def status(*of_gpus: str, model: str) -> str:
    """``nvidia-smi nvlink --status`` of GPUs, each the text under its head."""
    head = "GPU {}: {} (UUID: GPU-0000000{}-1111-2222-3333-444455556666)\n"
    return "".join(head.format(at, model, at) + text for at, text in enumerate(of_gpus))


def listed(count: int, word: str = "25 GB/s") -> str:
    return "".join(f"\t Link {number}: {word}\n" for number in range(count))


ALL_INACTIVE = "NVML: Unable to retrieve NVLink information as all links are inActive\n"
A100, A6000 = "NVIDIA A100-SXM4-40GB", "NVIDIA RTX A6000"


def levels(text: str) -> list[tuple[Level, str]]:
    inspection = inspect_text(text, source="pasted", references=SHIPPED)
    assert inspection.format == "nvidia-smi nvlink"
    return [(finding.level, finding.text) for finding in inspection.findings]


def test_a_pasted_status_of_a_whole_board() -> None:
    assert levels(status(*[listed(12)] * 8, model=A100))[0] == (
        Level.PASS,
        "12 links up on each of GPU0 to GPU7: 96 in all at 25 GB/s",
    )


def test_an_excerpt_of_one_gpu_is_held_to_what_every_board_of_its_model_has() -> None:
    whole = status(*[""] * 5, listed(12), model=A100)
    excerpt = whole[whole.index("GPU 5") :]
    assert levels(excerpt)[0] == (Level.PASS, "12 links up on GPU5: 12 in all at 25 GB/s")
    dead = excerpt.splitlines()[0] + "\n" + ALL_INACTIVE
    assert levels(dead)[0] == (Level.FAIL, "GPU5 has 0 of 12 NVLinks up")


def test_a_third_card_without_a_bridge_is_a_doubt_with_its_line() -> None:
    found = levels(status(listed(4, "14.062 GB/s"), listed(4, "14.062 GB/s"), ALL_INACTIVE, model=A6000))
    assert found[0] == (Level.WARN, "GPU2 has 0 of 4 NVLinks up; fine only where it has no bridge")
    assert (
        Level.NOTE,
        "4 links up on GPU0; 4 links up on GPU1; 0 links up on GPU2: 8 in all at 14.062 GB/s",
    ) in found


def test_the_remote_ends_of_links_do_not_tell_whether_they_are_up() -> None:
    ends = "".join(f"\t Link {number}: Remote Device 00000001:00:01.0: Link {number}\n" for number in range(12))
    found = levels(status(ends, ends, model=A100))
    assert found[0][0] is Level.WARN
    assert found[0][1].startswith("whether the links of GPU0, GPU1 are up is not told here")


def peers(gpus: int, *, odd: dict[tuple[int, int], str] | None = None, usual: str = "OK") -> NodeTopology:
    table = tuple(
        PeerAccess(a=f"GPU{a}", b=f"GPU{b}", capability="read", status=(odd or {}).get((a, b), usual))
        for a, b in permutations(range(gpus), 2)
    )
    return replace(gpu_node(gpus=gpus), peers=table)


def test_peer_access_of_all_pairs() -> None:
    (finding,) = peer_findings(peers(8))
    assert (finding.level, finding.text) == (Level.PASS, "peer read: OK for all 56 ordered pairs of GPUs")


def test_without_a_table_nothing_is_said_of_peer_access() -> None:
    assert list(peer_findings(gpu_node())) == []


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ("GNS", "GPU not supported"),
        ("CNS", "chipset not supported"),
        ("TNS", "topology not supported"),
        ("DR", "disabled by registry key"),
        ("QQ", "QQ"),
    ],
)
def test_no_peer_access_on_any_pair(status: str, why: str) -> None:
    (finding,) = peer_findings(peers(2, usual=status))
    assert finding.level is Level.WARN
    assert finding.text == (
        f"no peer read on any pair of GPUs: {why} ({status}); data goes through the host, and is slower for it"
    )


def test_one_pair_without_peer_access_is_named() -> None:
    (finding,) = peer_findings(peers(4, odd={(1, 3): "CNS", (3, 1): "CNS"}))
    assert finding.level is Level.FAIL
    assert finding.text == "peer read: OK on most pairs, but GPU1->GPU3 CNS, GPU3->GPU1 CNS"
    assert finding.part == "GPU1-GPU3"


def test_many_pairs_without_peer_access_are_counted() -> None:
    odd = {(a, b): "TNS" for a, b in permutations(range(8), 2) if 7 in (a, b)}
    (finding,) = peer_findings(peers(8, odd=odd))
    assert finding.level is Level.FAIL
    assert finding.text.endswith(" and 6 more")
    assert finding.part is None


def test_peer_access_within_sockets_only_may_be_meant() -> None:
    odd = {(a, b): "CNS" for a, b in permutations(range(4), 2) if a // 2 != b // 2}
    (finding,) = peer_findings(peers(4, odd=odd))
    assert finding.level is Level.WARN
    assert finding.text.startswith("peer read: CNS on most pairs, but GPU0->GPU1 OK, GPU1->GPU0 OK")


def test_each_table_is_judged_by_itself() -> None:
    read = peers(2)
    written = tuple(replace(access, capability="write", status="DR") for access in read.peers)
    found = list(peer_findings(replace(read, peers=(*read.peers, *written))))
    assert [finding.level for finding in found] == [Level.PASS, Level.WARN]
    assert found[1].text.startswith("no peer write on any pair")
