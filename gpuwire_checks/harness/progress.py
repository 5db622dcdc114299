"""Progress while cases are measured: a bar on a terminal, a line a case everywhere else."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

    from gpuwire_checks.report.document import Result


class Writer(Protocol):
    """Where plain lines go: pytest's terminal reporter, or the command line's own."""

    def write_line(self, line: str) -> None:
        """Write one line."""


class Plain:
    """A line a case: what CI logs keep."""

    def __init__(self, writer: Writer, *, total: int) -> None:
        self._writer = writer
        self._total = total
        self._done = 0

    def __enter__(self) -> Plain:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def show(self, result: Result) -> None:
        from gpuwire_checks.report.terminal import progress_line  # noqa: PLC0415

        self._done += 1
        self._writer.write_line(progress_line(self._done, self._total, result))


class Bar:
    """A rich progress bar on the terminal; what is not good stays above it as a line."""

    def __init__(self, terminal: TextIO, *, total: int) -> None:
        self._terminal = terminal
        self._total = total
        self._done = 0
        self._progress: Progress | None = None

    def __enter__(self) -> Bar:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        # No refresh thread: it would run beside the ranks that are being timed.
        self._progress = Progress(
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=Console(file=self._terminal, force_terminal=True),
            auto_refresh=False,
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task("starting ranks", total=self._total)
        self._progress.refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
        self._terminal.close()

    def show(self, result: Result) -> None:
        from gpuwire_checks.report.terminal import progress_line  # noqa: PLC0415

        assert self._progress is not None
        self._done += 1
        line = progress_line(self._done, self._total, result)
        if not result.verdict.outcome.is_good:
            self._progress.console.print(line, markup=False, highlight=False)
        self._progress.update(self._task, advance=1, description=result.verdict.name, refresh=True)


def choose(writer: Writer, *, total: int, on_terminal: bool) -> Plain | Bar:
    """A bar where somebody watches, plain lines otherwise."""
    if on_terminal and not os.environ.get("CI"):
        try:
            # The terminal itself: pytest has redirected stdout while tests run.
            terminal = open("/dev/tty", "w", encoding="utf-8")  # noqa: PTH123, SIM115
        except OSError:
            return Plain(writer, total=total)
        return Bar(terminal, total=total)
    return Plain(writer, total=total)
