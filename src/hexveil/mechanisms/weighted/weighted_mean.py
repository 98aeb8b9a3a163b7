"""Weighted means of user means in a clipping range: one integer per cell from private sums.

Let the interval be [a, b] in quanta above the lower bound of the records, whole numbers, chosen
privately or all of the bounds. A pair with m records, sum s and the whole weight W contributes

    c = floor(W clip(s, a m, b m) / m),

the user's mean projected to [a, b], times W. The cell's statistic is y = Σ c, its noise discrete
Laplace of scale R, and what is published is lower + quantum (y + noise) / Σ W. Rounding down moves
that by less than one quantum times the number of users over Σ W, which is below 2^-9 of a quantum
for cells of up to 2^17 users (planning/clipping_range/private_range.py).

Neighbours: all values of one user, in all its cells at once, change within the bounds; users
and counts stay. Then only this user's contributions change. W a and W b are whole, and c lies
between them and reaches both: the sensitivity W (b - a) is exact.
Loss: cells have independent noise, and discrete Laplace of scale R at integer distance d costs at
most d / R (mechanisms/noise.py). R is (b - a) (Σ W) r rounded up, r the plan's noise for an
interval of width 1: a cell costs at most W / (r Σ W), whatever the interval. So what a user loses
is known before the interval is; with what the interval costs it adds up to what is booked, since
losses add up whatever earlier outputs chose (ledger/odometer.py).
Source: docs/understand/clipping-range.md; ERRATA 3 for the accounting.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.moves import ULP, add_up, quotient, squares
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.clipped.clipped_mean import ROOM
from hexveil.mechanisms.contract import EstimateGrid
from hexveil.mechanisms.sensitivity_report import GaussianNoise, LaplaceNoise, is_gaussian_sound
from hexveil.mechanisms.stage_data import TAIL, map_weighted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.clipped.clipped_mean import CellLattice
    from hexveil.mechanisms.contract import PrivateSums
    from hexveil.mechanisms.sensitivity_report import NoiseRequest
    from hexveil.model.occupancy import Occupancy, Pairs
    from hexveil.model.pair_columns import Weights

    Ends = tuple[int, int] | tuple[Ints, Ints]


def contributions(total: Ints, n: Ints, weight: Ints, ends: Ends) -> Ints:
    """Return c of each pair, for one range or for a range per pair. PRIVATE.

    Examples
    --------
    >>> integers = [np.array([value]) for value in (7, 2, 10)]
    >>> contributions(*integers, (0, 100)), contributions(*integers, (0, 3))
    (array([35]), array([30]))
    """
    within = np.clip(total, ends[0] * n, ends[1] * n)
    # In two parts, since W s need not fit 64 bits; the floor of W s / m is the same.
    quotient, remainder = np.divmod(within, n)
    return np.asarray(weight * quotient + weight * remainder // n, dtype=np.int64)


def laplace_scales(
    noise: Floats, totals: Ints, width: int | Ints, share: Fraction = Fraction(1)
) -> Floats:
    """Return R of each number: its noise for a width of 1 and all of the loss, rounded up.

    Parameters
    ----------
    noise : ndarray of float, shape (n,)
    totals : ndarray of int64, shape (n,)
        Sums of weights.
    width : int or ndarray of int64, shape (n,)
        How far a weight of 1 can move the number.
    share : Fraction
        Share of the loss that goes here.
    """
    # Exact rationals, rounded up once: a smaller scale would cost more than was booked.
    exact = (
        round_up(Fraction(float(r)) * int(total) * int(w) / share)
        for r, total, w in zip(noise, totals, np.broadcast_to(width, totals.shape), strict=True)
    )
    return np.array(list(exact), dtype=np.float64)


# ---- sensitivity, charged where the pairs are ----


@dataclass(frozen=True, eq=False)
class FactoredSensitivity(ReadOnlyArrays):
    """Sensitivity of weighted sums: a pair moves its cell's number by its weight times a width.

    Attributes
    ----------
    weights : Weights
    width : ndarray of int64, shape (n_cells,)
        Most that a weight of 1 moves each cell's number: the width of its range in quanta; the
        parts of a second moment, and 0 in cells of one record.
    measured : ndarray of bool, shape (n_cells,)
        Cells that have a number; the scales of a request are theirs, in this order.
    spent : tuple of ndarray of float, shape (n_cells,)
        Losses per unit of weight that an earlier stage authorised, and that it spent of them; empty
        where there was none.
    """

    weights: Weights
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


# ---- means ----


@dataclass(frozen=True, eq=False)
class WeightedMean(ReadOnlyArrays):
    """The public side of weighted means of user means, clipped to a range.

    Attributes
    ----------
    occupancy : Occupancy
    weight : Weights
        W of each pair.
    noise : ndarray of float, shape (n_cells,)
        Laplace scale of each cell's mean for a range of width 1.
    """

    occupancy: Occupancy
    weight: Weights
    noise: Floats

    @property
    def totals(self) -> Ints:
        """Sum of weights of each cell."""
        return self.weight.totals

    def scales(self, width: int | Ints, share: Fraction = Fraction(1)) -> Floats:
        """Return R of each cell for a range of `width` quanta: its noise, rounded up."""
        return laplace_scales(self.noise, self.totals, width, share)

    def sensitivity(self, width: int) -> FactoredSensitivity:
        """Return that a pair moves its cell's number by W (b - a), exactly."""
        n_cells = self.noise.size
        return FactoredSensitivity(
            self.weight, np.full(n_cells, width), np.ones(n_cells, dtype=bool)
        )

    def measure(self, sums: PrivateSums, ends: Ends) -> Ints:
        """Return y of every cell, shape (batch, n_cells). PRIVATE.

        Privacy
        -------
        It leaves only through the noise door. One user moves entry g by at most W (b - a), which it
        can (module head).

        Parameters
        ----------
        sums : PrivateSums
        ends : pair of int, or of ndarray of int64, shape (n_cells,)
            The range, in quanta above the lower bound of the records; of all cells, or of each.
        """
        low, high = (np.broadcast_to(end, self.noise.shape) for end in ends)
        return map_weighted(sums, self.weight, _measure, (low, high))

    def averages(self, noisy: Ints) -> Floats:
        """Return noisy means in quanta above the centre."""
        quotient, remainder = np.divmod(noisy, self.totals)
        return np.asarray(quotient + remainder / self.totals)

    def grid(self, lattice: CellLattice) -> EstimateGrid:
        """Return where published means can lie."""
        return EstimateGrid(lattice.lower_value.copy(), lattice.quantum / self.totals)

    def check(self) -> None:
        """Refuse weights or noise under which the stated loss would not hold.

        Raises
        ------
        InputError
            If a weight is below zero, or a cell has none or no noise.
        """
        if not self.weight.is_sound() or not (self.noise > 0).all():
            raise InputError("the plan has a cell without weights or noise; plan again.")

    def check_room(self, width: int, epsilon: float) -> None:
        """Refuse, from public facts, statistics and noise that could leave 64 bits."""
        check_room(self.totals, self.scales(width), width, epsilon)


def _measure(pairs: Pairs, weight: Ints, sums: Ints, lower: Ints, upper: Ints) -> Ints:
    """Return the weighted sums of the cells of a block. PRIVATE."""
    ends = pairs.spread(lower), pairs.spread(upper)
    contribution = contributions(sums, pairs.n, weight, ends)
    return np.asarray(np.add.reduceat(contribution, pairs.start[:-1]))


def check_room(totals: Ints, scales: Floats, width: int, epsilon: float) -> None:
    """Refuse, from public facts, statistics and noise that could leave 64 bits.

    Raises
    ------
    InputError
    """
    # As doubles: integers that overflow would wrap round, and pass.
    if not (2.0 * width * totals + TAIL * scales < ROOM).all():
        raise InputError(
            f"noise for epsilon {epsilon:.3g} does not fit whole numbers of 64 bits; "
            "ask for a larger epsilon or use a coarser quantum."
        )
