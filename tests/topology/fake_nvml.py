"""An NVML of canned answers: the functions, errors and constants of ``pynvml`` that we use, under its names."""
# ruff: noqa: N801, N802, N818

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace


class NVMLError(Exception):
    """The base of NVML's errors; the text is the driver's."""


class NVMLError_NotSupported(NVMLError):
    pass


class NVMLError_NoPermission(NVMLError):
    pass


class NVMLError_InvalidArgument(NVMLError):
    pass


class NVMLError_GpuIsLost(NVMLError):
    pass


class NVMLError_LibraryNotFound(NVMLError):
    pass


class NVMLError_DriverNotLoaded(NVMLError):
    pass


class NVMLError_LibRmVersionMismatch(NVMLError):
    pass


Failure = NVMLError

GPU, NPU, SWITCH, UNKNOWN = 0, 1, 2, 0xFF


@dataclass
class Card:
    """One GPU: an answer is a value, or the error to raise. ``links``: where each ends, None for one that is down."""

    uuid: str
    address: str
    links: Sequence[tuple[int, str] | NVMLError | None] = ()
    handle: object = None
    answers: dict[str, object] = field(
        default_factory=lambda: {
            "Name": "NVIDIA H100 80GB HBM3",
            "MemoryInfo": SimpleNamespace(total=85520809984),
            "CurrPcieLinkGeneration": 1,
            "CurrPcieLinkWidth": 16,
            "MaxPcieLinkGeneration": 5,
            "MaxPcieLinkWidth": 16,
            "CpuAffinity": [0xFFFF, 0xFFFF],
        }
    )


class FakeNvml:
    """Stands for the module. ``ancestors`` gives the level of pairs that are not 50 (SYS)."""

    NVMLError = NVMLError
    NVMLError_NotSupported = NVMLError_NotSupported
    NVMLError_NoPermission = NVMLError_NoPermission
    NVMLError_InvalidArgument = NVMLError_InvalidArgument
    NVMLError_GpuIsLost = NVMLError_GpuIsLost
    NVMLError_LibraryNotFound = NVMLError_LibraryNotFound
    NVMLError_DriverNotLoaded = NVMLError_DriverNotLoaded
    NVMLError_LibRmVersionMismatch = NVMLError_LibRmVersionMismatch
    NVML_FEATURE_ENABLED = 1
    NVML_NVLINK_MAX_LINKS = 36
    NVML_NVLINK_DEVICE_TYPE_GPU = GPU
    NVML_NVLINK_DEVICE_TYPE_IBMNPU = NPU
    NVML_NVLINK_DEVICE_TYPE_SWITCH = SWITCH

    def __init__(
        self,
        cards: Sequence[Card] = (),
        *,
        ancestors: dict[tuple[int, int], object] | None = None,
        init: Failure | None = None,
    ) -> None:
        self.cards, self.ancestors, self.init = list(cards), ancestors or {}, init
        self.open = 0

    def nvmlInit(self) -> None:
        if self.init:
            raise self.init
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:
        given(self.cards[index].handle)
        return self.cards[index]

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"570.86.15"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 12080

    def nvmlDeviceGetUUID(self, card: Card) -> str:
        return card.uuid

    def nvmlDeviceGetPciInfo(self, card: Card) -> object:
        return SimpleNamespace(busId=given(card.answers.get("PciInfo", card.address.encode())))

    def nvmlDeviceGetNvLinkState(self, card: Card, link: int) -> int:
        if link >= len(card.links):
            raise NVMLError_InvalidArgument("Invalid Argument")
        return 0 if given(card.links[link]) is None else 1

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, card: Card, link: int) -> int:
        end = card.links[link]
        assert isinstance(end, tuple)
        return end[0]

    def nvmlDeviceGetNvLinkRemotePciInfo(self, card: Card, link: int) -> object:
        end = card.links[link]
        assert isinstance(end, tuple)
        return SimpleNamespace(busId=end[1])

    def nvmlDeviceGetTopologyCommonAncestor(self, a: Card, b: Card) -> object:
        first, second = sorted((self.cards.index(a), self.cards.index(b)))
        return given(self.ancestors.get((first, second), 50))

    def __getattr__(self, name: str) -> object:
        prefix = "nvmlDeviceGet"
        if not name.startswith(prefix):
            raise AttributeError(name)
        return lambda card, *args: given(card.answers[name.removeprefix(prefix)])


def given(answer: object) -> object:
    """The answer, raised where it is an error."""
    if isinstance(answer, NVMLError):
        raise answer
    return answer


def bus(index: int) -> str:
    """The driver's spelling of the PCI address of a card."""
    return f"00000000:{0x1B + index:02X}:00.0"


def cards(count: int, links: Sequence[tuple[int, str] | NVMLError | None] = ()) -> list[Card]:
    """Cards alike, each with the same links."""
    return [Card(uuid=f"GPU-{index:08x}-aaaa", address=bus(index), links=list(links)) for index in range(count)]
