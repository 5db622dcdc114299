"""The folder that a run leaves what it made in."""

from __future__ import annotations

import secrets
import shutil
import socket
from datetime import datetime, timezone
from pathlib import Path

from gpuwire_checks.errors import ConfigError


def new_run_folder(parent: Path) -> Path:
    """A new folder for a run, named by its time and host.

    Raises:
        ConfigError: it cannot be made.
    """
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    folder = parent / f"{stamp}-{socket.gethostname()}-{secrets.token_hex(2)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make the run folder {folder}: {error.strerror}; choose another place with --gpuwire-run-dir"
        ) from error
    return folder


def remove_unused(folder: Path) -> None:
    """Remove a run folder that no run document was begun in: it holds nothing but the logs of ranks never asked."""
    if not (folder / "run.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
