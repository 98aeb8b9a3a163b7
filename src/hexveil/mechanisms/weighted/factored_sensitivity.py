"""Sensitivity of weighted sums of pairs that stay elsewhere: charged where the pairs are.

The numbers and their proof are those of mechanisms/weighted/weighted_mean.py, and of
mechanisms/weighted/weighted_variance.py for second moments: a block of users computes the same
whole weights as the blocks of cells that are measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.moves import ULP, add_up, quotient, squares
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.sensitivity_report import (
    GaussianNoise,
    LaplaceNoise,
    is_gaussian_sound,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.sensitivity_report import NoiseRequest
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


@dataclass(frozen=True, eq=False)
class FactoredSquares:
    """Sensitivity of the same sums in one stage of Gaussian noise: squares of moves add up.

    Attributes
    ----------
    reports : tuple of FactoredSensitivity
        Of each statistic, of the same weights, in the order of a request's entries.
    """

    reports: tuple[FactoredSensitivity, ...]

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:  # noqa: ARG002
        """Return infinity: no pure loss limits Gaussian noise."""
        return np.full(n_users, np.inf)

    def squares_lower_bound(self, request: GaussianNoise, n_users: int) -> Floats:
        """Return each user's charge as a square of μ, rounded down."""
        if not is_gaussian_sound(request):
            return np.full(n_users, np.inf)
        sizes = [int(np.count_nonzero(report.measured)) for report in self.reports]
        cells: list[Ints | Floats] = []
        parts = np.split(request.deviations, np.cumsum(sizes)[:-1])
        for report, deviations in zip(self.reports, parts, strict=True):
            everywhere = np.full(report.width.size, np.inf)
            everywhere[report.measured] = deviations
            cells += [report.width, everywhere]
        return np.asarray(self.reports[0].weights.map_users(_squares, cells))


def _squares(pairs: Pairs, weight: Ints, *cells: NDArray[Any]) -> Floats:
    """Return each user's square of μ, of pairs of widths and deviations per cell."""
    moved = [
        (weight * width[pairs.cell], deviations[pairs.cell])
        for width, deviations in zip(cells[::2], cells[1::2], strict=True)
    ]
    return add_up(pairs.user, squares(moved), pairs.n_users, up=False)


def _losses(pairs: Pairs, weight: Ints, width: Ints, scales: Floats, *spent: Floats) -> Floats:
    terms = quotient(weight * width[pairs.cell], scales[pairs.cell])
    if spent:
        authorised, used = (weight * one[pairs.cell] for one in spent)
        unspent = np.where(np.isfinite(scales[pairs.cell]), authorised - used, 0.0)
        # A difference of nearly equal doubles is mostly their rounding: 16 ulps of either.
        rounding = 16.0 * ULP * (terms + authorised + used)
        terms = np.maximum(terms - unspent - rounding, 0.0)
    return add_up(pairs.user, (terms,), pairs.n_users, up=False)
