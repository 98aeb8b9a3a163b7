"""Clipped variances: one integer per cell from private sums, with its sensitivity.

Let a cell have N samples and bounds of width U; distances are taken from the middle of the bounds.
Of a user with m samples the plan counts q = f min(m, t): each of its
samples gets the weight q/m, and the weight m - q is put at the middle. The variance of all this is

    V = A/N - (B/N)²,   A = Σ (q/m) Σ_j (x_j - middle)²,   B = Σ (q/m) Σ_j (x_j - middle).

f is a multiple of 2^-30 and samples are whole in half quanta around the middle, so V is a ratio of
whole numbers, computed without rounding. With b the Laplace scale, the statistic is
Y = floor(2^30 V / b), its noise discrete Laplace of scale 2^30, and what is published is
(Y + noise) b / 2^30, plus a constant that centres the error (`centring`): with a share d <= 1/2 at
the middle, the true variance less V lies in U² d (1 - d) [-1/4, 3/4] (ERRATA 10); with d > 1/2 in
U² [-d (1 - d) / 4, (1 - d (1 - d)) / 4]. A cell without noise publishes U²/8, one of a single
record 0, which it is; no value is read there.

Neighbours: all values of one user, in all its cells at once, change within the bounds.
Sensitivity of V, for U = 1. Let p = q/N be the user's contributed share, v and μ variance and mean
of its samples, so v <= μ (1 - μ), and r the mean of the rest, which does not change. Then V is a
constant plus h = p v + p (1 - p) (μ - r)², and h >= 0 is 0 at μ = r, v = 0. So V moves by at most
the largest h. h is convex in r, hence largest at r = 0 (or 1, its mirror image), where it is at
most p μ - p² μ²: p (1 - p) at μ = 1 for p <= 1/2, else 1/4 at μ = 1 / (2 p) (ERRATA 10). Where
nothing of a cell is put at the middle V is the plain variance, whose sensitivity is COMP
Proposition III.1 with the user's own count (ERRATA 3). Only v <= μ (1 - μ) and, for the latter,
that the sums are those of m real values were used: both hold for all sums that a data set accepts
(records/feasible_sums.py).
Loss: floors of numbers a distance x apart differ by less than x + 1. So a user who moves V by at
most D costs less than (2^30 D / b + 1) / 2^30 = D / b + 2^-30, and the plan books both terms (its
LATTICE). A user who contributes nothing moves nothing. Where both statistics of a cell are
published their losses are added.
Source: COMP Proposition III.1; ERRATA 3 and 10.

Whether everything fits 64 bits is decided beforehand from public facts: no value causes an error.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR
from hexveil.accounting.moves import StatisticMoves
from hexveil.accounting.privacy_loss import KeptRecords
from hexveil.accounting.sensitivity import variance_sensitivity_bound, variance_share
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms.looks.clipped_mean import GRAIN, ClippedStatistic
from hexveil.mechanisms.stage_data import ROOM, TAIL, EstimateGrid, PrivateSums
from hexveil.model.occupancy import Pairs
from hexveil.model.pair_bins import PairSums

STEPS = 2**30
"""Lattice steps in one Laplace scale: the integer noise scale of every cell."""
_HAIR = 1.0 + 2.0**-49
"""More than the roundings of a number of steps, of which none may be lost to a floor."""
NO_SQUARES = (
    "a variance needs sums of squares, which these records have not: give sum_sq with sums "
    "made elsewhere, or read the records with a coarser quantum."
)


@dataclass(frozen=True, eq=False)
class ClippedVariance(ClippedStatistic):
    """The public side of clipped variances; the noise is b for bounds of width 1.

    Kept records of a pair need not be whole quanta.

    Attributes
    ----------
    unclipped : ndarray of bool, shape (n_cells,)
        Whether each user of the cell contributes all of its samples.
    """

    unclipped: Bools
    name: ClassVar[str] = "variance"

    @property
    def scales(self) -> Floats:
        """Noise scale of each noised cell: all are the same."""
        return np.full(self.noised_cells.size, float(STEPS))

    @property
    def constants(self) -> Ints:
        """Nothing: a cell without noise is published without an integer."""
        return np.zeros(self.noise.size, dtype=np.int64)

    @property
    def moves(self) -> StatisticMoves:
        """By how many steps each pair moves its cell's number."""
        return variance_moves(
            self.occupancy.records_per_cell, self.kept, self.noise, self.unclipped
        )

    def measure(self, sums: PrivateSums) -> Ints:
        """Return Y of every noised cell, shape (batch, n_noised). PRIVATE.

        Privacy
        -------
        It leaves only through the noise door. One user moves entry g by less than
        2^30 (its sensitivity) / b + 1, by nothing if it contributes nothing (module head). The sums
        of cells without noise are not looked at.
        """
        work = partial(
            _measure, kept=self.kept, width=self.lattice.width, noise=self.noise,
            records=self.occupancy.records_per_cell,
        )  # fmt: skip
        return sums.map_cells(self.occupancy, work)

    def estimates(self, noisy: Ints) -> Floats:
        """Return the published variance of each cell from its noisy integer, squared units."""
        error = self.error
        estimates = error.noise * (noisy / STEPS) + centring(error.clipped_share)
        return np.asarray(
            error.unit * np.where(error.noised, estimates, error.constant_error), dtype=np.float64
        )

    def grid(self) -> EstimateGrid:
        """Return where published variances can lie: public, by bounds, noise and caps."""
        error = self.error
        start = np.where(error.noised, centring(error.clipped_share), error.constant_error)
        return EstimateGrid(error.unit * start, error.unit * error.noise / STEPS)

    def check(self, epsilon: float, *, has_squares: bool) -> None:
        """Refuse, from public facts, variances that cannot be computed or noised.

        Raises
        ------
        InputError
            If a noised cell has bounds narrower than the records', there are no sums of squares, or
            statistic and noise could leave 64 bits.
        """
        if not (np.isfinite(self.noise) & (self.noise >= 0)).all():
            raise InputError("the plan has a variance whose noise is no number; plan again.")
        noised = self.noised_cells
        if not noised.size:
            return
        # Of squares of values clamped to narrower bounds no sum is kept.
        if self.lattice.width < self.lattice.steps:
            raise InputError(
                "a variance needs the bounds that the records were read with; leave bounds out of "
                "the plan, or read the records with the narrower bounds."
            )
        if not has_squares:
            raise InputError(NO_SQUARES)
        # V is at most 1/4 for bounds of width 1, so that Y is at most 2^30 / (4 b).
        smallest = Fraction(float(self.noise[noised].min()))
        if not (Fraction(1) / (4 * smallest) + int(TAIL)) * STEPS < ROOM:
            raise InputError(
                f"variances at epsilon {epsilon:.3g} are finer than whole numbers of 64 bits can "
                "say; ask for a smaller epsilon."
            )


