"""The runs of a text while it is read, and what remarks say of them."""

from __future__ import annotations

from typing import NoReturn

from gpuwire_checks.errors import TopologyError
from gpuwire_checks.recorded.nccl_failures import read_trouble
from gpuwire_checks.recorded.nccl_head import read_average, read_out_of_bounds, read_versions
from gpuwire_checks.recorded.nccl_names import named_collective
from gpuwire_checks.recorded.nccl_run import Named, Run

MAX_RUNS = 500
MAX_TROUBLES = 100


class Book:
    """Every run so far; lines go to the run that is current under their launcher's label.

    Attributes:
        open_line: the last line of the text where no newline ends it.
        open_word: that line ends in a word, which may be cut.
    """

    def __init__(self, *, source: str, open_line: int | None, open_word: bool) -> None:
        self.source = source
        self.open_line = open_line
        self.open_word = open_word
        self.runs: list[Run] = []
        self.current: dict[str, Run] = {}
        self.active: Run | None = None
        self.next_name: Named | None = None

    def refuse(self, line: int, what: str) -> NoReturn:
        """Ends the reading.

        Raises:
            TopologyError: always.
        """
        raise TopologyError(f"{self.source}:{line}: {what}: paste only the output of nccl-tests")

    def run(self, key: str, number: int, *, fresh: bool = False) -> Run:
        """The run that lines with a label belong to; a fresh one where they start another."""
        run = self.current.get(key)
        if run is None and self.active is not None and not self.active.begun and self.active.options is None:
            run = self.active
        if run is None or fresh:
            run = Run(number)
            if self.next_name is not None:
                run.names.append(self.next_name)
                self.next_name = None
            self.runs.append(run)
            if len(self.runs) > MAX_RUNS:
                self.refuse(number, f"more than {MAX_RUNS} runs")
        self.current[key] = self.active = run
        return run

    def seen(self, key: str) -> Run:
        """The run so far under a label, for questions only."""
        return self.current.get(key) or Run(0)

    def remark(self, key: str, number: int, body: str) -> None:
        """Whatever a line says of its run, that is not a row, a header, a device or the options."""
        body = " ".join(body.split())
        if "Collective test" in body:
            self._named_by_program(key, number, body)
        elif "ersion" in body or "compiled with" in body:
            self._version(key, number, body)
        elif "Out of bounds" in body or "Avg bus" in body:
            self._conclusion(key, number, body)
        elif "-place" in body:
            self.run(key, number, fresh=self.seen(key).ended and not self.seen(key).alone).heading = body
        elif "asterisk" in body and key in self.current:
            self.current[key].rccl = True
        elif collective := named_collective(body):
            self._named_by_command(number, collective)

    def _named_by_program(self, key: str, number: int, body: str) -> None:
        seen = self.seen(key)
        starting = "starting" in body
        run = self.run(key, number, fresh=starting and (seen.begun or seen.failed) and not seen.alone)
        run.ended = run.ended or (not starting and "concluded" in body)
        if collective := named_collective(body):
            run.names.append(Named(number, collective, stated=True))

    def _named_by_command(self, number: int, collective: str) -> None:
        """A command line names the run it starts; a launcher's message, the one that just failed."""
        run = self.active
        if run is not None and not run.begun and not run.names:
            run.names.append(Named(number, collective, stated=False))
        else:
            self.next_name = Named(number, collective, stated=False)

    def _version(self, key: str, number: int, body: str) -> None:
        found = read_versions(body) if number != self.open_line else {}
        if not found:
            return
        seen = self.seen(key)
        run = self.run(key, number, fresh="nccl-tests" in found and (seen.begun or seen.failed) and not seen.alone)
        for name, version in found.items():
            if run.versions.setdefault(name, version) != version:
                run.doubt(number, f"{name} {version} here, and {run.versions[name]} above")
        run.rccl = run.rccl or "rccl" in found or "rccl-tests" in found

    def _conclusion(self, key: str, number: int, body: str) -> None:
        seen = self.seen(key)
        average = "Avg bus" in body
        run = self.run(key, number, fresh=average and seen.average is not None and not seen.alone)
        if not average:
            run.out_of_bounds = read_out_of_bounds(body)
            if run.out_of_bounds is None:
                run.doubt(number, "the count of values out of bounds is cut, or contradicts its OK or FAILED")
            return
        cut = number == self.open_line and self.open_word
        value, too_low = read_average(body, cut=cut)
        run.average = value if run.average is None else run.average
        run.ended = value is not None or not cut
        if value is None:
            run.doubt(number, "the average is cut, or no number")
        if too_low:
            run.doubt(number, "the tool calls its own average too low (below NCCL_TESTS_MIN_BW)")

    def trouble(self, key: str, number: int, text: str, *, after: str) -> None:
        """A line that says why there are no figures; ``after`` is the one below it."""
        run = self.current.get(key) or self.active
        if run is not None and len(run.troubles) >= MAX_TROUBLES:
            return
        trouble = read_trouble(text, line=number, after=after)
        if trouble is None:
            return
        if run is None or (run.ended and (trouble.definite or trouble.before_start)):
            run = self.run("", number, fresh=True)
        run.troubles.append(trouble)
