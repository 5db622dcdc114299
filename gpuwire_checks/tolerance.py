"""What is worth a failure, case by case: rows of a policy file, the first that fits and says something counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpuwire_checks.records import Case

VALUES = ("min_effect", "max_slack", "tail", "unstable")


class ToleranceRow(BaseModel):
    """One row: the cases it fits, what it says of them, and why.

    Attributes:
        case, sku: patterns (``all_reduce-*``) of the case's name and of the node's SKU.
        marker: a pytest marker on the test.
        min_effect: smallest change worth a failure, as a fraction of the centre.
        max_slack: change, likewise, beyond which a limit is too loose to be enforced.
        tail: growth of the spread within attempts that is worth a failure, as a fraction.
        unstable: what an UNSTABLE case is that has not clearly failed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    metric: Literal["busbw", "latency"] | None = None
    backend: str | None = None
    size_class: Literal["latency", "bucket", "peak"] | None = None
    collective: str | None = None
    case: str | None = None
    sku: str | None = None
    marker: str | None = None
    min_effect: float | None = Field(default=None, gt=0, lt=100)
    max_slack: float | None = Field(default=None, gt=0, lt=1000)
    tail: float | None = Field(default=None, gt=0, lt=1000)
    unstable: Literal["fail", "warn"] | None = None
    why: str = Field(min_length=1)

    @model_validator(mode="after")
    def _says_something(self) -> ToleranceRow:
        if all(getattr(self, name) is None for name in VALUES):
            raise ValueError(f"says nothing; give one of {', '.join(VALUES)}")
        return self

    def fits(self, case: Case, *, sku: str, markers: Iterable[str]) -> bool:
        pairs = (
            (self.metric, case.metric.name),
            (self.backend, case.backend),
            (self.size_class, case.size_class.value),
            (self.collective, case.collective),
        )
        patterns = ((self.case, case.id), (self.sku, sku))
        return (
            all(want in (None, has) for want, has in pairs)
            and all(want is None or fnmatchcase(has, want) for want, has in patterns)
            and (self.marker is None or self.marker in markers)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """What is worth a failure for one case.

    Attributes:
        min_effect, max_slack, tail, unstable: as in a row; without a word on ``max_slack`` and ``tail`` there is no
            limit to either.
        said_by: of each value that a row gives, the row and its place in the list.
    """

    min_effect: float
    max_slack: float
    tail: float
    unstable: Literal["fail", "warn"]
    said_by: Mapping[str, tuple[int, ToleranceRow]]


def tolerance_of(rows: Sequence[ToleranceRow], case: Case, *, sku: str, markers: Iterable[str]) -> Tolerance | None:
    """Each value from the first row that fits and gives it; None where no row gives a ``min_effect``."""
    marks = frozenset(markers)
    said: dict[str, tuple[int, ToleranceRow]] = {}
    for index, row in enumerate(rows):
        if row.fits(case, sku=sku, markers=marks):
            for name in VALUES:
                if getattr(row, name) is not None:
                    said.setdefault(name, (index, row))
    if "min_effect" not in said:
        return None
    values: dict[str, Any] = {"max_slack": math.inf, "tail": math.inf, "unstable": "fail"}
    return Tolerance(**{**values, **{name: getattr(row, name) for name, (_, row) in said.items()}}, said_by=said)


def as_logarithm(fraction: float, better: str) -> float:
    """The logarithm of a change by a fraction to the bad side; of a whole or more it is one to the other side."""
    return -math.log1p(-fraction) if fraction < 1 and better == "higher" else math.log1p(fraction)
