"""Text files that people give us: bounded in size, and told apart from what is no text."""

from __future__ import annotations

from pathlib import Path

from gpuwire_checks.errors import GpuwireError


def read_text(path: Path, *, max_bytes: int, error: type[GpuwireError]) -> str:
    """The text of a file.

    Raises:
        GpuwireError: of the class ``error``: it cannot be read, is longer than ``max_bytes``, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as problem:
        raise error(f"cannot read {path}: {problem.strerror}") from problem
    if len(data) > max_bytes:
        raise error(f"{path}: more than {max_bytes} bytes; such a file is not read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        raise error(f"{path}:{line}: not UTF-8 text (byte {problem.start})") from problem
