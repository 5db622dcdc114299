"""What can go wrong for a user. Every text says what was found, where, and what to do about it."""

from __future__ import annotations


class GpuwireError(Exception):
    """A problem the user can act on: shown as its text, never as a traceback."""


class ConfigError(GpuwireError):
    """An option, a policy file or a request that makes no sense here."""


class BaselineError(GpuwireError):
    """A baseline file that cannot be read, found or written."""


class TopologyError(GpuwireError):
    """Recorded tool output, or a node, whose wiring cannot be read."""


class MeasurementError(GpuwireError):
    """A case could not be measured: the outcome is ERROR, never a verdict about the hardware."""
