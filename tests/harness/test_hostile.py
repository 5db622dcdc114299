"""Files that are no output of a tool: a line that names the file, within a second, whatever is in them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import gpuwire

from gpuwire_checks.errors import GpuwireError, TopologyError
from gpuwire_checks.harness import importing
from gpuwire_checks.harness.inspecting import inspect_files
from gpuwire_checks.harness.showing import topology_lines
from gpuwire_checks.textfile import read_text

Command = Callable[[Path], str]
SECONDS = 1.0
"""Of CPU time; one that the machine shares with others has more of the clock's."""
HEADER = "\tGPU0\tGPU1\tCPU Affinity\n"
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BOMB = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY l0 "ha">{LAUGHS}]><nvidia_smi_log>&l9;</nvidia_smi_log>'
OUTSIDE = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><nvidia_smi_log><gpu>&x;</gpu></nvidia_smi_log>'


def filled(unit: str, *, head: str = "", size: int = 12_000_000) -> bytes:
    return (head + unit * ((size - len(head)) // len(unit))).encode()


FILES: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "NUL": lambda: b"\0" * 1000,
    "no UTF-8": lambda: b"GPU0\n\xff\xfa\n",
    "UTF-16": lambda: HEADER.encode("utf-16"),
    "50 MB": lambda: b"x" * 50_000_000,
    "one line": lambda: filled("x "),
    "blanks": lambda: filled(" ", size=1_000_000),
    "digits": lambda: filled("1", size=1_000_000),
    "dashes": lambda: filled("-", size=1_000_000),
    "entities": BOMB.encode,
    "an outside entity": OUTSIDE.encode,
    "XML nested": lambda: filled("<a>", head="<nvidia_smi_log>", size=300_000),
    "NCCL's XML nested": lambda: filled("<pci>", head='<system version="1"><cpu numaid="0">', size=500_000),
    "lists nested": lambda: filled("[", head='{"gpuwire_snapshot": 1, "topology": ', size=100_000),
    "objects nested": lambda: filled('{"a":', head='{"config": {}, "average_bus_bandwidth": ', size=500_000),
    "nvbandwidth nested": lambda: filled("[", head='{"nvbandwidth": {"testcases": ', size=100_000),
    "a number": lambda: filled("1", head='{"gpuwire_snapshot": 1, "topology": ', size=1_000_000),
    "NaN": lambda: b'{"gpuwire_snapshot": 1, "topology": NaN}',
    "1e999": lambda: b'{"gpuwire_snapshot": 1, "topology": 1e999}',
    "a key twice": lambda: b'{"gpuwire_snapshot": 1, "topology": {}, "topology": {}}',
    "another schema": lambda: b'{"gpuwire_snapshot": 99}',
    "objects": lambda: filled("{},", head='{"gpuwire_snapshot": 1, "topology": ['),
    "GPUs": (" ".join(f"GPU{number}" for number in range(100_000)) + "\nGPU0 X NV1\n").encode,
    "rows": (HEADER + "".join(f"GPU{number} X NV1 0-1\n" for number in range(100_000))).encode,
    "quoted lines": lambda: filled("> " * 100 + "\n", size=3_000_000),
}


def inspected(file: Path) -> str:
    told: list[str] = []
    inspect_files([file], against=None, directories=[], as_json=False, echo=lambda _: None, complain=told.append)
    return "\n".join(told)


def shown(file: Path) -> str:
    with pytest.raises(GpuwireError) as caught:
        topology_lines(file, as_json=False)
    return str(caught.value)


def imported(file: Path) -> str:
    """What the file costs, without the baselines that the command reads before it."""
    with pytest.raises(GpuwireError) as caught:
        importing._figures([file])
    return str(caught.value)


@pytest.mark.parametrize("command", [inspected, shown, imported])
@pytest.mark.parametrize("make", FILES.values(), ids=list(FILES))
def test_a_hostile_file_is_refused_soon(tmp_path: Path, make: Callable[[], bytes], command: Command) -> None:
    file = tmp_path / "given.txt"
    file.write_bytes(make())
    begin = time.process_time()
    said = command(file)
    assert time.process_time() - begin < SECONDS
    assert str(file) in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"GPU0\n\xff\xfa\n", ":2: not UTF-8 text (byte 5); save it again, or remove those bytes"),
        (HEADER.encode("utf-16"), ":1: UTF-16 text; save it as UTF-8: iconv -f UTF-16 -t UTF-8 "),
        (b"x" * 50_000_000, ": more than 12582912 bytes; such a file is not read: give only what is asked about"),
    ],
    ids=["no UTF-8", "UTF-16", "50 MB"],
)
def test_a_file_that_is_no_text_says_what_to_do(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "given.txt"
    file.write_bytes(content)
    assert says in inspected(file)


def test_a_byte_order_mark_and_other_line_ends_change_nothing(tmp_path: Path) -> None:
    rows = HEADER + "GPU0\t X \tNV4\t0-15\nGPU1\tNV4\t X \t0-15\n"
    file = tmp_path / "given.txt"
    file.write_bytes(rows.encode())
    plain = topology_lines(file, as_json=False)
    for content in (rows.encode("utf-8-sig"), rows.replace("\n", "\r\n").encode()):
        file.write_bytes(content)
        assert topology_lines(file, as_json=False) == plain


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/dev/zero", "/dev/zero: more than 12582912 bytes"),
        ("nowhere", "cannot read nowhere: No such file or directory"),
        ("/", "cannot read /: Is a directory"),
        ("x" * 5000, ": File name too long"),
        ("a\0b", ": embedded null byte"),
    ],
    ids=["/dev/zero", "missing", "a directory", "a long name", "NUL in a name"],
)
def test_what_is_no_file_is_told(path: str, says: str) -> None:
    assert says in inspected(Path(path))


def test_a_pipe_is_read_where_something_writes_to_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "a pipe that nothing writes to; save the output in a file" in inspected(pipe)
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(b"GPU0")

    late = threading.Timer(0.2, write)
    late.start()
    assert read_text(Path(f"/dev/fd/{reading}"), max_bytes=10, error=TopologyError) == "GPU0"
    late.join()
    os.close(reading)


def test_the_command_ends_with_a_line_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "bomb.xml").write_text(BOMB)
    os.mkfifo(tmp_path / "pipe")
    done = gpuwire(tmp_path, "inspect", "bomb.xml", "pipe", "/dev/zero")
    assert done.returncode == 4
    assert "bomb.xml:1: the XML has a DOCTYPE that declares entities" in done.stderr
    assert done.stderr.count("gpuwire: ") == 3
    assert "Traceback" not in done.stderr
