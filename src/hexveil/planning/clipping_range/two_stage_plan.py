"""Data of a two-stage plan: strategies, outputs of its stages, and its decisions.

How they are chosen: planning/clipping_range/two_stage.py; what each strategy costs and is off by:
planning/clipping_range/strategies.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import sum_upper_bounds
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.planning.clipping_range import user_clusters

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.model.occupancy import LocalOccupancy

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StageOutputs(ReadOnlyArrays):
    """Outputs of the stages of a release; public, in quanta above the records' lower bound.

    Attributes
    ----------
    strategy : one of WAYS
    ends : pair of int
        The interval at 1.28 deviations, or, under the strategy `single_stage`, that of the cells.
    half_width : int
        Half width of the second step: h, or h'.
    residual_radius : int
        h itself.
    span_quanta : int
        Width of the records' bounds.
    user_mean_range : pair of int, or None
        What users' own means are projected to, under the strategy `user_residuals`.
    cluster_means : ndarray of float, shape (n_classes,), or None
        Noisy means of classes, under the strategy `user_residuals`.
    first_stage_means : ndarray of float, shape (n_cells,), or None
        The first noisy averages, under the strategy `cell_residuals`.
    centre : ndarray of int64, shape (n_cells,), or None
        Where the second step is around, under the strategy `cell_residuals`.
    """

    strategy: str
    ends: tuple[int, int]
    half_width: int
    residual_radius: int
    span_quanta: int
    user_mean_range: tuple[int, int] | None = None
    cluster_means: Floats | None = None
    first_stage_means: Floats | None = None
    centre: Ints | None = None


@dataclass(frozen=True, eq=False)
class TwoStagePlan(ReadOnlyArrays):
    """Decisions of a two-stage plan beside its range; public.

    Attributes
    ----------
    epsilon : Fraction
        What finding h costs every user: it is charged to those in one cell too.
    widening : Fraction
        Factor that widens the range, for the strategies `user_residuals` and `cell_residuals`.
    labels : ndarray of int64, shape (n_users,)
        The class of each user.
    cluster_weight : ndarray of int64, shape (n_users,)
        Whole weight of each user's mean in its class.
    cluster_noise : ndarray of float, shape (n_classes,)
        Laplace scale of each class's mean for an interval of width 1.
    weight : ndarray of int64, shape (n_pairs,)
        Whole weights of distances from users' own means.
    noise : ndarray of float, shape (n_cells,)
        Laplace scale of each cell's weighted average of distances, for a range of 1.
    outputs : StageOutputs or None
        After a release.
    """

    epsilon: Fraction
    widening: Fraction
    labels: Ints
    cluster_weight: Ints
    cluster_noise: Floats
    weight: Ints
    noise: Floats
    outputs: StageOutputs | None = None

    def arrays(self) -> tuple[Floats | Ints, ...]:
        """Return all arrays that decide a release, in a fixed order."""
        return (self.labels, self.cluster_weight, self.cluster_noise, self.weight, self.noise)

    def check(self, occupancy: LocalOccupancy) -> None:
        """Refuse weights or noise with which no loss can be stated.

        Raises
        ------
        InputError
            If a weight is below zero, or a cell or cluster has none or no noise.
        """
        for weight, totals, noise in (
            (self.cluster_weight, self.cluster_totals(), self.cluster_noise),
            (self.weight, self.totals(occupancy), self.noise),
        ):
            # Not (noise <= 0): a scale that is not a number is refused, too.
            if (weight < 0).any() or (totals <= 0).any() or not (noise > 0).all():
                raise InputError(
                    "the plan has a cell or cluster without weights or noise; plan again."
                )

    def clusters(self, occupancy: LocalOccupancy) -> user_clusters.UserClusters:
        """Return the classes as an occupancy."""
        return user_clusters.clusters_from_labels(occupancy, self.labels)

    def cluster_totals(self) -> Ints:
        """Return the sum of weights of each class."""
        total = np.zeros(self.cluster_noise.size, dtype=np.int64)
        np.add.at(total, self.labels, self.cluster_weight)
        return total

    def cluster_shares(self) -> Floats:
        """Return each user's part of its class's mean."""
        return np.asarray(self.cluster_weight / self.cluster_totals()[self.labels])

    def totals(self, occupancy: LocalOccupancy) -> Ints:
        """Return the sum of weights of each cell, under the strategy `user_residuals`."""
        return np.asarray(np.add.reduceat(self.weight, occupancy.start[:-1]))

    def shares(self, occupancy: LocalOccupancy) -> Floats:
        """Return each pair's part of its cell's number, under the strategy `user_residuals`."""
        return np.asarray(self.weight / self.totals(occupancy)[occupancy.cell])

    def with_noise_scaled(self, times: float) -> TwoStagePlan:
        """Return the plan with noise of `user_residuals` larger by a factor, rounded up."""
        return replace(
            self,
            # Up, since products round to nearest and losses fall with the scale.
            cluster_noise=np.nextafter(self.cluster_noise * times, np.inf),
            noise=np.nextafter(self.noise * times, np.inf),
        )

    def losses(self, occupancy: LocalOccupancy) -> tuple[Floats, Floats]:
        """Return each user's loss by clusters, and by cells, under the strategy `user_residuals`.

        Rounded up: each term was made by a few correctly rounded operations.
        """
        # A user is in one cluster: the means of the others do not depend on its values.
        parts = self.cluster_shares() / self.cluster_noise[self.labels]
        terms = self.shares(occupancy) / self.noise[occupancy.cell] * (1.0 + 2.0**-49)
        in_cells = sum_upper_bounds(occupancy.user, terms, occupancy.n_users)
        return np.asarray(parts * (1.0 + 2.0**-49)), in_cells

    def composed_losses(self, occupancy: LocalOccupancy) -> Floats:
        """Return the same together, if all of a class and of a cell are charged its most."""
        largest = np.zeros(self.cluster_noise.size)
        np.maximum.at(largest, self.labels, self.cluster_shares() / self.cluster_noise[self.labels])
        shares = self.shares(occupancy)
        # Counting cells charges each user of a cell the largest share of any.
        charge = np.maximum.reduceat(shares, occupancy.start[:-1]) / self.noise
        terms = np.where(shares > 0, charge[occupancy.cell] * (1.0 + 2.0**-49), 0.0)
        in_cells = sum_upper_bounds(occupancy.user, terms, occupancy.n_users)
        return np.asarray(np.nextafter(largest[self.labels] * (1.0 + 2.0**-49) + in_cells, np.inf))
