"""Families of cases that share their noise, as people name them."""

from __future__ import annotations

from gpuwire_checks.baseline.family import Family
from gpuwire_checks.records import BUSBW
from gpuwire_checks.units import format_size


def family_words(family: Family) -> str:
    """A family by what its members have in common: ``busbw on gloo, 1MiB to 4MiB``."""
    metric, backend, size_step = family
    if metric != BUSBW.name:
        return f"{metric} on {backend}"
    return f"{metric} on {backend}, {format_size(4**size_step)} to {format_size(4 ** (size_step + 1))}"
