"""Recomputation of losses under (ε, δ), as squares of μ, from a folder alone.

Per cell a folder has the units n, the records N, the width U of the bounds, the deviation r of the
noise, the bias B and the threshold t. A unit that contributes k of its samples to a cell costs
(k U / (N r))² there (accounting/moves.py), and Σ k = N (1 - 2 B / U) over the cell's units.
Under a private range of width w a unit of weight share s costs (s w / r)², by a variance of radius
q (s q² / r)², Σ s = 1, and every unit the squares of the range's choices besides.

So the roots of these are what recomputed_losses.py finds as losses: of a sum between A and H over
the cell's units, and at most C for one. Their squares add up to between A² / n (all alike) and H C;
and the most exposed unit costs at least the average over any cell, at most C² in each. Statistics
add up. What few quanta add (`LATTICE`) is within a part of these. Without its scale in the folder,
nothing limits what a mean under a private range adds to a variance.
Facts stated twice: ε is that of the largest square
at δ; steps add up to it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.gaussian_composition import LATTICE, range_square, square_epsilon
from hexveil.publishing.verification import cell_range_checks as cell_ranges
from hexveil.publishing.verification.recomputed_losses import LATTICE_LOSS, unranged_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexveil.publishing.verification.release_statements import ReleaseStatements

    Json = dict[str, Any]
    Limits = tuple[float, float]

TOLERANCE = 1e-9
CHOICES = ("clipping_range", "within_spread")
"""Steps of private choices, which every unit is charged; so is the pooled histogram."""
WEIGHT_LATTICE = 1e-3
"""More than what whole weights add to a square, as a part of it (model/pair_columns.py)."""
STEPS = {"clipping_range", "cells", cell_ranges.STEP, "within_spread", "first_look"}
"""Steps of releases that may have a delta."""
LEAST_DELTA = 1e-300
"""Smallest δ whose ε can be computed."""


def check_squares(stated: ReleaseStatements) -> Iterator[str]:
    """Yield contradictions between δ, the squares of μ, the cells and the steps."""
    losses, delta = stated.manifest["losses"], stated.delta
    if not LEAST_DELTA <= delta < 1 or delta * losses["units"] >= 1:
        yield "guarantee/delta is not above 0 and below one over the number of units."
        return
    if "squared_mu" not in losses:
        yield "the release has a delta, and states no squares of mu."
        return
    if stated.steps.keys() - STEPS:
        yield "the release has a delta, and steps that none has."
        return
    largest = losses["squared_mu"]["max"]
    if not math.isclose(square_epsilon(Fraction(largest), delta), losses["max"], rel_tol=TOLERANCE):
        yield "the largest loss is not that of the largest square of mu at this delta."
    (total, single), stated_total = square_limits(stated), losses["squared_mu"]["mean"]
    if not _contains(total, stated_total * losses["units"]):
        yield (
            f"all units together have squares of mu of {_words(total)} by the scales, biases and "
            f"bounds of the cells, and {stated_total * losses['units']:.6g} as stated."
        )
    if not _contains(single, largest):
        yield (
            f"the most exposed unit has a square of mu of {_words(single)} by the scales, biases, "
            f"bounds and counts of the cells, and {largest:.6g} as stated."
        )
    yield from _check_steps(stated, largest)


def describe_squares(stated: ReleaseStatements) -> Iterator[str]:
    """Yield the figures that were recomputed and agree, in words."""
    (total, single), losses = square_limits(stated), stated.manifest["losses"]
    unit, squares = stated.manifest["guarantee"]["privacy_unit"], losses["squared_mu"]
    yield (
        f"sum of the squares of mu of {losses['units']:,} {unit}s: {_words(total)} by scales, "
        f"biases and counts, {squares['mean'] * losses['units']:.6g} as stated"
    )
    yield (
        f"square of mu of the most exposed {unit}: {_words(single)} by scales, bounds and counts, "
        f"{squares['max']:.6g} as stated"
    )
    yield (
        f"loss of the most exposed {unit} from it: "
        f"{square_epsilon(Fraction(squares['max']), stated.delta):.6g} at delta "
        f"{float(stated.delta):g}, {losses['max']:.6g} as stated"
    )


def square_limits(stated: ReleaseStatements) -> tuple[Limits, Limits]:
    """Return limits of the squares of all units together, and of the largest."""
    units, shared = stated.manifest["losses"]["units"], _range_square(stated)
    low = np.zeros_like(stated.users)
    high, largest = low.copy(), low.copy()
    for smallest, sum_of_rates, single, lattice in _rates(stated):
        low += smallest**2 / stated.users
        high += sum_of_rates * (single + lattice)
        largest += single * (single + lattice)
    if not stated.has_no_range and "mean" not in stated.statistics:
        high, largest = np.full_like(low, np.inf), np.full_like(low, np.inf)
    # Those who spend nothing do not lower the average of the others.
    average = float(low.sum()) / max(units - stated.manifest["losses"]["at_zero"], 1)
    least_of_one = max(float((low / stated.users).max(initial=0.0)), average)
    return (
        (shared * units + float(low.sum()), shared * units + float(high.sum())),
        (shared + least_of_one, shared + float(largest.sum())),
    )


def _range_square(stated: ReleaseStatements) -> float:
    """Return the cost of what is looked for in the whole map, for every unit."""
    histogram = stated.steps.get(cell_ranges.STEP, {}).get("squared_mu", 0.0)
    return float(histogram) + _choices_square(stated)


def _choices_square(stated: ReleaseStatements) -> float:
    """Return the square of μ of private choices, from their epsilon."""
    return sum(
        range_square(Fraction(step["epsilon"]), len(step.get("quantiles", [0])))
        for name, step in stated.steps.items()
        if name in CHOICES
    )


def _rates(stated: ReleaseStatements) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield of each statistic the least and largest sum of roots of squares over a cell's units.

    Then the largest of one unit, and the lattice term of a root of 1.
    """
    quantum = float(Fraction(stated.manifest["bounds"]["quantum"]))
    for statistic in stated.statistics.values():
        if stated.has_no_range:
            smallest, largest, single = unranged_limits(stated, statistic)
            # k / (2 S r²) beside k² / r² for means; steps of 2^-30 of the noise for variances.
            step = _over(np.full_like(single, quantum / 2.0), statistic.scale)
            if statistic.name == "mean":
                lattice = step / stated.records
            else:
                lattice = np.full_like(single, LATTICE_LOSS)
            yield smallest, largest, single, lattice / float(LATTICE)
            continue
        if cell_ranges.STEP in stated.steps:
            rate = _cell_range_rates(stated, statistic.scale)
        elif statistic.name == "variance":
            rate = _over(np.full_like(stated.records, stated.radius**2), statistic.scale)
        else:
            step = stated.steps["clipping_range"]
            rate = _over(
                np.full_like(stated.records, step["upper"] - step["lower"]), statistic.scale
            )
        yield rate, rate, rate, rate * WEIGHT_LATTICE


