"""XML as a tool printed it and people paste it, within limits, to elements that know their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import ParseError
from xml.parsers.expat import errors

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import split_launcher, without_marks
from gpuwire_checks.topology.model import Doubt

MAX_TEXT = 16 << 20
"""Characters. ``nvidia-smi -q -x`` of eight GPUs has 360 thousand."""
MAX_HEAD = 1 << 20
"""Characters before the root element."""
MAX_DEPTH = 64
MAX_ELEMENTS = 100_000
"""``nvidia-smi -q -x`` prints under two thousand a GPU."""
MAX_EQUAL_SIGNS = 200_000
"""Bounds the attributes of one element, which are counted only after all of them are read."""
MAX_LABELLED_LINES = 200_000
MAX_ASIDES = 20
"""Lines of other programs that are named one by one."""
_CUT = {
    errors.codes[text]
    for text in (
        errors.XML_ERROR_NO_ELEMENTS,
        errors.XML_ERROR_UNCLOSED_TOKEN,
        errors.XML_ERROR_PARTIAL_CHAR,
        errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    )
}
_FENCE = re.compile(r"[\s\ufeff]*(?:(?:```|~~~)\w{0,20})?[\s\ufeff]*")


@dataclass(slots=True, kw_only=True, eq=False)
class Element:
    """An element; it grows while the text is parsed, and not after. Equal to nothing but itself.

    Attributes:
        line: of its start tag, from 1.
        text: its own, without the blanks around it.
        whole: its end tag was there; without it the text was cut inside.
    """

    tag: str
    line: int
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""
    whole: bool = False

    def every(self, tag: str) -> Iterator[Element]:
        """Its children of that tag, in order."""
        return (child for child in self.children if child.tag == tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastedXml:
    """The root element, and what stood around it or could not be read."""

    root: Element
    doubts: tuple[Doubt, ...]


def read_xml(text: str, *, source: str, root: str) -> PastedXml:
    """The elements under the first ``root`` of a text.

    Lines of other programs before and after are left out with a doubt. Text that is cut, or is no XML from some line
    on, gives what stands before that line: the elements that are not ``whole`` lack their rest.

    Raises:
        TopologyError: no such element, declarations of entities, or more than the limits of this module.
    """
    if len(text) > MAX_TEXT:
        raise TopologyError(f"{source}:1: {len(text)} characters; at most {MAX_TEXT} of XML are read: paste one output")
    if text.count("=") > MAX_EQUAL_SIGNS:
        raise TopologyError(f"{source}:1: more than {MAX_EQUAL_SIGNS} equal signs, so no tool's XML: paste one output")
    if "\x1b" in text:
        text = without_marks(text)
    text, doubts = _one_label(text, _start(text, root, source=source), source=source)
    start = _start(text, root, source=source)
    head, asides = _without_asides(text[:start])
    builder = _Builder(source)
    fault = _parse(builder, (head + text[start:]).encode("utf-8", "replace"))
    if builder.root is None or builder.root.tag != root:
        raise TopologyError(
            f"{source}:{fault.line if fault else 1}: no XML with the root <{root}> here; paste all of it"
        )
    doubts += [*_few(asides), *_few(builder.asides)]
    if fault is not None:
        doubts.append(fault)
    return PastedXml(root=builder.root, doubts=tuple(doubts))


def shortened(text: str) -> str:
    """A text in quotes, at most 60 characters of it."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _few(doubts: list[Doubt]) -> list[Doubt]:
    if len(doubts) <= MAX_ASIDES:
        return doubts
    return [*doubts[:MAX_ASIDES], Doubt(line=doubts[MAX_ASIDES].line, text="more such lines are not listed")]


def _start(text: str, root: str, *, source: str) -> int:
    """Where the root's start tag begins."""
    found = re.compile(rf"<{root}(?=[\s>/]|\Z)").search(text, 0, MAX_HEAD)
    if found is None:
        raise TopologyError(f"{source}:1: no <{root}> in the first {MAX_HEAD} characters; paste all of the XML")
    return found.start()


def _one_label(text: str, start: int, *, source: str) -> tuple[str, list[Doubt]]:
    """The text without the label that a launcher put before each line; lines of other ranks become empty."""
    begin = text.rfind("\n", 0, start) + 1
    label = split_launcher(text[begin:start] + "<")[0]
    if not label:
        return text, []
    if text.count("\n") > MAX_LABELLED_LINES:
        raise TopologyError(
            f"{source}:1: more than {MAX_LABELLED_LINES} lines that a launcher labelled; paste one rank's"
        )
    kept, left_out = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        launcher, rest = split_launcher(line.lstrip())
        kept.append(rest if launcher.startswith(label) else "")
        if line.strip() not in ("", label) and not launcher.startswith(label):
            left_out.append(number)
    if not left_out:
        return "\n".join(kept), []
    others = f"lines that are not labelled {label} are left out: {len(left_out)}"
    return "\n".join(kept), [Doubt(line=left_out[0], text=others)]


