"""The lines of one tool's output in a pasted text, without what a terminal and a launcher put around them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.pasted import Line, split_launcher, without_marks
from gpuwire_checks.topology.model import Doubt

MAX_TEXT = 4 << 20
"""Characters. ``lspci -vvv`` of a large node, the longest of these outputs, has about 1 million."""
MAX_LINES = 50_000
MAX_LINE = 2000
MAX_DOUBTS = 200
_LISTED_AT_MOST = 20
_TIME = re.compile(r"\s*\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,40}(?:\s|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLines:
    """The lines that say something, in order.

    Attributes:
        doubts: lines that were left out.
        may_be_cut: the text does not end in a line break, so that its last line may go on.
    """

    lines: tuple[Line, ...]
    doubts: tuple[Doubt, ...]
    may_be_cut: bool

    def cut_at(self, line: Line) -> bool:
        """True when this line may go on where the text ends."""
        return self.may_be_cut and line.number == self.lines[-1].number


def plain_lines(text: str, *, start: re.Pattern[str], tool: str, source: str) -> PlainLines:
    """The lines from the first on that has ``start``, each without the launcher's label of that one.

    Lines that another rank or node printed have another label, and are left out with a doubt.

    Raises:
        TopologyError: the text is larger than such outputs are, or ``start`` is not in it.
    """
    if len(text) > MAX_TEXT or text.count("\n") > MAX_LINES:
        raise TopologyError(
            f"{source}:1: {len(text)} characters in {text.count(chr(10)) + 1} lines; at most {MAX_TEXT} in {MAX_LINES} "
            f"are read: paste only the output of `{tool}`"
        )
    every, long = _cleaned(text)
    label = next((found for line in every if (found := _label(line.text, start)) is not None), None)
    if label is None:
        raise TopologyError(f"{source}:1: nothing here that `{tool}` prints; paste all of its output")
    lines = [Line(line.number, label, rest) for line in every if (rest := _without(label, line.text)) is not None]
    doubts = [Doubt(line=number, text="a line too long for this output is left out") for number in long]
    if len(lines) < len(every):
        mine = {line.number for line in lines}
        first = next(line.number for line in every if line.number not in mine)
        text_ = f"{len(every) - len(lines)} lines are not labelled '{label}' and are left out"
        doubts.append(Doubt(line=first, text=text_))
    return PlainLines(
        lines=tuple(line for line in lines if line.text.strip()),
        doubts=tuple(few(doubts)),
        may_be_cut=not text.endswith("\n"),
    )


def _cleaned(text: str) -> tuple[list[Line], list[int]]:
    """The lines that say something, and the numbers of those that are too long."""
    every, long = [], []
    for number, raw in enumerate(text.split("\n"), start=1):
        if len(raw) > MAX_LINE:
            long.append(number)
        elif clean := without_marks(raw):
            every.append(Line(number, "", _TIME.sub("", clean, count=1)))
    return every, long


def _label(text: str, start: re.Pattern[str]) -> str | None:
    """What a launcher put before ``start``, empty for nothing; None when ``start`` is not there, or inside a line."""
    found = start.search(text)
    if found is None:
        return None
    ahead = text[: found.start()].strip()
    return ahead if not ahead or split_launcher(f"{ahead} ")[1].strip() == "" else None


def _without(label: str, text: str) -> str | None:
    if not label:
        return text
    bare = text.lstrip()
    return bare[len(label) :] if bare.startswith(label) else None


def few(doubts: Sequence[Doubt], at_most: int = _LISTED_AT_MOST) -> list[Doubt]:
    """The first doubts, and one that says how many more there are."""
    if len(doubts) <= at_most:
        return list(doubts)
    more = f"{len(doubts) - at_most} more such lines are not listed"
    return [*doubts[:at_most], Doubt(line=doubts[at_most].line, text=more)]


def bounded(doubts: Sequence[Doubt]) -> tuple[Doubt, ...]:
    """At most ``MAX_DOUBTS``, and one that says how many are left out."""
    if len(doubts) <= MAX_DOUBTS:
        return tuple(doubts)
    return (*doubts[:MAX_DOUBTS], Doubt(line=None, text=f"{len(doubts) - MAX_DOUBTS} more doubts are not listed"))


def shown(text: str) -> str:
    """A line in quotes, single-spaced, at most 60 characters of it."""
    return repr(" ".join(text.split())[:60])
