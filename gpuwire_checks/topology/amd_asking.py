"""Questions to amdsmi, one value at a time: the answer, or why there is none."""

from __future__ import annotations

from typing import Any

from gpuwire_checks.topology.model import Doubt, Unread

_NOT_SUPPORTED, _NOT_YET_IMPLEMENTED, _NO_PERM = 2, 3, 10
"""amdsmi_status_t (ROCm/amdsmi, include/amd_smi/amdsmi.h)."""
_REASONS: dict[int | None, Unread] = {
    _NOT_SUPPORTED: Unread.NOT_SUPPORTED,
    _NOT_YET_IMPLEMENTED: Unread.NOT_SUPPORTED,
    _NO_PERM: Unread.NO_PERMISSION,
}


class AmdAsker:
    """Asks amdsmi one value at a time, and keeps what it refused without a reason in the hardware."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self._refused: dict[tuple[str | None, str], list[str]] = {}

    def ask(self, device: str | None, what: str, function: str, *args: object) -> Any:
        """The value, or why it is not there; *unknown* where this amdsmi has no such function.

        Args:
            device: the GPU's name, None for the library itself.
            function: its name in amdsmi.
        """
        call = getattr(self.library, function, None)
        if call is None:
            return Unread.UNKNOWN
        try:
            return call(*args)
        except self.library.AmdSmiLibraryException as error:
            reason = _REASONS.get(error.get_error_code())
            if reason is None:
                self._refused.setdefault((device, _words(error)), []).append(what)
            return reason or Unread.UNKNOWN

    def doubts(self) -> tuple[Doubt, ...]:
        """One for each device and reason."""
        return tuple(
            Doubt(line=None, text=f"{device or 'driver'}: {reason}; unread: {', '.join(what)}")
            for (device, reason), what in self._refused.items()
        )


def reason_of(error: Exception) -> Unread:
    """Why amdsmi told nothing: *unknown* where its error is none that says."""
    return _REASONS.get(getattr(error, "err_code", None), Unread.UNKNOWN)


def told(error: Exception) -> str:
    """An error in one line: amdsmi's text of it has two."""
    return " ".join(str(error).split())


def _words(error: Any) -> str:
    return str(error.get_error_info(detailed=False))


def word(answer: Any, key: str) -> str | Unread:
    """A text of an answer; ``N/A``, amdsmi's word for a value that the GPU does not have, is *not supported*."""
    if isinstance(answer, Unread):
        return answer
    value = answer.get(key)
    if value in (None, ""):
        return Unread.UNKNOWN
    return Unread.NOT_SUPPORTED if value == "N/A" else str(value)


def number(answer: Any, key: str) -> int | Unread:
    """A whole number of an answer, likewise."""
    found = word(answer, key)
    if isinstance(found, Unread):
        return found
    return int(found) if found.isdecimal() else Unread.UNKNOWN
