"""The small suite as a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_suite import Suite


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.setenv("GPUWIRE_LOCK", str(pytester.path / "lock"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.delenv("GPUWIRE_FAULT", raising=False)
    monkeypatch.setenv("CI", "true")
    return Suite(pytester)
