"""Means of contributed samples alone: COMP's estimator, one integer per cell from private sums.

Let a cell have bounds of width S in quanta, and let Γ of a user's m samples contribute, a whole
number; n is the sum of Γ. With s' the user's sum above the lower bound of the cell, at most S m,
the user contributes, in half quanta,

    c = round(2 Γ s' / m),

Γ times the mean of all its samples (ERRATA 9), exact where all or none of them contribute. The
cell's statistic is y = Σ c, its noise discrete Laplace of scale R, and what is published is
lower + quantum (y + noise) / (2 n). Users with Γ = 0 are left out: nobody is put at the middle.

Neighbours: all values of one user, in all its cells at once, change within the bounds; users
and counts stay. Then only this user's contributions change. c does not fall as s' grows, is 0 at 0
and 2 Γ S at S m: the sensitivity 2 Γ S is exact.
Loss: as for clipped means (mechanisms/clipped/clipped_mean.py): R is 2 S r rounded up, so that a
cell costs at most Γ / r. Rounding moves the mean by at most a quarter of a quantum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from hexveil.accounting.contributions import KeptRecords
from hexveil.accounting.error_model import ErrorModel
from hexveil.accounting.moves import StatisticMoves
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.clipped.clipped_mean import ROOM, CellLattice, mean_moves
from hexveil.mechanisms.contract import EstimateGrid, PrivateSums
from hexveil.mechanisms.stage_data import TAIL
from hexveil.model.occupancy import Occupancy, Pairs
from hexveil.model.pair_bins import PairSums


@dataclass(frozen=True, eq=False)
class RenormalisedMean(ReadOnlyArrays):
    """The public side of means of contributed samples.

    Attributes
    ----------
    occupancy : Occupancy
    lattice : CellLattice
    noise : ndarray of float, shape (n_cells,)
        R: noise scale in half quanta, rounded up.
    kept : KeptRecords
        Γ of each pair, whole: factors are 1. Some of each cell remain.
    totals : ndarray of int64, shape (n_cells,)
        Samples that contribute to each cell: n.
    error : ErrorModel
    """

    occupancy: Occupancy
    lattice: CellLattice
    noise: Floats
    kept: KeptRecords
    totals: Ints
    error: ErrorModel
    name: str = "mean"

    @property
    def noised_cells(self) -> Ints:
        """Numbers of the cells with a noised mean: all."""
        return np.arange(self.noise.size)

    @property
    def scales(self) -> Floats:
        """Noise scale of each cell."""
        return self.noise

    @property
    def constants(self) -> Ints:
        """Nothing: every cell is noised."""
        return np.zeros(self.noise.size, dtype=np.int64)

    @property
    def moves(self) -> StatisticMoves:
        """By how many half quanta each pair moves its cell's number: 2 Γ S."""
        return mean_moves(self.lattice.width, self.kept, self.noise)

    def measure(self, sums: PrivateSums) -> Ints:
        """Return y of every cell, in half quanta, shape (batch, n_cells). PRIVATE.

        Privacy
        -------
        It leaves only through the noise door. One user moves entry g by at most 2 Γ S (module
        head).
        """
        work = partial(_measure, kept=self.kept, lower=self.lattice.lower, width=self.lattice.width)
        return sums.map_cells(self.occupancy, work)

    def estimates(self, noisy: Ints) -> Floats:
        """Return the published mean of each cell from its noisy integer, in value units."""
        total = 2 * self.totals
        # Divided in two parts, since a sum beyond 2^53 would lose digits as a double.
        quotient, remainder = np.divmod(noisy, total)
        return self.lattice.in_units(quotient + remainder / total)

    def grid(self) -> EstimateGrid:
        """Return where published means can lie: it follows from bounds, quantum and counts."""
        return EstimateGrid(
            self.lattice.lower_value.copy(),
            np.asarray(self.lattice.quantum / (2.0 * self.totals), dtype=np.float64),
        )

    def check(self, lattice_steps: int, epsilon: float, *, has_squares: bool) -> None:  # noqa: ARG002  as of variances
        """Refuse, from public facts, statistics and noise that could leave 64 bits.

        Raises
        ------
        InputError
            Also if a cell has no noise or no contributions.
        """
        if not (self.noise > 0).all() or not (self.totals > 0).all():
            raise InputError("the plan has a cell without contributions or noise; plan again.")
        largest = self.occupancy.largest_count.astype(np.float64) ** 2
        fits = (2.0 * self.lattice.width * self.totals + TAIL * self.noise < ROOM).all()
        if not fits or not (4.0 * largest < ROOM).all():
            raise InputError(
                f"noise for epsilon {epsilon:.3g} does not fit whole numbers of 64 bits; "
                "ask for a larger epsilon or use a coarser quantum."
            )


def _measure(pairs: Pairs, sums: PairSums, *, kept: KeptRecords, lower: Ints, width: Ints) -> Ints:
    m, contributions = pairs.n, kept.whole(pairs)
    within = np.clip(sums.total - lower[pairs.cell] * m, 0, width[pairs.cell] * m)
    # In two parts, since Γ s' need not fit 64 bits; half of m rounds to the nearest.
    quotient, remainder = np.divmod(within, m)
    rounded = (4 * contributions * remainder + m) // (2 * m)
    return np.asarray(
        np.add.reduceat(2 * contributions * quotient + rounded, pairs.start[:-1]), dtype=np.int64
    )
