"""``amd-smi static|topology|metric|list --json``, as people save it: one record a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.devices import pci_address
from gpuwire_checks.topology.model import CounterValue, Doubt, Gpu, GpuState, NodeTopology, PairPath, Unread
from gpuwire_checks.topology.readers.blank import blank_gpu, blank_node
from gpuwire_checks.topology.readers.plain_lines import bounded

MAX_TEXT = 8 << 20
"""Characters. All of ``amd-smi static`` of 64 GPUs has under 1 million."""
MAX_GPUS = 64
_MARK = re.compile(r'"gpu"\s*:\s*\d')
_OURS = re.compile(r'"(?:market_name|bdf|link_type|asic|bus|pcie|ecc|num_hops|uuid)"')
_GENERATIONS = {2: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}
"""PCIe generation by whole GT/s of a lane."""
_COUNTERS = {
    ("pcie", "replay_count"): "pcie replay",
    ("ecc", "total_correctable_count"): "ecc corrected",
    ("ecc", "total_uncorrectable_count"): "ecc uncorrected",
}
_LINKS = {"XGMI": "XGMI", "PCIE": "PCIE"}


def looks_like_amd_smi(text: str) -> bool:
    """True for a JSON document whose records are numbered by ``gpu``, as all of amd-smi's are."""
    start = text[:65536]
    opening = start.lstrip("\ufeff \t\r\n")[:1]
    return opening in ("[", "{") and bool(_MARK.search(start)) and bool(_OURS.search(start))


def read_amd_smi(text: str, *, source: str) -> NodeTopology:
    """GPUs with what the records state of them, and the pairs of ``amd-smi topology``.

    Raises:
        TopologyError: no such document, or one that was cut or is larger than any node's; with file and line.
    """
    records = _records(_document(text, source=source), source=source)
    doubts: list[Doubt] = []
    gpus = tuple(_gpu(record) for record in records)
    driver = next((value for r in records if not isinstance(value := _word(r, "driver", "version"), Unread)), None)
    node = blank_node(
        source,
        gpus=gpus,
        paths=tuple(_paths(records, {gpu.index for gpu in gpus}, doubts)),
        counters=tuple(_counters(records)),
        doubts=bounded(doubts),
    )
    return replace(node, software=replace(node.software, driver=driver)) if driver else node


def _document(text: str, *, source: str) -> Any:
    if len(text) > MAX_TEXT:
        raise TopologyError(f"{source}:1: {len(text)} characters; amd-smi prints at most {MAX_TEXT}")
    try:
        return json.loads(text.lstrip("\ufeff"))
    except json.JSONDecodeError as problem:
        raise TopologyError(f"{source}:{problem.lineno}: not JSON, or cut: {problem.msg}; save all of it") from problem
    except (RecursionError, ValueError) as problem:
        raise TopologyError(f"{source}:1: nested too deeply, or a number too long, for amd-smi's JSON") from problem


def _records(document: Any, *, source: str) -> list[Mapping[str, Any]]:
    """One a GPU, in the order of their numbers; newer versions wrap the list in ``gpu_data``."""
    listed = document.get("gpu_data", document) if isinstance(document, dict) else document
    listed = listed if isinstance(listed, list) else [listed]
    records = [record for record in listed if isinstance(record, dict) and _is_number(record.get("gpu"))]
    numbers = [record["gpu"] for record in records]
    if not records or len(records) > MAX_GPUS or len(set(numbers)) < len(numbers):
        raise TopologyError(
            f"{source}:1: {len(records)} records of a GPU, each number once and at most {MAX_GPUS} are read; save "
            "`amd-smi static --json`, or topology or metric"
        )
    return sorted(records, key=lambda record: int(record["gpu"]))


def _gpu(record: Mapping[str, Any]) -> Gpu:
    memory = _number(record, "vram", "size")
    address = _word(record, "bus", "bdf") if "bus" in record else _word(record, "bdf")
    return blank_gpu(
        int(record["gpu"]),
        vendor="amd",
        model=_word(record, "asic", "market_name"),
        serial=_word(record, "asic", "asic_serial"),
        uuid=_word(record, "uuid"),
        memory_bytes=memory if isinstance(memory, Unread) else memory << 20,
        pci_address=pci_address(address),
        pcie_generation=_generation(record, "pcie", "speed"),
        pcie_width=_number(record, "pcie", "width"),
        max_pcie_generation=_generation(record, "bus", "max_pcie_speed"),
        max_pcie_width=_number(record, "bus", "max_pcie_width"),
        numa_node=_number(record, "numa", "node"),
        state=GpuState(firmware=_firmware(record)),
    )


def _firmware(record: Mapping[str, Any]) -> str | Unread:
    """Under ``vbios``, which newer versions call ``ifwi``."""
    return _word(record, "ifwi" if "ifwi" in record else "vbios", "version")


def _generation(record: Mapping[str, Any], *keys: str) -> int | Unread:
    speed = _number(record, *keys)
    return speed if isinstance(speed, Unread) else _GENERATIONS.get(speed, Unread.UNKNOWN)


def _counters(records: Sequence[Mapping[str, Any]]) -> Iterator[CounterValue]:
    for record in records:
        for keys, name in _COUNTERS.items():
            if isinstance(record.get(keys[0]), dict) and keys[1] in record[keys[0]]:
                yield CounterValue(part=f"GPU{record['gpu']}", name=name, value=_number(record, *keys))


def _paths(records: Sequence[Mapping[str, Any]], known: set[int], doubts: list[Doubt]) -> Iterator[PairPath]:
    """Each pair once; two records that contradict each other give none."""
    links = {(int(r["gpu"]), int(link["gpu"])): link for r in records for link in _links_of(r)}
    for (a, b), link in links.items():
        if (a > b and (b, a) in links) or a == b:
            continue
        first, second = min(a, b), max(a, b)
        kind, back = _word(link, "link_type"), _word(links.get((b, a), link), "link_type")
        if {first, second} - known or isinstance(kind, Unread) or kind not in _LINKS or kind != back:
            why = f"{kind} one way and {back} the other" if kind != back else f"link type {kind}"
            doubts.append(Doubt(line=None, text=f"GPU{first}-GPU{second}: {why}; its path is left out"))
            continue
        yield PairPath(
            a=f"GPU{first}",
            b=f"GPU{second}",
            path=_LINKS[kind],
            hops=_number(link, "num_hops"),
            weight=_number(link, "weight"),
        )


def _links_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = record.get("links")
    listed = listed if isinstance(listed, list) else []
    return [
        link
        for link in listed
        if isinstance(link, dict) and _is_number(link.get("gpu")) and link.get("link_type") != "SELF"
    ]


def _value(record: Mapping[str, Any], *keys: str) -> Any:
    """What stands under these keys; of a value with its unit the value."""
    found: Any = record
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found.get("value") if isinstance(found, dict) and "value" in found else found


def _word(record: Mapping[str, Any], *keys: str) -> str | Unread:
    value = _value(record, *keys)
    if value == "N/A":
        return Unread.NOT_SUPPORTED
    return value if isinstance(value, str) and value else Unread.UNKNOWN


def _number(record: Mapping[str, Any], *keys: str) -> int | Unread:
    value = _value(record, *keys)
    if value == "N/A":
        return Unread.NOT_SUPPORTED
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    return int(value) if _is_number(value) or (isinstance(value, float) and 0 <= value < 1e15) else Unread.UNKNOWN


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
