"""One run on this node: the folder, the document, the ranks and the clock of the budget."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpuwire_checks.errors import BaselineError
from gpuwire_checks.harness.node import Node
from gpuwire_checks.harness.recording import save_recorded
from gpuwire_checks.harness.run_head import now, run_head
from gpuwire_checks.harness.trial import Measures, Trial, not_reached, record_trial, run_trial, unmeasured
from gpuwire_checks.harness.watching import Watch, WatchedRanks
from gpuwire_checks.judge import Rule
from gpuwire_checks.records import Case, Measurement, Outcome
from gpuwire_checks.report.document import Ending, Result, RunDocument
from gpuwire_checks.report.status import ExitStatus, exit_status
from gpuwire_checks.wiring.gpus import absent_gpu
from gpuwire_checks.wiring.held import Watched


class Run:
    """Measures cases one after the other and keeps everything that came of them."""

    def __init__(
        self,
        node: Node,
        ranks: Measures,
        watch: Watch,
        *,
        planned: Sequence[str],
        predicted_seconds: float,
        labels: Mapping[str, str],
        folder: Path,
    ) -> None:
        """Start the run document.

        Args:
            planned: node ids of the tests that are to give a result.

        Raises:
            ConfigError: the folder cannot be written to.
        """
        self.node = node
        self.folder = folder
        self.results: dict[str, Result] = {}
        self._planned = tuple(planned)
        self._to_record: list[tuple[Measurement, ...]] = []
        self._closing: list[str] = []
        self._not_recorded = False
        self._missing_gpu = absent_gpu(node.held)
        self.recorded = 0
        self._start = time.monotonic()
        self._ranks = WatchedRanks(ranks, watch)
        self._watch = watch
        self.document = RunDocument.start(
            folder,
            run_head(
                node,
                planned=len(self._planned),
                predicted_seconds=predicted_seconds,
                labels=labels,
                run_id=folder.name,
            ),
        )

    @property
    def planned(self) -> int:
        """Tests that are to give a result."""
        return len(self._planned)

    @property
    def watched(self) -> Watched:
        """What was seen of the wires under load so far."""
        return replace(self._watch.watched, devices=self._ranks.devices)

    def try_case(self, case: Case) -> Trial:
        """Measure and judge a case; what went wrong is in the verdict, never raised."""
        cause = self._missing_gpu or self._too_late_for(case)
        if cause is not None:
            return unmeasured(case, Outcome.NOT_RUN, cause)
        node, attempts = self.node, self.node.policy.attempts
        bound, rule = node.bound_for(case), self._rule(case)
        if bound is None and node.settings.missing == "record":
            trial = record_trial(case, self._ranks, attempts=attempts.record, rule=rule, where=node.where)
            if trial.verdict.outcome is Outcome.NO_BASELINE:
                self._to_record.append(trial.attempts)
            return trial
        return run_trial(
            case, self._ranks, bound=bound, rule=rule, pause_seconds=attempts.pause_seconds, where=node.where
        )

    def explains_failure(self, nodeid: str) -> bool:
        """Whether a test's verdict is why it failed: a site's own assertion may fail on a good figure."""
        outcome = self.results[nodeid].verdict.outcome
        if outcome is Outcome.NO_BASELINE:
            return self.node.settings.missing == "fail"
        return outcome.is_fault or outcome is Outcome.ERROR

    def keep(self, nodeid: str, trial: Trial, *, seconds: float) -> Result:
        """Write a trial into the run document."""
        result = Result(
            nodeid=nodeid, verdict=trial.verdict, bound=trial.bound, attempts=trial.attempts, seconds=seconds
        )
        self.results[nodeid] = result
        self.document.append(result)
        return result

    def finish(self, *, ended_by: int | None, other_failures: int) -> int:
        """End the ranks, account for what was not reached, save what was recorded; returns the exit status.

        Args:
            ended_by: pytest's own exit status where that says more than the verdicts, such as an interruption.
            other_failures: failed tests that gave no result of ours.
        """
        self._ranks.close()
        self._watch.close()
        for nodeid in self._planned:
            if nodeid not in self.results:
                self.keep(nodeid, not_reached(nodeid), seconds=0.0)
        self._save_recorded()
        outcomes = [result.verdict.outcome for result in self.results.values()]
        status = self._status(outcomes) if not other_failures else ExitStatus.FAULT
        if ended_by is not None:
            status = ended_by
        self.document.finish(
            Ending(
                finished_at=now(),
                exit_status=int(status),
                counts=dict(Counter(outcome.value for outcome in outcomes)),
                seconds=time.monotonic() - self._start,
                watched=self.watched,
            )
        )
        return int(status)

    def closing_lines(self) -> list[str]:
        """What the summary ends with: what was recorded, what could not be written, where everything is."""
        lines = list(self._closing)
        if self.document.trouble:
            lines.append(f"run.json is not complete: {self.document.trouble}")
        return [*lines, f"run folder: {self.folder}"]

    def _status(self, outcomes: Sequence[Outcome]) -> int:
        status = exit_status(outcomes, missing=self.node.settings.missing)
        if status == ExitStatus.GOOD and (self.document.trouble or self._not_recorded):
            return ExitStatus.NOT_MEASURED  # it was, but it could not be kept
        return status

    def _rule(self, case: Case) -> Rule:
        policy = self.node.policy
        return Rule(
            min_effect=policy.min_effect(case).fraction,
            level=policy.level(self.planned),
            max_attempts=policy.attempts.confirm,
        )

    def _too_late_for(self, case: Case) -> str | None:
        budget = self.node.settings.budget_seconds
        if budget is None:
            return None
        left = max(0.0, budget - (time.monotonic() - self._start))
        if left >= case.predicted_seconds:
            return None
        return (
            f"{left:.1f} s are left of the budget of {budget:g} s, and this takes about {case.predicted_seconds:.1f} s"
        )

    def _save_recorded(self) -> None:
        if not self._to_record:
            return
        try:
            path = save_recorded(self.node, self._to_record, software=self._ranks.software)
        except BaselineError as error:
            self._not_recorded = True
            self._closing.append(f"nothing was recorded: {error}")
        else:
            self.recorded = len(self._to_record)
            self._closing.append(
                f"recorded {len(self._to_record)} bounds in {path}; from now on this node is held to them"
            )
