"""Data of a two-stage plan: strategies, outputs of its stages, and its decisions.

How they are chosen: planning/clipping_range/two_stage.py; what each strategy costs and is off by:
planning/clipping_range/strategies.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting import weighted_losses
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.factored_weights import FactoredWeights
from hexveil.planning.clipping_range import user_clusters
from hexveil.planning.clipping_range.user_weights import sum_weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.model.factored_weights import Weights
    from hexveil.model.occupancy import Occupancy

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


ROUND_UP = 1.0 + 2.0**-49
"""Eight ulps, which cover the few rounded operations of a term."""


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
    weight : ndarray of int64, shape (n_pairs,), or FactoredWeights
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
    weight: Weights
    noise: Floats
    outputs: StageOutputs | None = None

    def check(self, occupancy: Occupancy) -> None:
        """Refuse weights or noise with which no loss can be stated.

        Raises
        ------
        InputError
            If a weight is below zero, or a cell or cluster has none or no noise.
        """
        weight = self.weight
        # Before totals of factors that are no weights are looked at.
        sound = weight.is_sound() if isinstance(weight, FactoredWeights) else (weight >= 0).all()
        sound &= (self.cluster_weight >= 0).all()
        for totals, noise in (
            (self.cluster_totals(), self.cluster_noise),
            (self.totals(occupancy), self.noise),
        ):
            # Not (noise <= 0): a scale that is not a number is refused, too.
            sound &= (totals > 0).all() and (noise > 0).all()
        if not sound:
            raise InputError("the plan has a cell or cluster without weights or noise; plan again.")

    def clusters(self, occupancy: Occupancy) -> user_clusters.UserClusters:
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

    def totals(self, occupancy: Occupancy) -> Ints:
        """Return the sum of weights of each cell, under the strategy `user_residuals`."""
        return sum_weights(occupancy, self.weight)

    def with_noise_scaled(self, times: float) -> TwoStagePlan:
        """Return the plan with noise of `user_residuals` larger by a factor, rounded up."""
        return replace(
            self,
            # Up, since products round to nearest and losses fall with the scale.
            cluster_noise=np.nextafter(self.cluster_noise * times, np.inf),
            noise=np.nextafter(self.noise * times, np.inf),
        )

    def losses(self, occupancy: Occupancy) -> tuple[Floats, Floats]:
        """Return each user's loss by clusters, and by cells, under the strategy `user_residuals`.

        Rounded up: each term was made by a few correctly rounded operations.
        """
        # A user is in one cluster: the means of the others do not depend on its values.
        parts = self.cluster_shares() / self.cluster_noise[self.labels]
        cells = self.totals(occupancy), self.noise
        in_cells = self._of_pairs(occupancy, weighted_losses.weighted_user_losses, cells)
        return np.asarray(parts * ROUND_UP), in_cells

    def composed_losses(self, occupancy: Occupancy) -> Floats:
        """Return the same together, if all of a class and of a cell are charged its most."""
        largest = np.zeros(self.cluster_noise.size)
        np.maximum.at(largest, self.labels, self.cluster_shares() / self.cluster_noise[self.labels])
        # Counting cells charges each user of a cell the largest share of any.
        claims = self._of_pairs(
            occupancy,
            weighted_losses.largest_weighted_losses,
            (self.totals(occupancy), self.noise),
            by_cell=True,
        )
        claimed = weighted_losses.claimed_user_losses
        in_cells = self._of_pairs(occupancy, claimed, (claims * ROUND_UP,))
        return np.asarray(np.nextafter(largest[self.labels] * ROUND_UP + in_cells, np.inf))

    def _of_pairs(
        self,
        occupancy: Occupancy,
        work: Callable[..., Floats],
        cells: tuple[Floats | Ints, ...],
        *,
        by_cell: bool = False,
    ) -> Floats:
        """Return a function of pairs and their weights by user, or by cell, wherever they are."""
        if isinstance(self.weight, FactoredWeights):
            ask = self.weight.map_cells if by_cell else self.weight.map_users
            return np.asarray(ask(work, cells))
        return work(occupancy.local(), self.weight, *cells)
