"""Peer access from an NVML of canned answers, in the words of nvidia-smi."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from fake_nvml import (
    FakeNvml,
    NVMLError,
    NVMLError_GpuIsLost,
    NVMLError_NoPermission,
    NVMLError_NotSupported,
    Wire,
    cards,
)

from gpuwire_checks.topology import nvml_pairs
from gpuwire_checks.topology.devices import GpuReading
from gpuwire_checks.topology.model import PeerAccess
from gpuwire_checks.topology.nvml import NvmlSource


def read(count: int, peers: dict[tuple[int, ...], object], faults: Mapping[str, NVMLError] | None = None) -> GpuReading:
    return NvmlSource(FakeNvml(cards(count, [Wire()]), peers=peers, faults=faults)).read()


def test_every_ordered_pair_for_reading_and_writing() -> None:
    peers = read(2, {(0, 1, 1): 4}).peers
    assert peers == (
        PeerAccess(a="GPU0", b="GPU1", capability="read", status="OK"),
        PeerAccess(a="GPU1", b="GPU0", capability="read", status="OK"),
        PeerAccess(a="GPU0", b="GPU1", capability="write", status="DR"),
        PeerAccess(a="GPU1", b="GPU0", capability="write", status="OK"),
    )
    assert len(read(16, {}).peers) == 16 * 15 * 2


@pytest.mark.parametrize(
    ("status", "words"), [(0, "OK"), (1, "CNS"), (2, "GNS"), (3, "TNS"), (4, "DR"), (5, "NS"), (6, "U")]
)
def test_statuses_in_nvidia_smis_words(status: int, words: str) -> None:
    reading = read(2, {(0, 1): status})
    assert ([peer.status for peer in reading.peers if peer.a == "GPU0"], reading.doubts) == ([words] * 2, ())


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        (NVMLError_NotSupported("Not Supported"), []),
        (NVMLError_NoPermission("Insufficient Permissions"), ["GPU0: no permission; unread: peer access"]),
        (NVMLError("Unknown Error"), ["GPU0: Unknown Error; unread: peer access"]),
        (77, ["GPU0: status 77 is none on record; unread: peer access"]),
    ],
)
def test_a_status_that_cannot_be_read_is_u_and_said_once(answer: object, texts: list[str]) -> None:
    reading = read(4, {(0, 1): answer, (0, 2): answer, (0, 3): answer})
    assert [peer.status for peer in reading.peers if peer.a == "GPU0"] == ["U"] * 6
    assert {peer.status for peer in reading.peers if peer.a != "GPU0"} == {"OK"}
    assert [doubt.text for doubt in reading.doubts] == texts


def test_sixteen_gpus_repeat_no_doubt() -> None:
    error = NVMLError("Unknown Error")
    reading = read(16, {}, faults={"nvmlDeviceGetP2PStatus": error})
    assert len(reading.doubts) == 1
    assert reading.doubts[0].text.endswith("GPU15: Unknown Error; unread: peer access")


def test_a_loss_seen_from_a_pair_is_blamed_on_neither() -> None:
    reading = read(2, {(0, 1): NVMLError_GpuIsLost("GPU is lost")})
    assert [doubt.text for doubt in reading.doubts] == ["GPU0: GPU is lost, this one or its peer; unread: peer access"]
    assert [peer.status for peer in reading.peers] == ["U", "OK", "U", "OK"]


def test_numbers_are_those_of_the_real_bindings() -> None:
    import pynvml

    names = {
        "OK": "OK",
        "CNS": "CHIPSET_NOT_SUPPORTED",
        "GNS": "GPU_NOT_SUPPORTED",
        "TNS": "IOH_TOPOLOGY_NOT_SUPPORTED",
        "DR": "DISABLED_BY_REGKEY",
        "NS": "NOT_SUPPORTED",
        "U": "UNKNOWN",
    }
    for number, words in nvml_pairs._STATUSES.items():
        assert getattr(pynvml, f"NVML_P2P_STATUS_{names[words]}") == number
    assert pynvml.NVML_P2P_CAPS_INDEX_READ in (0, (0,))
    assert pynvml.NVML_P2P_CAPS_INDEX_WRITE == 1
