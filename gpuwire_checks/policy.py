"""How strict the suite is: the false-alarm budget, what is worth a failure, attempts, deadlines and tiers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.records import Case
from gpuwire_checks.tolerance import Tolerance, ToleranceRow, tolerance_of
from gpuwire_checks.units import parse_size
from gpuwire_checks.yamlfile import Loaded, load_yaml

FILE_NAME = "policy.yaml"
LATENCY_BYTES_AT_MOST = 64 << 10

Dtype = Literal["float32", "float16", "bfloat16"]


Rate = Annotated[float, Field(ge=0, lt=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _latency_size(value: object) -> int:
    size_bytes = parse_size(value)  # type: ignore[arg-type]  # refuses what is no size
    if size_bytes > LATENCY_BYTES_AT_MOST:
        raise ValueError(f"a latency size is at most 64KiB, not {value}")
    return size_bytes


Size = Annotated[int, BeforeValidator(parse_size), Field(gt=0)]
LatencySize = Annotated[int, BeforeValidator(_latency_size), Field(gt=0)]


class FalseAlarms(_Strict):
    """At most ``per_week`` false failures over ``nodes`` nodes that run ``runs_per_week`` times each."""

    per_week: float = Field(gt=0)
    nodes: int = Field(gt=0)
    runs_per_week: float = Field(gt=0)


class Attempts(_Strict):
    """Attempts behind a recorded bound, and before a verdict.

    Attributes:
        record: behind a bound that ``gpuwire baseline record`` writes.
        record_in_run: behind one that is recorded within a run.
        first: before a case can pass.
        clear: lead of attempts inside the limit that ends a suspicion.
        confirm: at most, before a suspicion is decided.
        pause_seconds: between attempts at a suspicion: what disturbs a node for a moment has gone by then.
    """

    record: int = Field(ge=2, le=1000)
    record_in_run: int = Field(default=5, ge=2, le=1000)
    first: int = Field(default=1, ge=1, le=10)
    clear: int = Field(default=3, ge=1, le=10)
    confirm: int = Field(ge=1, le=50)
    pause_seconds: float = Field(ge=0, le=60)


class Noise(_Strict):
    """What a healthy node does to figures, beside the noise that was recorded.

    Attributes:
        disturbed: share of attempts that something else may spoil, however badly.
        night: standard deviation of what the attempts of one night have in common, in spreads between attempts; used
            where a baseline of several runs does not tell.
    """

    disturbed: float = Field(ge=0, le=0.2)
    night: float = Field(ge=0, le=10)


class DeadlineFile(_Strict):
    """Seconds for ranks to start, and for a job: the larger of ``floor`` and ``factor`` times its prediction."""

    start_seconds: float = Field(gt=0)
    floor_seconds: float = Field(gt=0)
    factor: float = Field(ge=1)


class Sizes(_Strict):
    """What a tier measures on one kind of device; ``peak`` None is chosen from memory and time."""

    seconds_per_case: float = Field(gt=0)
    dtypes: tuple[Dtype, ...] = Field(min_length=1)
    latency: tuple[LatencySize, ...]
    bucket: tuple[Size, ...]
    peak: tuple[Size, ...] | Literal["auto"]


class TierFile(_Strict):
    description: str
    cpu: Sizes
    accelerator: Sizes


class PolicyFile(_Strict):
    """A policy file. A section that a site's own leaves out is the shipped one's."""

    version: Literal[1] = Field(alias="schema")
    false_alarms: FalseAlarms | None = None
    attempts: Attempts | None = None
    noise: Noise | None = None
    deadlines: DeadlineFile | None = None
    tolerances: tuple[ToleranceRow, ...] | None = Field(default=None, min_length=1)
    overrides: tuple[ToleranceRow, ...] | None = None
    bit_error_rates: Mapping[Literal["pcie", "nvlink", "infiniband"], Rate] | None = None
    tiers: Mapping[str, TierFile] | None = Field(default=None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _knows_the_old_name(cls, data: Any) -> Any:
        if isinstance(data, dict) and "min_effect" in data:
            raise ValueError(
                "'min_effect' is a column of 'tolerances' now: {min_effect: 0.05, max_slack: 0.15, why: ...}"
            )
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """How much is measured, by kind of device."""

    name: str
    description: str
    cpu: Sizes
    accelerator: Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy file, validated.

    Attributes:
        tolerances: overrides first.
        places: file and line of each of them.
        bit_error_rates: of each kind of wire, the most bits in one that may be wrong and sent again.
    """

    path: Path
    false_alarms: FalseAlarms
    attempts: Attempts
    noise: Noise
    deadlines: DeadlineFile
    tolerances: tuple[ToleranceRow, ...]
    tiers: Mapping[str, Tier]
    places: tuple[str, ...] = ()
    bit_error_rates: Mapping[str, float] = field(default_factory=dict)

    def tolerance(self, case: Case, *, sku: str, markers: Iterable[str] = ()) -> Tolerance:
        """What is worth a failure for a case on a node of this SKU.

        Raises:
            ConfigError: no row gives its smallest effect.
        """
        found = tolerance_of(self.tolerances, case, sku=sku, markers=markers)
        if found is None:
            raise ConfigError(
                f"{self.path}: no row of tolerances gives a min_effect for {case.id};"
                " end the list with a row that fits everything"
            )
        return found

    def level(self, decisions: int) -> float:
        """The chance of a false failure that one decision may have.

        Args:
            decisions: taken in one run on one node.
        """
        budget = self.false_alarms
        return min(0.05, budget.per_week / (budget.nodes * budget.runs_per_week * max(1, decisions)))


