"""The suite's part in a pytest session, from collection to exit status."""

from __future__ import annotations

import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuwire_checks.errors import GpuwireError
from gpuwire_checks.harness import collection, markers, progress
from gpuwire_checks.harness.folder import new_run_folder, remove_unused
from gpuwire_checks.harness.lock import NodeLock
from gpuwire_checks.harness.options import Settings, read_settings
from gpuwire_checks.harness.samples import SampleClock, feed
from gpuwire_checks.harness.starting import local_ranks, pool_spec
from gpuwire_checks.harness.trial import Measures, NoRanks, Trial
from gpuwire_checks.harness.watching import Watch, Watcher
from gpuwire_checks.harness.wiring import judge_requirement, judge_rule, judge_topology
from gpuwire_checks.measure.ranks import Ranks
from gpuwire_checks.records import Case, Outcome
from gpuwire_checks.report.properties import benchmark_info, junit_properties
from gpuwire_checks.topology.discover import discover
from gpuwire_checks.world import choose_world

if TYPE_CHECKING:
    from gpuwire_checks.harness.node import Node
    from gpuwire_checks.harness.run import Run
    from gpuwire_checks.report.document import Result
    from gpuwire_checks.topology.model import NodeTopology
    from gpuwire_checks.world import World

_MORE_THAN_ONE_WORKER = (
    "gpuwire does not run on more than one xdist worker: they would measure each other on one set of wires;"
    " leave out -n"
)


def run_in_one_process(config: pytest.Config) -> None:
    """One xdist worker distributes nothing: run in this process, where the summary and the exit status are made."""
    if getattr(config.option, "numprocesses", None) == 1:
        config.option.numprocesses = None
        config.option.dist = "no"
        config.option.tx = []


def _is_one_of_several_workers() -> bool:
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1


