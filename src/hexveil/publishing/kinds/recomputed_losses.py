"""Recomputation of privacy losses from the scales, biases, bounds and counts of a folder.

Per cell a folder has the number of units n and of records N, the width U of the bounds and, of each
statistic, the scale b of the noise, the bias B and the threshold t. It has no row per unit, so
nobody can recompute what one unit loses. The following can be.

The sum of all units' losses
    Let a unit contribute k of its samples to a cell, and K = Σ k. By the mean its rate is k U /
    (b N) (planning/plan.py), and B = U d / 2 with d = 1 - K / N (accounting/error_model.py). So the
    rates of all units are (U - 2 B) / b in this cell: counts cancel. Under a private range of width
    w a unit of weight share s has the rate s w / b, and Σ s = 1: all have w / b; by variances of
    radius r likewise r² / b; and each unit loses the cost of the range.
    Under a pure promise rates are losses and add up. So `losses.mean` times `losses.units` is known
    exactly, and a scale, a bias or a bound that was changed alone does not fit it.
    A variance without a private range moves by at most x (1 - x), x = k / N, or by 1/4 for x > 1/2,
    both at most x; and by at least x / 4 (1 - 1/N²), for N = 1 by nothing. Σ x = 1 - d follows
    from B = U² h (1 - h) / 2, h = min(d, 1/2), unless d >= 1/2, when it is in [0, 1/2]. The plan
    adds 2^-30 per unit and cell. By both statistics of a cell a unit loses no less than by either
    (accounting/privacy_loss.py) and no more than by both. So the sum is within two limits.
    With a range of width R for each cell, all units lose R / b by one that keeps the range of the
    first look: it spends all of the cells' epsilon on its number. One that was measured anew had
    spent the share f before, and all lose R / (b (1 - f)).
Under a δ
    squares of μ add up, over statistics as well: a unit costs the square of its rate
    (accounting/moves.py). With rates between A and H together, and at most C for one, squares add
    up to between A² / n (all alike) and H C. What few quanta add (`LATTICE`) is within a part of
    these. Without its scale in the folder, nothing limits what a mean under a private range adds.
The largest loss
    It is at least the average of those who lose anything; and it is at least the loss of all by any
    one cell, divided by n. It is at most the sum over cells of the largest loss of one unit there:
    it contributes no more than t, nor than the N - n + 1 that others leave it, nor than K.

With stages of its own in each cell a unit loses at most `cell_epsilon` by a cell, each stage costs
no more than the total, and all of them no less.

Not recomputed, because nothing in the folder shows it: quantiles of the losses but for their order,
the loss of a single unit, `l0_epsilon` but for its limits; with stages of cells, what a stage costs
a unit, since that follows from how samples are grouped and weighed.

Statements of a release's manifest and table from which its losses are recomputed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.gaussian_composition import LATTICE
from hexveil.accounting.noise_law import NoiseLaw, law_at
from hexveil.base.arrays import Floats
from hexveil.model.public_metadata import ValueLattice
from hexveil.publishing.kinds import guarantee
from hexveil.report.manifest_view import numbers_of

Json = dict[str, Any]
CellLimits = tuple[Floats, Floats, Floats]
Limits = tuple[float, float]

LATTICE_LOSS = 2.0**-30
"""Loss of each unit in each cell by a variance's lattice
(mechanisms/looks/clipped_variance.py)."""
HISTOGRAM = "pooled_histogram"
"""Privacy step that releases with a range per cell have, and no others."""
WHOLE_MAP = (HISTOGRAM, "clipping_range", "within_spread")
"""Steps that look at the whole map, which every unit is charged."""
WEIGHT_LATTICE = 1e-3
"""More than what whole weights add to a square, as a part of it (model/pair_columns.py)."""
_FIELDS = ("contribution_cap", "scale", "bias", "bound95", "grid_start", "grid_step")


@dataclass(frozen=True, eq=False)
class StatedStatistic:
    """A statistic of every cell, as the manifest states it.

    Attributes
    ----------
    name : "mean" or "variance"
    contribution_cap, scale, bias, bound95, start, step : ndarray of float, shape (n_cells,)
    """

    name: str
    contribution_cap: Floats
    scale: Floats
    bias: Floats
    bound95: Floats
    start: Floats
    step: Floats


@dataclass(frozen=True, eq=False)
class ReleaseStatements:
    """Statements of a manifest and its table from which losses are recomputed.

    Attributes
    ----------
    manifest : dict
    users, records, lower, upper : ndarray of float, shape (n_cells,)
    statistics : dict of str to StatedStatistic
    steps : dict of str to dict
        The privacy steps by name.
    lattice : ValueLattice
        Bounds of the values, and their quantum.
    delta : Fraction
        0 of a pure promise.
    """

    manifest: Json
    users: Floats
    records: Floats
    lower: Floats
    upper: Floats
    statistics: dict[str, StatedStatistic]
    steps: dict[str, Json]
    lattice: ValueLattice
    delta: Fraction

    @classmethod
    def from_release(cls, manifest: Json, table: pa.Table) -> ReleaseStatements:
        """Return the statements of a release; ValueError if cells name different statistics."""
        cells = manifest["cells"]
        names = [entry["statistic"] for entry in cells[0]["noised"]]
        if any([entry["statistic"] for entry in cell["noised"]] != names for cell in cells):
            raise ValueError("cells of other statistics")

        def column(key: str, index: int | None = None) -> Floats:
            rows = cells if index is None else [cell["noised"][index] for cell in cells]
            return np.array([row[key] for row in rows], dtype=np.float64)

        return cls(
            manifest,
            numbers_of(table, "users"),
            numbers_of(table, "records"),
            column("lower"),
            column("upper"),
            {
                name: StatedStatistic(name, *(column(key, index) for key in _FIELDS))
                for index, name in enumerate(names)
            },
            {step["step"]: step for step in manifest["plan"]["privacy_steps"]},
            guarantee.lattice_of(manifest),
            guarantee.delta_of(manifest),
        )

    @property
    def law(self) -> NoiseLaw:
        """Law of the noise."""
        return law_at(self.delta)

    @property
    def added(self) -> Json:
        """Figures of the losses that add up: of ε, or squares of μ."""
        return guarantee.added_losses(self.manifest)

    def cost(self, name: str) -> float:
        """Return the cost of a privacy step: ε, or its square of μ under a δ; 0 without it."""
        step = self.steps.get(name, {"epsilon": "0", "squared_mu": 0.0})
        if self.delta:
            return float(step.get("squared_mu", math.nan))
        return float(Fraction(step["epsilon"]))

    @property
    def span(self) -> Floats:
        """Width of each cell's bounds."""
        return self.upper - self.lower

    @property
    def ranges(self) -> tuple[Floats, Floats, Floats]:
        """Ends of the clipping range of each cell, and whether it was measured anew."""
        ranges = [cell["noised"][0]["clipping_range"] for cell in self.manifest["cells"]]
        keys = ("lower", "upper", "moved")
        lower, upper, moved = (np.array([one[key] for one in ranges], float) for key in keys)
        return lower, upper, moved

    @property
    def has_cell_stages(self) -> bool:
        """Whether each cell was published by a mechanism of one cell, in stages of its own."""
        return "cell_stages" in self.steps

    @property
    def has_no_range(self) -> bool:
        """Whether values were clipped to public bounds alone."""
        return not ({"clipping_range", HISTOGRAM} & self.steps.keys() or self.is_remembered)

    @property
    def is_remembered(self) -> bool:
        """Whether the ranges of cells follow from earlier releases."""
        return "remembered" in self.steps.get("cells", {})


