"""A cap per cell after CLIP-USER, to lower the errors that it leaves.

Source: COMP section V-B.3, eq. (15), with the biases of ERRATA 1.
Neighbours: one user's values all change within the bounds; users and counts are public.
Symbols of one cell: m samples of a user, N their sum, Γ contributed samples after CLIP-USER, n the
sum of min(Γ, cap), U the width of the bounds, ε the cell's loss for mean and variance together,
half of it for each.

Which caps are tried (proof that no whole number from the least to the largest Γ > 0 is better):
between two neighbouring values of Γ, with c users above the cap, n = A + c cap. There the mean's
noise is concave in the cap, the mean's bias linear, the variance's bias concave (it is q(n)/N²,
q(n) = n(N - n), and the largest q below N/2). With y = cap/n the variance's noise is y(1 - y) for
y < 1/2, concave, and 1/4 beyond, less 1/(4 n²) for odd n. So but for odd n the sum is concave, and
least at an end. A cap is above half of n only if one user alone is above it (c = 1) and cap >= A;
there n changes parity with every step, and among odd n the sum is concave again: least at the
first or last such cap. So every Γ, its two neighbours, A and its two neighbours are enough.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hexveil.accounting.clip_user import TIE, CellError
from hexveil.base.arrays import Floats, Ints
from hexveil.base.rational import Number
from hexveil.model.occupancy import LocalOccupancy


@dataclass(frozen=True, eq=False)
class CellCaps:
    """The best cap of each cell, and the errors that follow.

    Attributes
    ----------
    caps : ndarray of int64, shape (n_cells,)
        Most samples of a user that a cell takes; of equally good caps the smallest.
    contributions : ndarray of int64, shape (n_pairs,)
        Contributed samples of each (cell, user) pair, in the occupancy's order.
    mean_errors, variance_errors : ndarray of float, shape (n_cells,)
        Bias against the original samples plus expected |noise|, in value units and squared.
    """

    caps: Ints
    contributions: Ints
    mean_errors: Floats
    variance_errors: Floats

    @property
    def errors(self) -> Floats:
        """Errors per cell: COMP's sum of both."""
        return self.mean_errors + self.variance_errors

    @property
    def max_error(self) -> float:
        """Largest error over cells."""
        return float(self.errors.max())


def cap_after_suppression(
    occupancy: LocalOccupancy, contributions: ArrayLike, span: float, epsilon: Number
) -> CellCaps:
    """Cap of each cell that minimises COMP's sum of errors after CLIP-USER.

    Each cell takes the first min(Γ, cap) samples of a user, for the best whole cap from the least
    to the largest Γ > 0 of the cell. No user's cells become fewer, so K stays; no error rises.

    Parameters
    ----------
    occupancy : Occupancy
        Public counts.
    contributions : array_like of int, shape (n_pairs,)
        Γ, as `Suppression.contributions`, or the counts themselves to cap what was not suppressed:
        from 0 to the count, and some of each cell.
    span : float
        U, the width of the bounds, in value units.
    epsilon : int, str, Decimal, Fraction or float
        Loss of one cell, mean and variance together; the noise scales are 2 Δ/ε.

    Examples
    --------
    >>> from hexveil import Occupancy
    >>> whole = Occupancy.from_dense([[90], [10], [10], [10], [10]])
    >>> cap_after_suppression(whole, whole.n, 1.0, "0.1").caps.tolist()
    [10]
    """
    measure = CellError.of(span, epsilon)
    remaining = np.asarray(contributions, dtype=np.int64)
    caps, n = _best_caps(occupancy, remaining, measure)
    errors = measure.parts(n, caps, occupancy.records_per_cell)
    return CellCaps(caps, np.minimum(remaining, caps[occupancy.cell]), *errors)


def _best_caps(occupancy: LocalOccupancy, remaining: Ints, measure: CellError) -> tuple[Ints, Ints]:
    """Return `_best_cap` of each cell; `remaining` is Γ of each pair."""
    start, records = occupancy.start, occupancy.records_per_cell
    best = [
        _best_cap(np.sort(remaining[i:j][remaining[i:j] > 0]), int(total), measure)
        for i, j, total in zip(start[:-1], start[1:], records, strict=True)
    ]
    caps, n = np.array(best, dtype=np.int64).T
    return caps, n


def _best_cap(counts: Ints, total: int, measure: CellError) -> tuple[int, int]:
    """Return the best cap of ascending counts, and the samples that then contribute."""
    others = counts.sum() - counts[-1]  # A where one user alone is above the cap
    turns = np.append(counts, others)
    # Between turns the error is concave but for odd n, and n may change parity with every cap: the
    # neighbours of a turn have the other one (module head).
    candidates = np.unique(np.concatenate((turns - 1, turns, turns + 1)))
    caps = candidates[(candidates >= counts[0]) & (candidates <= counts[-1])]
    under = np.searchsorted(counts, caps, side="right")
    n = np.concatenate(([0], np.cumsum(counts)))[under] + caps * (counts.size - under)
    errors = measure.errors(n, caps, np.full(caps.size, total))
    best = int(np.argmax(errors <= errors.min() * (1.0 + TIE)))
    return int(caps[best]), int(n[best])
