"""What a terminal, a launcher or a forum puts around a tool's lines, taken off again."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\([A-Z0-9]|\[\d{1,2}m")
_MARKS = str.maketrans({"\ufeff": None, "`": None, "*": None, "\r": None, "\u2502": "|", "\u00a0": " "})
_AHEAD = re.compile(r"\s*(?:>+|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,40})(?=\s)")
_LAUNCHER = re.compile(
    r"""\s*(
      \d{1,6}:(?=\s)                                        # srun --label
    | \[[^\]\s]{0,80}\d,\d{1,6}\]<std(?:out|err)>:          # mpirun --tag-output
    | \[(?:rank|default)?\d{1,6}\]:                         # torchrun
    | \([^()]{1,80}\bpid=\d{1,9}[^()]{0,80}\)               # ray
    | (?!NIC\d|GPU?\d)[A-Za-z][\w.-]{0,62}:(?=\s)           # pdsh, clush
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_LABELS_AT_MOST = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A line without escapes: its number (from 1), the launcher's label, and the rest as it stood."""

    number: int
    launcher: str
    text: str


def without_marks(raw: str) -> str:
    """A line without terminal escapes, quoting marks of a forum, and blanks at its end."""
    return _ESCAPE.sub("", raw.translate(_MARKS)).rstrip()


def split_launcher(text: str) -> tuple[str, str]:
    """The label that srun, mpirun, torchrun, ray or pdsh put before a line, and the line; a time stamp is dropped.

    A word with a colon (``node7:``) is such a label too, so ask only where the tool itself starts no line like that.
    """
    launcher = ""
    for _ in range(_LABELS_AT_MOST):
        if ahead := _AHEAD.match(text):
            text = text[ahead.end() :]
        elif label := _LAUNCHER.match(text):
            launcher, text = launcher + label[1], text[label.end() :]
        else:
            break
    return launcher, text
