"""What pasting does to a text: cut, labelled, realigned, one cell damaged; and the facts that a node then states."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal

from hypothesis import strategies as st

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.topology.model import NodeTopology, Unread

Kind = Literal["cut", "labelled", "realigned", "cell gone", "character"]
Facts = dict[tuple[Any, ...], Any]
Read = Callable[[str], tuple[Facts, tuple[str, ...]]]
"""A text to its facts and its doubts, each with its line; it may refuse."""
KINDS: tuple[Kind, ...] = ("cut", "labelled", "realigned", "cell gone", "character")
PREFIXES = (
    "0: ",
    "[1,0]<stdout>:",
    "[rank0]: ",
    "kiln-3: ",
    "> ",
    "2026-02-03 04:05:06 ",
    "(Worker pid=8, ip=10.0.0.2) ",
)
JOINERS = ("\t", " ", "  ", " \t ", "      ")
_KEYS = frozenset({"a", "b", "index", "links", "name", "number"})
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged text; ``line`` (from 1) is where, and the last one of a text that is cut.

    Attributes:
        cell: the word that is damaged, and what is left of it.
    """

    kind: Kind
    line: int
    text: str
    cell: tuple[str, str] = ("", "")


@st.composite
def damages(draw: st.DrawFn, text: str, kinds: tuple[Kind, ...] = KINDS) -> Damage:
    """One damage of a good text."""
    kind = draw(st.sampled_from(kinds))
    if kind == "cut":
        short = text[: draw(st.integers(0, len(text) - 1))]
        return Damage(kind, short.count("\n") + 1, short)
    if kind == "labelled":
        prefix = draw(st.sampled_from(PREFIXES))
        return Damage(kind, 0, "".join(f"{prefix}{line}\n" for line in text.splitlines()))
    if kind == "realigned":
        joiner, end = draw(st.sampled_from(JOINERS)), draw(st.sampled_from(["", " ", "\r", "\t"]))
        indents = st.sampled_from([None, "", " ", "\t"])
        return Damage(kind, 0, _realigned(text, joiner, end, draw(indents)))
    return _cell(draw, text, kind)


def _realigned(text: str, joiner: str, end: str, indent: str | None) -> str:
    """Other blanks between words; None keeps those that a line begins with."""
    lines = []
    for line in text.splitlines():
        kept = line[: len(line) - len(line.lstrip())] if indent is None else indent
        lines.append(kept + joiner.join(line.split()) + end)
    return "\n".join(lines) + "\n"


def _cell(draw: st.DrawFn, text: str, kind: Kind) -> Damage:
    lines = text.splitlines()
    at = draw(st.sampled_from([at for at, line in enumerate(lines) if line.strip()]))
    start, end = draw(st.sampled_from([match.span() for match in _WORD.finditer(lines[at])]))
    word, left = lines[at][start:end], ""
    if kind == "character":
        where = draw(st.integers(0, len(word) - 1))
        new = draw(st.sampled_from(["", "0", "1", "7", "X", "?", " "]))
        left = word[:where] + new + word[where + 1 :]
    lines[at] = lines[at][:start] + left + lines[at][end:]
    return Damage(kind, at + 1, "\n".join(lines) + "\n", (word, left))


def facts(node: NodeTopology) -> Facts:
    """Everything that a node states, by what it is of; what is unknown is not there."""
    found: Facts = {}
    for gpu in node.gpus:
        found["gpu", gpu.index] = True
        _add(found, ("gpu", gpu.index), gpu)
        for link in () if isinstance(gpu.links, Unread) else gpu.links:
            found["link", gpu.index, link.number] = True
            _add(found, ("link", gpu.index, link.number), link)
    for nic in node.nics:
        found["nic", nic.name] = True
        _add(found, ("nic", nic.name), nic)
    _add(found, ("software",), node.software)
    for pair in node.paths:
        _add(found, ("path", pair.a, pair.b), pair)
    found |= {("peer", peer.a, peer.b, peer.capability): peer.status for peer in node.peers}
    found |= {("counter", one.part, one.name): one.value for one in node.counters if one.value is not Unread.UNKNOWN}
    return found


def _add(found: Facts, key: tuple[Any, ...], part: Any) -> None:
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            _add(found, (*key, field.name), value)
        elif value is not Unread.UNKNOWN and value not in (None, (), "unknown") and field.name not in _KEYS:
            found.update({(*key, field.name): value})


def of_node(read: Callable[..., NodeTopology]) -> Read:
    """A reader of nodes as what is read and doubted."""

    def reading(text: str) -> tuple[Facts, tuple[str, ...]]:
        node = read(text, source="damaged")
        return facts(node), tuple(f"{doubt.line}: {doubt.text}" for doubt in node.doubts)

    return reading


@cache
def stated_on(read: Read, text: str, line: int) -> frozenset[tuple[Any, ...]]:
    """What is said on a line alone: the facts that are gone, or changed, without it."""
    lines = text.splitlines()
    lines[line - 1] = ""
    good, _ = read(text)
    try:
        less, _ = read("\n".join(lines) + "\n")
    except TopologyError:
        return frozenset(good)
    return frozenset(key for key in good if less.get(key) != good[key])


def outcome(read: Read, text: str, damage: Damage) -> tuple[Facts, Facts, Facts, tuple[str, ...]] | None:
    """Facts that are other than the good text's, those that it has not, those that are missing, and the doubts.

    None where the damaged text is refused.
    """
    good, _ = read(text)
    try:
        found, doubted = read(damage.text)
    except TopologyError:
        return None
    other = {key: value for key, value in found.items() if key in good and good[key] != value}
    more = {key: value for key, value in found.items() if key not in good}
    missing = {key: value for key, value in good.items() if key not in found}
    return other, more, missing, doubted