class GpuwireSession:
    """Registered as a plugin; inert until a test asks for a case or for the node's wiring."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._clock = SampleClock()
        self._problem: GpuwireError | None = None
        self._lock = NodeLock()
        self._folder: Path | None = None
        self._ranks: Measures | None = None
        self._run: Run | None = None
        self._progress: progress.Plain | progress.Bar | None = None
        self._other_failures: set[str] = set()
        self._asks_parts = False

    @cached_property
    def settings(self) -> Settings:
        return read_settings(self._config)

    @cached_property
    def node(self) -> Node:
        """The node and its plan, made when first needed: pytest runs that measure nothing never look.

        Raises:
            GpuwireError: a request that makes no sense here, or a file that cannot be read.
        """
        markers.check_requirements(self.settings.require)
        topology = self._topology()
        world = choose_world(topology, device=self.settings.device, world_size=self.settings.world_size)
        if not self._config.option.collectonly:
            self._folder = new_run_folder(self.settings.run_dir)
            if self.settings.source is None:
                self._start_ranks(topology, world, self._folder)
        # Imported only now, while the ranks import torch: files are read with pydantic, which takes its time.
        from gpuwire_checks.harness.node import survey  # noqa: PLC0415

        return survey(self.settings, topology=topology, world=world)

    def _topology(self) -> NodeTopology:
        """The node that is judged: the one in a recorded file, the one that a site's hook gives, or this one."""
        if self.settings.source is not None:
            from gpuwire_checks.topology.formats import read_recorded  # noqa: PLC0415 - needed by no live node

            return read_recorded(self.settings.source)
        given: NodeTopology | None = self._config.hook.pytest_gpuwire_topology(config=self._config)
        return given or discover()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if not collection.needs_plan(metafunc):
            return
        if self._problem is not None or _is_one_of_several_workers():
            collection.parametrize_with_nothing(metafunc)
            return
        try:
            collection.parametrize(metafunc, self.node, self._clock)
        except GpuwireError as error:
            # An error here would be shown once a file and with a traceback; after collection it is one clear line.
            self._problem = error
            collection.parametrize_with_nothing(metafunc)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """In xdist's controller: a usage error in a worker would only be a worker that went away."""
        if any(nodeid.endswith(f"[{collection.UNPLANNED}]") for nodeid in ids):
            raise pytest.UsageError(_MORE_THAN_ONE_WORKER)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not any(collection.gives_result(item) for item in items) or _is_one_of_several_workers():
            return
        if self._problem is not None:
            raise pytest.UsageError(str(self._problem))
        try:
            items[:], dropped = collection.split(items, self.settings.tier, can_measure=self.settings.source is None)
            collection.skip_what_is_lacking(items, self.node)
            items[:] = collection.in_order(items)
        except GpuwireError as error:
            self._problem = error
            raise pytest.UsageError(str(error)) from error
        if dropped:
            self._config.hook.pytest_deselected(items=dropped)
        for item in filter(collection.needs_ranks, items):
            # pytest-benchmark warns where a case could not be measured; the outcome says so already.
            item.add_marker(pytest.mark.filterwarnings("ignore:Benchmark fixture was not used"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self._problem is not None:
            return  # pytest calls this after a usage error too
        items = [item for item in session.items if collection.gives_result(item) and not collection.is_skipped(item)]
        if not items or self._config.option.collectonly or _is_one_of_several_workers():
            self.close()
            return
        try:
            self._begin(items)
        except GpuwireError as error:
            self.close()
            raise pytest.UsageError(str(error)) from error

    def pytest_report_collectionfinish(self) -> list[str]:
        if self._run is None:
            return []
        from gpuwire_checks.harness.last_run import software_changes  # noqa: PLC0415
        from gpuwire_checks.harness.recording import known_software  # noqa: PLC0415
        from gpuwire_checks.report.header import header_lines  # noqa: PLC0415

        run, node = self._run, self._run.node
        head = run.document.head
        changes = software_changes(node.settings.run_dir, node.topology, host=head.host, but=run.folder)
        return header_lines(head, node.plan, bounds=node.bounds, software=known_software(node, {}), changes=changes)

    def pytest_runtestloop(self) -> None:
        if self._run is None or self._config.option.verbose:
            return
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self._config.option.verbose == 0:
            reporter.showfspath = False
            self._progress = progress.choose(reporter, total=self._run.planned, on_terminal=reporter.isatty)
            self._progress.__enter__()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """With progress of our own, no letter a test; the category stays pytest's."""
        if self._progress is None or self._run is None:
            return None
        if report.nodeid not in self._run.results:
            # A test for parts that are not here; its reason is in pytest's own summary with -rs.
            return ("skipped", "", "") if report.skipped else None
        if report.passed:
            return ("passed" if report.when == "call" else ""), "", ""
        if report.skipped:
            return "skipped", "", ""
        return ("failed" if report.when == "call" else "error"), "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        result = self._run.results.get(report.nodeid) if self._run else None
        if report.failed and not (self._run and result and self._run.explains_failure(report.nodeid)):
            self._other_failures.add(report.nodeid)
        if result and report.when == "teardown" and self._progress is not None:
            self._progress.show(result)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._progress is not None:
            self._progress.__exit__(None, None, None)
            self._progress = None
        if self._run is None:
            return
        status = self._run.finish(
            ended_by=exitstatus if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else None,
            other_failures=len(self._other_failures),
        )
        session.exitstatus = status
        self._lock.release()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._run is None:
            return
        from gpuwire_checks.report.terminal import summary_lines  # noqa: PLC0415

        terminalreporter.section("gpuwire")
        lines = summary_lines(
            list(self._run.results.values()),
            width=terminalreporter._tw.fullwidth,  # noqa: SLF001 - pytest offers the width nowhere else
            color=terminalreporter.hasmarkup,
            host=self._run.document.head.host,
            baseline=self._run.node.match.baseline.name if self._run.node.match.baseline else None,
            recorded=self._run.recorded,
        )
        for line in [*lines, *self._run.closing_lines()]:
            terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        self.close()

    def close(self) -> None:
        """Give the node back, whatever happened."""
        if self._ranks is not None:
            self._ranks.close()
        if self._folder is not None:
            remove_unused(self._folder)
        self._lock.release()

    def measure(self, item: pytest.Item, case: Case, benchmark: Any) -> Trial:
        """The ``measured`` fixture: skips what was not run, errs where nothing could be measured."""
        assert self._run is not None
        start = time.perf_counter()
        trial = self._run.try_case(case, markers={marker.name for marker in item.iter_markers()})
        result = self._keep(item, trial, time.perf_counter() - start)
        if trial.verdict.outcome is Outcome.NOT_RUN:
            pytest.skip(f"NOT RUN: {trial.verdict.reason}")
        if trial.verdict.outcome is Outcome.ERROR:
            pytest.fail(f"ERROR {case.id}: {trial.verdict.reason}", pytrace=False)
        benchmark.extra_info.update(benchmark_info(result))
        feed(benchmark, self._clock, [seconds for attempt in trial.attempts for seconds in attempt.samples])
        return trial

    def judge_topology(self, item: pytest.Item) -> Trial:
        """The ``wiring`` fixture."""
        trial = judge_topology(self.node, told_by_part=self._asks_parts)
        self._keep(item, trial, 0.0)
        return trial

    def judge_rule(self, item: pytest.Item, part: object) -> Trial:
        """The ``judged`` fixture."""
        assert self._run is not None
        name = collection.rule_name(item)
        assert name is not None
        trial = judge_rule(self.node, name, part, self._run.watched)
        self._keep(item, trial, 0.0)
        return trial

    def judge_requirement(self, item: pytest.Item, requirement: str) -> Trial:
        """The ``required`` fixture."""
        trial = judge_requirement(self.node.topology, requirement)
        self._keep(item, trial, 0.0)
        return trial

    def _keep(self, item: pytest.Item, trial: Trial, seconds: float) -> Result:
        assert self._run is not None
        result = self._run.keep(item.nodeid, trial, seconds=seconds)
        item.user_properties.extend(junit_properties(result))
        return result

    def _start_ranks(self, topology: NodeTopology, world: World, folder: Path) -> None:
        given: Measures | None = self._config.hook.pytest_gpuwire_ranks(
            config=self._config, spec=pool_spec(topology, world), folder=folder
        )
        self._ranks = given or local_ranks(topology, world, folder=folder)
        self._ranks.start()
        # After the start, which is all that a second run on a node gets to do before it is refused.
        self._lock.acquire(run=str(folder))

    def _watch(self) -> Watch:
        from gpuwire_checks.topology.watching import local_watcher  # noqa: PLC0415 - while the ranks start

        watcher: Watcher = self._config.hook.pytest_gpuwire_watcher(config=self._config) or local_watcher()
        return Watch(watcher, has_gpus=bool(self.node.topology.gpus))

    def _begin(self, items: list[pytest.Item]) -> None:
        from gpuwire_checks.harness.node import deadlines  # noqa: PLC0415 - see node
        from gpuwire_checks.harness.run import Run  # noqa: PLC0415 - see node

        given = self._config.hook.pytest_gpuwire_labels(config=self._config)
        labels = {key: value for some in given for key, value in some.items()}
        node = self.node
        self._asks_parts = any(collection.rule_name(item) not in (None, "software") for item in items)
        assert self._folder is not None
        if self._ranks is None:
            self._ranks = NoRanks()
        if not any(collection.needs_ranks(item) for item in items):
            self._ranks.close()
        if isinstance(self._ranks, Ranks):
            self._ranks.deadlines = deadlines(node.policy)
        self._run = Run(
            node,
            self._ranks,
            self._watch(),
            planned=[item.nodeid for item in items],
            predicted_seconds=collection.predicted_seconds(items),
            labels=labels,
            folder=self._folder,
        )
