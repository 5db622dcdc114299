"""One run of nccl-tests in a text: its lines by what they are, before they are read as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuwire_checks.recorded.nccl_failures import Trouble
from gpuwire_checks.recorded.nccl_head import Options
from gpuwire_checks.recorded.nccl_ranks import RankLine
from gpuwire_checks.recorded.nccl_rows import RowText, TableText
from gpuwire_checks.topology.model import Doubt

MAX_DOUBTS = 200


@dataclass(frozen=True, slots=True)
class Named:
    """A line that names the collective; ``stated`` when the program itself does."""

    line: int
    collective: str
    stated: bool


@dataclass(slots=True)
class Run:
    """The lines of one run, as they came.

    Attributes:
        followed: a line comes after the list of devices, so that the list's end is there.
        heading: the line above the header.
        open_row: the row that a next piece belongs to.
    """

    first_line: int
    table: TableText = field(default_factory=TableText)
    options: Options | None = None
    names: list[Named] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    ranks: list[RankLine] = field(default_factory=list)
    broken_ranks: list[int] = field(default_factory=list)
    followed: bool = False
    heading: str = ""
    out_of_bounds: int | None = None
    average: float | None = None
    ended: bool = False
    troubles: list[Trouble] = field(default_factory=list)
    rccl: bool = False
    doubts: list[Doubt] = field(default_factory=list)
    open_row: RowText | None = None

    @property
    def alone(self) -> bool:
        """True when processes that each run alone print into one stream, as a program built without MPI=1 does."""
        return len(self.ranks) > 1 and all(one.rank.rank == 0 for one in self.ranks)

    @property
    def failed(self) -> bool:
        return any(trouble.definite or trouble.before_start for trouble in self.troubles)

    @property
    def measured(self) -> bool:
        return bool(self.table.rows) or self.ended

    @property
    def begun(self) -> bool:
        return self.measured or self.table.header_line is not None or bool(self.ranks)

    @property
    def in_table(self) -> bool:
        return (self.table.header_line is not None or bool(self.table.rows)) and not self.ended

    @property
    def says_something(self) -> bool:
        return self.begun or self.options is not None or bool(self.troubles or self.broken_ranks)

    def doubt(self, line: int | None, text: str) -> None:
        """Notes what could not be placed, up to one more than are shown."""
        if len(self.doubts) <= MAX_DOUBTS:
            self.doubts.append(Doubt(line=line, text=text))
