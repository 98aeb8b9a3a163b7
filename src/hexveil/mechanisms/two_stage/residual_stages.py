"""Stages of two-stage means: the scale of residuals, and residuals around users or cells.

The proof is in the head of mechanisms/two_stage/two_stage_mean.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.clipped.clipped_allocation import CELLS
from hexveil.mechanisms.contract import DrawnRow, LaplaceNoise, Separate, Values
from hexveil.mechanisms.map_quantiles import user_sums
from hexveil.mechanisms.released_ranges import FIRST_STAGE_SHARE, STRATEGIES
from hexveil.mechanisms.weighted.weighted_mean import check_weights, laplace_scales

if TYPE_CHECKING:
    from hexveil.mechanisms.contract import (
        Floats,
        Ints,
        NoiseRequest,
        Outputs,
        PrivateSums,
        Scores,
        SensitivityReport,
    )
    from hexveil.mechanisms.map_quantiles import MapQuantiles
    from hexveil.mechanisms.weighted.weighted_mean import WeightedMean

RESIDUAL_SCALE = "deviation"
"""Name of the stage that chooses h, in the ledger."""


@dataclass(frozen=True)
class ReleasedRanges:
    """Ranges and strategy that a release found: public, in quanta above the records' lower bound.

    Attributes
    ----------
    strategy : "single_stage", "user_residuals" or "cell_residuals"
    released : pair of int
        The ends as they were chosen.
    ends : pair of int
        The range of first means; of the strategy `single_stage` that of the cells.
    residual_quantile : int
        h, as it was chosen.
    half_width : int
        Of the range of the second stage: h, or h'.
    user_means : pair of int
        What users' means over all cells are clipped to, in the strategy `user_residuals`.
    """

    strategy: str
    released: tuple[int, int]
    ends: tuple[int, int]
    residual_quantile: int
    half_width: int
    user_means: tuple[int, int]

    @property
    def width(self) -> int:
        """Width of the range."""
        return self.ends[1] - self.ends[0]

    @property
    def residuals(self) -> tuple[int, int]:
        """Range of the second stage, around its centres."""
        return -self.half_width, self.half_width


class StrategySelection(Protocol):
    """Public choice of the strategy of least predicted error."""

    def __call__(self, released: tuple[int, int], residual_quantile: int) -> str:
        """Return the strategy for the released ends and h."""


@dataclass(frozen=True, eq=False)
class ClusterMeans(ReadOnlyArrays):
    """The public side of noisy means of clusters of users.

    Attributes
    ----------
    labels : ndarray of int64, shape (n_users,)
        Cluster of each user.
    weight : ndarray of int64, shape (n_users,)
        V: weight of each user's mean in its cluster.
    noise : ndarray of float, shape (n_clusters,)
        Laplace scale of each cluster's mean for a range of width 1.
    share : ndarray of float, shape (n_cells, n_clusters)
        Part of each cell's records that is of each cluster.
    """

    labels: Ints
    weight: Ints
    noise: Floats
    share: Floats

    @property
    def totals(self) -> Ints:
        """Sum of weights of each cluster."""
        total = np.zeros(self.noise.size, dtype=np.int64)
        # Whole numbers all the way: bincount would add them as doubles.
        np.add.at(total, self.labels, self.weight)
        return total

    def check(self) -> None:
        """Refuse weights or noise under which the stated loss would not hold."""
        check_weights(self.weight, self.totals, self.noise)

    def scales(self, width: int) -> Floats:
        """Return R of each cluster, rounded up."""
        return laplace_scales(self.noise, self.totals, width)

    def sensitivity(self, width: int) -> Separate:
        """Return that a user moves its cluster's number by V (b - a), exactly."""
        return Separate(np.arange(self.labels.size), self.labels, self.weight * width)

    def measure(self, user_means: Ints) -> Ints:
        """Return the number of each cluster, shape (batch, n_clusters). PRIVATE."""
        numbers = np.zeros((len(user_means), self.noise.size), dtype=np.int64)
        for row, user_mean in zip(numbers, user_means, strict=True):
            np.add.at(row, self.labels, self.weight * user_mean)
        return numbers

    def mixed(self, cluster_means: Floats) -> Floats:
        """Return Σ share x mean of each cell."""
        return mix(self.share, cluster_means)