def _cell_range_rates(stated: ReleaseStatements, scale: Any) -> Any:  # noqa: ANN401  arrays
    """Return 1/r of each cell for a range of width 1 and all of the square of μ."""
    ranges, steps = cell_ranges.StatedCellRanges.from_manifest(stated.manifest), stated.steps
    look_square, cells_square = (
        steps[name].get("squared_mu", 0.0) for name in ("first_look", "cells")
    )
    cells_share = cells_square / (look_square + cells_square) if look_square + cells_square else 1.0
    return _over(ranges.upper - ranges.lower, scale) / np.where(
        ranges.moved, np.sqrt(cells_share), 1.0
    )


def _check_steps(stated: ReleaseStatements, largest: float) -> Iterator[str]:
    """Yield contradictions between the steps and the largest square."""
    steps = stated.steps
    squares = [step.get("squared_mu", math.nan) for step in steps.values()]
    if not math.isclose(sum(squares), largest, rel_tol=TOLERANCE):
        yield "the squares of mu of the privacy steps do not add up to the largest."
    if any(
        not math.isclose(step["share"] * largest, square, rel_tol=TOLERANCE, abs_tol=1e-15)
        for step, square in zip(steps.values(), squares, strict=True)
    ):
        yield "a privacy step's share is not its share of the largest square of mu."
    choice_squares = [
        step.get("squared_mu", math.nan) for name, step in steps.items() if name in CHOICES
    ]
    if not math.isclose(sum(choice_squares), _choices_square(stated), rel_tol=1e-6):
        yield "the square of mu of a range's choices is not that of their epsilon."
    yield from cell_ranges.check_ranges(stated.manifest, steps, TOLERANCE)


def _over(width: Any, scale: Any) -> Any:  # noqa: ANN401  arrays
    return np.divide(width, scale, out=np.zeros_like(scale), where=scale > 0)


def _contains(limits: Limits, number: float) -> bool:
    slack = TOLERANCE * (1.0 + limits[0])
    return limits[0] * (1.0 - 1e-6) - slack <= number <= limits[1] * (1.0 + 1e-6) + slack


def _words(limits: Limits) -> str:
    high = f" and at most {limits[1]:.6g}" if math.isfinite(limits[1]) else ""
    return f"at least {limits[0]:.6g}{high}"
