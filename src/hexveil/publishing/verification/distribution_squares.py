"""Squares of μ of a release with quantiles, shares or histograms under (ε, δ), from a folder alone.

Every unit weighs fully in the pooled shape: 2 / r² for each of its stages, r the deviation of the
noise in full weights. In the bins of cells a unit of weights w costs Σ 2 w² / r², of which the
manifest has Σ w² for each cell; groups of very few parts may be charged more, by the lattice
(mechanisms/distribution/binned_stage.py). Squares of components add up, and ε is that of the
largest.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.accounting.gaussian_composition import LATTICE, square_epsilon
from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.distribution.pooled_shape import CELL_BINS
from hexveil.publishing.manifest import epsilon_text
from hexveil.publishing.verification.square_checks import LEAST_DELTA

if TYPE_CHECKING:
    from collections.abc import Iterator

    Json = dict[str, Any]

TOLERANCE, LOOSE = 1e-7, 1e-6
MOST_SQUARE = 1e6
"""Far above any square that a release is paid for: a stranger's is not converted beyond it."""


def stated_delta(manifest: Json) -> Fraction:
    """Return the δ that is stated; 0 of a pure promise."""
    return Fraction(manifest["guarantee"].get("delta", 0))


def check_stated_squares(manifest: Json) -> Iterator[str]:
    """Yield if δ is none that a release has, or squares are stated without it."""
    delta, losses = stated_delta(manifest), manifest["losses"]
    if (delta and not LEAST_DELTA <= delta < 1) or delta * losses["units"] >= 1:
        yield "guarantee/delta is not above 0 and below one over the number of units."
        return
    stating = [losses, *manifest["plan"]["components"]]
    if any(("squared_mu" in entry) != bool(delta) for entry in stating):
        yield "squares of mu are stated without a delta, or a delta without them."
    elif delta and not all(entry["squared_mu"]["max"] <= MOST_SQUARE for entry in stating):
        yield "a square of mu is larger than that of any release."


def check_shape_squares(component: Json, manifest: Json) -> Iterator[str]:
    """Yield if the squares of the shape, and of bins, are not those of the noise."""
    stages, units = component["stages"], max(manifest["losses"]["units"], 1)
    # Products, which overflow to infinity: powers of a stranger's numbers would raise.
    rates = {stage["stage"]: (1.0 / stage["scale"]) * (1.0 / stage["scale"]) for stage in stages}
    of_bins = rates.pop(CELL_BINS, 0.0)
    shared = 2.0 * math.fsum(rates.values())
    bins, lattice = (
        2.0 * of_bins * math.fsum(row.get(name, 0.0) for row in manifest["cells"]) / units * factor
        for name, factor in (("squared_weight", 1.0), ("weight", 1.0 / PARTS / float(LATTICE)))
    )
    mean, largest = (component["squared_mu"][key] for key in ("mean", "max"))
    room = TOLERANCE * (1.0 + mean)
    if not shared + bins - room <= mean <= shared + bins + lattice + room:
        yield "the mean loss of the shape is not that of its noise scales and weights."
    # Squares of nobody's weights add up to more than one over all cells.
    if not shared + bins - LOOSE <= largest <= (shared + 2.0 * of_bins) * (1.0 + LOOSE):
        yield "the largest loss of the shape is not within what its noise scales allow."
    if component["epsilon"] != epsilon_text(_epsilon(largest, manifest)):
        yield "the loss of the shape is not that of its largest square of mu."


def check_sum_of_squares(manifest: Json) -> Iterator[str]:
    """Yield if the squares of the components do not add up."""
    losses, components = manifest["losses"], manifest["plan"]["components"]
    mean, largest = (losses["squared_mu"][key] for key in ("mean", "max"))
    means, maxima = (
        [component["squared_mu"][key] for component in components] for key in ("mean", "max")
    )
    if not math.isclose(losses["max"], _epsilon(largest, manifest), rel_tol=TOLERANCE):
        yield "the largest loss is not that of the largest square of mu at this delta."
    if not math.isclose(mean, math.fsum(means), rel_tol=TOLERANCE, abs_tol=1e-9):
        yield "the mean losses of the components do not add up to that of the release."
    slack = 1e-9 * (1.0 + largest)
    if not max(maxima) - slack <= largest <= math.fsum(maxima) + slack:
        yield "the largest loss is not within those of the components and their sum."


def describe_squares(manifest: Json) -> str:
    """Return the recomputed figures that agree, in words."""
    losses, unit = manifest["losses"], manifest["guarantee"]["privacy_unit"]
    summands = ", ".join(
        f"{component['releases']} {component['squared_mu']['mean']:.6g}"
        for component in manifest["plan"]["components"]
    )
    return (
        f"mean square of mu of {losses['units']:,} {unit}s: {losses['squared_mu']['mean']:.6g} as "
        f"stated, the sum of {summands}, by noise scales, weights and bounds; the largest is "
        f"epsilon {losses['max']:.6g} at delta {float(stated_delta(manifest)):g}"
    )


def _epsilon(square: float, manifest: Json) -> Fraction:
    return Fraction(square_epsilon(Fraction(square), stated_delta(manifest)))
