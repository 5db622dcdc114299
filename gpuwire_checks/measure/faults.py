"""Faults that tests and drills put into a rank on purpose. A run with one says so everywhere."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from gpuwire_checks.errors import ConfigError

FAULT_VARIABLE = "GPUWIRE_FAULT"

Kind = Literal["delay", "corrupt", "exit", "hang"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault in one rank.

    Attributes:
        kind: ``delay`` sleeps ``seconds`` before every call, ``corrupt`` changes one element of the checked result,
            ``exit`` ends the rank, ``hang`` stops it from answering.
        collective: the only collective it strikes; None strikes all.
    """

    kind: Kind
    rank: int
    seconds: float = 0.0
    collective: str | None = None

    def as_parameters(self) -> dict[str, Any]:
        return asdict(self)


def parse_fault(text: str) -> Fault:
    """The fault meant by a JSON object such as ``{"kind": "delay", "rank": 1, "seconds": 0.05}``.

    Raises:
        ConfigError: not such an object.
    """
    try:
        fault = Fault(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{FAULT_VARIABLE}={text!r} is not a fault: {error}") from error
    if fault.kind not in get_args(Kind):
        raise ConfigError(f"{FAULT_VARIABLE}: unknown kind {fault.kind!r}; one of {', '.join(get_args(Kind))}")
    return fault


def fault_here(parameters: Mapping[str, Any] | None, *, rank: int, collective: str) -> Fault | None:
    """The fault that strikes this rank in this case, if any."""
    if not parameters:
        return None
    fault = Fault(**parameters)
    strikes = fault.rank == rank and fault.collective in (None, collective)
    return fault if strikes else None


def before_call(fault: Fault | None) -> Callable[[], None] | None:
    """What a struck rank does ahead of every call; None for a healthy one, so that its loop stays bare."""
    if fault is None or fault.kind != "delay":
        return None
    seconds = fault.seconds
    return lambda: time.sleep(seconds)


def strike_at_start(fault: Fault | None) -> None:
    """End or hang the rank where the fault says so."""
    if fault is None:
        return
    if fault.kind == "exit":
        os._exit(17)
    if fault.kind == "hang":
        time.sleep(3600)
