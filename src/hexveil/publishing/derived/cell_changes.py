"""Changes of cells between two releases, with intervals and p-values.

The change of a cell is the second number minus the first. Its error is the difference of two
independent noises and of two biases (cell_numbers.py). With both numbers within public bounds, the
noise is a sum of two Laplace numbers, whose bound q is exact (laplace_sums.py), and the interval

    change - q - bias,   change + q + bias

covers the true change of the cell's records with probability at least 95 percent. Otherwise q joins
the bounds of each side as the root of their squared sum (square-and-add; Newcombe, Statistics in
Medicine 17, 1998; Zou and Donner, 27, 2008). For two Laplace numbers that root is never below the
exact bound, for every ratio of scales (a test computes both). For sums of several it is a rule
that is known to be good, and no theorem. For Gaussian noises, under a δ, the root is the
exact bound, and for one of either kind it is never below it (the test computes both).

The p-value of "no change" is the chance that noise alone is as far from 0 as the change less the
bias.

Control of false discoveries: of the cells that are called changed, a share of at most `rate` is
called so wrongly, on average over the noise. Benjamini and Hochberg (JRSS B 57, 1995) need p-values
of unchanged cells that are independent of each other and of the rest. That holds within public
bounds: given the records, a p-value depends on the noise of its own two cells alone, and each is
drawn on its own. Bias only makes p-values larger, which keeps the bound. Benjamini and Yekutieli
(Annals of Statistics 29, 2001) need no independence and pay a factor of 1 + 1/2 + ... + 1/m. They
are used where cells share a private range or noise: one unlucky range moves many cells at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hexveil.base.arrays import Floats
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.publishing.derived.cell_numbers import CellNumbers
from hexveil.publishing.derived.laplace_sums import bounded_tail, pair_bound, pair_tail


@dataclass(frozen=True, eq=False)
class Change(ReadOnlyArrays):
    """Changes of paired cells.

    Attributes
    ----------
    change, low, high : ndarray of float, shape (n_pairs,)
        Second number minus first, and its 95 percent interval.
    p_value : ndarray of float, shape (n_pairs,)
        Of the hypothesis that the true number did not change, and that both cells are used.
    """

    change: Floats
    low: Floats
    high: Floats
    p_value: Floats

    def within(self, width: float) -> Change:
        """Return the changes that numbers within a range of this width can have."""
        change, low, high = (
            np.clip(bound, -width, width) for bound in (self.change, self.low, self.high)
        )
        return Change(change, low, high, self.p_value)


def find_changes(before: CellNumbers, after: CellNumbers) -> Change:
    """Return the changes of paired cells, with intervals and p-values; see the module.

    Parameters
    ----------
    before, after : CellNumbers
        Of the same cells in the same order.
    """
    change = after.number - before.number
    is_single = np.isfinite(before.scale) & np.isfinite(after.scale)
    scales = [np.where(is_single, part.scale, 0.0) for part in (before, after)]
    exact = pair_bound(scales[0], scales[1])
    noise_low = np.where(is_single, exact, np.hypot(after.noise_low, before.noise_high))
    noise_high = np.where(is_single, exact, np.hypot(after.noise_high, before.noise_low))
    bias_low, bias_high = after.bias_low + before.bias_high, after.bias_high + before.bias_low
    # What bias cannot explain: at most one side of it is positive.
    is_up = change > 0.0
    excess = np.maximum(np.where(is_up, change - bias_low, -change - bias_high), 0.0)
    loose = bounded_tail(excess, np.where(is_up, noise_low, noise_high))
    p_value = np.where(is_single, pair_tail(excess, scales[0], scales[1]), loose)
    # Both cells must be told to be used, too: see open_cells.py.
    p_value = np.maximum(p_value, np.maximum(before.empty, after.empty))
    return Change(change, change - noise_low - bias_low, change + noise_high + bias_high, p_value)


def find_discoveries(
    p_value: NDArray[np.float64], rate: float, *, are_independent: bool
) -> NDArray[np.bool_]:
    """Return the hypotheses that are rejected.

    Parameters
    ----------
    p_value : ndarray of float, shape (n,)
    rate : float
        False discovery rate, in (0, 1).
    are_independent : bool
        Whether p-values of true hypotheses are independent; else the rate is divided by
        1 + 1/2 + ... + 1/n.

    Examples
    --------
    >>> p_value = np.array([0.01, 0.5, 0.03, 0.8])
    >>> find_discoveries(p_value, 0.1, are_independent=True)
    array([ True, False,  True, False])
    >>> find_discoveries(p_value, 0.1, are_independent=False).sum()
    np.int64(1)
    """
    count = p_value.size
    if not count:
        return np.zeros(0, dtype=np.bool_)
    rank = np.arange(1, count + 1)
    divisor = 1.0 if are_independent else float(np.sum(1.0 / rank))
    ordered = np.sort(p_value)
    passing = np.flatnonzero(ordered <= rate * rank / (count * divisor))
    limit = ordered[passing[-1]] if passing.size else -1.0
    return np.asarray(p_value <= limit)
