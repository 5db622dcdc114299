"""A GPU's condition from an NVML of canned answers."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import pytest
from fake_nvml import (
    FABRIC_INFO_V2,
    Card,
    FakeNvml,
    NVMLError,
    NVMLError_FunctionNotFound,
    NVMLError_NoPermission,
    NVMLError_NotSupported,
    cards,
)

from gpuwire_checks.topology import nvml_state
from gpuwire_checks.topology.model import GpuState, Unread
from gpuwire_checks.topology.nvml import NvmlSource

ABSENT = NVMLError_NotSupported("Not Supported")
FORBIDDEN = NVMLError_NoPermission("Insufficient Permissions")
BROKEN = NVMLError("Unknown Error")


def state(card: Card | None = None, *, missing: Sequence[str] = (), **answers: object) -> GpuState:
    """The state of a card that answers so."""
    return state_of(card or cards(1)[0], answers, missing=missing)


def state_of(card: Card, answers: Mapping[str, object], *, missing: Sequence[str] = ()) -> GpuState:
    card.answers |= answers
    return NvmlSource(FakeNvml([card], missing=missing)).read().gpus[0].state


def fabric(**members: object) -> Card:
    card = cards(1)[0]
    assert isinstance(card.fabric, dict)
    card.fabric |= members
    return card


def test_every_field_of_a_healthy_gpu() -> None:
    assert state() == GpuState(
        ecc=True,
        persistence=True,
        mig=False,
        remap_pending=False,
        remap_failed=False,
        fabric="Completed",
        fabric_status="Success",
        fabric_clique=0,
        fabric_cluster="00000000-0000-0000-0000-000000000000",
        fabric_unhealthy=(),
        performance_state="P0",
        throttled=("Idle",),
        temperature_c=31,
        temperature_margin_c=56,
        firmware="96.00.74.00.01",
    )


def test_modes_are_those_of_now_and_not_those_that_are_pending() -> None:
    found = state(EccMode=[0, 1], MigMode=[1, 0], PersistenceMode=0)
    assert (found.ecc, found.mig, found.persistence) == (False, True, False)


@pytest.mark.parametrize(
    ("rows", "pending", "failed"),
    [((0, 0, 0, 0), False, False), ((1, 2, 1, 0), True, False), ((8, 0, 0, 1), False, True)],
)
def test_rows_that_wait_for_a_reset_or_cannot_be_remapped(rows: tuple[int, ...], pending: bool, failed: bool) -> None:
    found = state(RemappedRows=rows)
    assert (found.remap_pending, found.remap_failed) == (pending, failed)


@pytest.mark.parametrize(
    ("error", "unread"), [(ABSENT, Unread.NOT_SUPPORTED), (FORBIDDEN, Unread.NO_PERMISSION), (BROKEN, Unread.UNKNOWN)]
)
def test_each_refusal_keeps_its_reason(error: NVMLError, unread: Unread) -> None:
    card = cards(1)[0]
    card.answers = dict.fromkeys(card.answers, error)
    card.fabric = error
    reading = NvmlSource(FakeNvml([card])).read()
    fields = [getattr(reading.gpus[0].state, name) for name in GpuState.__slots__]
    assert fields == [unread] * len(fields)
    assert (reading.gpus[0].serial, reading.gpus[0].uuid) == (unread, "GPU-00000000-aaaa")
    assert len(reading.doubts) == (error is BROKEN)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0, ()),
        (0x1, ("Idle",)),
        (0x4, ("SW Power Cap",)),
        (0x68, ("HW Slowdown", "SW Thermal Slowdown", "HW Thermal Slowdown")),
        (0x192, ("Applications Clocks Setting", "Sync Boost", "HW Power Brake Slowdown", "Display Clock Setting")),
        (0x4600, ("Board Limit", "Reliability", "reason 0x4000")),
    ],
)
def test_clock_event_reasons_in_nvidia_smis_words(mask: int, words: tuple[str, ...]) -> None:
    assert state(CurrentClocksEventReasons=mask).throttled == words


def test_older_drivers_and_bindings_are_asked_by_the_older_names() -> None:
    older: dict[str, object] = {"CurrentClocksThrottleReasons": 0x4, "Temperature": {(0,): 44}}
    newer = ("CurrentClocksEventReasons", "TemperatureV")
    lacking = dict.fromkeys(newer, NVMLError_FunctionNotFound("Function Not Found"))
    found = [
        state_of(cards(1)[0], older, missing=[f"nvmlDeviceGet{name}" for name in newer]),
        state_of(cards(1)[0], {**older, **lacking}),
    ]
    assert [(each.throttled, each.temperature_c) for each in found] == [(("SW Power Cap",), 44)] * 2


@pytest.mark.parametrize(("number", "words"), [(0, "P0"), (8, "P8"), (15, "P15"), (32, Unread.UNKNOWN)])
def test_performance_states(number: int, words: str | Unread) -> None:
    assert state(PerformanceState=number).performance_state == words


def test_a_temperature_of_0_is_one() -> None:
    assert state(TemperatureV=0, MarginTemperature=0).temperature_c == 0


@pytest.mark.parametrize(
    ("number", "words"), [(1, "Not Started"), (2, "In Progress"), (9, "state 9"), (0, Unread.NOT_SUPPORTED)]
)
def test_a_fabric_that_is_not_completed_has_no_names(number: int, words: str | Unread) -> None:
    found = state(fabric(state=number, clusterUuid=bytes([7] * 16), cliqueId=5, healthMask=0))
    assert (found.fabric, found.fabric_unhealthy) == (words, Unread.NOT_SUPPORTED)
    assert (found.fabric_status, found.fabric_clique, found.fabric_cluster) == (Unread.NOT_SUPPORTED,) * 3


def test_a_fabric_with_names_and_an_error() -> None:
    cluster = bytes([0x1F, 0, 0x2E, *range(13)])
    found = state(fabric(status=3, cliqueId=4, clusterUuid=cluster))
    assert (found.fabric, found.fabric_status, found.fabric_clique) == ("Completed", "error 3", 4)
    assert found.fabric_cluster == "1f002e00-0102-0304-0506-0708090a0b0c"


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0b10101010, ()),
        (0b10101001, ("degraded bandwidth",)),
        (0b10100110, ("route recovery",)),
        (0b10011010, ("route unhealthy",)),
        (0b01101010, ("access timeout recovery",)),
        (0b10010110, ("route recovery", "route unhealthy")),
        (0b00000010, ()),
        (0x1AA, ()),
        (0x5AA, ("insufficient NVLinks",)),
        (0xF9A, ("route unhealthy", "incorrect configuration 15")),
        (0x0A00A000, Unread.NOT_SUPPORTED),
        (0, Unread.NOT_SUPPORTED),
    ],
)
def test_what_of_the_fabric_is_unhealthy(mask: int, names: tuple[str, ...] | Unread) -> None:
    assert state(fabric(healthMask=mask)).fabric_unhealthy == names


def test_the_older_question_tells_the_fabric_but_not_its_health() -> None:
    card = cards(1)[0]
    card.fabric = {"state": 3, "status": 0, "cliqueId": 2}
    found = state(card, missing=("nvmlDeviceGetGpuFabricInfoV",))
    assert (found.fabric, found.fabric_clique, found.fabric_unhealthy) == ("Completed", 2, Unread.UNKNOWN)
    card.fabric = {"state": 0}
    assert state(card, missing=("nvmlDeviceGetGpuFabricInfoV",)).fabric_unhealthy is Unread.NOT_SUPPORTED


def test_numbers_are_those_of_the_real_bindings() -> None:
    import pynvml

    assert nvml_state._FABRIC_INFO_V2 == pynvml.nvmlGpuFabricInfo_v2 == FABRIC_INFO_V2
    assert ctypes.sizeof(nvml_state.FabricInfoV2) == ctypes.sizeof(pynvml.c_nvmlGpuFabricInfo_v2_t) == 36
    for member in ("clusterUuid", "status", "cliqueId", "state", "healthMask"):
        theirs = getattr(pynvml.c_nvmlGpuFabricInfo_v2_t, member)
        assert getattr(nvml_state.FabricInfoV2, member).offset == theirs.offset
    shifts = {
        "degraded bandwidth": "DEGRADED_BW",
        "route recovery": "ROUTE_RECOVERY",
        "route unhealthy": "ROUTE_UNHEALTHY",
        "access timeout recovery": "ACCESS_TIMEOUT_RECOVERY",
    }
    for shift, name in nvml_state._HEALTH.items():
        prefix = "NVML_GPU_FABRIC_HEALTH_MASK"
        assert getattr(pynvml, f"{prefix}_SHIFT_{shifts[name]}") == shift
        assert getattr(pynvml, f"{prefix}_{shifts[name]}_TRUE") == 1
    for number, words in nvml_state._REASONS.items():
        name = words.title().replace(" ", "").replace("Idle", "GpuIdle")
        assert getattr(pynvml, f"nvmlClocksThrottleReason{name}") == number