def variance_moves(
    total: Ints, kept: KeptRecords, noise: Floats, unclipped: Bools
) -> StatisticMoves:
    """Return by how many steps each pair moves its cell's number, in noise of 2^30 steps."""
    scale = np.where(noise > 0, float(STEPS), 0.0)
    return StatisticMoves.of(
        _steps_moved, scale, total=total, kept=kept, noise=noise, unclipped=unclipped
    )


def _steps_moved(
    pairs: Pairs, *, total: Ints, kept: KeptRecords, noise: Floats, unclipped: Bools
) -> Floats:
    records = kept.of(pairs)
    total, scale = total[pairs.cell], noise[pairs.cell]
    # COMP Proposition III.1 is below the bound for odd N, but its proof is of plain data: with one
    # clipped record anywhere in the cell only the bound holds.
    plain, bound = variance_share(pairs.n, total), variance_sensitivity_bound(records / total)
    sensitivity = np.where(unclipped[pairs.cell], plain, bound)
    moves = (records > 0) & (scale > 0)
    steps = STEPS * np.divide(sensitivity, scale, out=np.zeros(records.size), where=moves)
    return np.where(moves, np.floor(steps * _HAIR) + 1.0, 0.0)


def _measure(
    pairs: Pairs, sums: PairSums, *, kept: KeptRecords, width: int, noise: Floats, records: Ints
) -> Ints:
    assert sums.squares is not None  # noqa: S101  checked with the plan
    total, squares = sums.total, sums.squares
    rows = np.flatnonzero(noise[pairs.cell] > 0)
    cell, n = pairs.cell[rows], pairs.n[rows]
    # Half quanta around the middle: 2 k - S. Their squares add up to S² m at most, which fits.
    first_moment = 2 * total[rows] - width * n
    second_moment = 4 * (squares[rows] - width * total[rows]) + width**2 * n
    # Exact: factors are multiples of 2^-30, or the allocation is refused.
    grains = (kept.factor * GRAIN).astype(np.int64)[pairs.user]
    grains = kept.without_suppressed(pairs, grains)[rows]
    weight, weight_divisor = _weights(np.minimum(n, kept.cap[cell]), n, grains)
    # Python integers from here on: 2^30 A N leaves 64 bits, and a rounding that depends on values
    # would have to be charged.
    cells = _cell_sums(cell, weight_divisor, weight * second_moment, weight * first_moment)
    noised = (pairs.first + np.flatnonzero(pairs.own(noise) > 0)).tolist()
    return np.array(
        [
            _steps(own, int(records[g]), width, Fraction(float(noise[g])))
            for g, own in zip(noised, cells, strict=True)
        ],
        dtype=np.int64,
    )


