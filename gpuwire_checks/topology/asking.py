"""Questions to NVML, one value at a time: the answer, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gpuwire_checks.topology.model import Doubt, Unread

_T = TypeVar("_T")
_LOST = " (the kernel log has its Xid; reset the GPU or reboot the node)"


class Asker:
    """Asks NVML one value at a time, and keeps what it refused without a reason in the hardware."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self._refused: dict[tuple[int | None, str], list[str]] = {}

    def ask(self, device: int | None, what: str, call: Callable[..., _T], *args: object) -> _T | Unread:
        """The value, or why it is not there. ``device`` is the driver's number, None for the driver itself."""
        try:
            return call(*args)
        except self.nvml.NVMLError_NotSupported:
            return Unread.NOT_SUPPORTED
        except self.nvml.NVMLError_NoPermission:
            return Unread.NO_PERMISSION
        except self.nvml.NVMLError as error:
            return self.fail(device, what, error)

    def fail(self, device: int | None, what: str, error: Exception) -> Unread:
        lost = isinstance(error, self.nvml.NVMLError_GpuIsLost)
        self.refuse(device, what, f"{error}{_LOST if lost else ''}")
        return Unread.UNKNOWN

    def refuse(self, device: int | None, what: str, reason: str) -> None:
        self._refused.setdefault((device, reason), []).append(what)

    def doubts(self, chosen: tuple[int, ...]) -> tuple[Doubt, ...]:
        """One for each device and reason, under the name that the device has here."""
        names: dict[int | None, str] = {device: f"GPU{index}" for index, device in enumerate(chosen)}
        names[None] = "driver"
        return tuple(
            Doubt(line=None, text=f"{names.get(device, f'hidden GPU {device}')}: {reason}; unread: {', '.join(what)}")
            for (device, reason), what in self._refused.items()
        )
