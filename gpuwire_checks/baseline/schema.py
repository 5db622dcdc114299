"""A baseline file: what it may say, checked key by key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gpuwire_checks.baseline.wiring import ByteRate, Wiring
from gpuwire_checks.collectives import COLLECTIVES
from gpuwire_checks.records import LATENCY, METRICS, Case
from gpuwire_checks.units import format_size, parse_size

CaseKey = tuple[str, str, int, str | None, int, str]
"""Metric, collective, bytes of the whole array, dtype, world size, backend."""

# A file is named after it.
Sku = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
COPIES = ("host_to_device", "device_to_host", "device_to_device")
"""Figures of copies, in one direction."""
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseEntry(_Strict):
    """The case a bound is for; a barrier has neither size nor dtype."""

    collective: str
    size: Annotated[int, BeforeValidator(parse_size), Field(ge=0)] = 0
    dtype: Literal["float32", "float16", "bfloat16"] | None = None
    world_size: int = Field(ge=2)
    backend: Literal["gloo", "nccl", "xccl"]

    @model_validator(mode="after")
    def _is_a_case(self) -> CaseEntry:
        if self.collective not in COLLECTIVES:
            raise ValueError(f"unknown collective {self.collective!r}; known: {', '.join(COLLECTIVES)}")
        if (self.collective == "barrier") != (self.dtype is None) or (self.dtype is None) != (self.size == 0):
            raise ValueError("size and dtype belong together: every collective but barrier has both")
        return self

    def __str__(self) -> str:
        parts = [self.collective]
        if self.dtype is not None:
            parts += [format_size(self.size), self.dtype]
        return "-".join([*parts, f"ws{self.world_size}", self.backend])


class TailEntry(_Strict):
    """The spread of single calls within an attempt, as their 95th percentile over their median: its own bound."""

    centre: Finite = Field(ge=1)
    spread: Finite = Field(ge=0)


class BoundEntry(_Strict):
    """One bound, as the file has it.

    Attributes:
        spread: standard deviation between attempts, within a run, of the figure's natural logarithm.
        attempts, nodes, runs: the counts behind ``centre``; a run is one recording on one node.
        between: standard deviation of the centres of nodes, or of the runs of one node; absent of one run.
        tail: absent where an attempt has too few single calls.
    """

    metric: Literal["busbw", "latency"]
    case: CaseEntry
    unit: str
    better: Literal["higher", "lower"]
    centre: Finite = Field(gt=0)
    spread: Finite = Field(ge=0)
    attempts: int = Field(ge=1, strict=True)
    nodes: int = Field(ge=1, strict=True)
    runs: int = Field(default=1, ge=1, strict=True)
    between: Finite | None = Field(default=None, ge=0)
    tail: TailEntry | None = None

    @model_validator(mode="after")
    def _fits_its_metric(self) -> BoundEntry:
        metric = METRICS[self.metric]
        if self.unit != metric.unit:
            raise ValueError(
                f"{self.metric} is in {metric.unit}, not {self.unit!r}; convert the figure, or record it anew"
            )
        if self.case.size == 0 and self.metric != LATENCY.name:
            raise ValueError(f"{self.case.collective} moves nothing: it is held to its latency, not to {self.metric}")
        if self.better != metric.better:
            raise ValueError(f"of {self.metric}, {metric.better} is better, not {self.better}")
        if self.attempts < self.runs:
            raise ValueError(f"{self.attempts} attempts cannot be of {self.runs} runs")
        if self.runs < self.nodes:
            object.__setattr__(self, "runs", self.nodes)
        if self.between is not None and self.runs < 2:
            raise ValueError("'between' is the spread between nodes or runs, and there is one run: leave it out")
        return self

    @property
    def key(self) -> CaseKey:
        case = self.case
        return self.metric, case.collective, case.size, case.dtype, case.world_size, case.backend


class FloorEntry(_Strict):
    """A figure that somebody published for such a node, to hold others to where nothing was recorded.

    Attributes:
        figure: a collective, whose figure is busbw, or a copy between a host and a GPU or between two GPUs.
        kind: ``measured`` on one machine, or a ``floor`` that somebody set by hand.
        value: GB/s (1e9 bytes a second).
        condition: what it holds under (``NVLS off``).
    """

    figure: str
    size: Annotated[int, BeforeValidator(parse_size), Field(gt=0)] | None = None
    world_size: int | None = Field(default=None, ge=1)
    kind: Literal["measured", "floor"]
    value: ByteRate
    condition: str | None = None
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _is_a_figure(self) -> FloorEntry:
        if self.figure not in COLLECTIVES and self.figure not in COPIES:
            raise ValueError(f"unknown figure {self.figure!r}; known: {', '.join((*COLLECTIVES, *COPIES))}")
        if self.figure in COLLECTIVES and self.world_size is None:
            raise ValueError(f"{self.figure} depends on the world size: give world_size")
        return self


class TopologyEntry(_Strict):
    """The wiring that the bounds were recorded on; a reference, which nobody recorded, has no exact hash."""

    sku: Sku
    exact: str | None = Field(default=None, min_length=1)
    facts: Mapping[str, str | int]


class RecordedEntry(_Strict):
    """Where the bounds come from."""

    at: datetime
    hosts: int = Field(ge=1)
    gpuwire: str
    tier: str
    software: Mapping[str, str | None]

    @model_validator(mode="after")
    def _has_a_time_zone(self) -> RecordedEntry:
        if self.at.tzinfo is None:
            raise ValueError(f"'at' needs a time zone, such as {self.at.isoformat()}+00:00")
        return self


class ChangeEntry(_Strict):
    """Bounds that somebody accepted in place of earlier ones, and why."""

    at: datetime
    reason: str = Field(min_length=1)
    run: str
    cases: tuple[str, ...] = Field(min_length=1)


class BaselineFile(_Strict):
    """A whole baseline file.

    Attributes:
        bounds: what the node is held to; they change when somebody accepts it.
        rolling: the same of the last good runs, which follows them: a step that is small against the bounds shows
            against it, and a drift that it follows shows against the bounds.
        changes: what was accepted, the oldest first.
        software: the versions expected, as ranges (``>=535,<580``) or patterns (``5.15.*``).
        sources: where each figure of a reference comes from, by the key it explains; a recorded file has none.
        notes: what was left out of a reference, and why.
    """

    version: Literal[1] = Field(alias="schema")
    name: str = Field(min_length=1)
    topology: TopologyEntry
    recorded: RecordedEntry | None = None
    sources: Mapping[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    wiring: Wiring | None = None
    software: Mapping[str, str] = Field(default_factory=dict)
    floors: tuple[FloorEntry, ...] = ()
    bounds: tuple[BoundEntry, ...] = ()
    rolling: tuple[BoundEntry, ...] = ()
    changes: tuple[ChangeEntry, ...] = ()

    @model_validator(mode="after")
    def _says_where_it_comes_from(self) -> BaselineFile:
        if self.recorded is None and not self.sources:
            raise ValueError("'recorded' is missing; a reference, which nobody recorded, has 'sources' instead")
        if self.recorded is None and (self.bounds or self.rolling):
            raise ValueError("a reference has no bounds: they are recorded; published figures are 'floors'")
        return self


def case_key(case: Case) -> CaseKey:
    """What a bound is found by."""
    return case.metric.name, case.collective, case.size_bytes, case.dtype, case.world_size, case.backend


def round_figure(value: float, digits: int = 5) -> float:
    """A figure with so many significant digits: more would be noise in the file and in its diffs."""
    if value == 0:
        return 0.0
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))
