"""``amd-smi ... --json`` as saved: what is read, what is doubted, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import NodeTopology, Unread
from gpuwire_checks.topology.readers.amd_smi import looks_like_amd_smi, read_amd_smi


def static(gpu: int) -> dict[str, Any]:
    return {
        "gpu": gpu,
        "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": "0xABC", "oam_id": gpu},
        "bus": {
            "bdf": f"0000:{0x0C + gpu:02x}:00.0",
            "max_pcie_width": 16,
            "max_pcie_speed": {"value": 32, "unit": "GT/s"},
        },
        "vbios": {"version": "022.040.003"},
        "driver": {"name": "amdgpu", "version": "6.12.12"},
        "vram": {"type": "HBM", "size": {"value": 196592, "unit": "MB"}},
        "numa": {"node": gpu // 2, "affinity": gpu // 2},
    }


def topology(count: int = 3, kind: str = "XGMI") -> list[dict[str, Any]]:
    return [
        {
            "gpu": a,
            "bdf": f"0000:{0x0C + a:02x}:00.0",
            "links": [
                {
                    "gpu": b,
                    "weight": 0 if a == b else 15,
                    "link_type": "SELF" if a == b else kind,
                    "num_hops": 0 if a == b else 1,
                    "bandwidth": "N/A",
                }
                for b in range(count)
            ],
        }
        for a in range(count)
    ]


def read(document: object) -> NodeTopology:
    return read_amd_smi(json.dumps(document, indent=4), source="amd.json")


def test_static_is_read() -> None:
    node = read([static(gpu) for gpu in range(4)])
    gpu = node.gpus[3]
    assert (gpu.model, gpu.pci_address, gpu.numa_node) == ("AMD Instinct MI300X", "0000:0f:00.0", 1)
    assert (gpu.max_pcie_generation, gpu.max_pcie_width, gpu.memory_bytes) == (5, 16, 196592 << 20)
    assert (gpu.pcie_width, gpu.serial, gpu.state.firmware) == (Unread.UNKNOWN, "0xABC", "022.040.003")
    assert (node.software.driver, node.doubts) == ("6.12.12", ())


def test_newer_versions_wrap_the_list() -> None:
    assert len(read({"gpu_data": [static(0), static(1)]}).gpus) == 2


def test_topology_is_read() -> None:
    node = read(topology())
    assert {(pair.a, pair.b, pair.path, pair.hops, pair.weight) for pair in node.paths} == {
        ("GPU0", "GPU1", "XGMI", 1, 15),
        ("GPU0", "GPU2", "XGMI", 1, 15),
        ("GPU1", "GPU2", "XGMI", 1, 15),
    }
    assert node.doubts == ()


def test_metric_is_read_and_n_a_is_not_supported() -> None:
    metric = {"gpu": 0, "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}, "replay_count": "N/A"}}
    node = read([{**metric, "ecc": {"total_correctable_count": 4, "total_uncorrectable_count": 0}}])
    assert (node.gpus[0].pcie_generation, node.gpus[0].pcie_width) == (5, 16)
    assert {counter.name: counter.value for counter in node.counters} == {
        "pcie replay": Unread.NOT_SUPPORTED,
        "ecc corrected": 4,
        "ecc uncorrected": 0,
    }


def test_a_pair_that_contradicts_itself_is_left_out_and_told() -> None:
    document = topology()
    document[0]["links"][1]["link_type"] = "PCIE"
    node = read(document)
    assert ("GPU0", "GPU1") not in {(pair.a, pair.b) for pair in node.paths}
    assert [doubt.text for doubt in node.doubts] == ["GPU0-GPU1: PCIE one way and XGMI the other; its path is left out"]


def test_one_way_that_is_missing_leaves_the_other() -> None:
    document = topology()
    del document[1]["links"][0]
    assert {(pair.a, pair.b) for pair in read(document).paths} == {
        ("GPU0", "GPU1"),
        ("GPU0", "GPU2"),
        ("GPU1", "GPU2"),
    }


def test_a_link_type_that_is_not_known_is_told() -> None:
    node = read(topology(2, kind="CXL"))
    assert node.paths == ()
    assert node.doubts[0].text == "GPU0-GPU1: link type CXL; its path is left out"


@pytest.mark.parametrize("value", [True, -1, "16x", [16], {"unit": "GT/s"}, 1e300, "9" * 400])
def test_what_is_no_number_is_unknown(value: object) -> None:
    broken = static(0)
    broken["bus"]["max_pcie_width"] = value
    assert read([broken]).gpus[0].max_pcie_width is Unread.UNKNOWN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"gpu": 0, "asic": {', "amd.json:1: not JSON, or cut"),
        ("[" * 100_000 + '"gpu": 0', "amd.json:1: nested too deeply"),
        ('[{"gpu": 0}, {"gpu": 0}]', "amd.json:1: 2 records of a GPU, each number once"),
        ('{"gpu": "none"}', "amd.json:1: 0 records of a GPU"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        read_amd_smi(text, source="amd.json")
    assert str(refused.value).startswith(message)


def test_it_is_told_from_other_json() -> None:
    assert looks_like_amd_smi(json.dumps([static(0)]))
    assert looks_like_amd_smi(json.dumps(topology()))
    assert not looks_like_amd_smi('{"gpuwire_snapshot": 1}')
    assert not looks_like_amd_smi("GPU0 GPU1")