def centring(clipped_share: Floats) -> Floats:
    """Return the offset of a variance with a share at the midpoint, for bounds of width 1.

    d (1 - d) / 4 for d <= 1/2, else 1/8 - d (1 - d) / 4: the middle of the possible errors.
    """
    quarter = clipped_share * (1.0 - clipped_share) / 4.0
    return np.asarray(
        np.where(clipped_share <= 0.5, quarter, MAX_CONSTANT_ERROR["variance"] - quarter)
    )


def _weights(
    capped: NDArray[np.int64], m: NDArray[np.int64], grains: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return 2^30 q/m of each pair as numerator (Python integers) and divisor, in lowest terms.

    q is `capped`, of m samples, times the factor, a whole number of grains of 2^-30.
    """
    common = np.gcd(capped, m)
    capped, m = capped // common, m // common
    common = np.gcd(grains, m)
    return (grains // common).astype(object) * capped, m // common


def _cell_sums(
    cell: NDArray[np.int64], divisor: NDArray[np.int64], *terms: NDArray[Any]
) -> Iterator[list[Fraction]]:
    """Yield for each cell the exact sum of each kind of term, over their divisors.

    Terms of equal divisor are added first; most pairs have the divisor 1.
    """
    order = np.lexsort((divisor, cell))
    cell, divisor = cell[order], divisor[order]
    new = np.diff(cell, prepend=-1) != 0
    groups = np.flatnonzero(new | (np.diff(divisor, prepend=0) != 0))
    divisors = divisor[groups].tolist()
    sums = [
        list(map(Fraction, np.add.reduceat(t[order], groups).tolist(), divisors)) for t in terms
    ]
    # Exact, in whatever order the pairs come.
    for start, stop in pairwise([*np.flatnonzero(new[groups]).tolist(), len(divisors)]):
        yield [sum(kind[start:stop], Fraction(0)) for kind in sums]


def _steps(sums: list[Fraction], records: int, steps: int, noise: Fraction) -> int:
    """Return Y = floor(2^30 V / b), with V in half quanta squared and b = noise (2 S)²."""
    second_moment, first_moment = (one / (GRAIN * records) for one in sums)
    # The one rounding of the statistic, which is charged as a step of the lattice.
    return math.floor((second_moment - first_moment**2) * STEPS / (noise * 4 * steps**2))