def load_policy(directories: Sequence[Path]) -> Policy:
    """The policy of the first directory that has one; sections that it leaves out are those of the next.

    Raises:
        ConfigError: none has, or one cannot be read; with file and line.
    """
    files: list[tuple[Path, Loaded[PolicyFile]]] = []
    for directory in directories:
        path = directory / FILE_NAME
        if not _exists(path):
            continue
        files.append((path, load_yaml(path, PolicyFile, error=ConfigError)))
        if all(getattr(files[-1][1].value, name) is not None for name in PolicyFile.model_fields):
            break
    if not files:
        raise ConfigError(f"no {FILE_NAME} in {', '.join(map(str, directories)) or 'no directory'}")
    return _policy(files)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as problem:
        # A site's policy that cannot be read must not give way to the shipped one.
        raise ConfigError(f"cannot look for {path}: {problem.strerror}; make its directory readable") from problem


def _policy(files: Sequence[tuple[Path, Loaded[PolicyFile]]]) -> Policy:
    def section(name: str) -> Any:
        for _, loaded in files:
            if getattr(loaded.value, name) is not None:
                return getattr(loaded.value, name)
        raise ConfigError(f"{files[0][0]}:1: '{name}' is missing")

    rows = [*_rows(files, "overrides"), *_rows(files, "tolerances")]
    if not any(loaded.value.tolerances for _, loaded in files):
        raise ConfigError(f"{files[0][0]}:1: 'tolerances' is missing")
    return Policy(
        path=files[0][0],
        false_alarms=section("false_alarms"),
        attempts=section("attempts"),
        noise=section("noise"),
        deadlines=section("deadlines"),
        tolerances=tuple(row for row, _ in rows),
        places=tuple(place for _, place in rows),
        bit_error_rates={str(wire): rate for wire, rate in section("bit_error_rates").items()},
        tiers={
            name: Tier(name=name, description=tier.description, cpu=tier.cpu, accelerator=tier.accelerator)
            for name, tier in section("tiers").items()
        },
    )


def _rows(files: Sequence[tuple[Path, Loaded[PolicyFile]]], name: str) -> list[tuple[ToleranceRow, str]]:
    """The rows of the first file that has such a section, each with its file and line."""
    for path, loaded in files:
        rows = getattr(loaded.value, name)
        if rows is not None:
            return [(row, f"{path}:{loaded.line(name, index)}") for index, row in enumerate(rows)]
    return []
