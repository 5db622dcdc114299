"""Run every benchmark, one after the other; exits 1 when any target was missed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NOT_BENCHMARKS = {"run_all.py", "reporting.py"}
PARTS = "verdict_"
"""How the names of modules begin that a benchmark is made of."""


def main() -> int:
    here = Path(__file__).parent
    failed = []
    for file in sorted(here.glob("*.py")):
        if file.name in NOT_BENCHMARKS or file.name.startswith(PARTS):
            continue
        print(f"\n=== {file.name}", flush=True)
        if subprocess.run([sys.executable, file], check=False).returncode:
            failed.append(file.name)
    print(f"\ntargets missed in: {', '.join(failed)}" if failed else "\nall targets met")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
