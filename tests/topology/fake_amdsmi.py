"""An amdsmi of canned answers: the functions, errors and constants of ``amdsmi`` that we use, under its names."""
# ruff: noqa: N818

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

NOT_SUPPORTED, NO_PERM, BUSY = 2, 10, 30
PCIE, XGMI = 1, 2
"""amdsmi_link_type_t since amdsmi 7, and amdsmi_io_link_type_t of the pairs before; a link's own type was 2, 1."""


class AmdSmiException(Exception):
    """The base of amdsmi's errors."""


class AmdSmiLibraryException(AmdSmiException):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.err_code = code

    def __str__(self) -> str:
        return f"Error code:\n\t{self.err_code} | {self.get_error_info()}"

    def get_error_code(self) -> int:
        return self.err_code

    def get_error_info(self, detailed: bool = True) -> str:
        return f"AMDSMI_STATUS_{self.err_code}" + (" - details" if detailed else "")


@dataclass
class Card:
    """One GPU: an answer is a value, or the error to raise."""

    bdf: str
    uuid: str
    node: int
    answers: dict[str, object] = field(
        default_factory=lambda: {
            "gpu_asic_info": {"market_name": "AMD Instinct MI300X", "asic_serial": "0x0123"},
            "gpu_vram_info": {"vram_size": 196592},
            "pcie_info": {
                "pcie_static": {"max_pcie_speed": 32000, "max_pcie_width": 16},
                "pcie_metric": {"pcie_speed": 32000, "pcie_width": 16, "pcie_replay_count": 7},
            },
            "gpu_ecc_enabled": 0x6FFF,
            "gpu_total_ecc_count": {"correctable_count": 3, "uncorrectable_count": 0},
            "gpu_vbios_info": {"version": "022.040.003"},
            "gpu_driver_info": {"driver_version": "6.12.12"},
        }
    )


class FakeAmdSmi:
    """Stands for the module: cards joined by one xGMI link a pair, unless ``joined`` says less."""

    AmdSmiException = AmdSmiException
    AmdSmiLibraryException = AmdSmiLibraryException
    AmdSmiLinkType = SimpleNamespace(AMDSMI_LINK_TYPE_XGMI=XGMI, AMDSMI_LINK_TYPE_PCIE=PCIE)

    def __init__(
        self, cards: Sequence[Card], *, joined: bool = True, init: Exception | None = None, no_peers: bool = False
    ) -> None:
        self.cards, self.joined, self.init, self.no_peers = list(cards), joined, init, no_peers
        self.down: set[tuple[str, str]] = set()
        self.links: list[dict[str, object]] | None = None
        self.open = 0

    def amdsmi_init(self) -> None:
        if self.init:
            raise self.init
        self.open += 1

    def amdsmi_shut_down(self) -> None:
        self.open -= 1

    def amdsmi_get_processor_handles(self) -> list[Card]:
        return self.cards

    def amdsmi_get_gpu_kfd_info(self, card: Card) -> dict[str, object]:
        return {"node_id": card.node}

    def amdsmi_get_gpu_device_uuid(self, card: Card) -> str:
        return card.uuid

    def amdsmi_get_gpu_device_bdf(self, card: Card) -> str:
        return card.bdf

    def amdsmi_topo_get_numa_node_number(self, card: Card) -> object:
        return given(card.answers.get("numa", 0))

    def amdsmi_topo_get_link_type(self, _a: Card, _b: Card) -> dict[str, int]:
        return {"hops": 1 if self.joined else 3, "type": XGMI if self.joined else PCIE}

    def amdsmi_topo_get_link_weight(self, _a: Card, _b: Card) -> int:
        return 15

    def amdsmi_is_P2P_accessible(self, _a: Card, _b: Card) -> bool:  # noqa: N802 - amdsmi's
        return not self.no_peers

    def amdsmi_get_link_metrics(self, card: Card) -> dict[str, object]:
        others = [other for other in self.cards if other is not card] if self.joined else []
        links: list[dict[str, object]] = [
            {
                "bdf": other.bdf,
                "bit_rate": 32,
                "max_bandwidth": 0 if (card.bdf, other.bdf) in self.down else 512,
                "link_type": XGMI,
            }
            for other in others
        ]
        links = links if self.links is None else self.links
        return {"num_links": len(links), "links": [*links, {"bdf": "0000:00:00.0", "link_type": 0, "max_bandwidth": 0}]}

    def __getattr__(self, name: str) -> Any:
        prefix = "amdsmi_get_"
        if not name.startswith(prefix) or not any(name.removeprefix(prefix) in c.answers for c in self.cards):
            raise AttributeError(name)
        return lambda card: given(card.answers[name.removeprefix(prefix)])


def given(answer: object) -> object:
    """The answer, raised where it is an error."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def cards(count: int) -> list[Card]:
    """Cards alike, in the order of their PCI addresses, and of KFD nodes."""
    return [_card(at) for at in range(count)]


def _card(at: int) -> Card:
    """The UUID is amdsmi's, made of serial number and device id; ROCr's name is the serial number."""
    card = Card(bdf=f"0000:{0x0C + at:02x}:00.0", uuid=f"{at:02x}ff74a1-0000-1000-80c2-1f0d00000000", node=at + 2)
    card.answers["gpu_asic_info"] = {"market_name": "AMD Instinct MI300X", "asic_serial": f"0x{0xC21F0D00 + at:016X}"}
    return card
