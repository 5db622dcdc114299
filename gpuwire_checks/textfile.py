"""Text files that people give us: bounded in size, and told apart from what is no text."""

from __future__ import annotations

import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path

from gpuwire_checks.errors import GpuwireError

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""What UTF-16 begins with; PowerShell's ``>`` writes it."""


def read_text(path: Path, *, max_bytes: int, error: type[GpuwireError]) -> str:
    """The text of a file, without a byte order mark.

    Raises:
        GpuwireError: of the class ``error``: it cannot be read, is longer than ``max_bytes``, or is not UTF-8.
    """
    try:
        data = _read(path, max_bytes + 1)
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise error(f"cannot read {path}: {reason}") from problem
    if data is None:
        raise error(f"cannot read {path}: a pipe that nothing writes to; save the output in a file and give that")
    if len(data) > max_bytes:
        raise error(f"{path}: more than {max_bytes} bytes; such a file is not read: give only what is asked about")
    if data.startswith(_UTF16):
        raise error(f"{path}:1: UTF-16 text; save it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE")
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        raise error(
            f"{path}:{line}: not UTF-8 text (byte {problem.start}); save it again, or remove those bytes"
        ) from problem


def _read(path: Path, at_most: int) -> bytes | None:
    """The first bytes of a file; None for a pipe without a writer, which would be waited for without end."""
    # A plain open of such a pipe waits as well.
    with BufferedReader(FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))) as file:
        begun: bytes | None = b""
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            begun = file.raw.read(1)  # None where a writer is there, and has not written yet
            if begun == b"":
                return None
        os.set_blocking(file.fileno(), True)
        return (begun or b"") + file.read(at_most - len(begun or b""))
