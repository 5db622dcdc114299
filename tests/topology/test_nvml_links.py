"""NVLinks from an NVML of canned answers: each with its state, speed, version and other end."""

from __future__ import annotations

import pytest
from fake_nvml import (
    GPU,
    NPU,
    SWITCH,
    UNKNOWN,
    Card,
    FakeNvml,
    NVMLError,
    NVMLError_NoPermission,
    NVMLError_NotSupported,
    Wire,
    bus,
    cards,
)

from gpuwire_checks.topology import nvml_links
from gpuwire_checks.topology.devices import GpuReading
from gpuwire_checks.topology.model import Link, Unread
from gpuwire_checks.topology.nvml import NvmlSource

ABSENT = NVMLError_NotSupported("Not Supported")
FORBIDDEN = NVMLError_NoPermission("Insufficient Permissions")
BROKEN = NVMLError("Unknown Error")


def read(*, missing: tuple[str, ...] = (), two: list[Card]) -> GpuReading:
    return NvmlSource(FakeNvml(two, missing=missing)).read()


def links(*wires: Wire | NVMLError | None, fields: dict[int | tuple[int, int], object] | None = None) -> list[Link]:
    """The links of a GPU with these wires."""
    card = cards(1, wires)[0]
    card.fields |= fields or {}
    found = read(two=[card]).gpus[0].links
    assert not isinstance(found, Unread)
    return list(found)


def doubts(*wires: Wire | NVMLError | None) -> list[str]:
    return [doubt.text for doubt in read(two=cards(1, wires)).doubts]


def test_a_link_to_a_switch() -> None:
    assert links(Wire()) == [
        Link(number=0, kind="nvlink", up=True, speed_bytes=25e9, version=4, remote="NVSwitch"),
    ]


def test_a_link_that_is_down_is_listed_with_speed_0() -> None:
    found = links(Wire(), None, Wire(state=0), Wire())
    assert [(link.number, link.up) for link in found] == [(0, True), (1, False), (2, False), (3, True)]
    assert [link.speed_bytes for link in found] == [25e9, 0, 0, 25e9]
    assert [link.remote for link in found] == ["NVSwitch", Unread.UNKNOWN, "NVSwitch", "NVSwitch"]
    assert doubts(Wire(), None, Wire(state=0)) == []


def test_a_gpu_without_nvlink_has_no_links() -> None:
    for wires in ([], [ABSENT] * 36):
        reading = read(two=cards(1, wires))
        assert (reading.gpus[0].links, reading.doubts) == ((), ())


def test_a_number_that_is_not_supported_is_no_link() -> None:
    assert [link.number for link in links(ABSENT, Wire(), ABSENT, Wire())] == [1, 3]


@pytest.mark.parametrize(
    ("printed", "payload"),
    [(25781, 25e9), (26562, 25e9), (25000, 25e9), (53125, 50e9), (50000, 50e9), (12890, 12.89e9), (14062, 14.062e9)],
)
def test_raw_line_rates_are_payload(printed: int, payload: float) -> None:
    assert links(Wire(speed=printed))[0].speed_bytes == pytest.approx(payload)


def test_one_link_at_half_speed_stands_out() -> None:
    assert [link.speed_bytes for link in links(Wire(), Wire(speed=13281), Wire())] == [25e9, 13.281e9, 25e9]


def test_an_older_driver_tells_speeds_by_the_links_own_field() -> None:
    wires = [Wire(speed=ABSENT) for _ in range(14)]
    fields: dict[int | tuple[int, int], object] = {84: 25781, 89: 12500, 132: 25781, 137: 25000}
    speeds = [link.speed_bytes for link in links(*wires, fields=fields)]
    assert [speeds[link] for link in (0, 5, 6, 11)] == [25e9, 12.5e9, 25e9, 25e9]
    assert {speeds[link] for link in (1, 7, 12, 13)} == {Unread.NOT_SUPPORTED}


def test_a_speed_of_a_link_that_is_up_is_never_0() -> None:
    speeds = [link.speed_bytes for link in links(Wire(speed=0), Wire(speed=FORBIDDEN), Wire(speed=BROKEN))]
    assert speeds == [Unread.UNKNOWN, Unread.NO_PERMISSION, Unread.UNKNOWN]
    assert doubts(Wire(speed=BROKEN), Wire(speed=BROKEN)) == ["GPU0: error 999; unread: NVLink speed"]


@pytest.mark.parametrize(
    ("architecture", "number", "version"),
    [
        (4, 1, 1),
        (5, 2, 2),
        (6, 3, 2),
        (6, 4, 2),
        (7, 4, 3),
        (7, 5, 3),
        (7, 6, 3),
        (9, 6, 4),
        (9, 7, 4),
        (10, 7, 5),
        (10, 8, 5),
        (11, 9, 6),
        (13, 8, 6),
    ],
)
def test_versions_by_either_numbering(architecture: int, number: int, version: int) -> None:
    card = cards(1, [Wire(version=number)])[0]
    card.answers["Architecture"] = architecture
    found = read(two=[card]).gpus[0].links
    assert not isinstance(found, Unread)
    assert found[0].version == version


