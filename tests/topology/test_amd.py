"""AMD GPUs through amdsmi: what is read, what is not, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_amdsmi import (
    BUSY,
    NO_PERM,
    NOT_SUPPORTED,
    XGMI,
    AmdSmiException,
    AmdSmiLibraryException,
    Card,
    FakeAmdSmi,
    cards,
)

from gpuwire_checks.topology import amd
from gpuwire_checks.topology.amd import AmdSmiSource, MissingLibrary, local_amd_gpus
from gpuwire_checks.topology.devices import GpuReading
from gpuwire_checks.topology.model import Pcie, Unread


def read(fake: FakeAmdSmi, **environ: str) -> GpuReading:
    return AmdSmiSource(fake, environ=environ).read()


def with_answer(**answers: object) -> FakeAmdSmi:
    """Two cards, the first with other answers."""
    first, second = cards(2)
    first.answers.update(answers)
    return FakeAmdSmi([first, second])


def test_a_mesh_of_eight_is_read_whole() -> None:
    reading = read(FakeAmdSmi(cards(8)))
    gpu = reading.gpus[3]
    assert (gpu.name, gpu.vendor, gpu.model, gpu.pci_address) == ("GPU3", "amd", "AMD Instinct MI300X", "0000:0f:00.0")
    assert (gpu.memory_bytes, gpu.numa_node, gpu.serial) == (196592 << 20, 0, "0x00000000C21F0D03")
    assert (gpu.pcie_generation, gpu.pcie_width, gpu.max_pcie_generation, gpu.max_pcie_width) == (5, 16, 5, 16)
    assert not isinstance(gpu.links, Unread)
    assert {(link.kind, link.up, link.speed_bytes) for link in gpu.links} == {("xgmi", True, 64e9)}
    assert [link.remote for link in gpu.links] == [f"GPU{at}" for at in range(8) if at != 3]
    assert {(pair.path, pair.hops, pair.weight) for pair in reading.paths} == {("XGMI", 1, 15)}
    assert len(reading.paths) == 28
    assert {peer.status for peer in reading.peers} == {"OK"}
    assert (reading.driver, reading.doubts) == ("6.12.12", ())


def test_a_link_that_carries_nothing_is_down() -> None:
    fake = FakeAmdSmi(cards(3))
    fake.down.add((fake.cards[0].bdf, fake.cards[2].bdf))
    links = read(fake).gpus[0].links
    assert not isinstance(links, Unread)
    assert [(link.remote, link.up, link.speed_bytes) for link in links] == [("GPU1", True, 64e9), ("GPU2", False, 0.0)]


def test_a_path_counts_the_links_that_are_up_and_none_is_no_path() -> None:
    fake = FakeAmdSmi(cards(2))
    for bandwidths, paths in (((512, 512, 512), ["XGMI3"]), ((512, 512, 0), ["XGMI2"]), ((0, 0, 0), [])):
        fake.links = [{"bdf": fake.cards[1].bdf, "max_bandwidth": rate, "link_type": XGMI} for rate in bandwidths]
        assert [pair.path for pair in read(fake).paths] == paths


def test_pairs_over_pcie_have_no_path_of_amdsmi_and_no_links() -> None:
    reading = read(FakeAmdSmi(cards(2), joined=False, no_peers=True))
    assert reading.paths == ()
    assert [gpu.links for gpu in reading.gpus] == [(), ()]
    assert {peer.status for peer in reading.peers} == {"NS"}


@pytest.mark.parametrize(
    ("code", "reason"), [(NOT_SUPPORTED, Unread.NOT_SUPPORTED), (NO_PERM, Unread.NO_PERMISSION), (BUSY, Unread.UNKNOWN)]
)
def test_the_three_reasons_stay_apart(code: int, reason: Unread) -> None:
    reading = read(with_answer(gpu_ecc_enabled=AmdSmiLibraryException(code), pcie_info=AmdSmiLibraryException(code)))
    gpu = reading.gpus[0]
    assert gpu.state.ecc is reason
    assert (gpu.pcie_width, gpu.max_pcie_generation) == (reason, reason)
    assert [c.value for c in reading.counters if (c.part, c.name) == ("GPU0", "pcie replay")] == [reason]
    texts = [doubt.text for doubt in reading.doubts]
    assert bool(texts) is (reason is Unread.UNKNOWN)
    assert all(text.startswith("GPU0: AMDSMI_STATUS_30; unread: PCIe, ECC") for text in texts)


def test_n_a_is_not_supported_and_never_0() -> None:
    reading = read(with_answer(gpu_asic_info={"market_name": "N/A", "asic_serial": "N/A"}))
    assert (reading.gpus[0].model, reading.gpus[0].serial) == (Unread.NOT_SUPPORTED, Unread.NOT_SUPPORTED)


def test_an_older_amdsmi_without_a_function_is_unknown_without_a_doubt() -> None:
    reading = read(FakeAmdSmi([Card(bdf="0000:0c:00.0", uuid="GPU-1", node=1, answers={})]))
    assert (reading.gpus[0].model, reading.gpus[0].state.ecc, reading.doubts) == (Unread.UNKNOWN, Unread.UNKNOWN, ())


def test_rows_and_fabric_are_not_of_these_gpus() -> None:
    state = read(FakeAmdSmi(cards(1))).gpus[0].state
    assert (state.remap_pending, state.fabric) == (Unread.NOT_SUPPORTED, Unread.NOT_SUPPORTED)


def test_gpus_are_numbered_as_rocr_does() -> None:
    listed = cards(3)
    listed[0].node, listed[2].node = 9, 1
    assert [gpu.pci_address for gpu in read(FakeAmdSmi(listed)).gpus] == [listed[at].bdf for at in (2, 1, 0)]


@pytest.mark.parametrize(
    ("environ", "left"),
    [
        ({"ROCR_VISIBLE_DEVICES": "1,3"}, [1, 3]),
        ({"HIP_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"ROCR_VISIBLE_DEVICES": "1,3", "HIP_VISIBLE_DEVICES": "1"}, [3]),
        ({"ROCR_VISIBLE_DEVICES": "1,3", "HIP_VISIBLE_DEVICES": "0,1,2"}, [1, 3]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, [0]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-00000000c21f0d02"}, [2]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-00000000C21F0D03,0"}, [3, 0]),
    ],
)
def test_visible_devices_are_honoured_mapped_and_never_widened(environ: dict[str, str], left: list[int]) -> None:
    listed = cards(4)
    reading = read(FakeAmdSmi(listed), **environ)
    assert [gpu.pci_address for gpu in reading.gpus] == [listed[at].bdf for at in left]
    assert [gpu.index for gpu in reading.gpus] == list(range(len(left)))
    (doubt,) = reading.doubts
    assert f"hides {4 - len(left)} of the driver's 4 GPUs: GPU0 is the driver's {left[0]}" in doubt.text


@pytest.mark.parametrize("value", ["", "-1", "GPU-ff", "9"])
def test_a_setting_that_names_none_leaves_none(value: str) -> None:
    reading = read(FakeAmdSmi(cards(4)), ROCR_VISIBLE_DEVICES=value)
    assert reading.gpus == ()
    assert "hides 4 of the driver's 4 GPUs: none is left" in reading.doubts[0].text


@pytest.mark.parametrize(("code", "driver"), [(NO_PERM, Unread.NO_PERMISSION), (34, Unread.UNKNOWN)])
def test_a_library_that_may_not_start_says_so_in_one_line(code: int, driver: Unread) -> None:
    reading = AmdSmiSource(FakeAmdSmi([], init=AmdSmiLibraryException(code))).read()
    assert reading.driver is driver
    assert reading.doubts[0].text == (
        f"no AMD GPU can be read: amdsmi does not start: Error code: {code} | AMDSMI_STATUS_{code} - details; "
        "compare amd-smi list"
    )


def test_pairs_of_an_older_amdsmi_have_its_own_numbers_of_link_types() -> None:
    """Up to 6.4 a pair's xGMI is 2 while a link's is 1, and up to 6.2 there is no type of links at all."""
    fake = FakeAmdSmi(cards(2))
    old = SimpleNamespace(PCIEXPRESS=1, XGMI=2)
    for types in (SimpleNamespace(AMDSMI_LINK_TYPE_XGMI=1, AMDSMI_LINK_TYPE_PCIE=2), None):
        library = Older(fake, {"AmdSmiIoLinkType": old, "AmdSmiLinkType": types, "amdsmi_get_link_metrics": None})
        reading = AmdSmiSource(library).read()
        assert [pair.path for pair in reading.paths] == ["XGMI"]
        assert reading.gpus[0].links is Unread.UNKNOWN
    assert AmdSmiSource(Older(FakeAmdSmi(cards(2), joined=False), {"AmdSmiIoLinkType": old})).read().paths == ()


class Older:
    """An amdsmi with other members; those that are None it does not have."""

    def __init__(self, library: FakeAmdSmi, members: dict[str, object]) -> None:
        self._library, self._members = library, members

    def __getattr__(self, name: str) -> object:
        found = self._members.get(name, getattr(self._library, name, None))
        if found is None:
            raise AttributeError(name)
        return found


def test_a_link_without_a_known_end_or_rate_is_neither_up_nor_fast() -> None:
    fake = FakeAmdSmi(cards(2))
    fake.links = [
        {"bdf": fake.cards[1].bdf, "max_bandwidth": 0xFFFFFFFF, "link_type": XGMI},
        {"bdf": "ffffffffffff:ff:1f.7", "max_bandwidth": 512, "link_type": XGMI},
        {"bdf": "0000:00:00.0", "max_bandwidth": 512, "link_type": XGMI},
    ]
    links = read(fake).gpus[0].links
    assert not isinstance(links, Unread)
    assert {(link.up, link.speed_bytes) for link in links} == {(Unread.UNKNOWN, Unread.UNKNOWN)}
    assert [link.remote for link in links] == ["GPU1", Unread.UNKNOWN, Unread.UNKNOWN]


def test_no_numa_node_and_no_memory_are_unknown_and_no_numbers() -> None:
    """The kernel's -1 comes as the highest 32-bit number."""
    gpu = read(with_answer(numa=0xFFFFFFFF, gpu_vram_info={"vram_size": 0})).gpus[0]
    assert (gpu.numa_node, gpu.memory_bytes) == (Unread.UNKNOWN, Unread.UNKNOWN)


