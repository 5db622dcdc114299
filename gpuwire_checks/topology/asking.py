"""Questions to NVML, one value at a time: the answer, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuwire_checks.topology.model import Doubt, Unread

_LOST = " (the kernel log has its Xid; reset the GPU or reboot the node)"
_VALUE_TYPES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
"""nvmlValueType_t: the member of nvmlValue_t that holds the value."""
_LACKING = {13: Unread.UNKNOWN, 25: Unread.UNKNOWN, 26: Unread.NOT_SUPPORTED}
"""NVML_ERROR_FUNCTION_NOT_FOUND, _ARGUMENT_VERSION_MISMATCH and _DEPRECATED, by what they leave of a value: the driver
does not have the function, or not with the structure that these bindings know, or has it no longer."""


class Asker:
    """Asks NVML one value at a time, and keeps what it refused without a reason in the hardware.

    A function that these bindings or this driver lack leaves its value *unknown* without a doubt: it is no fault of a
    GPU. A GPU that was lost is not asked again: each question to one may wait for a time-out.
    """

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self._refused: dict[tuple[int | None, str], list[str]] = {}
        self._lost: set[int | None] = set()

    def ask(self, device: int | None, what: str | None, function: str, *args: object) -> Any:
        """What ``function`` returns, or why there is nothing.

        Args:
            device: the driver's number, None for the driver itself.
            what: how a doubt names the value; None keeps none.
        """
        return self.ask_first(device, what, (function, *args))

    def ask_first(self, device: int | None, what: str | None, *calls: tuple[Any, ...]) -> Any:
        """The answer of the first of ``calls``, each a function's name and arguments, that bindings and driver have."""
        if device in self._lost:
            return Unread.UNKNOWN
        reason = Unread.UNKNOWN
        for name, *args in calls:
            function = getattr(self.nvml, name, None)
            if function is None:
                continue
            try:
                return function(*args)
            except self.nvml.NVMLError as error:
                reason = self._reason(device, what, error)
                if error.value not in _LACKING:
                    break
        return reason

    def ask_in_range(self, device: int, what: str, function: str, *args: object) -> Any:
        """As ``ask``; None when NVML calls an argument invalid, as past a GPU's last link."""
        try:
            return self._call(function, args, (device,))
        except self.nvml.NVMLError_InvalidArgument:
            return None
        except self.nvml.NVMLError as error:
            return self._reason(device, what, error)

    def ask_pair(self, a: int, b: int, what: str, function: str, *args: object) -> Any:
        """As ``ask``, of two devices: an error is told of ``a``, and a loss marks neither, for it may be either."""
        try:
            return self._call(function, args, (a, b))
        except self.nvml.NVMLError_GpuIsLost as error:
            self.refuse(a, what, f"{error}, this one or its peer")
            return Unread.UNKNOWN
        except self.nvml.NVMLError as error:
            return self._reason(a, what, error)

    def _call(self, function: str, args: Sequence[object], devices: Sequence[int]) -> Any:
        call = getattr(self.nvml, function, None)
        return Unread.UNKNOWN if call is None or self._lost.intersection(devices) else call(*args)

    def fields(
        self, device: int | None, what: str, handle: object, ids: Sequence[tuple[int, int]]
    ) -> tuple[int | Unread, ...]:
        """The values of NVML's fields, each named by its id and its scope (a link), in the order of ``ids``.

        An id or a link that this driver does not know is *not supported*.
        """
        if not ids:
            return ()
        answer = self.ask(device, what, "nvmlDeviceGetFieldValues", handle, list(ids))
        if isinstance(answer, Unread):
            return (answer,) * len(ids)
        return tuple(self._field(device, what, value) for value in answer)

    def _field(self, device: int | None, what: str, value: Any) -> int | Unread:
        if value.nvmlReturn:
            error = self.nvml.NVMLError(value.nvmlReturn)
            if isinstance(error, self.nvml.NVMLError_InvalidArgument):
                return Unread.NOT_SUPPORTED
            return self._reason(device, what, error)
        if value.valueType not in _VALUE_TYPES:
            self.refuse(device, what, f"a value of type {value.valueType}, which is none on record")
            return Unread.UNKNOWN
        return int(getattr(value.value, _VALUE_TYPES[value.valueType]))

    def _reason(self, device: int | None, what: str | None, error: Any) -> Unread:
        nvml = self.nvml
        if isinstance(error, nvml.NVMLError_NotSupported):
            return Unread.NOT_SUPPORTED
        if isinstance(error, nvml.NVMLError_NoPermission):
            return Unread.NO_PERMISSION
        if error.value in _LACKING:
            return _LACKING[error.value]
        lost = isinstance(error, nvml.NVMLError_GpuIsLost)
        if lost:
            self._lost.add(device)
        if what is not None or lost:
            self.refuse(device, what or "everything", f"{error}{_LOST if lost else ''}")
        return Unread.UNKNOWN

    def is_lost(self, device: int) -> bool:
        return device in self._lost

    def refuse(self, device: int | None, what: str, reason: str) -> None:
        """Keep that ``what`` of a device could not be read, once."""
        unread = self._refused.setdefault((device, reason), [])
        if what not in unread:
            unread.append(what)

    def doubts(self, chosen: tuple[int, ...]) -> tuple[Doubt, ...]:
        """One for each reason and what it left unread, with all devices it holds for, by the names they have here."""
        names: dict[int | None, str] = {device: f"GPU{index}" for index, device in enumerate(chosen)}
        names[None] = "driver"
        alike: dict[tuple[str, str], list[str]] = {}
        for (device, reason), unread in self._refused.items():
            rest = " and all after it" if device in self._lost and reason.endswith(_LOST) else ""
            whole = "everything" in unread
            text = "everything" if whole else ", ".join(unread) + rest
            alike.setdefault((reason, text), []).append(names.get(device, f"hidden GPU {device}"))
        return tuple(
            Doubt(line=None, text=f"{', '.join(parts)}: {reason}; unread: {unread}")
            for (reason, unread), parts in alike.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU to ask.

    Attributes:
        number: the driver's; ``index`` is ours, after CUDA_VISIBLE_DEVICES.
        handle: NVML's, or why there is none; every question has that answer then.
    """

    asker: Asker
    number: int
    index: int
    handle: Any

    @property
    def name(self) -> str:
        return f"GPU{self.index}"

    def ask(self, what: str | None, function: str, *args: object) -> Any:
        return self.ask_first(what, (function, *args))

    def ask_first(self, what: str | None, *calls: tuple[Any, ...]) -> Any:
        """As ``Asker.ask_first``, with the handle before the arguments of each call."""
        if isinstance(self.handle, Unread):
            return self.handle
        return self.asker.ask_first(self.number, what, *((name, self.handle, *args) for name, *args in calls))

    def ask_in_range(self, what: str, function: str, *args: object) -> Any:
        if isinstance(self.handle, Unread):
            return self.handle
        return self.asker.ask_in_range(self.number, what, function, self.handle, *args)

    def fields(self, what: str, ids: Sequence[tuple[int, int]]) -> tuple[int | Unread, ...]:
        if isinstance(self.handle, Unread):
            return (self.handle,) * len(ids)
        return self.asker.fields(self.number, what, self.handle, ids)

    def refuse(self, what: str, reason: str) -> None:
        self.asker.refuse(self.number, what, reason)


def word(value: str | bytes | Unread) -> str | Unread:
    """Text, which older bindings give as bytes; *unknown* when it is empty."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return text or Unread.UNKNOWN
