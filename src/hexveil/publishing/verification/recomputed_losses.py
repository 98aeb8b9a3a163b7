"""Recomputation of privacy losses from the scales, biases, bounds and counts of a folder.

Per cell a folder has the number of units n and of records N, the width U of the bounds and, of each
statistic, the Laplace scale b, the bias B and the threshold t. It has no row per unit, so nobody
can recompute what one unit loses. The following can be.

The sum of all units' losses
    Let a unit contribute k of its samples to a cell, and K = Σ k. By the mean it loses k U / (b N)
    (planning/plan.py), and B = U d / 2 with d = 1 - K / N (accounting/error_model.py). So all units
    lose (U - 2 B) / b by this cell: counts cancel. Under a private range of width w a unit of
    weight share s loses s w / b, and Σ s = 1: all lose w / b; by variances of radius r likewise
    r² / b; and each unit loses the epsilon of the range. So `losses.mean` times `losses.units` is
    known exactly, and a scale, a bias or a bound that was changed alone does not fit it.
    A variance without a private range moves by at most x (1 - x), x = k / N, or by 1/4 for x > 1/2,
    both at most x; and by at least x / 4 (1 - 1/N²), for N = 1 by nothing. Σ x = 1 - d follows
    from B = U² h (1 - h) / 2, h = min(d, 1/2), unless d >= 1/2, when it is in [0, 1/2]. The plan
    adds 2^-30 per unit and cell. By both statistics of a cell a unit loses no less than by either
    (accounting/privacy_loss.py) and no more than by both. So the sum is within two limits.
    With ranges of cells, see cell_range_checks.py.
The largest loss
    It is at least the average of those who lose anything; and since n units contribute the K
    samples of a cell, one contributes K / n or more: it is at least the loss of all by any one
    cell, divided by n. It is at most the sum over cells of the largest loss of one unit there: it
    contributes no more than t, nor than the N - n + 1 that others leave it, nor than K.

Under a δ, squares of μ are recomputed in place of losses: square_checks.py.

With stages of its own in each cell a unit loses at most `cell_epsilon` by a cell, each stage costs
no more than the total, and all of them no less.

Not recomputed, because nothing in the folder shows it: quantiles of the losses but for their order,
the loss of a single unit, `l0_epsilon` but for its limits; with stages of cells, what a stage costs
a unit, since that follows from how samples are grouped and weighed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.publishing.verification import cell_range_checks as cell_ranges

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.publishing.verification.release_statements import (
        ReleaseStatements,
        StatedStatistic,
    )

    Json = dict[str, Any]


TOLERANCE = 1e-9
LATTICE_LOSS = 2.0**-30
"""Loss of each unit in each cell by a variance's lattice
(mechanisms/clipped/clipped_variance.py)."""


@dataclass(frozen=True)
class LossRange:
    """Limits of a loss, which are equal where it is known exactly."""

    low: float
    high: float

    def contains(self, number: float, slack: float) -> bool:
        """Return whether a number is in it, up to rounding."""
        return self.low - slack <= number <= self.high + slack

    def __str__(self) -> str:
        if math.isclose(self.low, self.high, rel_tol=TOLERANCE):
            return f"{self.high:.6g}"
        high = f" and at most {self.high:.6g}" if math.isfinite(self.high) else ""
        return f"at least {self.low:.6g}{high}"


@dataclass(frozen=True)
class RecomputedLosses:
    """Limits of the losses: of their sum over all units, and of the largest."""

    total: LossRange
    largest: LossRange


def recompute_losses(stated: ReleaseStatements) -> RecomputedLosses:
    """Return the limits of the losses by scales, biases, bounds and counts (module head)."""
    shared, cells = _cell_limits(stated)
    stated_losses = stated.manifest["losses"]
    units, low = stated_losses["units"], shared * stated_losses["units"] + float(cells[0].sum())
    high = shared * units + float(cells[1].sum())
    largest = shared + float((cells[0] / stated.users).max(initial=0.0))
    # Those who lose nothing do not lower the average of the others.
    average = low / max(units - stated_losses["at_zero"], 1)
    return RecomputedLosses(
        LossRange(low, high), LossRange(max(largest, average), shared + float(cells[2].sum()))
    )


CellLimits = tuple["Floats", "Floats", "Floats"]


def _cell_limits(stated: ReleaseStatements) -> tuple[float, CellLimits]:
    """Return the loss of every unit beside the cells, and three limits of each cell.

    These are the least and the largest loss of all units by it, and the largest loss of one.
    """
    if stated.has_cell_stages:
        return 0.0, _cell_stage_limits(stated)
    if stated.has_no_range:
        return 0.0, _combine_statistics(
            [unranged_limits(stated, statistic) for statistic in stated.statistics.values()]
        )
    steps = stated.steps
    shared = sum(
        float(Fraction(steps[k]["epsilon"]))
        for k in ("clipping_range", *cell_ranges.SHARED_STEPS)
        if k in steps
    )
    rates = [_ranged_limits(stated, statistic) for statistic in stated.statistics.values()]
    low = np.sum([low for low, _ in rates], axis=0)
    high = np.sum([high for _, high in rates], axis=0)
    if "mean" not in stated.statistics:  # it was released all the same, and its scale is not stated
        high = np.full_like(low, np.inf)
    return shared, (low, high, high)


def _cell_stage_limits(stated: ReleaseStatements) -> CellLimits:
    """Return the three limits of each cell with stages of its own.

    Nobody loses more by a cell than its loss. How much less some lose depends on how their samples
    are grouped and weighed, which the folder does not show.
    """
    cell_loss = float(Fraction(stated.steps["cell_stages"]["cell_epsilon"]))
    single = np.full_like(stated.users, cell_loss)
    return np.zeros_like(single), single * stated.users, single


def _ranged_limits(stated: ReleaseStatements, statistic: StatedStatistic) -> tuple[Floats, Floats]:
    """Return limits of the loss of all units by each cell, under a private range."""
    steps = stated.steps
    if cell_ranges.STEP in steps:
        return (cell_ranges.cell_range_rates(stated.manifest, steps, statistic.scale),) * 2
    width = steps["clipping_range"]["upper"] - steps["clipping_range"]["lower"]
    if statistic.name == "variance":
        width = stated.radius**2
    rate = share_of_noise(np.full_like(statistic.scale, width), statistic.scale)
    return rate, rate


def unranged_limits(stated: ReleaseStatements, statistic: StatedStatistic) -> CellLimits:
    """Return the three limits of each cell by one statistic within public bounds."""
    # Scales of variances are in squared value units.
    noise = statistic.scale / stated.span ** (1 if statistic.name == "mean" else 2)
    has_noise = (statistic.scale > 0).astype(np.float64)
    records, bias = stated.records, statistic.bias
    largest_share = np.minimum(statistic.contribution_cap, records - stated.users + 1) / records
    if stated.divisor is not None:
        # Nothing is put at the middle: all of the weight is noised, whatever the bias is.
        records, bias = stated.divisor, np.zeros_like(bias)
        largest_share = np.minimum(statistic.contribution_cap, records) / records
    if statistic.name == "mean":
        share = 1.0 - 2.0 * bias / stated.span
        rate = share_of_noise(share, noise)
        return rate, rate, share_of_noise(np.minimum(largest_share, share), noise)
    smallest_share, share = _variance_share(bias / stated.span**2)
    smallest_loss = (1.0 - 1.0 / records**2) / 4.0
    lattice = has_noise * LATTICE_LOSS
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


def _combine_statistics(limits: list[CellLimits]) -> CellLimits:
    """Return the limits by several statistics: at least the larger, at most the sum."""
    low, high, single = (np.stack(column) for column in zip(*limits, strict=True))
    smallest = low.max(axis=0) if len(limits) > 1 else low[0]
    return smallest, high.sum(axis=0), single.sum(axis=0)


def share_of_noise(share: Floats, noise: Floats) -> Floats:
    """Return a share over the noise; 0 where there is no noise, since no value is read."""
    return np.divide(share, noise, out=np.zeros_like(share), where=noise > 0)
