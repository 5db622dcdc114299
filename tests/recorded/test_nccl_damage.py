"""Whatever a paste does to a good log: the right figures, or none with the line told. Never another figure."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from nccl_logs import UNKNOWN, Made, figures, log

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.recorded.model import CollectiveLog
from gpuwire_checks.recorded.nccl_text import read_nccl_text

STYLES = (
    Made(style="current"),
    Made(style="newest"),
    Made(style="old", error="2e-07"),
    Made(style="oldest", error="0e+00"),
    Made(style="old", error="N/A"),
    Made(style="current", head=False, end=False),
    Made(style="nccl1"),
    Made(style="current", error="12", end=False, world_size=3),
)
MADE = st.sampled_from(STYLES)
ROW = re.compile(r"\s*[0-9]+\s+(?:[0-9]+\s+)?float ")
FIELD = re.compile(r"\S+")


def good(text: str) -> CollectiveLog:
    (one,) = read_nccl_text(text, source="good")
    assert one.doubts == ()
    return one


GOOD = {made: (log(made), good(log(made))) for made in STYLES}


def read(text: str) -> tuple[CollectiveLog, ...]:
    try:
        return read_nccl_text(text, source="damaged")
    except TopologyError:
        return ()


def check(logs: tuple[CollectiveLog, ...], whole: CollectiveLog, *, lines: set[int], but: set[int]) -> None:
    """Every figure read is that of the good log; every other one on ``lines`` is told.

    Args:
        but: lines whose damage leaves figures that agree with each other.
    """
    truth = figures(whole)
    found = {place: one for log_read in logs for place, one in figures(log_read).items()}
    told = {doubt.line for one in logs for doubt in one.doubts} | {one.cut_at for one in logs}
    for place, one in found.items():
        if place[0] not in but:
            right = truth[place]
            unknown = (one.wrong, place[0] in told) == (UNKNOWN, True)
            assert (one.size_bytes, one.count, one.dtype, one.redop, one.root) == (
                right.size_bytes,
                right.count,
                right.dtype,
                right.redop,
                right.root,
            )
            assert (one.seconds, one.algbw, one.busbw) == (right.seconds, right.algbw, right.busbw)
            assert unknown or one.wrong in (right.wrong, UNKNOWN)
    if logs:
        missing = {line for line, _ in set(truth) - set(found)} & lines
        assert missing <= told
    for log_read in logs:
        assert log_read.world_size in (whole.world_size, UNKNOWN)
        assert log_read.collective in (whole.collective, UNKNOWN)


@settings(max_examples=200, deadline=None)
@given(made=MADE, cut=st.floats(0, 1))
def test_a_text_that_is_cut_anywhere(made: Made, cut: float) -> None:
    text, whole = GOOD[made]
    short = text[: int(cut * len(text))]
    logs = read(short)
    last = short.count("\n") + 1
    begun = bool(short.rpartition("\n")[2].strip())
    check(logs, whole, lines=set(range(1, last + begun)), but=set())
    for one in logs:
        assert one.printed_average in (whole.printed_average, UNKNOWN)
        assert one.printed_out_of_bounds in (whole.printed_out_of_bounds, UNKNOWN)
        assert dict(one.versions).items() <= dict(whole.versions).items()
        for rank in one.ranks:
            right = whole.ranks[rank.rank]
            assert (rank.host, rank.device, rank.bus) == (right.host, right.device, right.bus)
            assert rank.model in (right.model, UNKNOWN)


@settings(max_examples=200, deadline=None)
@given(made=MADE, cut=st.floats(0, 1))
def test_a_text_whose_beginning_is_lost(made: Made, cut: float) -> None:
    text, whole = GOOD[made]
    at = int(cut * len(text))
    lost = text[:at].count("\n")
    logs = read("\n" * lost + text[at:])
    fragment = set() if text[at - 1 : at] in ("", "\n") else {lost + 1}
    headless = made.style in ("oldest", "nccl1")
    lines = set() if headless else set(range(lost + 1, text.count("\n") + 1)) - fragment
    check(logs, whole, lines=lines, but=set())


JOINERS = st.sampled_from(["\t", " ", "  ", " \t ", "      "])
PREFIXES = st.sampled_from(["", "0: ", "[1,0]<stdout>:", "kiln-3: ", "> ", "2026-02-03 04:05:06 "])


@settings(max_examples=100, deadline=None)
@given(
    made=MADE, joiner=JOINERS, prefix=PREFIXES, indent=st.sampled_from(["", " ", "\t", "        "]), end=st.booleans()
)
def test_blanks_and_labels_change_nothing(made: Made, joiner: str, prefix: str, indent: str, end: bool) -> None:
    text, whole = GOOD[made]
    lines = [prefix + indent + joiner.join(line.split()) + ("  \r" if end else "") for line in text.splitlines()]
    (one,) = read("\n".join(lines) + "\n")
    assert (one.rows, one.ranks, one.world_size) == (whole.rows, whole.ranks, whole.world_size)
    assert (one.collective, one.validated, one.printed_average) == (
        whole.collective,
        whole.validated,
        whole.printed_average,
    )
    assert one.doubts == ()


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Made, int, str]:
    """A log's make, the line (from 1) that is damaged, and the text."""
    made = draw(MADE)
    lines = GOOD[made][0].splitlines()
    rows_only = draw(st.booleans())
    choices = [at for at, line in enumerate(lines) if line.strip("# ") and (not rows_only or ROW.match(line))]
    at = draw(st.sampled_from(choices))
    spans = [match.span() for match in FIELD.finditer(lines[at])]
    start, end = draw(st.sampled_from(spans))
    word = lines[at][start:end]
    kind = draw(st.sampled_from(["token", "character", "digit"]))
    where = draw(st.integers(0, len(word) - 1))
    if kind == "token":
        word = ""
    elif kind == "character":
        word = word[:where] + word[where + 1 :]
    elif word[where].isdigit():
        word = word[:where] + draw(st.sampled_from("0123456789")) + word[where + 1 :]
    lines[at] = lines[at][:start] + word + lines[at][end:]
    return made, at + 1, "\n".join(lines) + "\n"


