"""Stages of two-stage means: the scale of residuals, and residuals around users or cells.

Users' own means, and residuals from them, are computed where all of a user's pairs are: on one
machine, or in its block of whole users, of which nothing but sums over the block leaves.

The proof is in the head of mechanisms/two_stage/two_stage_mean.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.clipped.clipped_allocation import CELLS
from hexveil.mechanisms.contract import DrawnRow, LaplaceNoise, Separate, Values
from hexveil.mechanisms.map_quantiles import user_sums
from hexveil.mechanisms.released_ranges import FIRST_STAGE_SHARE, STRATEGIES
from hexveil.mechanisms.weighted.weighted_mean import (
    check_weights,
    contributions,
    laplace_scales,
)
from hexveil.model.factored_weights import FactoredWeights

if TYPE_CHECKING:
    from collections.abc import Callable

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
    from hexveil.model.occupancy import Pairs

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
        clusters, weight = self.clusters, self.residuals.weight
        work = partial(_numbers_of_users, n_clusters=clusters.noise.size, ranges=self.ranges)
        users = clusters.labels, clusters.weight
        if isinstance(weight, FactoredWeights):
            numbers = weight.sum_over_users(sums, work, (), users)
        else:
            work = partial(_weight_first, work=work)
            numbers = sums.sum_over_users(self.residuals.pairs, work, (), users, (weight,))
        in_clusters, in_cells = np.split(numbers, [clusters.noise.size], axis=1)
        return Values(in_clusters), Values(in_cells)


def _weight_first(
    pairs: Pairs, sums: Ints, _squares: None, *given: Ints, work: Callable[..., Ints]
) -> Ints:
    *users, weight = given
    return work(pairs, weight, sums, *users)


def _numbers_of_users(
    pairs: Pairs,
    weight: Ints,
    sums: Ints,
    labels: Ints,
    cluster_weight: Ints,
    n_clusters: int,
    ranges: ReleasedRanges,
) -> Ints:
    """Return the integers of clusters, then of cells, that whole users add up to. PRIVATE."""
    (low, high), (total, n) = ranges.user_means, user_sums(pairs, sums)
    # Rounded down to whole quanta. The residual is taken from the rounded mean, so that nothing
    # is lost when the two are added up again.
    mean = np.clip(total, low * n, high * n) // n
    numbers = np.zeros(n_clusters + pairs.n_cells, dtype=np.int64)
    np.add.at(numbers, labels, cluster_weight * mean)
    residuals = residual_contributions(pairs, weight, sums, mean, ranges.half_width)
    np.add.at(numbers, n_clusters + pairs.cell, residuals)
    return numbers


def residual_contributions(
    pairs: Pairs, weight: Ints, sums: Ints, mean: Ints, half_width: int
) -> Ints:
    """Return what the residuals of pairs from their users' own means contribute. PRIVATE."""
    # A centre of the user's own values: no other user moves this pair's term.
    residuals = sums - pairs.n * mean[pairs.user]
    return contributions(residuals, pairs.n, weight, (-half_width, half_width))


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
        return (Values(self.mean.measure_around(sums, self.ranges.half_width, self.centre)),)

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the centres, then the noisy sums."""
        # The sums are around these very centres, and the model that made them works in doubles.
        return np.concatenate((self.centre[None], drawn), axis=1)
