"""The wiring that a baseline expects, as its file states it. What it leaves out, it does not expect."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from gpuwire_checks.units import format_rate, parse_bit_rate, parse_byte_rate

Switched = Literal["enabled", "disabled"]
ByteRate = Annotated[
    float,
    BeforeValidator(parse_byte_rate),
    Field(gt=0),
    PlainSerializer(lambda rate: format_rate(rate, "GB/s"), when_used="json"),
]
BitRate = Annotated[
    float,
    BeforeValidator(parse_bit_rate),
    Field(gt=0),
    PlainSerializer(lambda rate: format_rate(rate, "Gbit/s"), when_used="json"),
]
GpuPair = tuple[int, int]
"""Numbers of two GPUs, the lower first."""
NicPair = tuple[int, str]
"""The number of a GPU and the name of a NIC."""
_Pair = TypeVar("_Pair", GpuPair, NicPair)

_PAIR = re.compile(r"(\d{1,3})-(\d{1,3})")
_NIC_PAIR = re.compile(r"(\d{1,3})-([A-Za-z][\w.:]*)")
MOST_GPUS = 256
ALL, REST = "all", "rest"
"""The words for every pair, and for those that no other entry of the table names."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ExpectedPcie(_Strict):
    """The generation (1 to 6) and width in lanes that device and slot reach together."""

    generation: int = Field(ge=1, le=7)
    width: int = Field(ge=1, le=32)


class ExpectedLinks(_Strict):
    """NVLink or xGMI links: how many a GPU has (one number, or one for each GPU), and what each carries.

    ``speed`` is the payload in one direction, in bytes a second (``25 GB/s`` in the file).
    """

    kind: Literal["nvlink", "xgmi"]
    per_gpu: int | tuple[int, ...]
    speed: ByteRate | None = None
    version: int | None = Field(default=None, ge=1)

    def of(self, gpu: int) -> int:
        return self.per_gpu if isinstance(self.per_gpu, int) else self.per_gpu[gpu]


class ExpectedFabric(_Strict):
    """The state of the NVLink fabric, in nvidia-smi's words; its health must be good wherever it can be read.

    ``cluster`` is ``rack`` where the GPUs are in a rack's NVLink domain, which has a UUID; on HGX boards it is zeros.
    """

    state: str
    status: str
    cluster: Literal["rack"] | None = None


class ExpectedNic(_Strict):
    """A NIC under the name it has on the node; ``rate`` in bits a second (``400 Gbit/s`` in the file).

    ``pci_address`` tells a NIC that has another name from one that is gone; it is not held to.
    """

    name: str
    kind: Literal["ethernet", "infiniband", "roce"]
    rate: BitRate | None = None
    numa_node: int | None = None
    pcie: ExpectedPcie | None = None
    firmware: str | None = None
    pci_address: str | None = None


