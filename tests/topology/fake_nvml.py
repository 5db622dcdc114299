"""An NVML of canned answers: the functions, errors and constants of ``pynvml`` that we use, under its names.

Every fault has its place: a card that is ``lost``; an answer, a wire's state or speed, a pair's path or P2P status that
is an error or another value; a function that fails on every card (``faults``) or that the bindings lack (``missing``).
Cards are plain and may be changed between two calls, so that counters grow.
"""
# ruff: noqa: N801, N802, N818

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """The base of NVML's errors; the text is the driver's. As in pynvml, the base made of a code is its subclass."""

    code = 999

    def __new__(cls, text: object = "Unknown Error") -> NVMLError:
        alike = [kind for kind in NVMLError.__subclasses__() if kind.code == text]
        return super().__new__(alike[0] if alike else cls)

    def __str__(self) -> str:
        text = self.args[0] if self.args else ""
        return f"error {text}" if isinstance(text, int) else str(text)

    @property
    def value(self) -> int:
        return self.code


class NVMLError_InvalidArgument(NVMLError):
    code = 2


class NVMLError_NotSupported(NVMLError):
    code = 3


class NVMLError_NoPermission(NVMLError):
    code = 4


class NVMLError_DriverNotLoaded(NVMLError):
    code = 9


class NVMLError_LibraryNotFound(NVMLError):
    code = 12


class NVMLError_FunctionNotFound(NVMLError):
    code = 13


class NVMLError_GpuIsLost(NVMLError):
    code = 15


class NVMLError_LibRmVersionMismatch(NVMLError):
    code = 18


class NVMLError_ArgumentVersionMismatch(NVMLError):
    code = 25


class NVMLError_Deprecated(NVMLError):
    code = 26


Failure = NVMLError

GPU, NPU, SWITCH, UNKNOWN = 0, 1, 2, 0xFF
FABRIC_INFO_V2 = 0x02000024
HGX_FABRIC: dict[str, object] = {"state": 3, "status": 0, "cliqueId": 0, "healthMask": 0b10101010}


@dataclass
class Wire:
    """A link: where it ends, and what is read of it; each value may be the error to raise.

    Attributes:
        state: 1 is up.
        speed: MB/s as the driver prints them.
        errors: by nvmlNvLinkErrorCounter_t.
        told: whether the driver tells where it ends.
    """

    kind: object = SWITCH
    address: str = "00000000:C0:00.0"
    state: object = 1
    speed: object = 26562
    version: object = 6
    errors: dict[int, object] = field(default_factory=lambda: {0: 0, 1: 0, 2: 0, 3: 0})
    told: bool = True


Link = Wire | tuple[int, str] | NVMLError | None
"""A pair is a wire's kind and address; None is down, an error is that of its state."""


def h100() -> dict[str, object]:
    """What a healthy idle H100 answers, by the name of the function after ``nvmlDeviceGet``."""
    return {
        "Name": "NVIDIA H100 80GB HBM3",
        "Serial": "1650000000001",
        "VbiosVersion": "96.00.74.00.01",
        "Architecture": 9,
        "MemoryInfo": SimpleNamespace(total=85520809984),
        "CurrPcieLinkGeneration": 1,
        "CurrPcieLinkWidth": 16,
        "MaxPcieLinkGeneration": 5,
        "MaxPcieLinkWidth": 16,
        "CpuAffinity": [0xFFFF, 0xFFFF],
        "EccMode": [1, 1],
        "PersistenceMode": 1,
        "MigMode": [0, 0],
        "RemappedRows": (0, 0, 0, 0),
        "PerformanceState": 0,
        "CurrentClocksEventReasons": 0x1,
        "TemperatureV": {(0,): 31},
        "MarginTemperature": 56,
        "PcieReplayCounter": 0,
        "TotalEccErrors": {(0, 0): 0, (1, 0): 0},
        "ViolationStatus": NVMLError_NotSupported("Not Supported"),
    }


@dataclass
class Card:
    """One GPU.

    Attributes:
        links: where each ends.
        answers: a value, a table of values by arguments, or the error to raise.
        fields: by id, or by id and scope; what is not here is not supported.
        fabric: members of nvmlGpuFabricInfo_v2_t; the default is a healthy HGX board.
    """

    uuid: str
    address: str
    links: Sequence[Link] = ()
    handle: object = None
    lost: bool = False
    answers: dict[str, object] = field(default_factory=h100)
    fields: dict[int | tuple[int, int], object] = field(
        default_factory=lambda: dict.fromkeys((74, 75, 76, 251, 252, 253), 0)
    )
    fabric: dict[str, object] | NVMLError = field(default_factory=lambda: dict(HGX_FABRIC))


def answer(state: dict[str, Any], name: str, call: Callable[..., object], args: tuple[Any, ...]) -> object:
    """What a function of the fake says: a fault that was put in, the loss of a GPU, or its answer."""
    state["calls"] += 1
    if name in state["faults"]:
        raise state["faults"][name]
    for arg in args:
        if isinstance(arg, Card) and arg.lost:
            raise NVMLError_GpuIsLost("GPU is lost")
    return call(*args)