def _without_asides(head: str) -> tuple[str, list[Doubt]]:
    """What stands before the root: comments and the DOCTYPE kept, every line kept as a line."""
    at, line, kept, asides = 0, 1, [], list[Doubt]()
    while at < len(head):
        tag = head.find("<", at)
        tag = len(head) if tag < 0 else tag
        aside = head[at:tag]
        asides += _aside_doubts(aside, line) if len(asides) <= MAX_ASIDES else []
        if head.startswith("<!DOCTYPE", tag) and "[" in head[tag : head.find(">", tag)]:
            kept.append("\n" * aside.count("\n") + head[tag:])
            break
        mark = "-->" if head.startswith("<!--", tag) else "?>" if head.startswith("<?", tag) else ">"
        end = head.find(mark, tag)
        at = len(head) if end < 0 else end + len(mark)
        # An XML declaration may stand nowhere but at the very start, and the text is decoded already.
        stays = head[tag:at] if mark != "?>" else "\n" * head.count("\n", tag, at)
        kept.append("\n" * aside.count("\n") + stays)
        line += aside.count("\n") + stays.count("\n")
    return "".join(kept), asides


def _aside_doubts(aside: str, line: int) -> Iterator[Doubt]:
    lines = aside.split("\n", MAX_ASIDES + 1)
    for number, text in enumerate(lines[: MAX_ASIDES + 1], start=line):
        if not _FENCE.fullmatch(text):
            yield Doubt(line=number, text=f"no XML, left out: {shortened(text.strip())}")


def _parse(builder: _Builder, text: bytes) -> Doubt | None:
    """Feeds a builder; what ended the parsing before the text did, None when nothing did."""
    # nvidia-smi names an external DTD; expat fetches none unless it is told to, and is refused if it asks.
    parser = DefusedXMLParser(target=builder, forbid_dtd=False, forbid_entities=True, forbid_external=True)
    builder.expat = parser.parser
    builder.expat.StartDoctypeDeclHandler = builder.doctype_starts
    try:
        parser.feed(text)
        parser.close()
    except ParseError as problem:
        return _fault(builder, problem, text)
    except DefusedXmlException as problem:
        raise TopologyError(builder.refusal(f"asks for {type(problem).__name__}, which is not done")) from problem
    return None


def _fault(builder: _Builder, problem: ParseError, text: bytes) -> Doubt | None:
    line, _ = problem.position
    if builder.root is not None and builder.root.whole:
        if _FENCE.fullmatch(text[builder.end_at :].partition(b">")[2].decode()):
            return None
        return Doubt(line=line, text=f"what follows </{builder.root.tag}> is not read")
    inside = "".join(f"<{element.tag}>" for element in builder.stack)
    if problem.code in _CUT:
        return Doubt(line=line, text=f"the XML is cut inside {inside}: what follows is not known")
    return Doubt(line=line, text=f"no XML from here on ({str(problem).partition(':')[0]}) inside {inside}: not read")


class _Builder:
    """The target of a parser: elements, as deep and as many as the limits allow."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.root: Element | None = None
        self.stack: list[Element] = []
        self.asides: list[Doubt] = []
        self.end_at = 0
        self.expat: Any = None
        self._texts: list[list[str]] = []
        self._count = 0

    def refusal(self, what: str) -> str:
        return f"{self.source}:{self.expat.CurrentLineNumber}: the XML {what}; no tool prints that: paste one output"

    def doctype_starts(self, _name: str, _system: str | None, _public: str | None, has_declarations: int) -> None:
        """Entities, and defaults of attributes as well, can make gigabytes of a few kilobytes."""
        if has_declarations:
            raise TopologyError(self.refusal("has a DOCTYPE that declares entities or attributes"))

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise TopologyError(self.refusal(f"has more than {MAX_ELEMENTS} elements"))
        if len(self.stack) >= MAX_DEPTH:
            raise TopologyError(self.refusal(f"has more than {MAX_DEPTH} elements inside each other"))
        element = Element(tag=tag, line=self.expat.CurrentLineNumber, attributes=attributes)
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self.root = element
        self.stack.append(element)
        self._texts.append([])

    def data(self, text: str) -> None:
        if self._texts:
            self._texts[-1].append(text)

    def end(self, tag: str) -> None:
        element = self.stack.pop()
        element.whole = True
        self.end_at = self.expat.CurrentByteIndex
        element.text = "".join(self._texts.pop()).strip()
        if element.text and element.children and len(self.asides) <= MAX_ASIDES:
            text = f"text between the elements of <{tag}> is not read: {shortened(element.text)}"
            self.asides.append(Doubt(line=element.line, text=text))

    def close(self) -> Element | None:
        return self.root