def recompute_losses(stated: ReleaseStatements) -> tuple[Limits, Limits]:
    """Return limits of losses, or of squares of μ, by the cells: of their sum, and of the largest.

    Both ends are equal where it is known exactly (module head).
    """
    low, high, single = _cell_limits(stated)
    shared = sum(map(stated.cost, WHOLE_MAP))
    losses = stated.manifest["losses"]
    total = shared * losses["units"] + float(low.sum())
    largest_of_cells = shared + float((low / stated.users).max(initial=0.0))
    # Those who lose nothing do not lower the average of the others.
    average = total / max(losses["units"] - losses["at_zero"], 1)
    return (
        (total, shared * losses["units"] + float(high.sum())),
        (max(largest_of_cells, average), shared + float(single.sum())),
    )


def _cell_limits(stated: ReleaseStatements) -> CellLimits:
    """Return three limits of each cell: the least and largest loss of all by it, and of one."""
    if stated.has_cell_stages:
        # Nobody loses more by a cell than its loss. How much less some lose depends on how their
        # samples are grouped and weighed, which the folder does not show.
        cell_loss = float(Fraction(stated.steps["cell_stages"]["cell_epsilon"]))
        single = np.full_like(stated.users, cell_loss)
        return np.zeros_like(single), single * stated.users, single
    power, columns = stated.law.power, []
    for statistic in stated.statistics.values():
        smallest, total, single, lattice = _rates(stated, statistic)
        factor = (single + lattice) ** (power - 1)
        columns.append(
            (smallest**power / stated.users ** (power - 1), total * factor, single * factor)
        )
    low, high, single = (np.stack(column) for column in zip(*columns, strict=True))
    is_maximum = stated.has_no_range and power == 1
    limits = (
        low.max(axis=0) if is_maximum else low.sum(axis=0),
        high.sum(axis=0),
        single.sum(axis=0),
    )
    if stated.has_no_range or "mean" in stated.statistics:
        return limits
    # The mean was released all the same, and its scale is not stated.
    unknown = np.full_like(limits[0], np.inf)
    return limits[0], unknown, unknown