def test_partitions_of_a_board_are_told_and_no_link_leads_to_one_of_them() -> None:
    parts = cards(3)
    parts[1].bdf = parts[0].bdf
    for card in parts:
        card.answers |= {"gpu_compute_partition": "CPX", "gpu_memory_partition": "NPS4"}
    parts[2].answers["gpu_compute_partition"] = "SPX"
    reading = read(FakeAmdSmi(parts))
    (doubt,) = reading.doubts
    assert doubt.text == "GPU0, GPU1: of a board in partition mode CPX/NPS4, of which each is one part"
    links = reading.gpus[2].links
    assert not isinstance(links, Unread)
    assert {link.remote for link in links} == {parts[0].bdf}


def test_a_library_that_does_not_start_is_told() -> None:
    source = AmdSmiSource(FakeAmdSmi([], init=AmdSmiException("no driver")))
    reading = source.read()
    assert (reading.gpus, reading.driver) == ((), Unread.UNKNOWN)
    assert "no AMD GPU can be read: amdsmi does not start: no driver" in reading.doubts[0].text
    assert (source.counters(), source.pcie()) == ((), {})


def test_it_is_watched_under_load_and_closed() -> None:
    fake = FakeAmdSmi(cards(2))
    source = AmdSmiSource(fake)
    assert source.pcie() == {
        name: Pcie(generation=5, width=16, max_generation=5, max_width=16) for name in ("GPU0", "GPU1")
    }
    replays = [counter for counter in source.counters() if counter.name == "pcie replay"]
    assert [(counter.part, counter.value) for counter in replays] == [("GPU0", 7), ("GPU1", 7)]
    assert fake.open == 1
    source.close()
    source.close()
    assert fake.open == 0


def test_nothing_is_imported_without_a_driver(tmp_path: Path) -> None:
    assert local_amd_gpus(tmp_path) is None


@pytest.mark.parametrize("error", [KeyError("libamd_smi.so"), ImportError("no amdsmi"), OSError("libdrm.so.2")])
def test_a_driver_without_its_library_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "kfd").touch()

    def fail(name: str) -> object:
        raise error

    monkeypatch.setattr(amd, "LIVE", tmp_path)
    monkeypatch.setattr("importlib.import_module", fail)
    source = local_amd_gpus(tmp_path)
    assert isinstance(source, MissingLibrary)
    (doubt,) = source.read().doubts
    assert type(error).__name__ in doubt.text
    assert "install the amdsmi of this node's ROCm" in doubt.text
    assert "amdsmi" not in sys.modules
