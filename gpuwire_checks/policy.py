"""How strict the suite is: the false-alarm budget, what is worth a failure, attempts, deadlines and tiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gpuwire_checks.errors import ConfigError
from gpuwire_checks.records import Case
from gpuwire_checks.units import parse_size
from gpuwire_checks.yamlfile import load_yaml

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
    """Attempts behind a recorded bound, and at most before a suspicion is a verdict.

    ``pause_seconds`` lie between attempts at a suspicion: what disturbs a node for a moment has gone by then.
    """

    record: int = Field(ge=2, le=100)
    confirm: int = Field(ge=1, le=20)
    pause_seconds: float = Field(ge=0, le=60)


class DeadlineFile(_Strict):
    """Seconds for ranks to start, and for a job: the larger of ``floor`` and ``factor`` times its prediction."""

    start_seconds: float = Field(gt=0)
    floor_seconds: float = Field(gt=0)
    factor: float = Field(ge=1)


class MinEffect(_Strict):
    """The smallest change worth a failure, as a fraction of the centre, for the cases that it fits."""

    metric: Literal["busbw", "latency"] | None = None
    backend: str | None = None
    size_class: Literal["latency", "bucket", "peak"] | None = None
    collective: str | None = None
    fraction: float = Field(gt=0, lt=100)
    why: str

    def fits(self, case: Case) -> bool:
        pairs = (
            (self.metric, case.metric.name),
            (self.backend, case.backend),
            (self.size_class, case.size_class.value),
            (self.collective, case.collective),
        )
        return all(want in (None, has) for want, has in pairs)


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
    version: Literal[1] = Field(alias="schema")
    false_alarms: FalseAlarms
    attempts: Attempts
    deadlines: DeadlineFile = DeadlineFile(start_seconds=120, floor_seconds=20, factor=10)
    min_effect: tuple[MinEffect, ...] = Field(min_length=1)
    bit_error_rates: Mapping[Literal["pcie", "nvlink", "infiniband"], Rate] = Field(default_factory=dict)
    tiers: Mapping[str, TierFile] = Field(min_length=1)


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
        bit_error_rates: of each kind of wire, the most bits in one that may be wrong and sent again.
    """

    path: Path
    false_alarms: FalseAlarms
    attempts: Attempts
    deadlines: DeadlineFile
    min_effects: tuple[MinEffect, ...]
    tiers: Mapping[str, Tier]
    bit_error_rates: Mapping[str, float] = field(default_factory=dict)

    def min_effect(self, case: Case) -> MinEffect:
        """The first row that fits a case.

        Raises:
            ConfigError: none does.
        """
        for row in self.min_effects:
            if row.fits(case):
                return row
        raise ConfigError(f"{self.path}: no min_effect fits {case.id}; end the list with a row that fits everything")

    def level(self, decisions: int) -> float:
        """The chance of a false failure that one decision may have.

        Args:
            decisions: taken in one run on one node.
        """
        budget = self.false_alarms
        return min(0.05, budget.per_week / (budget.nodes * budget.runs_per_week * max(1, decisions)))


def load_policy(directories: Sequence[Path]) -> Policy:
    """The policy of the first directory that has one.

    Raises:
        ConfigError: none has, or it cannot be read; with file and line.
    """
    for directory in directories:
        path = directory / FILE_NAME
        try:
            found = path.exists()
        except OSError as problem:
            # A site's policy that cannot be read must not give way to the shipped one.
            raise ConfigError(f"cannot look for {path}: {problem.strerror}; make its directory readable") from problem
        if found:
            return _policy(path)
    raise ConfigError(f"no {FILE_NAME} in {', '.join(map(str, directories)) or 'no directory'}")


def _policy(path: Path) -> Policy:
    file = load_yaml(path, PolicyFile, error=ConfigError).value
    return Policy(
        path=path,
        false_alarms=file.false_alarms,
        attempts=file.attempts,
        deadlines=file.deadlines,
        min_effects=file.min_effect,
        bit_error_rates={str(wire): rate for wire, rate in file.bit_error_rates.items()},
        tiers={
            name: Tier(name=name, description=tier.description, cpu=tier.cpu, accelerator=tier.accelerator)
            for name, tier in file.tiers.items()
        },
    )
