"""Inspections as lines for a person, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.inspect.inspection import Inspection

_NOTES_AT_MOST = 40


def inspection_lines(inspection: Inspection) -> list[str]:
    """The verdict in a sentence, then every finding, a line each."""
    findings = inspection.findings
    # Facts alone pass, and none of them is a PASS: then the first fact is the sentence.
    worst = next((finding for finding in findings if finding.level is inspection.level), next(iter(findings), None))
    first = worst.text if worst else "nothing to say of it"
    lines = [f"{inspection.level.value} {inspection.source} ({inspection.format}): {first}"]
    rest = [finding for finding in findings if finding is not worst]
    notes = [finding for finding in rest if finding.level is Level.NOTE]
    shown = [finding for finding in rest if finding.level is not Level.NOTE] + notes[:_NOTES_AT_MOST]
    if worst is not None and (worst.against or worst.line):
        lines.append(f"  {'':10} {_tail(worst)}")
    lines += [f"  {finding.level.value:10} {_words(finding)}" for finding in shown]
    if len(notes) > _NOTES_AT_MOST:
        lines.append(f"  ... and {len(notes) - _NOTES_AT_MOST} more notes (--json has them all)")
    return lines


def _words(finding: Finding) -> str:
    tail = _tail(finding)
    return f"{finding.text} ({tail})" if tail else finding.text


def _tail(finding: Finding) -> str:
    parts = [f"line {finding.line}" if finding.line else "", f"against {finding.against}" if finding.against else ""]
    return ", ".join(part for part in parts if part)


def inspections_json(inspections: Sequence[Inspection]) -> str:
    """One array, a file each."""
    return json.dumps([_data(inspection) for inspection in inspections], indent=1)


def _data(inspection: Inspection) -> dict[str, Any]:
    return {
        "source": inspection.source,
        "format": inspection.format,
        "level": inspection.level.value,
        "findings": [
            {
                "level": finding.level.value,
                "text": finding.text,
                "part": finding.part,
                "line": finding.line,
                "against": finding.against,
            }
            for finding in inspection.findings
        ],
    }