class Wiring(_Strict):
    """What is to be there, and how it is to be joined.

    ``pairs``, ``peers`` and ``nic_paths`` are tables from a value to the pairs that have it: ``{NV2: 0-3 1-2, PHB:
    rest}``, ``{OK: all}``, ``{PIX: 0-mlx5_0 1-mlx5_1, SYS: rest}``.
    """

    gpus: int = Field(ge=0, le=MOST_GPUS)
    model: str | None = None
    pci_addresses: tuple[str, ...] | None = None
    numa_nodes: tuple[int, ...] | None = None
    links: ExpectedLinks | None = None
    pairs: Mapping[str, str] = Field(default_factory=dict)
    peers: Mapping[str, str] = Field(default_factory=dict)
    pcie: ExpectedPcie | tuple[ExpectedPcie, ...] | None = None
    ecc: Switched | None = None
    persistence: Switched | None = None
    mig: Switched | None = None
    vbios: str | tuple[str, ...] | None = None
    fabric: ExpectedFabric | None = None
    nics: tuple[ExpectedNic, ...] | None = None
    nic_paths: Mapping[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _tables_fit(self) -> Wiring:
        for name in ("pci_addresses", "numa_nodes"):
            values = getattr(self, name)
            if values is not None and len(values) != self.gpus:
                raise ValueError(f"{name} has {len(values)} entries for {self.gpus} GPUs; give one for each")
        if self.links is not None and not isinstance(self.links.per_gpu, int):
            _one_for_each("links.per_gpu", len(self.links.per_gpu), self.gpus)
        for name in ("pcie", "vbios"):
            if isinstance(getattr(self, name), tuple):
                _one_for_each(name, len(getattr(self, name)), self.gpus)
        _ = self.path_of, self.peer_of, self.nic_path_of
        return self

    @cached_property
    def path_of(self) -> dict[GpuPair, str]:
        """The path of each pair of GPUs."""
        return _table("pairs", self.pairs, self._gpu_pairs, _gpu_pair)

    @cached_property
    def peer_of(self) -> dict[GpuPair, str]:
        """Peer access of each pair of GPUs, both ways: ``OK``, or why there is none."""
        return _table("peers", self.peers, self._gpu_pairs, _gpu_pair)

    @cached_property
    def nic_path_of(self) -> dict[NicPair, str]:
        """The path of each pair of a GPU and a NIC, by the NIC's name."""
        every = [(gpu, nic.name) for gpu in range(self.gpus) for nic in self.nics or ()]
        return _table("nic_paths", self.nic_paths, every, _nic_pair)

    @property
    def most_links(self) -> int:
        """Links of the GPU that has most; 0 where none are stated."""
        per_gpu = self.links.per_gpu if self.links is not None else 0
        return per_gpu if isinstance(per_gpu, int) else max(per_gpu)

    @property
    def is_bridged(self) -> bool:
        """Whether each GPU has links to one other at most, as bridges between two boards make it."""
        linked = [gpu for pair, path in self.path_of.items() if path.startswith(("NV", "XGMI")) for gpu in pair]
        return bool(linked) and len(linked) == len(set(linked))

    def pcie_of(self, gpu: int) -> ExpectedPcie | None:
        return self.pcie[gpu] if isinstance(self.pcie, tuple) else self.pcie

    def vbios_of(self, gpu: int) -> str | None:
        return self.vbios[gpu] if isinstance(self.vbios, tuple) else self.vbios

    def nic(self, name: str) -> ExpectedNic | None:
        return next((nic for nic in self.nics or () if nic.name == name), None)

    @property
    def _gpu_pairs(self) -> list[GpuPair]:
        return list(combinations(range(self.gpus), 2))


def pair_table(values: Mapping[GpuPair, str] | Mapping[NicPair, str], *, every: int) -> dict[str, str]:
    """The shortest table for these pairs: the most frequent value gets ``rest``, or ``all`` where it is the only one.

    Args:
        every: how many pairs there are; ``rest`` would say too much where some are unknown.
    """
    groups: dict[str, list[str]] = {}
    for (a, b), value in values.items():
        groups.setdefault(value, []).append(f"{a}-{b}")
    if len(values) < every or not groups:
        return {value: " ".join(pairs) for value, pairs in groups.items()}
    if len(groups) == 1:
        return dict.fromkeys(groups, ALL)
    most = max(groups, key=lambda value: len(groups[value]))
    named = {value: " ".join(pairs) for value, pairs in groups.items() if value != most}
    return {**named, most: REST}


def _one_for_each(name: str, given: int, gpus: int) -> None:
    if given != gpus:
        raise ValueError(f"{name} has {given} entries for {gpus} GPUs; give one number, or one for each GPU")


def _table(
    name: str, table: Mapping[str, str], every: Sequence[_Pair], read: Callable[[str], _Pair | None]
) -> dict[_Pair, str]:
    """Every pair with its value.

    Raises:
        ValueError: a pair that is none, or that has two values.
    """
    found: dict[_Pair, str] = {}
    possible = set(every)
    for value, text in table.items():
        if text in (ALL, REST):
            continue
        for word in text.split():
            pair = read(word)
            if pair is None or pair not in possible:
                raise ValueError(f"{name}: {word!r} is no pair here; write pairs as {_example(every)}, or all, or rest")
            if pair in found:
                raise ValueError(f"{name}: {word} is {found[pair]} and {value}; leave one")
            found[pair] = value
    wide = [value for value, text in table.items() if text in (ALL, REST)]
    if len(wide) > 1 or (found and ALL in table.values()):
        raise ValueError(f"{name}: only one value can have all pairs, or the rest of them")
    return {**dict.fromkeys(every, wide[0]), **found} if wide else found


def _example(every: Sequence[GpuPair] | Sequence[NicPair]) -> str:
    return "-".join(map(str, every[0])) if every else "0-1"


def _gpu_pair(word: str) -> GpuPair | None:
    match = _PAIR.fullmatch(word)
    return (min(int(match[1]), int(match[2])), max(int(match[1]), int(match[2]))) if match else None


def _nic_pair(word: str) -> NicPair | None:
    match = _NIC_PAIR.fullmatch(word)
    return (int(match[1]), match[2]) if match else None
