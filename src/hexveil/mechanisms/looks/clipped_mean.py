"""Clipped means: one integer per cell from private sums, with its sensitivity.

For cell g with bounds [a, b] on the lattice (quanta above the lower bound of the records), let
S = b - a. Let a user with m records have the sum s, and let k be the records that the plan counts
of them (at most m): the user's factor times min(m, t), in whole quanta, so that w = k S is a whole
number. The user's contribution, in half quanta, is

    c = clip(2 s', S m - w, S m + w)  with  s' = clip(s - a m, 0, S m).

With k = min(m, t) that is WC Theorem III.1's projection of the user's mean to U/2 ± T/(2m); a
factor makes the interval narrower still. Both ends are whole: nothing is rounded. A pair that
contributes nothing has w = 0 and adds S m, as m records at the middle would. The cell's statistic
is y = Σ c, its noise discrete Laplace of scale R, and what is published is lower_g + quantum (y +
noise) / (2 N).

Neighbours: all values of one user, in all its cells at once, change within the bounds; users
and counts stay. Then only this user's contributions change, each within an interval of width 2 w,
which is attained by moving s from one end to the other (w <= S m): the sensitivity is exact.
Loss: cells have independent noise, and discrete Laplace of scale R at integer distance d costs at
most d / R (mechanisms/noise.py). R is 2 S r rounded up, r the plan's `noise_records`; hence a cell
costs at most 2 w / (2 S r) = k / r, which is what the plan books, rounded up again
(planning/plan.py). k is a double: `half_widths` finds w with w / S at most k (1 + 2^-50 + 2^-51),
which the eight ulps that the plan adds to each term cover.
A cell without noise (r = 0) keeps nothing and publishes the middle of its bounds: no value is
read and no noise is drawn.
Gaussian noise costs the more the fewer steps a unit moves (the lattice term of
accounting/gaussian_composition.py): under it all of this is in parts of a quantum, which are a
public power of two.
Whether everything fits 64 bits is decided beforehand from public facts: no value causes an error.
Source: WC Theorem III.1, ERRATA 3 and 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from hexveil.accounting.error_model import ErrorModel
from hexveil.accounting.moves import FINE, StatisticMoves
from hexveil.accounting.noise_law import NoiseLaw
from hexveil.accounting.privacy_loss import KeptRecords
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.stage_data import ROOM, TAIL, EstimateGrid, PrivateSums
from hexveil.model.occupancy import Occupancy, Pairs
from hexveil.model.pair_bins import PairSums

CELLS = "cells"
"""Name of the stage in which the cells' own numbers are drawn: the last of every release."""
FINE_WIDTH = 2**12
"""Parts that a width has at least under Gaussian noise."""
GRAIN = 2**30
"""A user's factor is a whole number of parts of this size."""
# A product that is whole in exact arithmetic may come out an ulp below. The hair that makes up for
# it is covered by the ulps that are added to every booked term (module head).
_HAIR = 1.0 + 2.0**-50


@dataclass(frozen=True)
class CellLattice:
    """Where the integers of cells stand. Public.

    Attributes
    ----------
    lower, width : int
        Lower bound and width of a plan, in quanta above the lower bound of the records.
    steps : int
        Width of the bounds that the records were read with, in quanta.
    lower_value : float
        Lower bound of the plan in value units.
    quantum : float
        In value units.
    parts : int
        Of a quantum of the records, each of which is one of these.
    """

    lower: int
    width: int
    steps: int
    lower_value: float
    quantum: float

    parts: int = 1

    def refined(self, law: NoiseLaw) -> CellLattice:
        """Return the same in the parts of a quantum that noise of a law takes."""
        parts = parts_of_quantum(self.width, law)
        lower, width, steps = (parts * one for one in (self.lower, self.width, self.steps))
        return CellLattice(lower, width, steps, self.lower_value, self.quantum / parts, parts)

    def in_units(self, quanta: Floats) -> Floats:
        """Return numbers in value units, from quanta above the lower bound."""
        return np.asarray(self.lower_value + self.quantum * quanta, dtype=np.float64)


