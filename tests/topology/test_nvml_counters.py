"""Counters and PCIe links from an NVML of canned answers, as they are asked before, during and after a measurement."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from fake_nvml import (
    Card,
    FakeNvml,
    NVMLError,
    NVMLError_DriverNotLoaded,
    NVMLError_InvalidArgument,
    NVMLError_NoPermission,
    NVMLError_NotSupported,
    Wire,
    cards,
)

from gpuwire_checks.topology import nvml_counters
from gpuwire_checks.topology.asking import Asker
from gpuwire_checks.topology.devices import GpuSource, GpuWatcher
from gpuwire_checks.topology.model import COUNTERS, Pcie, Unread
from gpuwire_checks.topology.nvml import NvmlSource

ABSENT = NVMLError_NotSupported("Not Supported")
FORBIDDEN = NVMLError_NoPermission("Insufficient Permissions")
BROKEN = NVMLError("Unknown Error")
INVALID = NVMLError_InvalidArgument("Invalid Argument")


def counted(fake: FakeNvml, **environ: str) -> dict[tuple[str, str], int | Unread]:
    """Every counter by part and name."""
    with NvmlSource(fake, environ=environ) as source:
        values = source.counters()
    assert fake.open == 0, "nvmlInit without nvmlShutdown"
    assert {value.name for value in values} <= set(COUNTERS)
    found = {(value.part, value.name): value.value for value in values}
    assert len(found) == len(values)
    return found


def one(card: Card, *, driver: str = "575.57.08") -> Mapping[str, int | Unread]:
    """The counters of a lone GPU, without those of its links."""
    found = counted(FakeNvml([card], driver=driver))
    return {name: value for (part, name), value in found.items() if part == "GPU0"}


def test_a_source_and_a_watcher() -> None:
    source: GpuSource = NvmlSource(FakeNvml())
    watcher: GpuWatcher = NvmlSource(FakeNvml())
    assert (source.read().counters, watcher.counters(), watcher.pcie()) == ((), (), {})


def test_every_counter_of_a_gpu() -> None:
    card = cards(1)[0]
    card.answers |= {
        "PcieReplayCounter": 104,
        "TotalEccErrors": {(0, 0): 3, (1, 0): 1},
        "RemappedRows": (2, 5, 0, 0),
    }
    card.fields = {74: 9_000_999, 76: 1_000, 251: 5_000_000, 252: 7_000, 253: 8_000, 75: 77_000}
    assert one(card) == {
        "pcie replay": 104,
        "ecc corrected": 3,
        "ecc uncorrected": 1,
        "remapped rows": 7,
        "sw power cap": 9000,
        "sw thermal slowdown": 5000,
        "hw thermal slowdown": 7,
        "hw power brake": 8,
        "sync boost": 1,
    }


@pytest.mark.parametrize(
    ("driver", "thermal", "hardware"),
    [
        ("535.161.08", 75, Unread.NOT_SUPPORTED),
        ("570.172.08", 75, Unread.NOT_SUPPORTED),
        ("575.51.03", 251, 252),
        ("580.65.06", 251, 252),
        ("580.82.07", 269, 270),
        ("595.45.04", 269, 270),
        ("r590", 75, Unread.NOT_SUPPORTED),
    ],
)
def test_thermal_times_are_asked_by_the_numbers_of_the_driver(
    driver: str, thermal: int, hardware: int | Unread
) -> None:
    card = cards(1)[0]
    card.fields = {number: number * 1000 for number in (74, 75, 76, 251, 252, 253, 269, 270, 271)}
    found = one(card, driver=driver)
    assert (found["sw thermal slowdown"], found["hw thermal slowdown"]) == (thermal, hardware)


def test_older_drivers_tell_times_as_violations() -> None:
    card = cards(1)[0]
    card.fields = {}
    card.answers["ViolationStatus"] = {
        (policy,): type("Violation", (), {"violationTime": policy * 10_000 + 1_500}) for policy in range(3)
    }
    found = one(card, driver="470.82.01")
    assert [found[name] for name in ("sw power cap", "sw thermal slowdown", "sync boost")] == [1, 11, 21]
    assert found["hw power brake"] is Unread.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("error", "unread"), [(ABSENT, Unread.NOT_SUPPORTED), (FORBIDDEN, Unread.NO_PERMISSION), (BROKEN, Unread.UNKNOWN)]
)
def test_each_refusal_keeps_its_reason(error: NVMLError, unread: Unread) -> None:
    card = cards(1, [Wire(errors=dict.fromkeys(range(4), error))])[0]
    card.answers = dict.fromkeys(card.answers, error)
    card.fields = dict.fromkeys((74, 75, 76, 251, 252, 253, 161, 162, 163, 215), error)
    found = counted(FakeNvml([card], driver="575.57.08"))
    assert set(found.values()) == {unread}
    assert len(found) == 9 + 3


def test_counters_of_each_link_those_that_are_down_too() -> None:
    wires = [Wire(errors={0: 5, 1: 1, 2: 10, 3: 20}), Wire(state=0, errors=dict.fromkeys(range(4), INVALID)), Wire()]
    found = counted(FakeNvml(cards(1, wires)))
    names = ("nvlink replay", "nvlink recovery", "nvlink crc")
    assert [found["GPU0 NVLink 0", name] for name in names] == [5, 1, 30]
    assert [found["GPU0 NVLink 1", name] for name in names] == [Unread.NOT_SUPPORTED] * 3
    assert [found["GPU0 NVLink 2", name] for name in names] == [0] * 3


def test_a_crc_counter_of_one_kind_only_is_still_counted() -> None:
    wires = [Wire(errors={0: 0, 1: 0, 2: 4, 3: ABSENT}), Wire(errors={0: 0, 1: 0, 2: 4, 3: BROKEN})]
    found = counted(FakeNvml(cards(1, wires)))
    assert (found["GPU0 NVLink 0", "nvlink crc"], found["GPU0 NVLink 1", "nvlink crc"]) == (4, Unread.UNKNOWN)


def test_fields_tell_what_the_counters_do_not() -> None:
    card = cards(1, [Wire(errors=dict.fromkeys(range(4), ABSENT)) for _ in range(2)])[0]
    card.fields |= {(161, 0): 6, (162, 0): 7, (163, 0): 8, (161, 1): 9}
    found = counted(FakeNvml([card]))
    names = ("nvlink replay", "nvlink recovery", "nvlink crc")
    assert [found["GPU0 NVLink 0", name] for name in names] == [6, 7, 8]
    assert [found["GPU0 NVLink 1", name] for name in names] == [9, Unread.NOT_SUPPORTED, Unread.NOT_SUPPORTED]


def test_blackwell_has_other_counters() -> None:
    card = cards(1, [Wire(errors=dict.fromkeys(range(4), ABSENT))])[0]
    card.fields |= {161: INVALID, 162: ABSENT, 163: ABSENT, (215, 0): 2, (208, 0): 3}
    found = counted(FakeNvml([card]))
    assert {name: value for (part, name), value in found.items() if part == "GPU0 NVLink 0"} == {
        "nvlink replay": Unread.NOT_SUPPORTED,
        "nvlink recovery": 2,
        "nvlink crc": Unread.NOT_SUPPORTED,
        "receive errors": 3,
    }


def test_replays_that_grow_between_two_looks() -> None:
    wires = [Wire(errors={0: 100, 1: 0, 2: 0, 3: 0}), Wire()]
    fake = FakeNvml(cards(1, wires))
    with NvmlSource(fake) as source:
        before = {(value.part, value.name): value.value for value in source.counters()}
        wires[0].errors[0] = 174
        fake.cards[0].answers["PcieReplayCounter"] = 12
        after = {(value.part, value.name): value.value for value in source.counters()}
    grown = {key: (before[key], after[key]) for key in after if before[key] != after[key]}
    assert grown == {("GPU0 NVLink 0", "nvlink replay"): (100, 174), ("GPU0", "pcie replay"): (0, 12)}


def test_reading_gives_the_same_counters() -> None:
    fake = FakeNvml(cards(2, [Wire(), None]))
    with NvmlSource(fake) as source:
        assert source.counters() == source.read().counters


def test_links_of_a_gpu_that_is_lost_later_are_unknown_and_not_gone() -> None:
    fake = FakeNvml(cards(2, [Wire(), Wire()]), driver="575.57.08")
    with NvmlSource(fake) as source:
        before = source.counters()
        fake.cards[1].lost = True
        after = source.counters()
    assert [(value.part, value.name) for value in after] == [(value.part, value.name) for value in before]
    lost = {value.value for value in after if value.part.startswith("GPU1")}
    assert lost == {Unread.UNKNOWN}
    assert Unread.UNKNOWN not in {value.value for value in after if value.part.startswith("GPU0")}


def test_a_gpu_without_nvlink_has_no_counters_of_links() -> None:
    assert {part for part, _ in counted(FakeNvml(cards(2)))} == {"GPU0", "GPU1"}


def test_only_visible_gpus_are_counted_under_their_numbers() -> None:
    four = cards(4, [Wire()])
    four[3].answers["PcieReplayCounter"] = 5
    four[3].answers["CurrPcieLinkWidth"] = 8
    for setting in ("3,1", "GPU-00000003,GPU-00000001"):
        found = counted(FakeNvml(four), CUDA_VISIBLE_DEVICES=setting)
        assert found["GPU0", "pcie replay"] == 5
        assert {part for part, _ in found} == {"GPU0", "GPU0 NVLink 0", "GPU1", "GPU1 NVLink 0"}
        with NvmlSource(FakeNvml(four), environ={"CUDA_VISIBLE_DEVICES": setting}) as source:
            assert {name: pcie.width for name, pcie in source.pcie().items()} == {"GPU0": 8, "GPU1": 16}


def test_pcie_links_as_they_are_at_each_look() -> None:
    two = cards(2)
    with NvmlSource(FakeNvml(two)) as source:
        assert source.pcie() == dict.fromkeys(("GPU0", "GPU1"), Pcie(generation=1, width=16))
        two[0].answers["CurrPcieLinkGeneration"] = 5
        two[1].answers |= {"CurrPcieLinkGeneration": 4, "CurrPcieLinkWidth": 8}
        assert source.pcie() == {"GPU0": Pcie(generation=5, width=16), "GPU1": Pcie(generation=4, width=8)}


@pytest.mark.parametrize(
    ("answer", "unread"),
    [
        (ABSENT, Unread.NOT_SUPPORTED),
        (FORBIDDEN, Unread.NO_PERMISSION),
        (BROKEN, Unread.UNKNOWN),
        (0, Unread.UNKNOWN),
    ],
)
def test_a_pcie_link_that_cannot_be_read(answer: object, unread: Unread) -> None:
    card = cards(1)[0]
    card.answers |= {"CurrPcieLinkGeneration": answer, "CurrPcieLinkWidth": answer}
    with NvmlSource(FakeNvml([card])) as source:
        assert source.pcie() == {"GPU0": Pcie(generation=unread, width=unread)}


def test_nvml_is_started_once_for_many_looks_and_shut_down_at_the_end() -> None:
    fake = FakeNvml(cards(2))
    with NvmlSource(fake) as source:
        for _ in range(5):
            source.counters()
            source.pcie()
        source.read()
        assert (fake.starts, fake.open) == (2, 1)
    assert fake.open == 0
    source.close()
    assert fake.open == 0
    source.pcie()
    assert fake.open == 1


def test_without_a_driver_there_is_nothing_to_watch() -> None:
    fake = FakeNvml(cards(2), init=NVMLError_DriverNotLoaded("Driver Not Loaded"))
    with NvmlSource(fake) as source:
        assert (source.counters(), source.pcie()) == ((), {})
    assert fake.open == 0


def test_a_look_costs_no_more_than_its_counters() -> None:
    fake = FakeNvml(cards(8, [Wire() for _ in range(18)]))
    with NvmlSource(fake) as source:
        source.counters()
        fake.calls = 0
        source.counters()
        assert fake.calls <= 8 * (18 * 4 + 10) + 1
        fake.calls = 0
        source.pcie()
        assert fake.calls == 8 * 3 + 1


def test_field_values_of_the_real_bindings_are_read_by_their_type() -> None:
    import pynvml

    values = (pynvml.c_nvmlFieldValue_t * 7)()
    for value, (kind, member, number) in zip(
        values,
        [(0, "dVal", 2.0), (1, "uiVal", 26562), (3, "ullVal", 1 << 40), (4, "sllVal", -5), (6, "usVal", 9)],
        strict=False,
    ):
        value.valueType = kind
        setattr(value.value, member, number)
    values[5].valueType = 99
    values[6].nvmlReturn = pynvml.NVML_ERROR_NO_PERMISSION

    class Bindings:
        NVMLError = pynvml.NVMLError
        NVMLError_FunctionNotFound = pynvml.NVMLError_FunctionNotFound
        NVMLError_GpuIsLost = pynvml.NVMLError_GpuIsLost
        NVMLError_InvalidArgument = pynvml.NVMLError_InvalidArgument
        NVMLError_NoPermission = pynvml.NVMLError_NoPermission
        NVMLError_NotSupported = pynvml.NVMLError_NotSupported

        def nvmlDeviceGetFieldValues(self, handle: object, ids: object) -> object:  # noqa: N802
            return values

    asker = Asker(Bindings())
    found = asker.fields(0, "speed", "handle", [(164, link) for link in range(7)])
    assert found == (2, 26562, 1 << 40, -5, 9, Unread.UNKNOWN, Unread.NO_PERMISSION)
    assert [doubt.text for doubt in asker.doubts((0,))] == [
        "GPU0: a value of type 99, which is none on record; unread: speed"
    ]


def test_numbers_are_those_of_the_real_bindings() -> None:
    import pynvml

    fields = nvml_counters._LINK_FIELDS
    names = ["ERROR_DL_REPLAY", "ERROR_DL_RECOVERY", "COUNT_LINK_RECOVERY_EVENTS", "ERROR_DL_CRC", "COUNT_RCV_ERRORS"]
    numbers = [getattr(pynvml, f"NVML_FI_DEV_NVLINK_{name}") for name in names]
    assert numbers == [number for each in fields.values() for number in each]
    policies = [getattr(pynvml, f"NVML_FI_DEV_PERF_POLICY_{name}") for name in ("POWER", "THERMAL", "SYNC_BOOST")]
    assert policies == list(nvml_counters._POLICY_FIELDS)
    kinds = [getattr(pynvml, f"NVML_NVLINK_ERROR_DL_{name}") for name in ("REPLAY", "RECOVERY", "CRC_FLIT", "CRC_DATA")]
    assert kinds == [kind for each in nvml_counters._LINK_COUNTERS.values() for kind in each]
    assert (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED) == (0, 1)
    assert pynvml.NVML_VOLATILE_ECC == 0
