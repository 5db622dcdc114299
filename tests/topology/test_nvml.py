"""GPUs from an NVML of canned answers: what is read, what is refused, and what is said of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fake_nvml import (
    GPU,
    NPU,
    SWITCH,
    UNKNOWN,
    FakeNvml,
    NVMLError,
    NVMLError_ArgumentVersionMismatch,
    NVMLError_Deprecated,
    NVMLError_DriverNotLoaded,
    NVMLError_FunctionNotFound,
    NVMLError_GpuIsLost,
    NVMLError_LibraryNotFound,
    NVMLError_LibRmVersionMismatch,
    NVMLError_NoPermission,
    NVMLError_NotSupported,
    bus,
    cards,
)
from trees import write_tree

from gpuwire_checks.topology.devices import GpuReading, pci_address, visible_devices
from gpuwire_checks.topology.model import Gpu, GpuState, Unread
from gpuwire_checks.topology.nvml import NvmlSource, local_gpus

SWITCH_LINK = (SWITCH, "00000000:C0:00.0")
LOST = NVMLError_GpuIsLost("GPU is lost")


def read(fake: FakeNvml, *, root: Path = Path("/nowhere"), **environ: str) -> GpuReading:
    reading = NvmlSource(fake, environ=environ, root=root).read()
    assert fake.open == 0, "nvmlInit without nvmlShutdown"
    return reading


def paths(reading: GpuReading) -> dict[tuple[str, str], str]:
    return {(pair.a, pair.b): pair.path for pair in reading.paths}


def doubts(reading: GpuReading) -> list[str]:
    return [doubt.text for doubt in reading.doubts]


def test_every_field_of_a_gpu(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"sys/bus/pci/devices/0000:1b:00.0/numa_node": "1"})
    reading = read(FakeNvml(cards(1)), root=root)
    assert reading.gpus == (
        Gpu(
            index=0,
            vendor="nvidia",
            model="NVIDIA H100 80GB HBM3",
            memory_bytes=85520809984,
            pci_address="0000:1b:00.0",
            pcie_generation=1,
            pcie_width=16,
            max_pcie_generation=5,
            max_pcie_width=16,
            numa_node=1,
            cpu_affinity="0-15,64-79",
            uuid="GPU-00000000-aaaa",
            serial="1650000000001",
            links=(),
            state=reading.gpus[0].state,
        ),
    )
    assert (reading.driver, reading.cuda, reading.doubts) == ("570.86.15", "12.8", ())


def test_a_switch_joins_every_pair_with_the_links_of_the_narrower() -> None:
    eight = cards(4, [SWITCH_LINK] * 18)
    eight[2].links = [None, *[SWITCH_LINK] * 17]
    found = paths(read(FakeNvml(eight)))
    assert len(found) == 6
    assert {pair for pair, path in found.items() if path == "NV17"} == {
        ("GPU0", "GPU2"),
        ("GPU1", "GPU2"),
        ("GPU2", "GPU3"),
    }
    assert sorted(found.values()) == ["NV17"] * 3 + ["NV18"] * 3


def test_direct_wires_are_counted_by_pair() -> None:
    three = cards(3)
    three[0].links = [(GPU, bus(1)), (GPU, bus(1)), (GPU, bus(2)), None]
    three[1].links = [(GPU, bus(0)), (GPU, bus(0)), None, None]
    three[2].links = [(GPU, bus(0)), None, None, None]
    found = paths(read(FakeNvml(three, ancestors={(1, 2): 30})))
    assert found == {("GPU0", "GPU1"): "NV2", ("GPU0", "GPU2"): "NV1", ("GPU1", "GPU2"): "PHB"}


def test_links_are_looped_to_the_last_of_new_bindings() -> None:
    assert paths(read(FakeNvml(cards(2, [SWITCH_LINK] * 36)))) == {("GPU0", "GPU1"): "NV36"}


def test_a_link_that_is_not_supported_does_not_hide_those_after_it() -> None:
    absent = NVMLError_NotSupported("Not Supported")
    assert paths(read(FakeNvml(cards(2, [absent, absent, SWITCH_LINK])))) == {("GPU0", "GPU1"): "NV1"}


@pytest.mark.parametrize(
    ("level", "path"), [(0, "PIX"), (10, "PIX"), (20, "PXB"), (30, "PHB"), (40, "NODE"), (50, "SYS")]
)
def test_without_nvlink_the_common_ancestor_is_the_path(level: int, path: str) -> None:
    reading = read(FakeNvml(cards(2), ancestors={(0, 1): level}))
    assert (paths(reading), reading.doubts) == ({("GPU0", "GPU1"): path}, ())


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (35, "GPU0: common ancestor 35 is no known path class; unread: path to GPU1"),
        (NVMLError_NotSupported("Not Supported"), "GPU0: not supported; unread: path to GPU1"),
        (NVMLError("Unknown Error"), "GPU0: Unknown Error; unread: path to GPU1"),
    ],
)
def test_a_path_that_cannot_be_read_is_left_out_and_said(level: object, text: str) -> None:
    reading = read(FakeNvml(cards(2), ancestors={(0, 1): level}))
    assert (reading.paths, doubts(reading)) == ((), [text])


def test_nvlinks_that_cannot_be_read_do_not_pass_for_pcie() -> None:
    three = cards(3, [SWITCH_LINK] * 4)
    three[1].links = [NVMLError("Unknown Error")]
    reading = read(FakeNvml(three))
    assert paths(reading) == {("GPU0", "GPU2"): "NV4"}
    assert doubts(reading) == ["GPU1: Unknown Error; unread: NVLinks"]


def test_a_link_that_ends_nobody_knows_where_is_a_doubt_and_no_pcie_path() -> None:
    two = cards(2)
    two[0].links = [(UNKNOWN, "00000000:00:00.0")]
    reading = read(FakeNvml(two))
    assert reading.paths == ()
    assert doubts(reading) == ["GPU0: where a link ends is not known; unread: NVLink 0"]


def test_a_link_to_a_cpu_or_to_another_machines_gpu_is_no_path_here() -> None:
    reading = read(FakeNvml(cards(2, [(NPU, "00000000:04:00.0"), (GPU, "00000000:EE:00.0")])))
    assert (paths(reading), reading.doubts) == ({("GPU0", "GPU1"): "SYS"}, ())


def test_each_refusal_keeps_its_reason() -> None:
    one = cards(1)
    one[0].answers |= {
        "MemoryInfo": NVMLError_NotSupported("Not Supported"),
        "CpuAffinity": NVMLError_NoPermission("Insufficient Permissions"),
        "MaxPcieLinkWidth": NVMLError("Unknown Error"),
        "MaxPcieLinkGeneration": NVMLError("Unknown Error"),
        "CurrPcieLinkWidth": 0,
    }
    reading = read(FakeNvml(one))
    gpu = reading.gpus[0]
    assert gpu.memory_bytes is Unread.NOT_SUPPORTED
    assert gpu.cpu_affinity is Unread.NO_PERMISSION
    assert (gpu.max_pcie_width, gpu.max_pcie_generation, gpu.pcie_width) == (Unread.UNKNOWN,) * 3
    assert doubts(reading) == ["GPU0: Unknown Error; unread: highest PCIe generation, highest PCIe width"]


@pytest.mark.parametrize("at", ["handle", "values"])
def test_a_lost_gpu_stays_listed_and_is_named(at: str) -> None:
    four = cards(4, [SWITCH_LINK] * 18)
    if at == "handle":
        four[2].handle = LOST
    else:
        four[2].lost = True
    reading = read(FakeNvml(four))
    lost = reading.gpus[2]
    assert (lost.model, lost.memory_bytes, lost.pci_address, lost.numa_node) == (Unread.UNKNOWN,) * 4
    assert sorted(paths(reading).values()) == ["NV18"] * 3
    what = "everything" if at == "handle" else "PCI address and all after it"
    assert doubts(reading) == [
        f"GPU2: GPU is lost (the kernel log has its Xid; reset the GPU or reboot the node); unread: {what}"
    ]
    assert (lost.links, lost.serial, lost.state) == (Unread.UNKNOWN, Unread.UNKNOWN, GpuState())
    assert {peer.status for peer in reading.peers if "GPU2" in (peer.a, peer.b)} == {"U"}
    assert {peer.status for peer in reading.peers if "GPU2" not in (peer.a, peer.b)} == {"OK"}


def test_a_gpu_that_is_lost_is_not_asked_again() -> None:
    fake = FakeNvml(cards(1, [SWITCH_LINK] * 18))
    read(fake)
    whole, fake.calls = fake.calls, 0
    fake.cards[0].lost = True
    read(fake)
    assert (whole > 100, fake.calls) == (True, 3)


def test_a_failure_of_every_gpu_is_one_doubt() -> None:
    error = NVMLError("Unknown Error")
    names = ["nvmlDeviceGetP2PStatus", "nvmlDeviceGetMigMode", "nvmlDeviceGetNvLinkVersion"]
    reading = read(FakeNvml(cards(16, [SWITCH_LINK] * 18), faults=dict.fromkeys(names, error)))
    everyone = ", ".join(f"GPU{index}" for index in range(16))
    assert doubts(reading) == [f"{everyone}: Unknown Error; unread: NVLink version, MIG mode, peer access"]


def test_bindings_without_a_function_and_a_driver_without_it_leave_its_value_unknown_and_no_doubt() -> None:
    names = [
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetMarginTemperature",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetP2PStatus",
        "nvmlDeviceGetPcieReplayCounter",
        "nvmlDeviceGetGpuFabricInfo",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetSerial",
    ]
    old_driver = dict.fromkeys(names, NVMLError_FunctionNotFound("Function Not Found"))
    eight = cards(8, [SWITCH_LINK] * 2)
    readings = read(FakeNvml(eight, missing=names)), read(FakeNvml(eight, faults=old_driver))
    assert readings[0] == readings[1]
    gpu = readings[0].gpus[0]
    assert (gpu.serial, gpu.links, gpu.state.remap_pending, gpu.state.fabric) == (Unread.UNKNOWN,) * 4
    assert (gpu.state.fabric_unhealthy, gpu.state.temperature_margin_c) == (Unread.UNKNOWN,) * 2
    assert (gpu.state.ecc, {peer.status for peer in readings[0].peers}) == (True, {"U"})
    assert readings[0].doubts == ()


@pytest.mark.parametrize("error", [NVMLError_LibraryNotFound("no library"), NVMLError_DriverNotLoaded("no driver")])
def test_without_a_driver_there_are_no_gpus_and_no_doubts(error: NVMLError) -> None:
    assert read(FakeNvml(init=error)) == GpuReading()


def test_a_version_mismatch_says_what_to_do() -> None:
    reading = read(FakeNvml(init=NVMLError_LibRmVersionMismatch("RM has detected an NVML/RM version mismatch.")))
    assert (reading.gpus, reading.driver) == ((), Unread.UNKNOWN)
    assert "differ in version" in doubts(reading)[0]
    assert "reboot the node, or reload the nvidia modules" in doubts(reading)[0]


def test_a_driver_that_one_may_not_ask_is_no_permission_and_not_unknown() -> None:
    reading = read(FakeNvml(init=NVMLError_NoPermission("Insufficient Permissions")))
    assert (reading.gpus, reading.driver, reading.cuda) == ((), Unread.NO_PERMISSION, Unread.NO_PERMISSION)
    assert "read and write /dev/nvidiactl" in doubts(reading)[0]


@pytest.mark.parametrize(
    ("error", "fabric_error"),
    [
        (NVMLError_ArgumentVersionMismatch("Argument version mismatch"), Unread.UNKNOWN),
        (NVMLError_Deprecated("Deprecated"), Unread.NOT_SUPPORTED),
    ],
)
def test_a_driver_that_knows_another_version_of_a_question_is_asked_the_older_one(
    error: NVMLError, fabric_error: Unread
) -> None:
    one = cards(1)
    one[0].answers |= {"TemperatureV": error, "Temperature": {(0,): 42}, "MarginTemperature": error}
    reading = read(FakeNvml(one, faults={"nvmlDeviceGetGpuFabricInfoV": error}))
    state = reading.gpus[0].state
    assert (state.temperature_c, state.fabric, state.fabric_unhealthy) == (42, "Completed", Unread.UNKNOWN)
    assert (state.temperature_margin_c, reading.doubts) == (fabric_error, ())


def test_another_failure_to_start_is_a_doubt_with_its_text() -> None:
    reading = read(FakeNvml(init=NVMLError("Unknown Error")))
    assert doubts(reading) == ["no GPU can be read: NVML does not start: Unknown Error; compare nvidia-smi"]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (NVMLError_NoPermission("Insufficient Permissions"), "no permission"),
        (NVMLError_NotSupported("Not Supported"), "not supported"),
        (NVMLError("Unknown Error"), "Unknown Error"),
    ],
)
def test_gpus_that_cannot_be_counted_are_not_none(error: NVMLError, why: str) -> None:
    reading = read(FakeNvml(cards(2), faults={"nvmlDeviceGetCount": error}))
    assert doubts(reading) == [f"driver: {why}; unread: number of GPUs"]


def test_a_library_that_does_not_end_takes_nothing_from_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_fake: FakeNvml) -> None:
        raise NVMLError("Unknown Error")

    monkeypatch.setattr(FakeNvml, "nvmlShutdown", fail)
    source = NvmlSource(FakeNvml(cards(2)))
    assert (len(source.read().gpus), len(source.pcie())) == (2, 2)
    source.close()


def test_nvml_is_shut_down_when_reading_fails() -> None:
    fake = FakeNvml(cards(1))
    del fake.cards[0].answers["MemoryInfo"]
    with pytest.raises(KeyError):
        NvmlSource(fake).read()
    assert fake.open == 0


def test_visible_gpus_are_renumbered_and_the_hidden_counted() -> None:
    reading = read(FakeNvml(cards(8, [SWITCH_LINK] * 18)), CUDA_VISIBLE_DEVICES="6,3")
    assert [(gpu.index, gpu.pci_address) for gpu in reading.gpus] == [(0, "0000:21:00.0"), (1, "0000:1e:00.0")]
    assert paths(reading) == {("GPU0", "GPU1"): "NV18"}
    assert doubts(reading) == [
        "CUDA_VISIBLE_DEVICES=6,3 hides 6 of the driver's 8 GPUs: GPU0 is the driver's 6, GPU1 is the driver's 3"
    ]


def test_a_setting_that_hides_nothing_is_no_doubt() -> None:
    reading = read(FakeNvml(cards(2)), CUDA_VISIBLE_DEVICES="0,1")
    assert (len(reading.gpus), reading.doubts) == (2, ())


def test_all_that_is_read_goes_by_the_numbers_of_visible_gpus() -> None:
    four = cards(4)
    four[2].links = [(GPU, bus(1)), (GPU, bus(3))]
    four[2].answers["PcieReplayCounter"] = 7
    four[1].links, four[3].links = [(GPU, bus(2)), None], [(GPU, bus(2)), None]
    reading = read(FakeNvml(four, peers={(2, 1): 5}), CUDA_VISIBLE_DEVICES="2,1")
    assert [gpu.uuid for gpu in reading.gpus] == ["GPU-00000002-aaaa", "GPU-00000001-aaaa"]
    links = reading.gpus[0].links
    assert not isinstance(links, Unread)
    assert [link.remote for link in links] == ["GPU1", "0000:1e:00.0"]
    assert [(peer.a, peer.b) for peer in reading.peers if peer.status == "NS"] == [("GPU0", "GPU1")] * 2
    parts = {value.part for value in reading.counters}
    assert parts == {"GPU0", "GPU0 NVLink 0", "GPU0 NVLink 1", "GPU1", "GPU1 NVLink 0", "GPU1 NVLink 1"}
    replays = [(value.part, value.value) for value in reading.counters if value.name == "pcie replay"]
    assert replays == [("GPU0", 7), ("GPU1", 0)]
    assert read(FakeNvml(four), CUDA_VISIBLE_DEVICES="GPU-00000003").gpus[0].pci_address == "0000:1e:00.0"


def test_a_hidden_gpu_that_is_lost_is_not_given_anothers_name() -> None:
    two = cards(2)
    two[0].handle = LOST
    reading = read(FakeNvml(two), CUDA_VISIBLE_DEVICES="1")
    assert [gpu.pci_address for gpu in reading.gpus] == ["0000:1c:00.0"]
    assert doubts(reading)[1].startswith("hidden GPU 0: GPU is lost")


UUIDS = ("GPU-aa11", "GPU-aa22", "GPU-bb33", Unread.UNKNOWN)


@pytest.mark.parametrize(
    ("setting", "devices"),
    [
        (None, (0, 1, 2, 3)),
        ("", ()),
        ("-1", ()),
        ("2,0", (2, 0)),
        (" 1 , 3 ", (1, 3)),
        ("0,9,1", (0,)),
        ("0,-1,1", (0,)),
        ("1,1", ()),
        ("GPU-bb", (2,)),
        ("GPU-aa22,GPU-aa11", (1, 0)),
        ("GPU-aa", ()),
        ("GPU-", ()),
        ("all", ()),
        ("MIG-aa11", ()),
    ],
)
def test_visible_devices_as_cuda_reads_them(setting: str | None, devices: tuple[int, ...]) -> None:
    assert visible_devices(setting, UUIDS) == devices


def test_a_mig_device_and_a_vain_name_are_said() -> None:
    assert any("MIG device" in text for text in doubts(read(FakeNvml(cards(2)), CUDA_VISIBLE_DEVICES="MIG-1234")))
    vain = doubts(read(FakeNvml(cards(2)), CUDA_VISIBLE_DEVICES="0,7"))
    assert vain[1] == "CUDA_VISIBLE_DEVICES names '7', which is no GPU here: it and all after it are hidden"
    assert not any("names" in text for text in doubts(read(FakeNvml(cards(2)), CUDA_VISIBLE_DEVICES="0")))


@pytest.mark.parametrize(("mode", "said"), [([1, 1], True), ([0, 1], False), (NVMLError_NotSupported("no"), False)])
def test_a_gpu_in_slices_is_said(mode: object, said: bool) -> None:
    """One that is pending is not on yet."""
    two = cards(2)
    two[1].answers["MigMode"] = mode
    texts = [text for text in doubts(read(FakeNvml(two))) if "MIG" in text]
    assert texts == ["GPU1: MIG is on: CUDA sees one slice and no whole GPU; turn it off to judge the wires"] * said


def test_unlike_gpus_may_be_numbered_otherwise_by_cuda() -> None:
    two = cards(2)
    two[1].answers["Name"] = "NVIDIA L40S"
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in doubts(read(FakeNvml(two)))[0]
    assert doubts(read(FakeNvml(two), CUDA_DEVICE_ORDER="PCI_BUS_ID")) == []


def test_a_hidden_gpu_of_another_model_may_be_the_one_that_cuda_means() -> None:
    """CUDA orders all, then hides: its 0 may be our 1."""
    two = cards(2)
    two[1].answers["Name"] = "NVIDIA L40S"
    assert "CUDA may number them otherwise" in doubts(read(FakeNvml(two), CUDA_VISIBLE_DEVICES="0"))[1]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("00010000:E1:00.0", "10000:e1:00.0"),
        ("", Unread.UNKNOWN),
        (Unread.NO_PERMISSION, Unread.NO_PERMISSION),
    ],
)
def test_addresses_as_sysfs_writes_them(text: str | Unread, address: str | Unread) -> None:
    assert pci_address(text) == address


def test_a_recorded_tree_has_no_driver_to_ask(tmp_path: Path) -> None:
    assert local_gpus(write_tree(tmp_path, {"dev/nvidiactl": ""})) is None


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this host has a driver")
def test_without_a_trace_of_a_driver_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    if not Path("/dev/dxg").exists():
        assert local_gpus() is None


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="this host has a driver")
def test_the_real_bindings_without_a_driver_find_nothing() -> None:
    import pynvml

    assert NvmlSource(pynvml).read() == GpuReading()


def test_the_fake_names_what_the_real_bindings_have() -> None:
    import pynvml

    ours = [name for name in vars(FakeNvml) if name.lower().startswith("nvml")]
    ours += [f"nvmlDeviceGet{name}" for name in cards(1)[0].answers]
    assert [name for name in ours if not hasattr(pynvml, name)] == []
    assert (pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH, pynvml.NVML_NVLINK_DEVICE_TYPE_GPU) == (SWITCH, GPU)
    for kind in NVMLError.__subclasses__():
        real = type(pynvml.NVMLError(kind.code))
        assert (real.__name__, issubclass(real, pynvml.NVMLError)) == (kind.__name__, True)
        assert type(NVMLError(kind.code)) is kind
