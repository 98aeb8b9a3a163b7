"""Sensitivity of weighted sums of pairs that stay elsewhere: charged where the pairs are.

The numbers and their proof are those of mechanisms/weighted/weighted_mean.py, and of
mechanisms/weighted/weighted_variance.py for second moments: a block of users computes the same
whole weights as the blocks of cells that are measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.sensitivity_report import (
    ULP,
    LaplaceNoise,
    sum_lower_bound,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.mechanisms.sensitivity_report import Floats, Ints, NoiseRequest
    from hexveil.model.factored_weights import FactoredWeights
    from hexveil.model.occupancy import Pairs


@dataclass(frozen=True, eq=False)
class FactoredSensitivity(ReadOnlyArrays):
    """Sensitivity of weighted sums: a pair moves its cell's number by its weight times a width.

    Attributes
    ----------
    weights : FactoredWeights
    width : ndarray of int64, shape (n_cells,)
        Most that a weight of 1 moves each cell's number: the width of its range in quanta; the
        parts of a second moment, and 0 in cells of one record.
    measured : ndarray of bool, shape (n_cells,)
        Cells that have a number; the scales of a request are theirs, in this order.
    spent : tuple of ndarray of float, shape (n_cells,)
        Losses per unit of weight that an earlier stage authorised, and that it spent of them; empty
        where there was none.
    """

    weights: FactoredWeights
    width: Ints
    measured: NDArray[np.bool_]
    spent: tuple[Floats, ...] = ()

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:  # noqa: ARG002  of the weights
        """Return each user's loss beyond the authorised one, rounded down."""
        assert isinstance(request, LaplaceNoise)  # noqa: S101  sums are noised by nothing else
        scales = np.full(self.width.size, np.inf)
        scales[self.measured] = np.atleast_2d(request.scales)[0]
        cells = self.width, scales, *self.spent
        return np.asarray(self.weights.map_users(_losses, cells))


def _losses(pairs: Pairs, weight: Ints, width: Ints, scales: Floats, *spent: Floats) -> Floats:
    # A scale of zero is an infinite loss, which the meter refuses.
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = weight * width[pairs.cell] / scales[pairs.cell]
    if spent:
        authorised, used = (weight * one[pairs.cell] for one in spent)
        unspent = np.where(np.isfinite(scales[pairs.cell]), authorised - used, 0.0)
        # A difference of nearly equal doubles is mostly their rounding: 16 ulps of either.
        rounding = 16.0 * ULP * (terms + authorised + used)
        terms = np.maximum(terms - unspent - rounding, 0.0)
    return sum_lower_bound(pairs.user, terms, pairs.n_users)
