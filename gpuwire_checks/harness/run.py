"""One run on this node: the folder, the document, the ranks and the clock of the budget."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpuwire_checks.errors import BaselineError
from gpuwire_checks.harness.node import Node
from gpuwire_checks.harness.recording import save_recorded
from gpuwire_checks.harness.run_head import now, run_head
from gpuwire_checks.harness.trial import Measures, Trial, not_reached, record_trial, run_trial, unmeasured
from gpuwire_checks.harness.watching import Watch, WatchedRanks
from gpuwire_checks.judge.ceilings import possible
from gpuwire_checks.judge.control import Control
from gpuwire_checks.judge.limits import limits_of
from gpuwire_checks.judge.reference import judge_reference
from gpuwire_checks.judge.rule import Rule, make_rule
from gpuwire_checks.judge.verdicts import Judgement
from gpuwire_checks.judge.widespread import Fallen, is_alike, widespread
from gpuwire_checks.records import Bound, Case, Measurement, Outcome
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
        self._controls: list[Control] = []
        self._fallen: list[Fallen] = []
        self._judged = 0
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

    def try_case(self, case: Case, *, markers: Iterable[str] = ()) -> Trial:
        """Measure and judge a case; what went wrong is in the verdict, never raised.

        Args:
            markers: names of the pytest markers on its test, for the policy's rows.
        """
        cause = self._missing_gpu or self._too_late_for(case)
        if cause is not None:
            return unmeasured(case, Outcome.NOT_RUN, cause)
        node, attempts = self.node, self.node.policy.attempts
        bound = node.bound_for(case)
        if bound is None and node.settings.missing == "record":
            trial = record_trial(case, self._ranks, attempts=attempts.record_in_run, where=node.where)
            trial = replace(trial, verdict=possible(trial.verdict, trial.attempts, node.topology))
            if trial.verdict.outcome is Outcome.NO_BASELINE:
                self._to_record.append(trial.attempts)
            return trial
        rule = self._rule(case, markers)
        trial = run_trial(
            case,
            self._ranks,
            bound=bound,
            rule=rule,
            pause_seconds=attempts.pause_seconds,
            where=node.where,
            control=self._control_for(case),
            settle=lambda judgement, made: self._settle(judgement, made, bound, rule),
            too_late=lambda: self._too_late_for(case),
        )
        self._note(trial, rule)
        return trial

    def explains_failure(self, nodeid: str) -> bool:
        """Whether a test's verdict is why it failed: a site's own assertion may fail on a good figure."""
        outcome = self.results[nodeid].verdict.outcome
        if outcome is Outcome.NO_BASELINE:
            return self.node.settings.missing == "fail"
        return self.results[nodeid].verdict.is_fault or outcome is Outcome.ERROR

    def keep(self, nodeid: str, trial: Trial, *, seconds: float) -> Result:
        """Write a trial into the run document."""
        result = Result(
            nodeid=nodeid,
            verdict=trial.verdict,
            bound=trial.bound,
            attempts=trial.attempts,
            control=trial.control,
            seconds=seconds,
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
        status = self._status() if not other_failures else ExitStatus.FAULT
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
        """What the summary ends with: what was recorded, or could not be, what may be accepted, where everything is."""
        lines = list(self._closing)
        if self.document.trouble:
            lines.append(f"run.json is not complete: {self.document.trouble}")
        improved = sum(result.verdict.outcome is Outcome.IMPROVED for result in self.results.values())
        if improved:
            are = "1 case is" if improved == 1 else f"{improved} cases are"
            lines.append(
                f"{are} IMPROVED: find out why, then accept {'it' if improved == 1 else 'them'} with:"
                f' gpuwire baseline accept {self.folder} --reason "..."'
            )
        return [*lines, f"run folder: {self.folder}"]

    def _status(self) -> int:
        verdicts = [result.verdict for result in self.results.values()]
        status = exit_status(verdicts, missing=self.node.settings.missing)
        if status == ExitStatus.GOOD and (self.document.trouble or self._not_recorded):
            return ExitStatus.NOT_MEASURED  # it was, but it could not be kept
        return status

    def _rule(self, case: Case, markers: Iterable[str]) -> Rule:
        node = self.node
        tolerance = node.policy.tolerance(case, sku=node.fingerprint.sku, markers=markers)
        return make_rule(node.policy, tolerance, decisions=node.decisions)

    def _settle(
        self, judgement: Judgement, attempts: Sequence[Measurement], bound: Bound | None, rule: Rule
    ) -> Judgement:
        """A first suspicion that fell as most cases did is confirmed with them."""
        judgement = self._by_topology(judgement, attempts, bound, rule)
        common = widespread(self._fallen, judged=self._judged)
        if judgement.settled or bound is None or common is None or len(attempts) > 1:
            return judgement
        limits = limits_of(bound, rule)
        fall = limits.fall(attempts[0].value)
        if fall <= limits.width or not is_alike(fall, common.fall, spread=limits.spread):
            return judgement
        reason = f"{judgement.verdict.reason}; {common.words}"
        return Judgement(verdict=replace(judgement.verdict, outcome=Outcome.REGRESSED, reason=reason), settled=True)

    def _by_topology(
        self, judgement: Judgement, attempts: Sequence[Measurement], bound: Bound | None, rule: Rule
    ) -> Judgement:
        """What the topology says of figures: the published floor where there is no bound, and what its wires carry."""
        node = self.node
        floor = node.floor_of(attempts[0].case) if bound is None else None
        if floor is not None:
            judgement = judge_reference(attempts, floor, rule, where=node.where)
        verdict = possible(judgement.verdict, attempts, node.topology)
        return Judgement(verdict=verdict, settled=judgement.settled or verdict.outcome is Outcome.ERROR)

    def _control_for(self, case: Case) -> Control | None:
        """The last case that passed at once: of the same metric, and of another collective, as far as there is one."""
        same = [control for control in self._controls if control.case.metric is case.metric]
        other = [control for control in same if control.case.collective != case.collective]
        return next(reversed(other or same or self._controls), None)

    def _note(self, trial: Trial, rule: Rule) -> None:
        """Keep what later cases are compared with: the last one that passed at once, and those that fell."""
        if trial.bound is None or trial.case is None or trial.verdict.value is None:
            return
        limits = limits_of(trial.bound, rule)
        self._judged += 1
        if trial.verdict.outcome is Outcome.PASS and len(trial.attempts) == rule.first:
            self._controls.append(Control(case=trial.case, limits=limits, passed_at=trial.attempts[0].started_at))
        if trial.verdict.outcome is Outcome.REGRESSED:
            self._fallen.append(
                Fallen(
                    name=trial.case.id,
                    fall=limits.fall(trial.verdict.value),
                    spread=limits.spread,
                    attempts=len(trial.attempts),
                )
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
