"""The output of nccl-tests, rccl-tests or NCCL 1's bench, as people paste it, to ``CollectiveLog``s."""

from __future__ import annotations

import re

from gpuwire_checks.recorded.model import CollectiveLog
from gpuwire_checks.recorded.nccl_log import collective_log
from gpuwire_checks.recorded.nccl_split import split_runs

_WORDS = (
    "Out of bounds values",
    "Avg bus bandwidth",
    "Collective test starting: ",
    "Collective test concluded: ",
    "Test NCCL failure",
    "Test CUDA failure",
    "not enough slots available",
)
_HEADER = re.compile(r"algbw[ \t|]{1,40}busbw")
_OPTIONS = re.compile(r"nThreads?:?[ \t]{1,8}[0-9]{1,6}[ \t]{1,8}nGpus:?[ \t]")
_RANK = re.compile(r"Rank[ \t]{1,8}[0-9]{1,7}[ \t]{1,8}(?:Group[ \t]{1,8}[0-9]{1,7}[ \t]{1,8})?(?:Pid[ \t]|on[ \t])")
_TYPES = "float|half|double|bfloat16|u?int(?:8|32|64)|f8e[45]m[23]|fp8_e[45]m[23]"
_ROW = re.compile(
    rf"[0-9][ \t|]{{1,40}}(?:{_TYPES})[ \t|]{{1,40}}(?:[a-z]{{3,9}}[ \t|]{{1,40}})?(?:-?[0-9]{{1,6}}[ \t|]{{1,40}})?"
    r"[0-9.]{4,9}[ \t|]{1,40}[0-9]{1,6}\.[0-9]{1,2}[ \t|]{1,40}[0-9]{1,6}\.[0-9]{1,2}[ \t|]"
)
_START = 1 << 20
"""Characters in which a part without a table's header or end is looked for."""


def looks_like_nccl_text(text: str) -> bool:
    """True when there is a header, a row, an end, a device list or a failure of nccl-tests."""
    if _HEADER.search(text) or any(word in text for word in _WORDS):
        return True
    start = text[:_START]
    return any(pattern.search(start) for pattern in (_OPTIONS, _RANK, _ROW))


def read_nccl_text(text: str, *, source: str) -> tuple[CollectiveLog, ...]:
    """Every run in the text, in its order: the figures that are surely there; ``doubts`` has the rest, line by line.

    Several runs may follow each other, or stand side by side under the labels of a launcher. A row that is cut, or
    whose figures contradict each other, gives none.

    Raises:
        TopologyError: no run of nccl-tests, or a text that is larger than any log.
    """
    runs, open_line = split_runs(text, source=source)
    return tuple(collective_log(run, source=source, open_line=open_line) for run in runs)