@pytest.mark.parametrize(("architecture", "number"), [(9, 42), (11, 7), (ABSENT, 7), (5, 6)])
def test_a_version_that_may_be_two_is_unknown_and_said(architecture: object, number: int) -> None:
    card = cards(1, [Wire(version=number), Wire(version=number)])[0]
    card.answers["Architecture"] = architecture
    reading = read(two=[card])
    found = reading.gpus[0].links
    assert not isinstance(found, Unread)
    assert found[0].version is Unread.UNKNOWN
    text = f"GPU0: version number {number} is of no known NVLink; unread: NVLink version"
    assert [doubt.text for doubt in reading.doubts] == [text]


def test_each_refusal_of_a_version_keeps_its_reason() -> None:
    found = [link.version for link in links(Wire(version=ABSENT), Wire(version=FORBIDDEN), Wire(version=BROKEN))]
    assert found == [Unread.NOT_SUPPORTED, Unread.NO_PERMISSION, Unread.UNKNOWN]


def test_where_links_end() -> None:
    wires = [
        Wire(kind=GPU, address=bus(1)),
        Wire(kind=GPU, address="00000000:EE:00.0"),
        Wire(kind=NPU, address="00000004:04:00.0"),
        Wire(kind=UNKNOWN, address="00000000:C1:00.0"),
        Wire(kind=UNKNOWN, address="00000000:00:00.0"),
        Wire(kind=ABSENT, address=bus(1)),
        Wire(kind=SWITCH),
        Wire(kind=GPU, address=bus(1), state=0),
    ]
    found = read(two=cards(2, wires)).gpus[0].links
    assert not isinstance(found, Unread)
    assert [link.remote for link in found] == [
        "GPU1",
        "0000:ee:00.0",
        "CPU",
        "0000:c1:00.0",
        Unread.UNKNOWN,
        "GPU1",
        "NVSwitch",
        "GPU1",
    ]


def test_an_end_that_is_of_no_known_kind_is_a_doubt() -> None:
    assert doubts(Wire(kind=UNKNOWN, address="00000000:C1:00.0")) == [
        "GPU0: where a link ends is not known; unread: NVLink 0"
    ]
    assert doubts(Wire(kind=NPU, address="")) == []


def test_a_state_that_cannot_be_read_leaves_the_others() -> None:
    found = links(Wire(), BROKEN, FORBIDDEN, Wire())
    assert [link.up for link in found] == [True, Unread.UNKNOWN, Unread.NO_PERMISSION, True]
    assert found[1] == Link(number=1, kind="nvlink", up=Unread.UNKNOWN)
    assert doubts(Wire(), BROKEN, FORBIDDEN) == ["GPU0: Unknown Error; unread: NVLinks"]


@pytest.mark.parametrize(("error", "state"), [(BROKEN, Unread.UNKNOWN), (FORBIDDEN, Unread.NO_PERMISSION)])
def test_links_of_which_no_state_can_be_read_are_unread(error: NVMLError, state: Unread) -> None:
    reading = read(two=cards(2, [error] * 18))
    assert [gpu.links for gpu in reading.gpus] == [state, state]
    assert reading.paths == ()


def test_a_pair_with_a_link_of_unknown_state_has_no_count() -> None:
    two = cards(2, [Wire(), Wire()])
    two[0].links = [Wire(), BROKEN]
    assert read(two=two).paths == ()


def test_bindings_without_field_values_leave_speeds_unknown() -> None:
    reading = read(two=cards(2, [Wire()]), missing=("nvmlDeviceGetFieldValues",))
    found = reading.gpus[0].links
    assert not isinstance(found, Unread)
    assert (found[0].up, found[0].speed_bytes, reading.doubts) == (True, Unread.UNKNOWN, ())


def test_numbers_are_those_of_the_real_bindings() -> None:
    import pynvml

    assert pynvml.NVML_FEATURE_ENABLED == 1
    ours = [nvml_links._GET_SPEED, *nvml_links._SPEED_OF]
    names = ["GET_SPEED", *(f"SPEED_MBPS_L{link}" for link in range(12))]
    assert ours == [getattr(pynvml, f"NVML_FI_DEV_NVLINK_{name}") for name in names]
    for name, number in vars(pynvml).items():
        if name.startswith("NVML_NVLINK_VERSION_") and not name.endswith("INVALID"):
            assert int(name.split("_")[3]) in nvml_links._VERSIONS[number]
    assert {nvml_links._IBMNPU, nvml_links._SWITCH} == {
        pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU,
        pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH,
    }
    names = ["PASCAL", "VOLTA", "TURING", "AMPERE", "HOPPER", "BLACKWELL", "RUBIN"]
    architectures = [getattr(pynvml, f"NVML_DEVICE_ARCH_{name}") for name in names]
    assert architectures == list(nvml_links._VERSION_OF_ARCHITECTURE)


def test_links_past_those_that_old_bindings_know_are_read() -> None:
    """nvidia-ml-py before 13 has 18 for the most; the driver tells where they end."""
    fake = FakeNvml(cards(1, [Wire()] * 36))
    object.__setattr__(fake, "NVML_NVLINK_MAX_LINKS", 18)
    links = NvmlSource(fake).read().gpus[0].links
    assert not isinstance(links, Unread)
    assert [link.number for link in links] == list(range(36))