class FakeNvml:
    """Stands for the module.

    Attributes:
        ancestors: the level of pairs that are not 50 (SYS).
        peers: the P2P status of ordered pairs that is not 0 (OK), of one capability where that is named third.
    """

    NVMLError = NVMLError
    NVMLError_NotSupported = NVMLError_NotSupported
    NVMLError_NoPermission = NVMLError_NoPermission
    NVMLError_InvalidArgument = NVMLError_InvalidArgument
    NVMLError_GpuIsLost = NVMLError_GpuIsLost
    NVMLError_FunctionNotFound = NVMLError_FunctionNotFound
    NVMLError_LibraryNotFound = NVMLError_LibraryNotFound
    NVMLError_DriverNotLoaded = NVMLError_DriverNotLoaded
    NVMLError_LibRmVersionMismatch = NVMLError_LibRmVersionMismatch
    NVML_NVLINK_MAX_LINKS = 36

    def __init__(
        self,
        cards: Sequence[Card] = (),
        *,
        ancestors: dict[tuple[int, int], object] | None = None,
        peers: dict[tuple[int, ...], object] | None = None,
        init: Failure | None = None,
        driver: str = "570.86.15",
        missing: Collection[str] = (),
        faults: Mapping[str, Failure] | None = None,
    ) -> None:
        self.cards, self.ancestors, self.peers, self.init = list(cards), ancestors or {}, peers or {}, init
        self.driver, self.missing, self.faults = driver, frozenset(missing), dict(faults or {})
        self.open, self.starts, self.calls = 0, 0, 0

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__
        if not name.startswith("nvmlDevice"):
            return found(self, name)
        # Through the dictionary: what the fake takes is in the benchmark's figure.
        state = found(self, "__dict__")
        if name in state["missing"]:
            raise AttributeError(name)
        prefix = "nvmlDeviceGet"
        known = name in vars(FakeNvml)
        call = found(self, name) if known else lambda card, *args: canned(card.answers[name.removeprefix(prefix)], args)
        return lambda *args: answer(state, name, call, args)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def nvmlInit(self) -> None:
        if self.init:
            raise self.init
        self.open += 1
        self.starts += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        given(self.cards[index].handle)
        return self.cards[index]

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return self.driver.encode()

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 12080

    def nvmlDeviceGetUUID(self, card: Card) -> str:
        return card.uuid

    def nvmlDeviceGetPciInfo(self, card: Card) -> object:
        return SimpleNamespace(busId=given(card.answers.get("PciInfo", card.address.encode())))

    def nvmlDeviceGetNvLinkState(self, card: Card, link: int) -> object:
        return given(wire(card, link).state)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, card: Card, link: int) -> object:
        end = wire(card, link)
        return given(end.kind if end.told else NVMLError_InvalidArgument("Invalid Argument"))

    def nvmlDeviceGetNvLinkRemotePciInfo(self, card: Card, link: int) -> object:
        end = wire(card, link)
        return SimpleNamespace(busId=given(end.address if end.told else NVMLError("Unknown Error")))

    def nvmlDeviceGetNvLinkVersion(self, card: Card, link: int) -> object:
        return given(wire(card, link).version)

    def nvmlDeviceGetNvLinkErrorCounter(self, card: Card, link: int, counter: int) -> object:
        return given(wire(card, link).errors[counter])

    def nvmlDeviceGetFieldValues(self, card: Card, ids: list[tuple[int, int]]) -> list[object]:
        return [self._field(card, number, scope) for number, scope in ids]

    def _field(self, card: Card, number: int, scope: int) -> object:
        absent: object = NVMLError_NotSupported("Not Supported")
        if number == 164 and scope < len(card.links):
            absent = wire(card, scope).speed
        answer = card.fields.get((number, scope), card.fields.get(number, absent))
        failed = answer.code if isinstance(answer, NVMLError) else 0
        value = SimpleNamespace(ullVal=0 if failed else answer)
        return SimpleNamespace(fieldId=number, scopeId=scope, nvmlReturn=failed, valueType=3, value=value)

    def nvmlDeviceGetGpuFabricInfoV(self, card: Card, reference: Any) -> int:
        assert reference._obj.version == FABRIC_INFO_V2
        return self._fabric(card, reference)

    def nvmlDeviceGetGpuFabricInfo(self, card: Card, reference: Any) -> int:
        return self._fabric(card, reference)

    def _fabric(self, card: Card, reference: Any) -> int:
        given(card.fabric)
        assert not isinstance(card.fabric, NVMLError)
        for name, value in card.fabric.items():
            array = type(reference._obj.clusterUuid)
            setattr(reference._obj, name, array(*value) if isinstance(value, bytes) else value)
        return 0

    def nvmlDeviceGetTopologyCommonAncestor(self, a: Card, b: Card) -> object:
        first, second = sorted((self._place(a), self._place(b)))
        return given(self.ancestors.get((first, second), 50))

    def nvmlDeviceGetP2PStatus(self, a: Card, b: Card, capability: int) -> object:
        pair = (self._place(a), self._place(b))
        return given(self.peers.get((*pair, capability), self.peers.get(pair, 0)))

    def _place(self, card: Card) -> int:
        return next(place for place, other in enumerate(self.cards) if other is card)


def wire(card: Card, link: int) -> Wire:
    """A link of a card; past its last, the error that ends the loop."""
    if link >= len(card.links):
        raise NVMLError_InvalidArgument("Invalid Argument")
    end = card.links[link]
    if isinstance(end, Wire):
        return end
    if isinstance(end, tuple):
        return Wire(kind=end[0], address=end[1])
    return Wire(state=0 if end is None else end, told=False)


def given(answer: object) -> object:
    """The answer, raised where it is an error."""
    if isinstance(answer, NVMLError):
        raise answer
    return answer


def canned(answer: object, args: tuple[object, ...]) -> object:
    """The answer to these arguments."""
    return given(answer[args] if isinstance(answer, dict) else answer)


def bus(index: int) -> str:
    """The driver's spelling of the PCI address of a card."""
    return f"00000000:{0x1B + index:02X}:00.0"


def cards(count: int, links: Sequence[Link] = ()) -> list[Card]:
    """Cards alike, each with the same links."""
    return [Card(uuid=f"GPU-{index:08x}-aaaa", address=bus(index), links=list(links)) for index in range(count)]
