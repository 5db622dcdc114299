"""Two real gloo ranks that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gloo import spec

from gpuwire_checks.measure.ranks import Deadlines, Ranks


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    lasting = Ranks(spec(), folder=tmp_path_factory.mktemp("ranks"), deadlines=Deadlines())
    yield lasting
    lasting.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
