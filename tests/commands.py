"""The ``gpuwire`` command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def gpuwire(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it in a folder, with a lock and a user's data of its own."""
    code = "from gpuwire_checks.cli import main; main()"
    own = {"GPUWIRE_LOCK": str(folder / "lock"), "XDG_DATA_HOME": str(folder / "data"), "CI": "true", "COLUMNS": "200"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, timeout=100, check=False
    )
