"""One run at a time on a node: two would measure each other."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwire_checks.errors import ConfigError

if TYPE_CHECKING:
    from filelock import FileLock

LOCK_VARIABLE = "GPUWIRE_LOCK"


class NodeLock:
    """The node's lock, held from ``acquire`` to ``release``; the kernel frees it when the process ends."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or Path(os.environ.get(LOCK_VARIABLE) or Path(tempfile.gettempdir()) / "gpuwire.lock")
        self._lock: FileLock | None = None
        self._owner = self.path.with_name(f"{self.path.name}.owner-{os.getpid()}")

    def acquire(self, *, run: str) -> None:
        """Take the lock, or say who has it.

        Raises:
            ConfigError: another run has it, or the lock file cannot be used.
        """
        from filelock import FileLock, Timeout  # noqa: PLC0415 - 30 ms, for which ranks need not wait to be started

        # Everybody on the node must be able to take it, whoever made it first.
        self._lock = FileLock(self.path, mode=0o666)
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise ConfigError(
                f"another gpuwire run is on this node: {self._holder()}; wait for it, or stop it"
            ) from error
        except OSError as error:
            raise ConfigError(
                f"cannot lock {self.path}: {error.strerror}; set {LOCK_VARIABLE} to another path"
            ) from error
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._owner.write_text(json.dumps({"pid": os.getpid(), "started": started, "run": run}))

    def release(self) -> None:
        """Give the lock back."""
        if self._lock is not None and self._lock.is_locked:
            self._owner.unlink(missing_ok=True)
            self._lock.release()

    def _holder(self) -> str:
        import psutil  # noqa: PLC0415 - only to tell who is in the way

        for file in self.path.parent.glob(f"{self.path.name}.owner-*"):
            try:
                owner = json.loads(file.read_text())
                if psutil.pid_exists(owner["pid"]):
                    return f"pid {owner['pid']}, started {owner['started']}, run {owner['run']}"
            except (OSError, ValueError, KeyError):
                continue  # being written or removed at this moment
        return f"the holder of {self.path}"
