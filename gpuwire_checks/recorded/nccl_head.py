"""What nccl-tests says before and after its table: options, versions, the concluding lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPTION = {
    name: re.compile(rf"\b{name}s?:?[ \t]+([0-9]{{1,9}})(?=\s)", re.IGNORECASE)
    for name in ("nThread", "nGpu", "nRank", "validation")
}
_VALIDATION_AT_END = re.compile(r"\bvalidation:?[ \t]+([0-9]{1,9})\s*$", re.IGNORECASE)
_OUT_OF_BOUNDS = re.compile(r"\W{0,8}Out of bounds values\s{0,40}:\s{0,40}([0-9]{1,12})\s{1,40}(OK|FAILED)\b")
_AVERAGE = re.compile(r"\W{0,8}Avg bus bandwidth\s{0,40}:\s{0,40}([0-9][0-9.e+-]{0,20})(\s+FAILED)?")
_NUMBER = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,9})?(?:e[+-][0-9]{2})?")
_NCCL = re.compile(r"\b([NR]CCL) version :?\s?([0-9]{1,3}(?:\.[0-9]{1,4}){1,3})(?:\+(cuda|hip)([0-9.]{1,12}))?(?=\s|$)")
_TESTS = re.compile(r"nccl-tests version (\S{1,40}) nccl-headers=([0-9]{3,6}) nccl-library=([0-9]{3,6})(?=\s|$)")
_RCCL_TESTS = re.compile(r"rccl-tests: Version (\S{1,60})(?=\s|$)")
_COMPILED = re.compile(r"NCCL Tests compiled with NCCL ([0-9.]{1,12})(?=\s|$)")
_SIGNIFICANT = 6


@dataclass(frozen=True, slots=True)
class Options:
    """What the line of options says; None where it does not."""

    threads: int | None
    gpus: int | None
    ranks_per_gpu: int | None
    validation: int | None
    rccl: bool

    @property
    def ranks_per_process(self) -> int | None:
        if self.threads is None or self.gpus is None:
            return None
        return self.threads * self.gpus * (self.ranks_per_gpu or 1)


def read_options(text: str) -> Options:
    """The options in a line such as ``nThread 1 nGpus 8 minBytes 8 ...``."""
    found = {name: match for name, regex in _OPTION.items() if (match := regex.search(text))}
    validation = found.get("validation") or _VALIDATION_AT_END.search(text)
    return Options(
        threads=int(found["nThread"][1]) if "nThread" in found else None,
        gpus=int(found["nGpu"][1]) if "nGpu" in found else None,
        ranks_per_gpu=int(found["nRank"][1]) if "nRank" in found else None,
        validation=int(validation[1]) if validation else None,
        rccl="nThreads:" in text or "nThread:" in text,
    )


def read_out_of_bounds(text: str) -> int | None:
    """How many, from ``Out of bounds values : 0 OK``; None when the line is not whole or contradicts itself."""
    match = _OUT_OF_BOUNDS.match(text)
    if match is None or (int(match[1]) == 0) != (match[2] == "OK"):
        return None
    return int(match[1])


def read_average(text: str, *, cut: bool) -> tuple[float | None, bool]:
    """GB/s from ``Avg bus bandwidth : 68.4``, and whether the tool itself says that it is too low.

    None when it is no number, or when the text ends right after it and more digits could follow: ``%g`` prints at most
    six.
    """
    match = _AVERAGE.match(text)
    if match is None or not _NUMBER.fullmatch(match[1]):
        return None, False
    digits = len(match[1].partition("e")[0].replace(".", "").lstrip("0"))
    if cut and not match[2] and digits < _SIGNIFICANT:
        return None, False
    return float(match[1]), bool(match[2])


def read_versions(text: str) -> dict[str, str]:
    """Versions a line states, by what they are of."""
    found: dict[str, str] = {}
    if match := _NCCL.search(text):
        found[match[1].lower()] = match[2]
        if match[3]:
            found[match[3]] = match[4]
    if match := _TESTS.search(text):
        found |= {"nccl-tests": match[1], "nccl headers": library_version(int(match[2]))}
        found["nccl"] = library_version(int(match[3]))
    if match := _RCCL_TESTS.search(text):
        found["rccl-tests"] = match[1]
    if match := _COMPILED.search(text):
        found["nccl headers"] = match[1]
    return found


def library_version(code: int) -> str:
    """``NCCL_VERSION_CODE`` as a version: 2804 is 2.8.4 and 23005 is 2.30.5.

    Source: ``NCCL_VERSION(X,Y,Z)`` in nccl.h, which has four places for the minor version since 2.9.
    """
    major, rest = divmod(code, 1000 if code < 10_000 else 10_000)
    return f"{major}.{rest // 100}.{rest % 100}"
