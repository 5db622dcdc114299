"""``gpuwire run``: pytest with the right arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gpuwire_checks.shipped import shipped_root, shipped_suites


def run_pytest(given: Mapping[str, str | None], extra: Sequence[str]) -> int:
    """Run the suites in this process; returns the exit status."""
    return int(pytest.main(pytest_arguments(given, extra, cwd=Path.cwd())))


def pytest_arguments(given: Mapping[str, str | None], extra: Sequence[str], *, cwd: Path) -> list[str]:
    """The pytest command line for these options.

    Args:
        given: option names without ``--gpuwire-``, and their values; None is left out.
        extra: pytest's own arguments. A path among them takes the place of the shipped suites.
    """
    options = [f"--gpuwire-{name}={value}" for name, value in given.items() if value is not None]
    has_path = any((cwd / argument.partition("::")[0]).exists() for argument in extra if not argument.startswith("-"))
    suites = [] if has_path else [str(shipped_suites())]
    root = shipped_root()
    if (root / "pyproject.toml").is_file():
        return [*suites, *options, *extra]
    # An installed wheel has no ini file to take these from, and its folder is not ours to write a cache into.
    settings = ["--strict-markers", "--benchmark-quiet", "-o", f"cache_dir={cwd / '.pytest_cache'}"]
    return [f"--rootdir={root}", f"--confcutdir={root}", *settings, *suites, *options, *extra]