def mix(share: Floats, cluster_means: Floats) -> Floats:
    """Return Σ share x mean of each cell, in order: the same double on every processor."""
    # A matrix product would add in an order that depends on the processor.
    return np.asarray(np.add.accumulate(share * cluster_means, axis=1)[:, -1])


@dataclass(frozen=True, eq=False)
class ResidualScaleStage:
    """The choice of h; the strategy that follows from it is stored with it."""

    choice: MapQuantiles
    released: tuple[int, int]
    select: StrategySelection
    name: str = RESIDUAL_SCALE
    entries: int = 2

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:
        """Return a permute-and-flip."""
        return self.choice.noise(earlier)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:
        """Return that a user moves every cost by at most its votes."""
        return self.choice.sensitivity(earlier)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Scores, ...]:
        """Return the scores of the candidates. PRIVATE."""
        return self.choice.measure(sums, earlier)

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return h in quanta, and the number of the strategy."""
        (residual,) = self.choice.candidates.points(drawn[0]).tolist()
        # The strategy compares predicted errors, which could come out otherwise on another
        # processor: stored with h, a resumed release goes on with the same one.
        return np.array([[residual, STRATEGIES.index(self.select(self.released, residual))]])


@dataclass(frozen=True, eq=False)
class UserResidualStage(DrawnRow):
    """Means of clusters, and weighted means of residuals from users' own means.

    Attributes
    ----------
    clusters : ClusterMeans
    residuals : WeightedMean
    ranges : ReleasedRanges
    """

    clusters: ClusterMeans
    residuals: WeightedMean
    ranges: ReleasedRanges
    name: str = CELLS

    @property
    def entries(self) -> int:
        """One integer per cluster, and per cell."""
        return self.clusters.noise.size + self.residuals.noise.size

    @property
    def _width(self) -> int:
        return self.ranges.user_means[1] - self.ranges.user_means[0]

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return noise for both widths."""
        in_cells = self.residuals.scales(2 * self.ranges.half_width)
        return LaplaceNoise(self.clusters.scales(self._width)), LaplaceNoise(in_cells)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return how far each user can move them."""
        in_cells = self.residuals.sensitivity(2 * self.ranges.half_width)
        return self.clusters.sensitivity(self._width), in_cells

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the integers of clusters and cells. PRIVATE."""
        occupancy, (low, high) = self.residuals.pairs, self.ranges.user_means
        total, n = user_sums(sums, occupancy)
        # Rounded down to whole quanta. The residual is taken from the rounded mean, so that nothing
        # is lost when the two are added up again.
        user_means = np.clip(total, low * n, high * n) // n
        centre = user_means[:, occupancy.user]
        residuals = self.residuals.measure(sums, self.ranges.residuals, centre)
        return Values(self.clusters.measure(user_means)), Values(residuals)


@dataclass(frozen=True, eq=False)
class CellResidualStage:
    """Weighted means of residuals from the cells' centres, which are stored with them.

    Attributes
    ----------
    mean : WeightedMean
    ranges : ReleasedRanges
    centre : ndarray of int64, shape (n_cells,)
    """

    mean: WeightedMean
    ranges: ReleasedRanges
    centre: Ints
    name: str = CELLS

    @property
    def entries(self) -> int:
        """A centre and an integer per cell."""
        return 2 * self.centre.size

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return noise for the width of the range."""
        # The first stage has spent its share of the cells' loss.
        return (LaplaceNoise(self.mean.scales(2 * self.ranges.half_width, 1 - FIRST_STAGE_SHARE)),)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return how far each user can move them."""
        return (self.mean.sensitivity(2 * self.ranges.half_width),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the sums of residuals. PRIVATE."""
        centre = self.centre[self.mean.pairs.cell]
        return (Values(self.mean.measure(sums, self.ranges.residuals, centre)),)

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the centres, then the noisy sums."""
        # The sums are around these very centres, and the model that made them works in doubles.
        return np.concatenate((self.centre[None], drawn), axis=1)