def _rates(
    stated: ReleaseStatements, statistic: StatedStatistic
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the least and largest sum of rates over a cell's units, and the largest of one.

    Then the lattice term of a rate of 1, which counts under a δ alone.
    """
    if stated.has_no_range:
        # k / (2 S r²) beside k² / r² for means; steps of 2^-30 of the noise for variances.
        lattice = np.full_like(stated.records, LATTICE_LOSS)
        if statistic.name == "mean":
            half = float(stated.lattice.quantum) / 2.0
            lattice = share_of_noise(half, statistic.scale) / stated.records
        return (*_unranged_rates(stated, statistic), lattice / float(LATTICE))
    if HISTOGRAM in stated.steps or stated.is_remembered:
        rate = _cell_range_rates(stated, statistic.scale)
    else:
        step = stated.steps["clipping_range"]
        is_variance = statistic.name == "variance"
        width = step["radius"] ** 2 if is_variance else step["upper"] - step["lower"]
        rate = share_of_noise(width, statistic.scale)
    return rate, rate, rate, rate * WEIGHT_LATTICE


def _cell_range_rates(stated: ReleaseStatements, scale: Floats) -> Floats:
    """Return the rates of all units together in the range of each cell (module head)."""
    lower, upper, moved = stated.ranges
    width = share_of_noise(upper - lower, scale)
    if stated.is_remembered:
        return width
    look, cells = map(stated.cost, ("first_look", "cells"))
    remainder = (cells / (look + cells) if look + cells else 1.0) ** (1.0 / stated.law.power)
    return np.asarray(width / np.where(moved, remainder, 1.0))


def _unranged_rates(stated: ReleaseStatements, statistic: StatedStatistic) -> CellLimits:
    """Return the three limits of each cell by one statistic within public bounds."""
    # Scales of variances are in squared value units.
    noise = statistic.scale / stated.span ** (1 if statistic.name == "mean" else 2)
    records, bias = stated.records, statistic.bias
    largest_share = np.minimum(statistic.contribution_cap, records - stated.users + 1) / records
    if statistic.name == "mean":
        share = 1.0 - 2.0 * bias / stated.span
        rate = share_of_noise(share, noise)
        return rate, rate, share_of_noise(np.minimum(largest_share, share), noise)
    smallest_share, share = _variance_share(bias / stated.span**2)
    smallest_loss = (1.0 - 1.0 / records**2) / 4.0
    lattice = (statistic.scale > 0).astype(np.float64) * LATTICE_LOSS
    return (
        share_of_noise(smallest_share * smallest_loss, noise),
        share_of_noise(np.minimum(share, stated.users / 4.0), noise) + lattice * stated.users,
        share_of_noise(np.minimum(np.minimum(largest_share, share), 0.25), noise) + lattice,
    )


def _variance_share(bias: Floats) -> tuple[Floats, Floats]:
    """Return limits of the contributed share of a cell, from the variance's bias."""
    share_removed = (1.0 - np.sqrt(np.maximum(1.0 - 8.0 * bias, 0.0))) / 2.0
    # Near 1/2 the bias is flat, so rounding changes the share by more than itself.
    open_ended = share_removed > 0.5 - 1e-6
    return np.where(open_ended, 0.0, 1.0 - share_removed - 1e-6), 1.0 - share_removed + 1e-6


def share_of_noise(share: Floats | float, noise: Floats) -> Floats:
    """Return a share over the noise; 0 where there is no noise, since no value is read."""
    return np.divide(share, noise, out=np.zeros_like(noise), where=noise > 0)