def agrees(made: Made, line: str) -> bool:
    """True when a row's figures still agree with each other, as far as their rounding tells."""
    words = line.split()
    if made.style == "nccl1":
        words.insert(0, str(int(words[0]) * 4) if words[0].isdigit() else "x")
    lead = 5 if made.style in ("current", "newest") else 4
    width = 3 if made.style == "nccl1" else 4
    if len(words) != lead + width * (1 if made.style == "nccl1" else 2) or words[2:4] != ["float", "sum"]:
        return False
    if lead == 5 and words[4] != "-1":
        return False
    try:
        size, count = int(words[0]), int(words[1])
        halves = [words[lead : lead + 3], words[lead + width : lead + width + 3]][: 1 if made.style == "nccl1" else 2]
        return size == 4 * count and all(_half_agrees(made, size, half) for half in halves)
    except ValueError:
        return False


def _half_agrees(made: Made, size: int, half: list[str]) -> bool:
    if not all(re.fullmatch(r"[0-9]+(\.[0-9]+)?", word) for word in half):
        return False
    (time, dt), (rate, dr), (bus, db) = ((float(word), 0.5 * 10.0 ** -len(word.partition(".")[2])) for word in half)
    if time <= 0:
        return False
    scale = 1e6 if made.style in ("oldest", "nccl1") else 1e3
    factor = 2 * (made.world_size - 1) / made.world_size
    slack = 1.00001 if made.head and made.style != "nccl1" else 1.002  # the factor is as exact as the rows tell it
    moves = size / scale
    return (
        moves / (time + dt) <= (rate + dr) * slack
        and moves / max(time - dt, 1e-9) >= (rate - dr) / slack
        and (rate - dr) * factor <= (bus + db) * slack
        and (rate + dr) * factor * slack >= bus - db
    )


@settings(max_examples=200, deadline=None)
@given(damage=damaged())
def test_one_damaged_word(damage: tuple[Made, int, str]) -> None:
    made, line, text = damage
    whole = GOOD[made][1]
    damaged_line = text.splitlines()[line - 1]
    is_row = line in {one.line for one in whole.rows}
    but = {line} if is_row and agrees(made, damaged_line) else set()
    logs = read(text)
    if is_row:
        check(logs, whole, lines=set(range(1, text.count("\n") + 1)), but=but)
        return
    truth = figures(whole)
    for place, one in ((place, one) for log_read in logs for place, one in figures(log_read).items()):
        assert (one.size_bytes, one.seconds, one.busbw) == (
            truth[place].size_bytes,
            truth[place].seconds,
            truth[place].busbw,
        )
    if "Rank" in GOOD[made][0].splitlines()[line - 1]:
        assert {one.world_size for one in logs} <= {whole.world_size, UNKNOWN}
