"""``ibstat`` and ``ibstatus`` as pasted: the ports of each CA, doubts by line, and refusals."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import Nic, NodeTopology, Unread
from gpuwire_checks.topology.readers.ibstat import looks_like_ibstat, read_ibstat


def port(number: int, *, state: str = "Active", physical: str = "LinkUp", rate: str = "400", layer: str = "") -> str:
    return f"""\
\tPort {number}:
\t\tState: {state}
\t\tPhysical state: {physical}
\t\tRate: {rate}
\t\tBase lid: 41
\t\tLMC: 0
\t\tSM lid: 7
\t\tCapability mask: 0xa751e848
\t\tPort GUID: 0xb0cf0e0300aabb0{number}
\t\tLink layer: {layer or "InfiniBand"}
"""


def adapter(name: str, *ports: str, firmware: str = "28.41.1000") -> str:
    return f"""\
CA '{name}'
\tCA type: MT4129
\tNumber of ports: {len(ports)}
\tFirmware version: {firmware}
\tHardware version: 0
\tNode GUID: ...
\tSystem image GUID: 0xb0cf0e0300aabb00
{"".join(ports)}"""


PAIR = adapter("mlx5_0", port(1)) + adapter("mlx5_3", port(1, rate="200", layer="Ethernet"))
DOWN = adapter("mlx5_7", port(1, state="Down", physical="Polling", rate="10"))
KERNEL = """\
Infiniband device 'mlx5_2' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:b0cf:0e03:00aa:bb00
\tbase lid:\t 0x29
\tsm lid:\t\t 0x7
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 200 Gb/sec (4X HDR)
\tlink_layer:\t InfiniBand
"""


def read(text: str) -> NodeTopology:
    return read_ibstat(text, source="pasted")


def nic(text: str) -> Nic:
    (only,) = read(text).nics
    return only


def doubts(node: NodeTopology) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in node.doubts]


def test_ports_that_are_up() -> None:
    node = read(PAIR)
    assert looks_like_ibstat(PAIR)
    assert [(nic.name, nic.device, nic.kind) for nic in node.nics] == [
        ("mlx5_0", "mlx5_0", "infiniband"),
        ("mlx5_3", "mlx5_3", "roce"),
    ]
    assert [nic.rate_bits for nic in node.nics] == [400_000_000_000, 200_000_000_000]
    assert {(nic.up, nic.state, nic.physical, nic.firmware) for nic in node.nics} == {
        (True, "Active", "LinkUp", "28.41.1000")
    }
    assert node.doubts == ()
    assert node.gpus == ()


def test_what_is_not_told_is_unknown() -> None:
    assert nic(KERNEL).firmware is nic(KERNEL).numa_node is nic(KERNEL).pci_address is Unread.UNKNOWN


def test_a_port_that_is_down_has_no_rate() -> None:
    found = nic(DOWN)
    assert (found.up, found.state, found.physical, found.rate_bits) == (False, "Down", "Polling", Unread.UNKNOWN)
    text = "mlx5_7 port 1: the rate 10 of a port that is Down/Polling is no rate of a link: not read"
    assert doubts(read(DOWN)) == [(11, text)]


def test_a_port_without_subnet_manager_is_not_up() -> None:
    found = nic(adapter("mlx5_0", port(1, state="Initializing")))
    assert (found.up, found.state) == (False, "Initializing")


def test_a_second_port_is_named_with_its_number() -> None:
    node = read(adapter("mlx4_0", port(1), port(2, state="Down", physical="Disabled")))
    assert [(nic.name, nic.device, nic.up) for nic in node.nics] == [
        ("mlx4_0", "mlx4_0", True),
        ("mlx4_0:2", "mlx4_0", False),
    ]


@pytest.mark.parametrize(
    ("rate", "bits"), [("2.5", 2_500_000_000), ("40 (FDR10)", 40_000_000_000), ("100", 100_000_000_000)]
)
def test_rates(rate: str, bits: int) -> None:
    assert nic(adapter("mlx5_0", port(1, rate=rate))).rate_bits == bits


@pytest.mark.parametrize("rate", ["fast", "0", "ERR!"])
def test_a_rate_that_is_no_number_is_unknown(rate: str) -> None:
    node = read(adapter("mlx5_0", port(1, rate=rate)))
    assert node.nics[0].rate_bits is Unread.UNKNOWN
    assert doubts(node) == [(11, f"mlx5_0 port 1: rate reads {rate!r}: not known")]


def test_not_available_is_not_supported() -> None:
    assert nic(adapter("mlx5_0", port(1, rate="N/A"))).rate_bits is Unread.NOT_SUPPORTED


def test_a_state_that_could_not_be_read_is_not_up_and_not_down() -> None:
    node = read(adapter("mlx5_0", port(1, state="[Unknown Error]")))
    assert node.nics[0].up is node.nics[0].state is Unread.UNKNOWN
    assert doubts(node) == [(9, "mlx5_0 port 1: state reads '[Unknown Error]': not known")]


def test_the_kernels_form() -> None:
    found = nic(KERNEL)
    assert looks_like_ibstat(KERNEL)
    assert (found.name, found.kind, found.up, found.state, found.physical, found.rate_bits) == (
        "mlx5_2",
        "infiniband",
        True,
        "Active",
        "LinkUp",
        200_000_000_000,
    )
    both = KERNEL + KERNEL.replace("port 1", "port 2").replace("4: ACTIVE", "2: INIT")
    assert [(nic.name, nic.state) for nic in read(both).nics] == [("mlx5_2", "Active"), ("mlx5_2:2", "Initializing")]
    assert read(KERNEL).doubts == ()


def test_a_cut_block_leaves_the_rest_unknown() -> None:
    text = PAIR[: PAIR.rindex("\t\tRate:")]
    node = read(text)
    last = node.nics[1]
    assert (last.name, last.state, last.rate_bits, last.kind) == ("mlx5_3", "Active", Unread.UNKNOWN, "unknown")
    assert doubts(node) == [(27, "mlx5_3 port 1 says nothing of: rate, link layer")]


def test_a_number_that_may_be_cut_is_unknown() -> None:
    text = PAIR[: PAIR.rindex("00\n\t\tBase")]
    node = read(text)
    assert node.nics[1].rate_bits is Unread.UNKNOWN
    assert (28, "mlx5_3 port 1: rate is cut: not known") in doubts(node)
    assert read(PAIR.removesuffix("\n")) == read(PAIR)


def test_an_adapter_without_ports_is_listed() -> None:
    node = read(adapter("mlx5_0", port(1)) + "CA 'mlx5_1'\n\tFirmware version: 28.41.1000\n")
    assert [(nic.name, nic.up, nic.firmware) for nic in node.nics] == [
        ("mlx5_0", True, "28.41.1000"),
        ("mlx5_1", Unread.UNKNOWN, "28.41.1000"),
    ]
    assert doubts(node) == [(19, "mlx5_1: none of its ports is listed")]


def test_a_port_that_is_announced_and_missing() -> None:
    node = read(adapter("mlx5_0", port(1)).replace("ports: 1", "ports: 2"))
    assert doubts(node) == [(17, "mlx5_0 says that it has 2 ports, and 1 are listed")]


def test_a_missing_line_of_an_adapter_shifts_no_port() -> None:
    node = read(PAIR.replace("CA 'mlx5_3'\n", ""))
    assert [nic.name for nic in node.nics] == ["mlx5_0"]
    assert node.nics[0].rate_bits == 400_000_000_000
    assert (24, "mlx5_0 port 1 again: a line \"CA '<name>'\" may be missing; not read") in doubts(node)


def test_a_missing_line_of_a_port_shifts_no_field() -> None:
    node = read(adapter("mlx5_0", port(1), port(2, state="Down")).replace("\tPort 2:\n", ""))
    assert [nic.state for nic in node.nics] == ["Active"]
    assert doubts(node)[0] == (
        18,
        "mlx5_0 port 1: a second state here: a line 'Port <number>:' may be missing; not read",
    )
    assert doubts(read(PAIR.replace("\tPort 1:\n", "", 1)))[0] == (
        8,
        "no line 'Port <number>:' above says of which port of mlx5_0 this is: not read",
    )


def test_a_second_node_is_not_read() -> None:
    node = read(DOWN + DOWN.replace("Polling", "Disabled"))
    assert [nic.physical for nic in node.nics] == ["Polling"]
    assert (18, "mlx5_7 again: another node, not read from here on") in doubts(node)


def test_lines_of_other_programs_are_named() -> None:
    text = PAIR.replace("CA 'mlx5_3'", "ibpanic: [9] main: stat of IB device 'mlx5_1' failed\nCA 'mlx5_3'")
    assert doubts(read(text)) == [
        (18, "no line of `ibstat`, not read: \"ibpanic: [9] main: stat of IB device 'mlx5_1' failed\""),
    ]


@pytest.mark.parametrize("prefix", ["0: ", "[1,0]<stdout>:", "node-a7: ", "> ", "2031-04-05T06:07:08.123Z "])
def test_a_launcher_prefix_is_no_key(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in PAIR.splitlines())
    assert looks_like_ibstat(text)
    assert read(text) == read(PAIR)


def test_another_node_of_a_launcher_is_left_out() -> None:
    other = PAIR.replace("Active", "Down").splitlines()
    node = read("".join(f"n1: {a}\nn2: {b}\n" for a, b in zip(PAIR.splitlines(), other, strict=True)))
    assert node.nics == read(PAIR).nics
    assert doubts(node) == [(2, "34 lines are not labelled 'n1:' and are left out")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "pasted:1: nothing here that `ibstat` prints; paste all of its output"),
        ("\tPort 1:\n\t\tState: Active\n", "pasted:1: nothing here that `ibstat` prints"),
        ("x" * (5 << 20), "pasted:1: 5242880 characters"),
        ("CA 'a'\n" + "".join(f"CA 'a{at}'\n" for at in range(1100)), "pasted:1: 1101 ports; at most 1024"),
    ],
    ids=["empty", "no CA", "long", "ports"],
)
def test_what_is_no_ibstat_is_refused(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        read(text)


def test_it_is_found_after_a_thousand_other_lines() -> None:
    assert looks_like_ibstat("[0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n" * 1000 + PAIR)
    assert not looks_like_ibstat("[0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n" * 1000)


@pytest.mark.parametrize(
    "text",
    [
        "CA 'a'\n" + "State: Active\n" * 45_000,
        "CA 'a'\nPort 1:\n" + "Rate: 10\n" * 45_000,
        "CA 'a'\n" + "x" * 1900 + "\n",
        "CA 'a'\n" * 45_000,
        "CA '" * 2_500_000,
    ],
    ids=["no port", "rates", "letters", "adapters", "ten megabytes"],
)
def test_hostile_text_ends_soon(text: str) -> None:
    begin = time.monotonic()
    looks_like_ibstat(text)
    with contextlib.suppress(TopologyError):
        assert len(read(text).doubts) <= 201
    assert time.monotonic() - begin < 5


@settings(max_examples=200, deadline=None)
@given(at=st.integers(1, 900), dropped=st.integers(1, 30))
def test_damage_gives_the_right_values_or_a_doubt(at: int, dropped: int) -> None:
    text = PAIR + DOWN
    right = {nic.name: nic for nic in read(text).nics}
    lines = text.splitlines(keepends=True)
    for damaged in (text[:at], "".join(lines[:dropped] + lines[dropped + 1 :])):
        try:
            node = read(damaged)
        except TopologyError as refusal:
            assert str(refusal).startswith("pasted:1: ")  # noqa: PT017
            continue
        for found in node.nics:
            if found != right.get(found.name):
                assert node.doubts, damaged
            for name in ("rate_bits", "up", "state", "physical"):
                value = getattr(found, name)
                assert isinstance(value, Unread) or value == getattr(right[found.name], name), damaged
