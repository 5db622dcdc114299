"""Findings of rates: P2P on against P2P off, the PCIe link that copies fit, and what was published of a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import median

from gpuwire_checks.inspect.finding import Finding, Level
from gpuwire_checks.inspect.pair_shapes import Shape
from gpuwire_checks.inspect.pair_words import is_host, is_one_way, is_staged, pairs_words, share_words
from gpuwire_checks.inspect.pcie_fit import Fit, pcie_fit
from gpuwire_checks.recorded.model import PairLog, PairMatrix

_SLOWER = 0.9
"""P2P=Enabled below this share of P2P=Disabled is slower, not noise."""
_SOURCE = "stas00/ml-engineering network/README.md"
_PUBLISHED = (
    (re.compile(r"\bGB200\b"), 746.0),
    (re.compile(r"\bH200\b(?!.*NVL)"), 396.4),
    (re.compile(r"\bH100\b(?!.*(?:NVL|PCIe))"), 376.0),
    (re.compile(r"\bA100\b(?!.*PCIe)", re.IGNORECASE), 274.5),
)
"""GB/s in one direction between two GPUs of a board with all its NVLinks, measured on one machine each."""
_PUBLISHED_HOST = ((re.compile(r"\bH200\b"), (55.43, 55.06)),)
"""GB/s from host to device and back, over PCIe Gen5 x16."""


def model_of(log: PairLog) -> str | None:
    """The model of all devices listed, None where they differ or are not listed."""
    models = {model for _, model in log.devices}
    return models.pop() if len(models) == 1 else None


def published(log: PairLog, matrix: PairMatrix) -> str | None:
    """The published figure of the model that is listed."""
    model = model_of(log)
    if model is None or not is_one_way(matrix) or is_staged(matrix):
        return None
    if is_host(matrix):
        both = next((figures for name, figures in _PUBLISHED_HOST if name.search(model)), None)
        return f"{both[0]} and {both[1]} GB/s published for host to device and back, {_SOURCE}" if both else None
    figure = next((figure for name, figure in _PUBLISHED if name.search(model)), None)
    return f"{figure:g} GB/s published for a pair with all its NVLinks, {_SOURCE}" if figure else None


def fit_findings(log: PairLog, shapes: Sequence[Shape]) -> Iterable[Finding]:
    """The PCIe link that copies in one direction fit: between host and devices, and between devices.

    Each link once, for the highest figure. Where the copies of the host have the full width, slow ones between devices
    are not narrowed by a slot.
    """
    to_host = _fits(log, [shape for shape in shapes if is_host(shape.matrix)])
    yield from (_fit_finding(*fitting) for fitting in to_host)
    full = any(not fit.narrow for _, _, fit in to_host)
    between = [shape for shape in shapes if shape.pairs and not (is_staged(shape.matrix) and _enabled(shapes))]
    yield from (_fit_finding(*fitting) for fitting in _fits(log, between) if not (full and fitting[2].narrow))


def _fits(log: PairLog, shapes: Sequence[Shape]) -> list[tuple[PairMatrix, float, Fit]]:
    found: dict[tuple[int, int], tuple[PairMatrix, float, Fit]] = {}
    for shape in shapes:
        figure = _usual(shape) if is_one_way(shape.matrix) else None
        fit = pcie_fit(figure, model_of(log)) if figure is not None else None
        if figure is not None and fit is not None:
            known = found.get((fit.generation, fit.width))
            if known is None or known[1] < figure:
                found[fit.generation, fit.width] = shape.matrix, figure, fit
    return list(found.values())


def _usual(shape: Shape) -> float | None:
    """The median figure, of pairs that inside groups; None without figures."""
    rows = [cell for row in shape.matrix.cells for cell in row if cell is not None]
    figures = list(shape.usual_class().values()) if shape.matrix.local else rows
    return median(figures) if figures else None


def _fit_finding(matrix: PairMatrix, figure: float, fit: Fit) -> Finding:
    meant = "; fine only where the slot is meant to be so" if fit.narrow else ""
    return Finding(
        level=Level.WARN if fit.narrow else Level.NOTE,
        text=f"{figure:.3g} GB/s fits {fit.words}{meant} ({matrix.test})",
        line=matrix.line,
        against=fit.against,
    )


def _enabled(shapes: Sequence[Shape]) -> list[Shape]:
    return [shape for shape in shapes if "P2P=Enabled" in shape.matrix.test and shape.matrix.unit == "GB/s"]


def switched_findings(log: PairLog, shapes: Sequence[Shape]) -> Iterable[Finding]:
    """P2P on against P2P off, pair by pair, where the tool measured both."""
    off = {_direction(shape): shape for shape in shapes if "P2P=Disabled Bandwidth" in shape.matrix.test}
    found = [
        finding
        for on in _enabled(shapes)
        if (without := off.get(_direction(on))) is not None
        for finding in _switched(log, on, without)
    ]
    yield from found
    on = next((shape for shape in _enabled(shapes) if is_one_way(shape.matrix) and shape.pairs), None)
    if log.connected and all(can for _, _, can in log.connected) and not found and on is not None:
        without = off.get(_direction(on))
        than = f", {median(without.pairs.values()):.2f} with it off" if without and without.pairs else ""
        text = f"P2P works: possible on all {len(log.connected)} ordered pairs"
        figure = f"gives {median(on.pairs.values()):.2f} GB/s{than} (median)"
        yield Finding(level=Level.PASS, text=f"{text}, and {figure}", line=on.matrix.line)


def _direction(shape: Shape) -> str:
    """``Unidirectional`` or ``Bidirectional``."""
    return shape.matrix.test.split(" ", 1)[0]


def _switched(log: PairLog, on: Shape, off: Shape) -> Iterable[Finding]:
    impossible = {(a, b) for a, b, can in log.connected if not can}
    shares = {
        pair: figure / off.pairs[pair]
        for pair, figure in on.pairs.items()
        if pair in off.pairs and pair not in impossible
    }
    slower = [pair for pair, share in shares.items() if share < _SLOWER]
    if not slower:
        return
    share = share_words(median(shares[pair] for pair in slower))
    figures = f"median {median(on.pairs[pair] for pair in slower):.2f} against "
    figures += f"{median(off.pairs[pair] for pair in slower):.2f} GB/s"
    if len(slower) == len(shares):
        odd = "" if on.odd else "; no single odd pair"
        where = f"on every pair ({figures}, {len(slower)} ordered pairs){odd}"
    else:
        where = f"on {len(slower)} of {len(shares)} ordered pairs ({figures}): {pairs_words(slower)}"
    text = f"{on.matrix.test} is about {share} of P2P=Disabled {where}; try NCCL_P2P_DISABLE=1"
    yield Finding(level=Level.FAIL, text=text, line=on.matrix.line)
