"""The small suite as a fixture."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_suite import Suite


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.setenv("GPUWIRE_LOCK", str(pytester.path / "lock"))
    tests = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tests), str(tests / "wiring")]))
    monkeypatch.delenv("GPUWIRE_FAULT", raising=False)
    monkeypatch.setenv("CI", "true")
    return Suite(pytester)
