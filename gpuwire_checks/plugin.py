"""The pytest plugin: options, markers and fixtures; the session's own hooks are in harness/session.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuwire_checks.harness import hookspec, markers, options
from gpuwire_checks.harness.expect import Expect
from gpuwire_checks.harness.session import GpuwireSession, run_in_one_process
from gpuwire_checks.harness.trial import Trial

if TYPE_CHECKING:
    from gpuwire_checks.harness.node import Node
    from gpuwire_checks.records import Case

_SESSION = pytest.StashKey[GpuwireSession]()


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspec)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    run_in_one_process(config)


def pytest_configure(config: pytest.Config) -> None:
    markers.register(config)
    config.stash[_SESSION] = GpuwireSession(config)
    config.pluginmanager.register(config.stash[_SESSION], "gpuwire")


@pytest.fixture(scope="session")
def node(pytestconfig: pytest.Config) -> Node:
    """This node: its topology, policy, baseline and plan."""
    return pytestconfig.stash[_SESSION].node


@pytest.fixture
def measured(request: pytest.FixtureRequest, case: Case, benchmark: Any) -> Trial:
    """The case of this test, measured and judged. A case that could not be measured is an ERROR, not a failure."""
    return request.config.stash[_SESSION].measure(request.node, case, benchmark)


@pytest.fixture
def wiring(request: pytest.FixtureRequest) -> Trial:
    """This node's topology, held to what its baseline expects."""
    return request.config.stash[_SESSION].judge_topology(request.node)


@pytest.fixture
def judged(request: pytest.FixtureRequest, part: object) -> Trial:
    """One part of this node, held to its baseline by the rule that the test's marker names."""
    return request.config.stash[_SESSION].judge_rule(request.node, part)


@pytest.fixture
def required(request: pytest.FixtureRequest, requirement: str) -> Trial:
    """One piece of hardware that --gpuwire-require names, present or MISSING."""
    return request.config.stash[_SESSION].judge_requirement(request.node, requirement)


@pytest.fixture
def expect(pytestconfig: pytest.Config) -> Expect:
    """What a test says of a trial."""
    return Expect(missing=pytestconfig.stash[_SESSION].settings.missing)
