"""The commands that work on what was recorded: inspect, snapshot, run --from, baseline import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from commands import gpuwire
from wired import broken, hgx_node

from gpuwire_checks.baseline.model import Baseline
from gpuwire_checks.baseline.observed import observed_wiring
from gpuwire_checks.baseline.schema import RecordedEntry
from gpuwire_checks.baseline.store import load_baseline, save_baseline
from gpuwire_checks.topology.fingerprint import facts, fingerprint
from gpuwire_checks.topology.snapshot import Snapshot, snapshot_text

NCCL = """\
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 67108864 step: 8(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
{ranks}
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    50.00   20.97   36.70      0    49.00   21.40   37.45    {wrong}
     8388608       2097152     float     sum      -1    80.00  104.86  183.50      0    81.00  103.56  181.24      0
    67108864      16777216     float     sum      -1   400.00  167.77  293.60      0   401.00  167.35  292.87      0
# Out of bounds values : {total}
# Avg bus bandwidth    : 170.893
#
# Collective test concluded: all_reduce_perf
"""
RANKS = "\n".join(
    f"#  Rank  {rank} Group  0 Pid  4{rank}00 on     node-1 device  {rank} [0x{rank}a] NVIDIA H100 80GB HBM3"
    for rank in range(8)
)
PORT_DOWN = """\
CA 'mlx5_2'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tHardware version: 0
\tNode GUID: 0x0001
\tSystem image GUID: 0x0001
\tPort 1:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 10
\t\tBase lid: 65535
\t\tLMC: 0
\t\tSM lid: 0
\t\tCapability mask: 0xa751e848
\t\tPort GUID: 0x0001
\t\tLink layer: InfiniBand
"""


def nccl_log(*, wrong: int = 0) -> str:
    return NCCL.format(ranks=RANKS, wrong=wrong, total=f"{wrong} FAILED" if wrong else "0 OK")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a baseline of eight H100, and a snapshot of a healthy and of a broken node."""
    node = hgx_node()
    known = fingerprint(node)
    baseline = Baseline(
        name=known.sku,
        path=tmp_path,
        sku=known.sku,
        exact=known.exact,
        facts=facts(node),
        recorded=RecordedEntry.model_validate(
            {"at": "2026-01-01T00:00:00Z", "hosts": 1, "gpuwire": "0", "tier": "smoke", "software": {}}
        ),
        wiring=observed_wiring(node),
    )
    save_baseline(tmp_path / "site", baseline)
    for name, what in (("good", node), ("bad", broken("a link is down"))):
        snapshot = Snapshot(gpuwire="0", taken_at="2026-01-01", topology=what, environment={})
        (tmp_path / f"{name}.json").write_text(snapshot_text(snapshot))
    (tmp_path / "nccl.log").write_text(nccl_log())
    (tmp_path / "ibstat.txt").write_text(PORT_DOWN)
    return tmp_path


def baseline_of(site: Path) -> Path:
    (file,) = (site / "site").rglob("*.yaml")
    return file


def test_inspect_says_the_verdict_first(site: Path) -> None:
    done = gpuwire(site, "inspect", "ibstat.txt")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("FAIL ibstat.txt (ibstat): mlx5_2 port 1 is Down/Polling")


def test_inspect_reads_figures(site: Path) -> None:
    done = gpuwire(site, "inspect", "nccl.log")
    assert done.returncode == 0, done.stdout
    assert "busbw at the largest size, 64MiB: 293.6 GB/s out-of-place and 292.87 GB/s in-place" in done.stdout


def test_one_file_that_cannot_be_read_does_not_hide_the_others(site: Path) -> None:
    (site / "notes.txt").write_text("dear all,\nthe node is slow\n")
    done = gpuwire(site, "inspect", "notes.txt", "nccl.log", "nowhere.txt")
    assert done.returncode == 4
    assert "notes.txt:1: no format that is known here" in done.stderr
    assert "cannot read nowhere.txt: No such file or directory" in done.stderr
    assert "PASS nccl.log (nccl-tests)" in done.stdout
    assert "Traceback" not in done.stderr


def test_inspect_as_json(site: Path) -> None:
    done = gpuwire(site, "inspect", "--json", "ibstat.txt", "nccl.log")
    port, log = json.loads(done.stdout)
    assert (port["level"], port["format"]) == ("FAIL", "ibstat")
    assert port["findings"][0]["part"] == "mlx5_2 port 1"
    assert (log["level"], log["source"]) == ("PASS", "nccl.log")


def test_inspect_holds_a_node_to_a_baseline_by_file_and_by_name(site: Path) -> None:
    by_file = gpuwire(site, "inspect", "bad.json", "--against", str(baseline_of(site)))
    assert by_file.returncode == 1
    assert "GPU0: NVLink 0 is down: 17 of 18 NVLinks are up" in by_file.stdout
    by_name = gpuwire(site, "inspect", "good.json", "--against", "h100-80gb-hbm3-8x-nv18", "--baselines", "site")
    assert by_name.returncode == 0, by_name.stdout
    assert "what is told here is wired as h100-80gb-hbm3-8x-nv18 says" in by_name.stdout


def test_an_unknown_baseline_is_named(site: Path) -> None:
    done = gpuwire(site, "inspect", "good.json", "--against", "h100", "--baselines", "site")
    assert done.returncode == 4
    assert "no baseline is named 'h100'; known: " in done.stderr


def test_a_snapshot_is_judged_elsewhere(site: Path) -> None:
    good = gpuwire(site, "run", "--from", "good.json", "--baselines", "site")
    assert good.returncode == 0, good.stdout
    assert "gpuwire: node-1 is as its baseline" in good.stdout
    bad = gpuwire(site, "run", "--from", "bad.json", "--baselines", "site")
    assert bad.returncode == 1
    assert "MISSING GPU0 links: GPU0: NVLink 0 is down: 17 of 18 NVLinks are up" in bad.stdout


def test_a_file_that_is_no_node_is_a_line_and_no_traceback(site: Path) -> None:
    done = gpuwire(site, "run", "--from", "nccl.log", "--baselines", "site")
    assert done.returncode == 4
    assert "nccl.log:1: in none of the formats that a node is read from" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout


def test_snapshot_of_this_machine_can_be_read_again(site: Path) -> None:
    taken = gpuwire(site, "snapshot", "-o", "here.json")
    assert taken.returncode == 0, taken.stderr
    assert "judge it with: gpuwire run --from here.json" in taken.stdout
    live = json.loads(gpuwire(site, "topology", "--json").stdout)
    again = json.loads(gpuwire(site, "topology", "--from", "here.json", "--json").stdout)
    assert {**again, "source": "live"} == live


def test_the_parts_between_two_devices_are_named(site: Path) -> None:
    done = gpuwire(site, "topology", "--from", "good.json", "--route", "GPU0", "GPU5")
    assert done.stdout == "GPU0 -> NVSwitch -> GPU5\n", done.stderr
    unknown = gpuwire(site, "topology", "--from", "good.json", "--route", "GPU0", "GPU9")
    assert unknown.returncode == 4
    assert "--route: no device 'GPU9' here; known: GPU0, GPU1," in unknown.stderr


def test_snapshot_that_cannot_be_written(site: Path) -> None:
    done = gpuwire(site, "snapshot", "-o", "nowhere/here.json")
    assert done.returncode == 4
    assert "cannot write nowhere/here.json: No such file or directory" in done.stderr


def test_figures_are_imported_as_bounds(site: Path) -> None:
    done = gpuwire(
        site, "baseline", "import", "nccl.log", "nccl.log", "--to", str(baseline_of(site)), "--baselines", "site"
    )
    assert done.returncode == 0, done.stderr
    assert "imported 3 bounds and 0 figures of copies into " in done.stdout
    entries = load_baseline(baseline_of(site)).entries
    # all_reduce is in place here, so its in-place figures count.
    assert {entry.case.size: entry.centre for entry in entries} == {1 << 20: 37.45, 8 << 20: 181.24, 64 << 20: 292.87}
    assert {(entry.case.world_size, entry.case.backend, entry.attempts) for entry in entries} == {(8, "nccl", 2)}
    again = gpuwire(site, "baseline", "import", "nccl.log", "--to", str(baseline_of(site)), "--baselines", "site")
    assert "imported 0 bounds" in again.stdout
    assert "3 cases had a bound already, which is kept" in again.stdout


def test_wrong_figures_are_not_imported(site: Path) -> None:
    (site / "wrong.log").write_text(nccl_log(wrong=12))
    before = baseline_of(site).read_text()
    done = gpuwire(site, "baseline", "import", "wrong.log", "--to", str(baseline_of(site)), "--baselines", "site")
    assert done.returncode == 4
    assert "wrong.log:16: 12 values are wrong: such a node is no baseline" in done.stderr
    assert baseline_of(site).read_text() == before


def test_figures_of_another_number_of_ranks_are_not_imported(site: Path) -> None:
    seven = "\n".join(nccl_log().splitlines()[:3] + RANKS.splitlines()[:7] + nccl_log().splitlines()[11:])
    (site / "seven.log").write_text(seven.replace("nGpus 8", "nGpus 7") + "\n")
    done = gpuwire(site, "baseline", "import", "seven.log", "--to", str(baseline_of(site)), "--baselines", "site")
    assert done.returncode == 4
    assert "the 7 ranks that the log lists: the figures are of another number of ranks" in done.stderr


def test_a_baseline_with_wiring_is_written_as_a_person_reads_it(site: Path) -> None:
    text = baseline_of(site).read_text()
    assert "  pairs: {NV18: all}\n" in text
    assert "  links: {kind: nvlink, per_gpu: 18, speed: 25 GB/s, version: 4}\n" in text
    assert yaml.safe_load(text)["wiring"]["gpus"] == 8
