"""``nvidia-smi nvlink`` as pasted: links of each GPU, their counters and ends, doubts by line, and refusals."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import CounterValue, Gpu, Link, NodeTopology, Unread
from gpuwire_checks.topology.readers.nvlink_status import looks_like_nvlink_status, read_nvlink_status

UUIDS = [f"GPU-1111000{at}-2222-3333-4444-555566667777" for at in range(8)]


def head(index: int, model: str = "NVIDIA A100-SXM4-40GB") -> str:
    return f"GPU {index}: {model} (UUID: {UUIDS[index]})\n"


def status(index: int, values: list[str], model: str = "NVIDIA A100-SXM4-40GB") -> str:
    return head(index, model) + "".join(f"\t Link {number}: {value}\n" for number, value in enumerate(values))


UP = "25 GB/s"
PAIR = status(0, [UP] * 4) + status(1, [UP, UP, "<inactive>", UP])


def read(text: str) -> NodeTopology:
    return read_nvlink_status(text, source="pasted")


def gpu(node: NodeTopology, index: int) -> Gpu:
    return next(gpu for gpu in node.gpus if gpu.index == index)


def links(node: NodeTopology, index: int) -> tuple[Link, ...]:
    found = gpu(node, index).links
    assert not isinstance(found, Unread)
    return found


def doubts(node: NodeTopology) -> list[tuple[int | None, str]]:
    return [(doubt.line, doubt.text) for doubt in node.doubts]


def test_links_that_are_up_and_down_are_listed_with_what_they_carry() -> None:
    node = read(PAIR)
    assert looks_like_nvlink_status(PAIR)
    assert [link.up for link in links(node, 1)] == [True, True, False, True]
    assert [link.speed_bytes for link in links(node, 1)] == [25e9, 25e9, 0.0, 25e9]
    assert {link.kind for link in links(node, 0)} == {"nvlink"}
    assert gpu(node, 0).model == "NVIDIA A100-SXM4-40GB"
    assert gpu(node, 0).uuid == UUIDS[0]
    assert gpu(node, 0).vendor == "nvidia"
    assert node.doubts == ()


def test_what_is_not_told_is_unknown() -> None:
    node = read(PAIR)
    assert gpu(node, 0).pci_address is links(node, 0)[0].remote is links(node, 0)[0].version is Unread.UNKNOWN


@pytest.mark.parametrize(
    ("printed", "payload"), [("26.562 GB/s", 25e9), ("53.125 GB/s", 50e9), ("25.781 GB/s", 25e9), ("50GB/s", 50e9)]
)
def test_a_raw_rate_is_told_as_what_it_carries(printed: str, payload: float) -> None:
    assert links(read(status(0, [printed])), 0)[0].speed_bytes == payload


@pytest.mark.parametrize("indent", ["\t ", "         ", "", " \t"])
def test_tabs_and_blanks_are_alike(indent: str) -> None:
    assert read(PAIR.replace("\t ", indent)) == read(PAIR)


def test_a_gpu_keeps_the_number_that_is_printed() -> None:
    node = read(status(7, [UP] * 12))
    assert [gpu.index for gpu in node.gpus] == [7]
    assert len(links(node, 7)) == 12


@pytest.mark.parametrize("word", ["inActive", "inactive"])
@pytest.mark.parametrize("name", ["NVLink", "Nvlink"])
def test_all_inactive_is_no_link_and_a_doubt(word: str, name: str) -> None:
    text = status(0, [UP]) + head(3) + f"NVML: Unable to retrieve {name} information as all links are {word}\n"
    node = read(text)
    assert looks_like_nvlink_status(text)
    assert gpu(node, 3).links == ()
    assert doubts(node) == [(4, "GPU3: all its NVLinks are inactive, and how many it has is not printed")]


@pytest.mark.parametrize(
    ("reason", "unread", "told"),
    [
        (": Not Supported", Unread.NOT_SUPPORTED, []),
        (": Insufficient Permissions", Unread.NO_PERMISSION, ["GPU0: its NVLinks could not be read: no permission"]),
        (": Unknown Error", Unread.UNKNOWN, ["GPU0: its NVLinks could not be read"]),
        ("", Unread.UNKNOWN, ["GPU0: its NVLinks could not be read"]),
    ],
)
def test_links_that_cannot_be_read_keep_the_reason(reason: str, unread: Unread, told: list[str]) -> None:
    node = read(head(0, "NVIDIA L4") + f"\t NVML: Unable to retrieve NVLink information{reason}\n")
    assert gpu(node, 0).links is unread
    assert [text for _, text in doubts(node)] == told


@pytest.mark.parametrize(
    ("value", "speed"),
    [("N/A", Unread.NOT_SUPPORTED), ("[Unknown Error]", Unread.UNKNOWN), ("ERR!", Unread.UNKNOWN)],
)
def test_a_lost_speed_is_unread_and_no_zero(value: str, speed: Unread) -> None:
    node = read(status(0, [UP, value]))
    assert links(node, 0)[1].speed_bytes is speed
    assert links(node, 0)[1].up is Unread.UNKNOWN
    assert doubts(node) == [(3, f"GPU0 NVLink 1 reads {value!r}: whether it is up is not known")]


def test_a_strange_line_of_a_link_is_an_unknown_link() -> None:
    node = read(status(0, [UP, "25 furlongs", UP]))
    assert [link.up for link in links(node, 0)] == [True, Unread.UNKNOWN, True]
    assert doubts(node) == [(3, "GPU0 NVLink 1 reads '25 furlongs': not known")]


def test_error_counters_are_named_as_ours() -> None:
    text = head(2) + "".join(
        f"\t Link {link}: Replay Errors: {link}\n\t Link {link}: Recovery Errors: 0\n\t Link {link}: CRC Errors: 7\n\n"
        for link in range(2)
    )
    node = read(text)
    assert looks_like_nvlink_status(text)
    assert CounterValue(part="GPU2 NVLink 1", name="nvlink replay", value=1) in node.counters
    assert CounterValue(part="GPU2 NVLink 0", name="nvlink recovery", value=0) in node.counters
    assert CounterValue(part="GPU2 NVLink 0", name="nvlink crc", value=7) in node.counters
    assert len(node.counters) == 6
    assert gpu(node, 2).links is Unread.UNKNOWN
    assert node.doubts == ()


def test_three_counters_retyped_on_one_line() -> None:
    node = read(head(0) + " Link 0: Replay Errors: 142, Recovery Errors: 3, CRC Errors: 891\n")
    assert [counter.value for counter in node.counters] == [142, 3, 891]


def test_counters_of_blackwell() -> None:
    text = head(0, "NVIDIA B200") + (
        "\t Link 0: Tx packets: 99881\n\t Link 0: Rx bytes: 12 Kbytes\n\t Link 0: Malformed packet Errors: 0\n"
        "\t Link 0: Rx Errors: 4\n\t Link 0: Tx discards: 1\n\t Link 0: Total link recovery events: 2\n"
        "\t Link 0: Effective BER: 15e-255\n\t Link 0: Symbol Errors: 3\n\t Link 0: FEC Errors - 0: 36140749276\n"
        "\t Link 0: Buffer overrun Errors: 5\n"
    )
    node = read(text)
    assert {counter.name: counter.value for counter in node.counters} == {
        "receive errors": 4,
        "transmit discards": 1,
        "nvlink recovery": 2,
        "symbol errors": 3,
    }
    assert doubts(node) == [(11, "GPU0 NVLink 0 'Buffer overrun Errors' is 5: no counter of this name is kept")]


@pytest.mark.parametrize(
    ("value", "read_as", "told"),
    [("N/A", Unread.NOT_SUPPORTED, 0), ("[Unknown Error]", Unread.UNKNOWN, 1), ("many", Unread.UNKNOWN, 1)],
)
def test_a_counter_without_a_number_is_unread(value: str, read_as: Unread, told: int) -> None:
    node = read(head(0) + f"\t Link 0: CRC Errors: {value}\n")
    assert [counter.value for counter in node.counters] == [read_as]
    assert len(node.doubts) == told


def test_a_counter_that_may_be_cut_is_unknown_and_a_zero_is_whole() -> None:
    node = read(head(0) + "\t Link 0: CRC Errors: 12")
    assert node.counters[0].value is Unread.UNKNOWN
    assert doubts(node) == [(2, "GPU0 NVLink 0 'CRC Errors' may be cut: not known")]
    assert read(head(0) + "\t Link 0: CRC Errors: 0").counters[0].value == 0


@pytest.mark.parametrize(
    "form", ["Remote Device 00000000:C5:00.0: Link 34", "Remote Device 00000000:C5:00.0", "00000000:C5:00.0"]
)
def test_where_a_link_ends(form: str) -> None:
    node = read(head(0) + f"\t Link 0: {form}\n")
    assert links(node, 0) == (Link(number=0, kind="nvlink", up=Unread.UNKNOWN, remote="0000:c5:00.0"),)
    assert node.doubts == ()


def test_status_ends_and_counters_of_one_paste_are_put_together() -> None:
    text = status(0, [UP, UP]) + head(0) + "\t Link 0: Remote Device 00000000:C5:00.0: Link 3\n"
    text += head(0) + "\t Link 1: Replay Errors: 9\n"
    node = read(text)
    assert [(link.up, link.remote) for link in links(node, 0)] == [(True, "0000:c5:00.0"), (True, Unread.UNKNOWN)]
    assert node.counters == (CounterValue(part="GPU0 NVLink 1", name="nvlink replay", value=9),)
    assert node.doubts == ()


def test_ends_counted_otherwise_than_the_links_are_not_used() -> None:
    text = status(0, [UP, "<inactive>", UP]) + head(0)
    text += "".join(f"\t Link {at}: Remote Device 00000000:C5:00.0: Link {at}\n" for at in range(2))
    node = read(text)
    assert {link.remote for link in links(node, 0)} == {Unread.UNKNOWN}
    assert doubts(node) == [
        (7, "GPU0: the links that say where they end are not those that are up: ends not used"),
    ]


def test_capabilities_alone_say_nothing_of_links() -> None:
    text = head(0) + "\t Link 0, P2P is supported: true\n\t Link 0, Access to system memory supported: true\n"
    node = read(text)
    assert looks_like_nvlink_status(text)
    assert gpu(node, 0).links is Unread.UNKNOWN
    assert doubts(node) == [(3, "GPU0: only what its NVLinks are capable of is listed")]
    assert read(status(0, [UP]) + text).doubts == ()


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost. Reboot the system",
        "Unable to determine the device handle for gpu 00000000:3B:00.0: Unknown Error",
    ],
)
def test_a_lost_gpu_without_number_is_the_one_that_is_missing(line: str) -> None:
    node = read(f"{line}\n" + status(0, [UP]) + status(2, [UP]))
    assert [gpu.index for gpu in node.gpus] == [0, 1, 2]
    assert gpu(node, 1).links is Unread.UNKNOWN
    assert gpu(node, 1).pci_address == "0000:3b:00.0"
    (number, text), *others = doubts(node)
    assert (number, others) == (1, [])
    assert text.startswith("a GPU (0000:3b:00.0) is lost: ")
    assert text.endswith("its number is not printed, and GPU1 is missing: taken as that")


def test_a_lost_gpu_that_no_number_is_left_for_is_not_listed() -> None:
    node = read(status(6, [UP]) + "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost\n")
    assert [gpu.index for gpu in node.gpus] == [6]
    assert doubts(node) == [(3, "a GPU (0000:3b:00.0) is lost: GPU is lost; its number is not printed: not listed")]


@pytest.mark.parametrize("where", ["GPU2: 0000:5E:00.0: Unknown Error", "GPU2: Unknown Error"])
def test_a_lost_gpu_with_its_number(where: str) -> None:
    node = read(status(0, [UP]) + f"Unable to determine the device handle for {where}\n")
    assert gpu(node, 2).links is Unread.UNKNOWN
    assert doubts(node) == [(3, "GPU2 is lost: Unknown Error")]


def test_links_that_only_others_of_the_model_list_are_unknown() -> None:
    node = read(status(0, [UP] * 4) + status(1, [UP] * 2))
    assert [link.up for link in links(node, 1)] == [True, True, Unread.UNKNOWN, Unread.UNKNOWN]
    assert doubts(node) == [(8, "GPU1: no line of link 2, 3, which others of its model have: not known")]
    other = read(status(0, [UP] * 4) + status(1, [UP] * 2, "NVIDIA RTX A6000"))
    assert len(links(other, 1)) == 2
    assert other.doubts == ()


def test_a_gap_in_the_numbers_of_one_gpu_is_doubted() -> None:
    text = status(0, [UP] * 4).replace("\t Link 1: 25 GB/s\n", "")
    assert doubts(read(text)) == [(4, "GPU0: 3 links are listed, up to link 3: lines may be missing")]


def test_a_gpu_of_which_nothing_is_said() -> None:
    node = read(status(0, [UP]) + head(1))
    assert gpu(node, 1).links is Unread.UNKNOWN
    assert doubts(node) == [(3, "GPU1: nothing is said of its NVLinks")]


def test_a_cut_line_is_no_state() -> None:
    node = read(status(0, [UP, UP]).removesuffix(" GB/s\n"))
    assert [link.up for link in links(node, 0)] == [True, Unread.UNKNOWN]
    assert doubts(node) == [(3, "GPU0 NVLink 1 is cut: not known")]


def test_a_cut_model_is_unknown() -> None:
    node = read(status(0, [UP]) + "GPU 1: NVIDIA A100-SX")
    assert gpu(node, 1).model is Unread.UNKNOWN


def test_a_redacted_uuid_is_unknown() -> None:
    assert gpu(read("GPU 0: NVIDIA H100 (UUID: GPU-xxxx)\n Link 0: 26.562 GB/s\n"), 0).uuid is Unread.UNKNOWN


def test_a_link_stated_twice_and_not_alike() -> None:
    node = read(status(0, [UP]) + status(0, ["<inactive>"]))
    assert links(node, 0)[0].up is True
    assert doubts(node) == [(4, "GPU0 NVLink 0 is stated twice, and not alike: the first is kept")]


def test_a_missing_line_of_a_gpu_is_noticed() -> None:
    node = read(status(0, [UP]) + status(1, [UP]).removeprefix(head(1)))
    text = "GPU0 NVLink 0 stands twice under one line of a GPU: a line 'GPU <number>' may be missing; not read"
    assert doubts(node) == [(3, text)]


def test_a_second_node_is_not_read() -> None:
    text = status(0, [UP]) + status(0, ["<inactive>"]).replace(UUIDS[0], UUIDS[1])
    node = read(text)
    assert links(node, 0)[0].up is True
    assert doubts(node) == [(3, "GPU0 again, as another GPU than on line 1: another node, not read from here on")]


def test_lines_of_other_programs_are_named_and_skipped() -> None:
    node = read(status(0, [UP]) + "$ nvidia-smi nvlink -e\nhello there\n" + head(0) + " Link 0: CRC Errors: 0\nbye\n")
    assert doubts(node) == [(4, "no line of a link, not read: 'hello there'")]


@pytest.mark.parametrize(
    "prefix", ["0: ", "[1,0]<stdout>:", "node-a7: ", "> ", "2031-04-05T06:07:08.123Z ", "2031-04-05 06:07:08 n1: "]
)
def test_a_launcher_prefix_is_no_part_of_a_line(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in PAIR.splitlines())
    assert looks_like_nvlink_status(text)
    assert read(text).gpus == read(PAIR).gpus
    assert read(text).doubts == ()


def test_another_node_of_a_launcher_is_left_out() -> None:
    other = PAIR.replace(UP, "<inactive>").splitlines()
    node = read("".join(f"n1: {a}\nn2: {b}\n" for a, b in zip(PAIR.splitlines(), other, strict=True)))
    assert node.gpus == read(PAIR).gpus
    assert doubts(node) == [(2, "10 lines are not labelled 'n1:' and are left out")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "pasted:1: nothing here that `nvidia-smi nvlink --status` prints"),
        ("\n Link 0: 25 GB/s\n", "pasted:2: no line such as 'GPU 0: <model>' says whose links these are"),
        ("x" * (5 << 20), "pasted:1: 5242880 characters"),
        ("GPU 0: a\n" * 51_000, "pasted:1: 459000 characters in 51001 lines"),
        ("".join(f"GPU {at}: x\n" for at in range(300)), "pasted:1: 300 GPUs; at most 256"),
    ],
    ids=["empty", "no GPU", "long", "lines", "GPUs"],
)
def test_what_cannot_be_placed_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "GPU 0: NVIDIA A100 (UUID: GPU-1)\nGPU 1: NVIDIA A100 (UUID: GPU-2)\n",
        "        GPU0    GPU1\nGPU0     X      NV4\nGPU1    NV4      X\n",
        "eth0: Link 3 is up\n",
    ],
)
def test_other_texts_are_not_taken_for_it(text: str) -> None:
    assert not looks_like_nvlink_status(text)


def test_it_is_found_after_a_thousand_other_lines() -> None:
    assert looks_like_nvlink_status("[0] NCCL INFO comm 0x5581 rank 0\n" * 1000 + PAIR)


@pytest.mark.parametrize(
    "text",
    [
        "GPU 0: x\n" + "Link 0: z\n" * 45_000,
        "Link 0: 25 GB/s\n" * 45_000,
        "GPU 0: x\n" + "Link 0: " + "Replay Errors: 0, " * 100 + "\n",
        "GPU 0: x\n" + "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost\n" * 45_000,
        "Link 0:" + " " * 4_000_000,
        "GPU 0: " * 1_500_000,
    ],
    ids=["strange", "headless", "counters", "lost", "blanks", "ten megabytes"],
)
def test_hostile_text_ends_soon(text: str) -> None:
    begin = time.monotonic()
    looks_like_nvlink_status(text)
    with contextlib.suppress(TopologyError):
        assert len(read(text).doubts) <= 201
    assert time.monotonic() - begin < 5


@settings(max_examples=200, deadline=None)
@given(
    down=st.lists(st.booleans(), min_size=1, max_size=6),
    gpus=st.integers(1, 3),
    at=st.integers(0, 600),
    dropped=st.integers(-1, 20),
)
def test_a_cut_text_gives_the_right_links_or_a_doubt(down: list[bool], gpus: int, at: int, dropped: int) -> None:
    """No link is up that is not, and one that is missing, in text that says which there are, has a doubt."""
    values = ["<inactive>" if is_down else UP for is_down in down]
    lines = "".join(status(index, values) for index in range(gpus)).splitlines(keepends=True)
    if 0 < dropped < len(lines):
        del lines[dropped]
    text = "".join(lines)[: 1 + at]
    try:
        node = read(text)
    except TopologyError as refusal:
        assert str(refusal).startswith("pasted:")  # noqa: PT017
        return
    for one in node.gpus:
        found = () if isinstance(one.links, Unread) else one.links
        assert all(link.up is Unread.UNKNOWN or link.up is not down[link.number] for link in found)
    told = [gpu for gpu in node.gpus if not isinstance(gpu.links, Unread)]
    if (
        len(node.gpus) < text.count("Link 0:")
        or len({len(gpu.links) for gpu in told if isinstance(gpu.links, tuple)}) > 1
    ):
        assert node.doubts
