"""The ``--gpuwire-*`` options, their ini twins, and the settings they add up to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import pytest

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.shipped import shipped_baselines
from gpuwire_checks.units import parse_duration

Missing = Literal["fail", "record", "warn"]
EXTRA_DTYPES = ("float16", "bfloat16", "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: ``--gpuwire-NAME`` on the command line, ``gpuwire_NAME`` in an ini file."""

    name: str
    metavar: str
    help: str


_OPTIONS = (
    Option(name="tier", metavar="TIER", help="smoke, nightly (default), acceptance or soak: how much is measured"),
    Option(name="budget", metavar="TIME", help="stop cleanly after so long, such as 10m; what is left is NOT RUN"),
    Option(
        name="baselines", metavar="DIR", help="the site's baselines and policy.yaml, looked at before the shipped ones"
    ),
    Option(name="missing", metavar="WHAT", help="a case without a bound: fail (default), record it, or warn"),
    Option(name="expect", metavar="NAME", help="the baseline this node must be held to, instead of the best match"),
    Option(
        name="require",
        metavar="HW,...",
        help="hardware that must be here, such as nvlink,infiniband; absent is MISSING",
    ),
    Option(name="run-dir", metavar="DIR", help="where run folders go (default: gpuwire-runs)"),
    Option(name="world-size", metavar="N", help="ranks; default: one a GPU, or on a CPU half the cores, 2 to 8"),
    Option(name="device", metavar="TYPE", help="auto (default), cpu, cuda or xpu"),
    Option(name="from", metavar="FILE", help="judge the wiring in this snapshot or recorded output; measure nothing"),
    Option(name="dtypes", metavar="DTYPE,...", help="dtypes to measure beside the tier's, such as float16"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user asked for.

    Attributes:
        baselines: directories in which baselines are looked for, the site's first.
        source: what the node is read from instead of this machine; nothing is measured then.
        site: the directory that recorded baselines are written to.
        given: the options as they were given, for the record.
    """

    tier: str
    budget_seconds: float | None
    baselines: tuple[Path, ...]
    site: Path
    missing: Missing
    expect: str | None
    require: tuple[str, ...]
    run_dir: Path
    world_size: int | None
    device: str
    dtypes: tuple[str, ...]
    source: Path | None = None
    given: tuple[tuple[str, str], ...] = ()


def add_options(parser: pytest.Parser) -> None:
    """Declare every option with its ini twin."""
    group = parser.getgroup("gpuwire", "hardware regression suite for GPU nodes")
    for option in _OPTIONS:
        group.addoption(f"--gpuwire-{option.name}", metavar=option.metavar, help=option.help)
        parser.addini(f"gpuwire_{_ini(option.name)}", help=option.help, default=None)


def read_settings(config: pytest.Config) -> Settings:
    """The command line over the ini file over the defaults.

    Raises:
        ConfigError: an option that does not mean anything; says which values do.
    """
    given = {option.name: value for option in _OPTIONS if (value := _given(config, option)) is not None}
    return make_settings(given, root=config.invocation_params.dir)


def make_settings(given: dict[str, str], *, root: Path) -> Settings:
    """Settings from option texts; relative paths are relative to ``root``.

    Raises:
        ConfigError: as for ``read_settings``.
    """
    site = root / given["baselines"] if "baselines" in given else _user_baselines()
    if "baselines" in given and site.exists() and not site.is_dir():
        raise ConfigError(f"--gpuwire-baselines {given['baselines']}: not a directory")
    return Settings(
        tier=given.get("tier", "nightly"),
        budget_seconds=_convert(given, "budget", parse_duration),
        baselines=tuple(d for d in (site, shipped_baselines()) if d.is_dir()),
        site=site,
        missing=cast(Missing, _one_of("missing", given.get("missing", "fail"), get_args(Missing))),
        expect=given.get("expect"),
        require=_words(given.get("require", "")),
        run_dir=root / given.get("run-dir", "gpuwire-runs"),
        world_size=_convert(given, "world-size", _world_size),
        device=given.get("device", "auto"),
        dtypes=tuple(_one_of("dtypes", word, EXTRA_DTYPES) for word in _words(given.get("dtypes", ""))),
        source=root / given["from"] if "from" in given else None,
        given=tuple(sorted(given.items())),
    )


def _user_baselines() -> Path:
    import platformdirs  # noqa: PLC0415 - 30 ms that a site with a directory of its own need not wait for

    return platformdirs.user_data_path("gpuwire") / "baselines"


def _given(config: pytest.Config, option: Option) -> str | None:
    """The option's text. A path on the command line is relative to the user's directory, in an ini file to the root."""
    on_command_line = config.getoption(f"gpuwire_{_ini(option.name)}", None)
    if on_command_line is not None:
        return str(on_command_line)
    in_ini = config.getini(f"gpuwire_{_ini(option.name)}")
    if not in_ini:
        return None
    return str(config.rootpath / in_ini) if option.metavar in ("DIR", "FILE") else str(in_ini)


def _convert(given: dict[str, str], name: str, convert: Callable[[str], Any]) -> Any:
    if name not in given:
        return None
    try:
        return convert(given[name])
    except ValueError as error:
        raise ConfigError(f"--gpuwire-{name}: {error}") from error


def _world_size(text: str) -> int:
    if not text.isdigit() or int(text) < 2:
        raise ValueError(f"{text!r} is not a world size; collectives need at least 2 ranks")
    return int(text)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ConfigError(f"--gpuwire-{name}: {value!r} is none of {', '.join(allowed)}")
    return value


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)


def _ini(name: str) -> str:
    return name.replace("-", "_")
