"""Squares of μ of units under (ε, δ), where occupancy is public: each unit's own exact sum.

Neighbours: all values of one unit, in all its cells at once, change within the bounds.
Sensitivity: the unit moves the integer of cell g by at most d_g (mechanisms/clipped/clipped_mean.py
and mechanisms/weighted/weighted_mean.py: the d_g of pure promises). All cells are one stage, so
that the unit moves the vector of all integers by at most √(Σ d_g²) in L2.
Loss: discrete Gaussian noise of parameter R_g in cell g costs

    m = max(Σ d_g² / R_g², s / LATTICE)  with  s = Σ d_g / R_g²

as a square of μ. The first is μ² of the stage; the second makes its lattice term s at most LATTICE
times what is booked, as composition asks (accounting/gaussian_composition.py, with proof and
source: there a stage of less than it booked only helps). All R_g are at least 1. It matters where a
unit moves a cell by fewer than 1 / LATTICE = 512 integers: bounds of few quanta.
Pure choices beside the cells: each costs `square_of_pure` of its own loss, and squares add up.

- Means within bounds: d_g <= 2 k S, R_g >= 2 S r, k the records that count of the unit, r the
  plan's noise in records, S the bounds in quanta. So d_g / R_g <= k / r, and d_g / R_g² is at most
  k / (2 S r²).
- Variances within bounds: floors of numbers x apart differ by less than x + 1, so that a unit that
  moves the variance by D moves the integer by less than 2^30 D / b + 1, and R = 2^30: d / R is at
  most D / b + 2^-30, which is the loss that a pure promise charges (accounting/privacy_loss.py).
  Where both statistics of a cell are published their squares are added.
- Weighted means in a range of w quanta: d_g = W w, R_g >= w (Σ W) b, for any w >= 1:
  d_g / R_g <= W / (b Σ W) and d_g / R_g² <= W / (b Σ W)². Second moments alike, w = 2^20.
Rounding: squares round up.

Functions of a block take pairs, then arrays per cell and per user, so that they can be mapped over
pairs that stay elsewhere: a unit's pairs are all in one block.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.contributions import contributed_records
from hexveil.accounting.gaussian_composition import LATTICE, square_of_pure
from hexveil.accounting.privacy_loss import (
    N_PARAMETERS,
    VARIANCE_LATTICE,
    LossParameters,
    pair_losses,
)
from hexveil.base.rational import round_up, sum_upper_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction
    from typing import Any

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats, Ints
    from hexveil.model.occupancy import Pairs

    Squares = tuple[Floats, Floats]

ROUNDING = 1.0 + 2.0**-46
"""More than the roundings of a term: k / r is off by a few ulps, and whole quanta by 2^-49."""
CHOICES = 2
"""Private choices of a range: its ends, of equal loss."""


def clipped_pair_squares(
    pairs: Pairs, cap: Ints, noise: Floats, span_quanta: Floats, factor: Floats
) -> Squares:
    """Return μ² of each pair by means within bounds, and its lattice term over `LATTICE`.

    Parameters
    ----------
    pairs : Pairs
    cap : ndarray of int64, shape (n_cells,)
        Records that count of a unit.
    noise : ndarray of float, shape (n_cells,)
        Noise in records; 0 where a cell publishes a constant.
    span_quanta : ndarray of float, shape (n_cells,)
        Width of each cell's bounds in quanta; 0 where no lattice is known.
    factor : ndarray of float, shape (n_users,)
    """
    contribution = contributed_records(pairs, cap, span_quanta, factor)
    ratio = _ratio(contribution, noise[pairs.cell])
    step = _ratio(np.ones_like(ratio), (2.0 * span_quanta * noise)[pairs.cell])
    return ratio**2, ratio * step / float(LATTICE)


def variance_pair_squares(pairs: Pairs, cells: LossParameters, factor: Floats) -> Squares:
    """Return μ² of each pair by variances within bounds, and its lattice term over `LATTICE`.

    Parameters
    ----------
    pairs : Pairs
    cells : LossParameters
        With deviations as noise.
    factor : ndarray of float, shape (n_users,)
    """
    alone = cells._replace(publishes_mean=np.zeros_like(cells.publishes_mean))
    ratio = pair_losses(pairs, *alone, factor)
    return ratio**2, ratio * (VARIANCE_LATTICE / float(LATTICE))


def added_squares(terms: Sequence[Squares]) -> Squares:
    """Return the squares of pairs by all statistics, and their lattice terms."""
    squares, lattice = zip(*terms, strict=True)
    return np.asarray(np.sum(squares, axis=0)), np.asarray(np.sum(lattice, axis=0))


def weighted_pair_squares(pairs: Pairs, weight: Ints, totals: Ints, noise: Floats) -> Squares:
    """Return μ² of each pair by a weighted statistic, and its lattice term over `LATTICE`.

    Parameters
    ----------
    pairs : Pairs
    weight : ndarray of int64, shape (n_pairs,)
    totals : ndarray of int64, shape (n_cells,)
        Sums of weights.
    noise : ndarray of float, shape (n_cells,)
        For a range of width 1, or a radius of 1; 0 where nothing is drawn.
    """
    unit = (noise * totals)[pairs.cell]
    ratio = _ratio(weight.astype(np.float64), unit)
    return ratio**2, ratio * _ratio(np.ones_like(ratio), unit) / float(LATTICE)


# ---- of blocks of pairs ----


def clipped_squares(pairs: Pairs, *given: NDArray[Any]) -> Squares:
    """Return μ² of each pair by means and variances within bounds, and its lattice term.

    Parameters
    ----------
    pairs : Pairs
    *given
        The fields of `LossParameters`, and the users' factors.
    """
    cells, factor = LossParameters(*given[:N_PARAMETERS]), given[N_PARAMETERS]
    terms = []
    if cells.publishes_mean.any():
        mean = cells.cap, cells.noise, cells.span_quanta
        terms.append(clipped_pair_squares(pairs, *mean, factor))
    if cells.publishes_variance.any():
        terms.append(variance_pair_squares(pairs, cells, factor))
    return added_squares(terms)


def weighted_squares(pairs: Pairs, weight: Ints, totals: Ints, *noises: Floats) -> Squares:
    """Return μ² of each pair by weighted statistics with this noise each, and its lattice term."""
    return added_squares([weighted_pair_squares(pairs, weight, totals, one) for one in noises])


def user_squares(
    pairs: Pairs, *given: NDArray[Any], terms: Callable[..., Squares], shared: float
) -> Floats:
    """Return the booked square of μ of each unit of a block, rounded up; see `sum_of_squares`."""
    return sum_of_squares(pairs, terms(pairs, *given), shared)


def largest_squares(
    pairs: Pairs, *given: NDArray[Any], terms: Callable[..., Squares]
) -> tuple[Floats, ...]:
    """Return the largest square of a pair in each cell of a block, and lattice term."""
    begin = pairs.start[:-1]
    return tuple(np.maximum.reduceat(one, begin) for one in terms(pairs, *given))


def claimed_squares(
    pairs: Pairs,
    *given: NDArray[Any],
    terms: Callable[..., Squares],
    shared: float,
    weights: int,
) -> Floats:
    """Return each unit's square of μ from given claims of its cells.

    The claims, of squares and of lattice terms, stand after so many arrays of weights.
    """
    claims, rest = given[weights : weights + 2], (*given[:weights], *given[weights + 2 :])
    costs = terms(pairs, *rest)
    claimed = (
        np.where(own > 0, claim[pairs.cell], 0.0) for own, claim in zip(costs, claims, strict=True)
    )
    first, second = claimed
    return sum_of_squares(pairs, (first, second), shared)


def sum_of_squares(pairs: Pairs, squares: Squares, shared: float = 0.0) -> Floats:
    """Return the booked square of μ of each unit, rounded up.

    Parameters
    ----------
    pairs : Pairs
    squares : pair of ndarray of float, shape (n_pairs,)
        See `clipped_pair_squares`.
    shared : float
        Square of choices beside the cells, which cost all units alike.
    """
    stage, lattice = (
        sum_upper_bounds(pairs.user, terms * ROUNDING, pairs.n_users) for terms in squares
    )
    total = np.maximum(stage, lattice) + shared
    return np.where(total > 0, np.nextafter(total, np.inf), 0.0)


def range_square(epsilon: Fraction, choices: int = CHOICES) -> float:
    """Return the square of μ of choices of equal loss that are purely private together.

    Examples
    --------
    >>> from fractions import Fraction
    >>> round(range_square(Fraction("0.1")) / square_of_pure(0.05), 6)
    2.0
    """
    if not epsilon:
        return 0.0
    each = square_of_pure(math.nextafter(round_up(epsilon / choices), math.inf))
    return math.nextafter(choices * each, math.inf)


def _ratio(numbers: Floats, scale: Floats) -> Floats:
    """Return numbers over scales; 0 in cells without noise: constants."""
    return np.divide(numbers, scale, out=np.zeros_like(numbers), where=scale > 0)
