"""``nvidia-smi -q`` as text, whole or a part of it (``-d PERFORMANCE``), as people paste it, to a ``NodeTopology``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import Line, split_launcher, without_marks
from gpuwire_checks.topology.devices import pci_address
from gpuwire_checks.topology.model import Doubt, NodeTopology, Unread
from gpuwire_checks.topology.readers.smi_values import CUT, MAX_GPUS, Field, GpuFields, is_reason, same, smi_node

MAX_TEXT = 4 << 20
"""Characters; ``nvidia-smi -q`` prints under 100 thousand a GPU."""
MAX_LINES = 50_000
"""``nvidia-smi -q`` prints under a thousand a GPU."""
MAX_LINE = 2000
MAX_DEPTH = 16
MAX_KEY = 80
_LOOKED_AT = 1 << 20
_LISTED_AT_MOST = 20
_BANNER = "=NVSMI LOG="
_KEYS = re.compile(
    r"(Driver Version|Attached GPUs|Product Name|GPU UUID|VBIOS Version|Performance State|SW Power Cap|"
    r"SW Power Capping|GPU Current Temp|GPU T\.Limit Temp|Replays Since Reset|SRAM Correctable|DRAM Correctable|"
    r"Remapping Failure Occurred|HW Thermal Slowdown|SW Thermal Slowdown)[ \t]{0,60}:[ \t]"
)
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?![^\s:]):?\s{0,9}(.{0,200})")
_HEAD = ("timestamp", "driver version", "cuda version", "attached gpus")
_WHOLE = re.compile(r"(?:\d (?:C|us|MiB)|\dx|\b(?:Enabled|Disabled|Active|N/A|Yes|No|None|Healthy))\Z")
"""Values that are whole although the text ends in them, without a line break."""
_LAST_REASONS = ("sw thermal slowdown", "display clock setting")
"""The clock event reasons that drivers print last."""


@dataclass(slots=True, kw_only=True)
class _Section:
    """The lines under the one that names a GPU, or, without an address, those before the first such line."""

    line: int
    address: str | Unread = Unread.UNKNOWN
    remark: str = ""
    lines: list[Line] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Level:
    """A key that others may stand under; ``open``: a section whose lines may have lost their indentation."""

    indent: int
    name: str
    open: bool


def looks_like_smi_query(text: str) -> bool:
    """True when there is the banner of ``nvidia-smi -q``, or two of its keys with their values."""
    start = text[:_LOOKED_AT]
    return _BANNER in start or len({match[1] for match in islice(_KEYS.finditer(start), 20)}) > 1


def read_smi_query(text: str, *, source: str) -> NodeTopology:
    """The GPUs in the order of the text, their state and counters; ``doubts`` has what could not be read.

    What the query was not for is *unknown*, as are NVLinks, paths between GPUs and NUMA nodes, of which it never says
    anything. An excerpt without the line that names its GPU is one GPU.

    Raises:
        TopologyError: no such text, no value of a GPU in it, or larger than any node.
    """
    if len(text) > MAX_TEXT or text.count("\n") > MAX_LINES:
        raise TopologyError(
            f"{source}:1: {len(text)} characters in {text.count(chr(10)) + 1} lines; at most {MAX_TEXT} in {MAX_LINES} "
            "are read: paste one output of `nvidia-smi -q`"
        )
    strays: list[Doubt] = []
    lines = _log_lines(text, strays)
    sections = list(_sections(lines, strays))
    if len(sections) > MAX_GPUS:
        line = sections[MAX_GPUS].line
        raise TopologyError(f"{source}:{line}: more than {MAX_GPUS} GPUs; no node has that: paste one output")
    fields = [list(_fields(section.lines)) for section in sections]
    _mark_cut(fields[-1], ended=text.endswith("\n"), last=lines[-1].number if lines else 0)
    if lines and not text.endswith("\n") and not any(lines[-1].number == field.line for field in fields[-1]):
        strays.append(Doubt(line=lines[-1].number, text="the text ends here, in a line without a value"))
    gpus, remarks = _gpus(sections, fields)
    if not gpus:
        line = sections[0].line
        raise TopologyError(f"{source}:{line}: no value of a GPU as `nvidia-smi -q` prints it; paste all of it")
    head = GpuFields("the node", (field for field in fields[0] if same(field.path[-1]) in _HEAD))
    return smi_node(gpus, head, [*_few(strays), *remarks], source=source)


def _log_lines(text: str, strays: list[Doubt]) -> list[Line]:
    """The lines of the first log that are not blank, without the label that a launcher put before most of them."""
    lines: list[Line] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        if len(raw) > MAX_LINE:
            strays.append(Doubt(line=number, text=f"a line of {len(raw)} characters is left out"))
        elif clean := without_marks(raw):
            lines.append(Line(number, "", clean.expandtabs()))
    lines = _unlabelled(lines, strays)
    banners = [at for at, line in enumerate(lines) if _BANNER in line.text]
    if not banners:
        return lines
    strays += [_stray(line) for line in lines[: banners[0]]]
    if len(banners) > 1:
        strays.append(Doubt(line=lines[banners[1]].number, text="a second log starts here and is not read"))
    return lines[banners[0] + 1 : banners[1] if len(banners) > 1 else None]


def _unlabelled(lines: Sequence[Line], strays: list[Doubt]) -> list[Line]:
    parts = [Line(line.number, *split_launcher(line.text.lstrip())) for line in lines]
    label, count = Counter(part.launcher for part in parts).most_common(1)[0] if parts else ("", 0)
    if not label or 2 * count <= len(lines):
        label = next((part.launcher for part in parts if _BANNER in part.text), "")
    if not label:
        return list(lines)
    others = [part.number for part in parts if not part.launcher.startswith(label) and part.text != label]
    if others:
        text = f"lines that are not labelled {label} are left out: {len(others)}"
        strays.append(Doubt(line=others[0], text=text))
    return [part for part in parts if part.launcher.startswith(label) and part.text.strip()]


def _sections(lines: Sequence[Line], strays: list[Doubt]) -> Iterator[_Section]:
    """What stands before the first GPU, then each GPU. Lines of other programs inside a GPU are strays."""
    section, floor = _Section(line=lines[0].number if lines else 1), -1
    for line in lines:
        body, indent = line.text.lstrip(), len(line.text) - len(line.text.lstrip())
        if found := _GPU.fullmatch(body):
            yield section
            section, floor = _Section(line=line.number, address=found[1], remark=found[2].strip()), indent
            continue
        if not section.lines and indent <= floor:
            floor = -1  # the indentation is lost
        if indent <= floor:
            strays.append(_stray(line))
        else:
            section.lines.append(line)
    yield section


def _fields(lines: Sequence[Line]) -> Iterator[Field]:
    """Keys and values, each under the sections that it is indented below."""
    levels: list[_Level] = []
    for line in lines:
        body = line.text.lstrip()
        indent = len(line.text) - len(body)
        name, value = _key(body)
        while levels and not _is_above(levels[-1], indent, is_key=value is not None):
            levels.pop()
        if levels and indent > levels[-1].indent:
            levels[-1].open = False
        if value is not None:
            yield Field(path=(*(level.name for level in levels), name), line=line.number, text=value)
        if len(levels) < MAX_DEPTH:
            levels.append(_Level(indent=indent, name=name, open=value is None))


def _is_above(level: _Level, indent: int, *, is_key: bool) -> bool:
    return level.indent < indent or (level.indent == indent and level.open and is_key)


def _key(body: str) -> tuple[str, str | None]:
    """``Product Name`` and its value; a section has none."""
    at = body.find(": ") if not body.endswith(":") else len(body) - 1
    name = body[: max(at, 0)].rstrip()
    if not name or len(name) > MAX_KEY or (body.endswith(f"{name}:")):
        return body.rstrip(":")[:MAX_KEY], None
    return name, " ".join(body[at + 1 :].split())


def _mark_cut(fields: list[Field], *, ended: bool, last: int) -> None:
    """Puts ``CUT`` where the text may have lost the rest of its last value, or reasons after the last one."""
    if not fields or fields[-1].line != last:
        return
    end = fields[-1]
    if not ended and not _WHOLE.search(end.text):
        fields[-1] = Field(path=end.path, line=end.line, text=CUT)
    elif is_reason(end) and same(end.path[-1]) not in _LAST_REASONS:
        fields.append(Field(path=(*end.path[:-1], "..."), line=end.line, text=CUT))


def _gpus(
    sections: Sequence[_Section], fields: Sequence[Sequence[Field]]
) -> tuple[list[tuple[GpuFields, str | Unread]], list[Doubt]]:
    gpus: list[tuple[GpuFields, str | Unread]] = []
    doubts: list[Doubt] = []
    excerpt = [field for field in fields[0] if same(field.path[-1]) not in _HEAD]
    if GpuFields("GPU0", excerpt).known:
        gpus.append((GpuFields("GPU0", excerpt), Unread.UNKNOWN))
        doubts.append(Doubt(line=excerpt[0].line, text="no line 'GPU <PCI address>' above this: read as one GPU, GPU0"))
    for section, values in zip(sections[1:], fields[1:], strict=True):
        gpu = GpuFields(f"GPU{len(gpus)}", values)
        gpus.append((gpu, section.address))
        stated, above = pci_address(gpu.text("PCI address")), pci_address(section.address)
        if stated != above and not isinstance(stated, Unread) and not isinstance(above, Unread):
            what = f"{gpu.part} is {above} on line {section.line}, and its bus id is {stated}: that is taken"
            doubts.append(Doubt(line=gpu.line("PCI address"), text=what))
        if section.remark or not gpu.known:
            what = f"the driver says {section.remark[:60]!r}" if section.remark else "nothing is said of it"
            doubts.append(Doubt(line=section.line, text=f"{gpu.part} ({section.address}): {what}"))
    return gpus, doubts


def _stray(line: Line) -> Doubt:
    text = line.text.strip()
    return Doubt(line=line.number, text=f"no line of `nvidia-smi -q`, left out: {text[:60]!r}")


def _few(doubts: Sequence[Doubt]) -> list[Doubt]:
    if len(doubts) <= _LISTED_AT_MOST:
        return list(doubts)
    more = f"{len(doubts) - _LISTED_AT_MOST} more such lines are not listed"
    return [*doubts[:_LISTED_AT_MOST], Doubt(line=doubts[_LISTED_AT_MOST].line, text=more)]
