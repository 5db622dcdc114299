"""Where the suites and baselines that came with this package are: beside it in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def shipped_root() -> Path:
    """The folder with ``conftest.py``, ``suites`` and ``baselines``."""
    checkout = _PACKAGE.parent
    return checkout if (checkout / "suites").is_dir() else _PACKAGE / "shipped"


def shipped_baselines() -> Path:
    return shipped_root() / "baselines"


def shipped_suites() -> Path:
    return shipped_root() / "suites"
