"""How long ``gpuwire inspect`` takes for 10 MB: of a long log, and of texts made to be slow. Each under a second."""

from __future__ import annotations

import contextlib
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from reporting import Target, finish

from gpuwire_checks.baseline.store import baseline_files, load_baseline
from gpuwire_checks.errors import TopologyError
from gpuwire_checks.inspect.inspection import inspect_text

TEN_MB = 10_000_000
RUNS = 3
HEADER = """\
# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
{ranks}
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
RANKS = "\n".join(
    f"#  Rank {r:2} Group 0 Pid {r} on node-1 device {r} [0x{r}a] NVIDIA H100 80GB HBM3" for r in range(8)
)
ROW = (
    "    67108864      16777216     float     sum      -1   400.00  167.77  293.60      0"
    "   401.00  167.35  292.87      0\n"
)
INFO = "node-1:4100:4120 [0] NCCL INFO Channel 00/24 :    0   1   2   3   4   5   6   7 via P2P/CUMEM/read\n"


def long_log() -> str:
    """A real kind of log: figures among the debug lines of a long run."""
    rows = (INFO * 200 + ROW) * (TEN_MB // (200 * len(INFO) + len(ROW)))
    return HEADER.format(ranks=RANKS) + rows


def filled(unit: str, *, head: str = "", tail: str = "") -> Callable[[], str]:
    return lambda: head + unit * ((TEN_MB - len(head) - len(tail)) // len(unit)) + tail


def noise() -> str:
    letters = random.Random(7)
    return "".join(letters.choices('GPU0123456789 XNV:#[]<>{}"\n\t|-.', k=TEN_MB))


BILLION = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol">{more}]><nvidia_smi_log>&lol9;</nvidia_smi_log>"""
LAUGHS = "".join(
    f'<!ENTITY lol{n} "{f"&lol{n - 1};" * 10 if n > 1 else "&lol;" * 10}">' for n in range(1, 10)
)  # fmt: skip

HOSTILE: dict[str, Callable[[], str]] = {
    "rows of figures only": lambda: HEADER.format(ranks=RANKS) + ROW * (TEN_MB // len(ROW)),
    "one line of GPU names": filled("GPU0 "),
    "topo headers": filled("\tGPU0\tGPU1\tCPU Affinity\n"),
    "topo rows": filled("GPU0\t X \tNV4\t0-15\n", head="\tGPU0\tGPU1\tCPU Affinity\n"),
    "brackets": filled("["),
    "JSON nested": filled('{"a":', head='{"gpuwire_snapshot": 1, "topology": '),
    "XML nested": filled("<a>", head="<nvidia_smi_log>"),
    "XML attributes": filled("a='b' ", head="<nvidia_smi_log "),
    "XML entities": lambda: BILLION.format(more=LAUGHS),
    "XML GPUs": filled("<gpu id='0'></gpu>", head="<nvidia_smi_log>", tail="</nvidia_smi_log>"),
    "nvlink links": filled(" Link 0: 25 GB/s\n", head="GPU 0: NVIDIA A100 (UUID: GPU-1)\n"),
    "nvidia-smi keys": filled(
        "    Key : Value\n", head="==============NVSMI LOG==============\nGPU 00000000:01:00.0\n"
    ),
    "lspci devices": filled("01:00.0 3D controller [0302]: NVIDIA Corporation [10de:2330]\n"),
    "ibstat ports": filled("\tPort 1:\n\t\tState: Active\n", head="CA 'mlx5_0'\n"),
    "matrices": filled(" 0 0.00 1.00\n", head="Running device_to_device_memcpy_read_ce.\n     0    1\n"),
    "blanks": filled(" "),
    "digits": filled("1"),
    "noise": noise,
}


def seconds(text: str) -> float:
    """Median wall seconds to inspect a text, or to refuse it."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        with contextlib.suppress(TopologyError):
            inspect_text(text, source="text", references=REFERENCES)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


REFERENCES = [load_baseline(path) for path in baseline_files(Path(__file__).resolve().parents[1] / "baselines")]


def main() -> int:
    log = seconds(long_log())
    print(f"{'10 MB nccl-tests log':24} {log:8.3f} s")
    hostile = {name: seconds(make()) for name, make in HOSTILE.items()}
    for name, taken in hostile.items():
        print(f"{name:24} {taken:8.3f} s")
    worst = max(hostile, key=lambda name: hostile[name])
    return finish(
        "inspecting",
        [
            Target(name="seconds for a 10 MB nccl-tests log", figure=log, high=1.0),
            Target(name=f"seconds for the slowest hostile text ({worst})", figure=hostile[worst], high=1.0),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
