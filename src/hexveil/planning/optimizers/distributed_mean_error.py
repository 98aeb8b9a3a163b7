"""The joint plan of least average error where pairs stay elsewhere: begun with some of the users.

Let p be the part of users that are fetched, drawn without regard to what they reported. A cell's
share of a user among those fetched is about 1 / p times its share among all. So at the same rates a
fetched user loses 1 / p times as much, and the part of a cell that factors put at the middle is
about the same: the rates of the plan of the fetched users at a loss of L / p are about those of the
plan of all users at L, in cells where many were fetched. From there a few steps are taken with all
users; whatever the rates are, factors and losses are computed from all pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.planning.optimizers import user_sample
from hexveil.planning.optimizers.mean_error import (
    ObjectiveWeights,
    SearchLimits,
    minimize_mean_error,
)
from hexveil.planning.optimizers.user_factors import ClippingProblem, InverseScales

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats, Ints
    from hexveil.planning.optimizers.minimax import JointSolution


DISTRIBUTED_SEARCH = SearchLimits(iterations=12, evaluations=24, trials=5)
"""Limits of the search with all users; each evaluation asks for a few sums of pairs."""


def minimize_mean_error_distributed(
    exposure: ClippingProblem, weights: ObjectiveWeights, loss: float
) -> JointSolution:
    """Minimize the weighted sum of errors within a loss, over distributed pairs.

    Parameters
    ----------
    exposure : ClippingProblem
        Of a `DistributedOccupancy`.
    weights : ObjectiveWeights
    loss : float
    """
    occupancy = exposure.occupancy
    sample, cells, part = user_sample.fetch_sample(occupancy)
    weighed = ObjectiveWeights(weights.mean[cells], weights.variance[cells])
    result = minimize_mean_error(
        # A share among few is larger than among all, and so is the loss at equal rates.
        ClippingProblem(sample),
        weighed,
        loss / part,
    )
    begin = (
        to_all_cells(rate, cells, occupancy.n_cells)
        for rate in (result.rates.mean, result.rates.variance)
    )
    return minimize_mean_error(exposure, weights, loss, DISTRIBUTED_SEARCH, InverseScales(*begin))


def to_all_cells(rate: Floats, cells: Ints, n_cells: int) -> Floats:
    """Return inverse scales of all cells; cells without fetched users get a typical one."""
    usual = float(np.median(rate[rate > 0])) if (rate > 0).any() else 0.0
    full = np.full(n_cells, usual)
    full[cells] = rate
    return full
