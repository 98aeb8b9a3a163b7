"""Two-stage means: a private range, a residual radius, and means within narrower ranges.

Strategies: planning/clipping_range/two_stage.py. All numbers are in quanta above the lower bound
of the records. Let [a, b] be the range of the first stage, h the half width of the second, W whole
weights.

user_residuals
    Here [a, b] is made narrower around its middle, since users' own means differ less. A user with
    N records of sum S over all its cells has the mean u = floor(clip(S, a N, b N) / N) and gives
    its cluster V u, V its weight there. A pair with m records of sum s gives its cell
    floor(W clip(s - m u, -h m, h m) / m): what u was rounded by is in that.
cell_residuals
    A pair gives its cell's first average floor(W clip(s, a m, b m) / m). The centre c of a cell is
    a whole number, made from the noisy first averages by a stated model (smoothing/declipping.py).
    Then a pair gives floor(W clip(s - m c, -h' m, h' m) / m).
single_stage
    As in mechanisms/weighted/weighted_mean.py.

Neighbours: all values of one user, in all its cells at once, change within the bounds; users and
counts stay. Only this user's contributions change, since u is its own and c is made of noisy
numbers. Sensitivity: contributions lie between V a and V b, and between -W h and W h, all of them
whole: V (b - a) in the cluster, and 2 W h in each cell; each is reached, if not all at once.
Loss: discrete Laplace of scale R at integer distance d costs at most d / R (mechanisms/noise.py).
R is the plan's noise for a width of 1 times ΣV (b - a) or 2 h ΣW, rounded up; so a stage costs a
user as much as planned, whatever was released before. With the range and h
(mechanisms/map_quantiles.py) the losses add up whatever earlier outputs chose (ledger/odometer.py),
and the plan books the most that any strategy costs.
Pairs that stay elsewhere: W is made of a number of the pair's user and one of its cell, by the same
rounded operations in blocks of cells and of users (model/factored_weights.py), so that the losses,
asked of blocks of users, are those of the weights that are measured. u needs all of a user's pairs,
and one block of users has them: the numbers of `user_residuals` and the votes for h are added up
over these blocks. A user is in one of them, so that the sums move as above; whole numbers added in
any order are those of one machine.
Source: docs/understand/clipping-range.md; ERRATA 3 for the accounting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.clipped.clipped_allocation import CELLS
from hexveil.mechanisms.contract import DONE, Decoded, EstimateGrid, Outputs
from hexveil.mechanisms.map_quantiles import residual_quantile
from hexveil.mechanisms.released_ranges import (
    FIRST_STAGE_SHARE,
    RESIDUAL_QUANTILE,
    STRATEGIES,
    second_stage_half_width,
    user_mean_range,
    widened,
    within_cell_sd,
)
from hexveil.mechanisms.two_stage.residual_stages import (
    RESIDUAL_SCALE,
    CellResidualStage,
    ReleasedRanges,
    ResidualScaleStage,
    UserResidualStage,
)
from hexveil.mechanisms.weighted.weighted_mean import WeightedSumStage, check_room, laplace_scales
from hexveil.smoothing.declipping import DeclippedEstimate, NoisyObservation, estimate_declipped

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.mechanisms.clipped.clipped_mean import CellLattice
    from hexveil.mechanisms.contract import Floats, Ints, Stage
    from hexveil.mechanisms.map_quantiles import RangeQuantiles
    from hexveil.mechanisms.two_stage.residual_stages import ClusterMeans, StrategySelection
    from hexveil.mechanisms.weighted.weighted_mean import WeightedMean

FIRST_MEANS = "coarse"
"""Name of the stage of first means, in the ledger."""


class TwoStageErrors(Protocol):
    """Error model of the means, once ranges and strategy are released."""

    def __call__(self, ranges: ReleasedRanges) -> ErrorModel:
        """Return the error model for these ranges."""


@dataclass(frozen=True, eq=False)
class TwoStageAllocation(ReadOnlyArrays):
    """Public plan of means in two stages: a map is one data set, of a batch there is one row.

    Attributes
    ----------
    range : RangeQuantiles
        The stage that chooses the ends.
    residual_epsilon : Fraction
        Loss of every user by the choice of h.
    direct_widening, first_widening : Fraction
        Factors that widen the released range: for the strategy `single_stage`, and for the others.
    mean : WeightedMean
        Of the strategies `single_stage` and `cell_residuals`.
    residuals : WeightedMean
        Residuals from users' own means, in the strategy `user_residuals`.
    clusters : ClusterMeans
    lattice : CellLattice
        Of cells that all have the records' bounds.
    lattice_steps : int
        Width of the records' bounds in quanta.
    select : StrategySelection
    errors : TwoStageErrors
    booked : ndarray of float, shape (n_users,)
        Loss of each user by the strategy that costs it most, rounded up.
    """

    range: RangeQuantiles
    residual_epsilon: Fraction
    direct_widening: Fraction
    first_widening: Fraction
    mean: WeightedMean
    residuals: WeightedMean
    clusters: ClusterMeans
    lattice: CellLattice
    lattice_steps: int
    select: StrategySelection
    errors: TwoStageErrors
    booked: Floats
    kind: str = "two-stage"

    def losses(self) -> Floats:
        """Return each user's privacy loss, whatever is released; rounded up: booked."""
        return self.booked

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the choice of the range, that of h, then the stages of the strategy."""
        if not earlier:
            return self.range
        if RESIDUAL_SCALE not in earlier:
            return self._residual_scale(self.range.ends(earlier))
        return DONE if CELLS in earlier else self._strategy_stage(earlier, self.ranges(earlier))

    def _strategy_stage(self, earlier: Outputs, ranges: ReleasedRanges) -> Stage:
        """Return the next stage of the released strategy."""
        if ranges.strategy == "single_stage":
            return WeightedSumStage(CELLS, self.mean, ranges.ends)
        if ranges.strategy == "user_residuals":
            return UserResidualStage(self.clusters, self.residuals, ranges)
        # Two draws of the same means: their shares of the cells' loss add up to one.
        if FIRST_MEANS not in earlier:
            return WeightedSumStage(FIRST_MEANS, self.mean, ranges.ends, FIRST_STAGE_SHARE)
        return CellResidualStage(self.mean, ranges, self.centres(earlier))

    def _residual_scale(self, released: tuple[int, int]) -> ResidualScaleStage:
        low, high = widened(released, self.lattice_steps, self.first_widening)
        occupancy = self.mean.occupancy
        choice = residual_quantile(occupancy, high - low, RESIDUAL_QUANTILE, self.residual_epsilon)
        return ResidualScaleStage(choice, released, self.select)

    def ranges(self, outputs: Outputs) -> ReleasedRanges:
        """Return the ranges and the strategy, from the outputs of the first two stages."""
        released = self.range.ends(outputs)
        residual, number = map(int, outputs[RESIDUAL_SCALE][0])
        return self.ranges_of(released, residual, STRATEGIES[number])

    def ranges_of(self, released: tuple[int, int], residual: int, strategy: str) -> ReleasedRanges:
        """Return the ranges of a strategy for released ends and h."""
        direct = strategy == "single_stage"
        widening = self.direct_widening if direct else self.first_widening
        ends = widened(released, self.lattice_steps, widening)
        # A single stage has no second range; no number depends on its half width.
        half = 1 if direct else second_stage_half_width(strategy, ends, residual)
        user_means = user_mean_range(ends, residual)
        return ReleasedRanges(strategy, released, ends, residual, half, user_means)

    def centres(self, earlier: Outputs) -> Ints:
        """Return the cells' centres in whole quanta, made of their noisy first means."""
        ranges, means = self.ranges(earlier), self.first_means(earlier)
        residual = ranges.residual_quantile
        first_stage = first_observation(means, self.mean.noise, ranges.ends)
        declipped = declip(ranges.ends, residual, first_stage)
        # Whole quanta, so that residuals around them are whole numbers of known range.
        return np.clip(np.rint(declipped.estimate), 0, self.lattice_steps).astype(np.int64)

    def first_means(self, outputs: Outputs) -> Floats:
        """Return the cells' noisy first means in quanta, in the strategy `cell_residuals`."""
        return np.asarray(outputs[FIRST_MEANS][0] / self.mean.totals)

    def cell_centres(self, outputs: Outputs) -> Ints:
        """Return the stored centres, in the strategy `cell_residuals`."""
        return np.asarray(outputs[CELLS][0][: self.mean.noise.size])

    def cluster_means(self, outputs: Outputs) -> Floats:
        """Return the noisy means of clusters in quanta, in the strategy `user_residuals`."""
        noisy = outputs[CELLS][0][: self.clusters.noise.size]
        return np.asarray(noisy / self.clusters.totals)

    def numbers(self, outputs: Outputs) -> dict[str, Ints]:
        """Return the noisy integer of each cell from the last stage."""
        return {"mean": np.asarray(outputs[CELLS][0][-self.mean.noise.size :])}

    def totals(self, strategy: str) -> Ints:
        """Return the sums of weights that belong to the numbers of a strategy."""
        return self.residuals.totals if strategy == "user_residuals" else self.mean.totals

    def means(self, outputs: Outputs) -> Floats:
        """Return the published mean of each cell in quanta, on its grid."""
        strategy = self.ranges(outputs).strategy
        total = self.totals(strategy)
        means = self.numbers(outputs)["mean"] / total
        if strategy == "cell_residuals":
            means = means + self.cell_centres(outputs)
        if strategy == "user_residuals":
            # Mixed cluster means are doubles: rounded, the sum lies on the cell's grid.
            means = (
                np.rint((means + self.clusters.mixed(self.cluster_means(outputs))) * total) / total
            )
        return np.asarray(means)

    def grid(self, strategy: str) -> EstimateGrid:
        """Return where the means published by a strategy can lie."""
        total = self.totals(strategy)
        return EstimateGrid(self.lattice.lower_value.copy(), self.lattice.quantum / total)

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the published means."""
        means = self.lattice.in_units(self.means(outputs))
        ranges = self.ranges(outputs)
        return (Decoded("mean", means[None], self.grid(ranges.strategy), self.errors(ranges)),)

    def check_room(self, epsilon: float) -> None:
        """Refuse, from public facts, statistics and noise that could leave 64 bits.

        Raises
        ------
        InputError
        """
        # Ranges and strategy are not known yet: no range is wider than twice the bounds.
        widest = 2 * self.lattice_steps
        for public, noise in (
            (self.mean, self.mean.noise / float(FIRST_STAGE_SHARE)),
            (self.clusters, self.clusters.noise),
            (self.residuals, self.residuals.noise),
        ):
            total = public.totals
            check_room(total, laplace_scales(noise, total, widest), widest, epsilon)


# ---- clipping undone, in the strategy `cell_residuals` ----


def first_observation(means: Floats, noise: Floats, ends: tuple[int, int]) -> NoisyObservation:
    """Return the cells' noisy first means in quanta, with the range that clipped them."""
    low, high = ends
    middle = np.ones(noise.size) * (low + high) / 2.0
    return NoisyObservation(
        means, middle, noise / float(FIRST_STAGE_SHARE) * (high - low), (high - low) / 2.0
    )


def second_observation(
    means: Floats, noise: Floats, centre: Ints, half_width: int
) -> NoisyObservation:
    """Return the cells' noisy means from both stages in quanta, clipped around their centres."""
    # A share of the loss makes the noise larger by its inverse.
    scale = noise / float(1 - FIRST_STAGE_SHARE) * 2.0 * half_width
    return NoisyObservation(means, centre.astype(np.float64), scale, float(half_width))


def declip(
    ends: tuple[int, int],
    residual_quantile: int,
    first_stage: NoisyObservation,
    *second_stage: NoisyObservation,
) -> DeclippedEstimate:
    """Return the cells' means in quanta with the clipping undone, by a stated model."""
    prior_sd = within_cell_sd(ends[1] - ends[0], residual_quantile)
    return estimate_declipped([first_stage, *second_stage], prior_sd, fit_sd=bool(second_stage))