def parts_of_quantum(width: int, law: NoiseLaw) -> int:
    """Return in how many parts a quantum is divided: under Gaussian noise of a narrow range."""
    return 1 if law.power == 1 else 2 ** ((FINE_WIDTH - 1) // width).bit_length()


def laplace_scales(width: int, noise_records: Floats) -> Floats:
    """Return R of each cell, of few values (planning/optimizers/joint.py)."""
    requested = noise_records.tolist()
    # Exact rationals are slow, and a plan has few distinct scales: each is rounded up once.
    # Noise that is no number is refused before it is drawn.
    scale = {
        r: round_up(2 * width * Fraction(r)) if math.isfinite(r) else r for r in set(requested)
    }
    return np.array([scale[r] for r in requested], dtype=np.float64)


def half_widths(contribution: Floats, m: Ints, width: int) -> Ints:
    """Return w of each pair: contributed records in whole quanta, at most all of them.

    Parameters
    ----------
    contribution : ndarray of float, shape (n,)
        Records that each pair contributes, as the plan states them: whole, or whole in quanta up to
        rounding. What is not is rounded down, so that nothing exceeds what is booked.
    m : ndarray of int64, shape (n,)
        Records of the pair.
    width : int
        Of the bounds, in quanta.
    """
    # Whole records take no hair: their product with the width is exact.
    samples = np.floor(contribution)
    quanta = np.floor(contribution * width * _HAIR).astype(np.int64)
    half = np.where(samples == contribution, samples.astype(np.int64) * width, quanta)
    return np.asarray(np.minimum(half, width * m), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ClippedStatistic(ReadOnlyArrays):
    """Base of the public side of clipped means, and of clipped variances.

    Attributes
    ----------
    occupancy : Occupancy
    lattice : CellLattice
    noise : ndarray of float, shape (n_cells,)
        Noise scale; 0 where nothing contributes.
    kept : KeptRecords
    error : ErrorModel
    """

    occupancy: Occupancy
    lattice: CellLattice
    noise: Floats
    kept: KeptRecords
    error: ErrorModel

    @property
    def noised_cells(self) -> Ints:
        """Numbers of the cells with a noised number; values of other cells are never read."""
        return np.flatnonzero(self.noise > 0)


class ClippedMean(ClippedStatistic):
    """The public side of clipped means; the noise is R in half quanta, rounded up."""

    name = "mean"

    @property
    def scales(self) -> Floats:
        """Noise scale of each noised cell."""
        return self.noise[self.noised_cells]

    @property
    def constants(self) -> Ints:
        """Integer of the middle of each cell's bounds."""
        return np.asarray(self.lattice.width * self.occupancy.records_per_cell)

    def measure(self, sums: PrivateSums) -> Ints:
        """Return y of every noised cell, in half quanta, shape (batch, n_noised). PRIVATE.

        Privacy
        -------
        It leaves only through the noise door. One user moves entry g by at most 2 w (module head).
        The sums of cells without noise are not looked at.
        """
        work = partial(
            _measure, kept=self.kept, lower=self.lattice.lower, width=self.lattice.width,
            noise=self.noise, parts=self.lattice.parts,
        )  # fmt: skip
        return sums.map_cells(self.occupancy, work)

    @property
    def moves(self) -> StatisticMoves:
        """By how many half quanta each pair moves its cell's number."""
        return mean_moves(self.lattice.width, self.kept, self.noise)

    def estimates(self, noisy: Ints) -> Floats:
        """Return the published mean of each cell from its noisy integer, in value units."""
        total = 2 * self.occupancy.records_per_cell
        # Divided in two parts, since a sum beyond 2^53 would lose digits as a double.
        quotient, remainder = np.divmod(noisy, total)
        return self.lattice.in_units(quotient + remainder / total)

    def grid(self) -> EstimateGrid:
        """Return where published means can lie: it follows from bounds, quantum and counts."""
        noised, lattice = self.noise > 0, self.lattice
        middle = lattice.lower_value + self.error.unit / 2.0
        step = lattice.quantum / (2.0 * self.occupancy.records_per_cell)
        return EstimateGrid(
            np.where(noised, lattice.lower_value, middle), np.where(noised, step, 0.0)
        )

    def check(self, epsilon: float, *, has_squares: bool) -> None:  # noqa: ARG002  as of variances
        """Refuse, from public facts, statistics and noise that could leave 64 bits.

        Raises
        ------
        InputError
        """
        check_room(self.occupancy.records_per_cell, self.noise, self.lattice.width, epsilon)


def check_room(totals: Ints, scales: Floats, width: int | Ints, epsilon: float) -> None:
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


# ---- moves ----


def mean_moves(width: int, kept: KeptRecords, noise: Floats) -> StatisticMoves:
    """Return that each pair moves its cell's number by 2 w half quanta, in noise of scale R."""
    return StatisticMoves.of(_half_quanta_moved, noise, width=width, kept=kept)


def unrounded_mean_moves(kept: KeptRecords, noise_records: Floats) -> StatisticMoves:
    """Return the same of bare counts: bounds have no lattice, noise is counted in records."""
    return StatisticMoves.of(_records_moved, FINE * noise_records, kept=kept)


def _half_quanta_moved(pairs: Pairs, *, width: int, kept: KeptRecords) -> Ints:
    return 2 * half_widths(kept.of(pairs), pairs.n, width)


def _records_moved(pairs: Pairs, *, kept: KeptRecords) -> Floats:
    return FINE * kept.of(pairs)


def _measure(
    pairs: Pairs, sums: PairSums, *, kept: KeptRecords, lower: int, width: int, noise: Floats,
    parts: int,
) -> Ints:  # fmt: skip
    records = kept.of(pairs)
    # Sums of cells without noise are not looked at: these publish a constant.
    rows = np.flatnonzero(noise[pairs.cell] > 0)
    cell, m = pairs.cell[rows], pairs.n[rows]
    # Sums are kept for the bounds of the records. Where a plan's are narrower the user's mean is
    # projected to them: one user then moves s' by S m at most.
    # Clipped before it is divided, which could leave 64 bits.
    whole = np.clip(sums.total[rows] - lower // parts * m, 0, width // parts * m)
    within = parts * whole
    half = half_widths(records[rows], m, width)
    contribution = np.clip(2 * within, width * m - half, width * m + half)
    noised = pairs.first + np.flatnonzero(pairs.own(noise) > 0)
    start = np.searchsorted(cell, noised)  # pairs are sorted, no cell is empty
    if not start.size:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(np.add.reduceat(contribution, start), dtype=np.int64)
