"""Privacy loss of a unit over a whole release of plain means and variances, with its proof.

Source: ERRATA 3, which replaces COMP Theorem II.3 (cells counted) by the sum over a user's own
sensitivities.
Neighbours: all values of one user, in all its cells at once, change within the bounds.
Symbols: m a user's samples in a cell, N the cell's samples, U the width of the bounds, b noise
scales, p = m/N.

Proof. Cells and statistics receive independent Laplace noise, so the log-ratio of the densities
of the whole release at two neighbouring data sets is the sum over cells and statistics of
(|y - f(D')| - |y - f(D)|) / b, each term at most |f(D) - f(D')| / b by the triangle inequality,
hence at most s/b with s the *user's own* sensitivity there: only this user's values differ. The
bound is attained jointly over cells because a user's values in different cells are free of each
other, and each cell's outcome y may lie beyond both f(D) and f(D').

Mean and variance of one cell share values. A user of at most ceil(N/2) samples moves both most
at once: its values go from one bound to the other while all others stay at the first, so the
plain sum is exact. For p > 1/2 let z <= p U be how far the mean moves, and shift the bounds to
[0, U]. A variance is never negative, and at most a (U - a) around a mean a.
If z >= U/2, the higher of the two means is at least z and the lower at most U - z; so both
variances are at most z (U - z), and so is their difference. If z < U/2, the variances differ by at
most U²/4 and the loss is below that of z = U/2 in the same formula. So the loss is at most the
largest z/b_mean + z (U - z)/b_var for z up to p U: a concave function, largest at
z = min(p U, (U + b_var/b_mean)/2). The plain sum is the loss where that is smaller. `privacy_loss`
states this joint bound; a plan books the plain sum, which is never less.

What a release rounds is charged as well, where a plan books it (accounting/moves.py): variances are
published in steps, and a step costs each user of the cell `VARIANCE_LATTICE` more
(mechanisms/looks/clipped_variance.py).

The functions of pairs take some pairs (`hexveil.model.occupancy.Pairs`), arrays with an entry per
cell and arrays with an entry per user. So they serve pairs in memory and, mapped over blocks, pairs
that are spread over machines.

Contributions of (cell, user) pairs: records after the cap, shares of a cell, and their sums.

Each function takes some pairs (`hexveil.model.occupancy.Pairs`) and, by name, arrays of all cells
and users, so that it can be mapped over all pairs at once or block by block where they lie.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hexveil.accounting.error_model import round_down_to_quanta
from hexveil.accounting.moves import add_up
from hexveil.accounting.sensitivity import variance_sensitivity_bound, variance_share
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import sum_upper_bounds
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.occupancy import Occupancy, Pairs
from hexveil.model.pair_columns import SuppressedPairs

VARIANCE_LATTICE = 2.0**-30
"""Step of a published variance, as a part of its noise scale; charged to each user of the cell."""
HALVINGS = 60


# ---- of a release in plain terms ----


def privacy_loss(
    occupancy: Occupancy,
    mean_scale: ArrayLike | None,
    variance_scale: ArrayLike | None,
    span: float,
) -> Floats:
    """Loss of each user over all cells and statistics, in epsilon, rounded up.

    Sum over a user's cells of s_mean / b_mean + s_var / b_var (ERRATA 3), with the joint formula
    where a user holds more than half of a cell and both statistics are released.

    Parameters
    ----------
    occupancy : Occupancy
        Public counts.
    mean_scale, variance_scale : array_like of float, shape (n_cells,), or None
        Laplace scale per cell, in value units and squared value units; None if the statistic is
        not released, infinity (or 0 sensitivity) where a cell publishes a constant.
    span : float
        Width of the bounds, in value units.

    Returns
    -------
    ndarray of float, shape (n_users,)

    Raises
    ------
    InputError
        If a scale is not positive, or an array has the wrong length.

    Examples
    --------
    >>> from hexveil import Occupancy
    >>> privacy_loss(Occupancy.from_dense([[2], [2]]), [1.0], None, 1.0).round(9).tolist()
    [0.5, 0.5]
    """
    mean = _checked_scales(mean_scale, occupancy, "mean_scale")
    variance = _checked_scales(variance_scale, occupancy, "variance_scale")
    # Converting a scale takes at most two roundings. Two ulps less than the exact scale is a loss
    # that is a hair larger, never smaller.
    smaller = 1.0 - 2.0**-51
    work = partial(
        _unclipped_losses,
        records=occupancy.records_per_cell,
        mean=mean / span * smaller,
        variance=variance / span**2 * smaller,
    )
    return occupancy.map_users(work)


def _unclipped_losses(pairs: Pairs, *, records: Ints, mean: Floats, variance: Floats) -> Floats:
    """Return each user's loss by plain means and variances at scales for bounds of width 1."""
    total, mean, variance = records[pairs.cell], mean[pairs.cell], variance[pairs.cell]
    share = pairs.n / total
    terms = share / mean + variance_share(pairs.n, total) / variance
    # Up to ceil(N/2) records the plain sum is attained, so that nothing smaller would be true.
    large = np.flatnonzero(2 * pairs.n > total + 1)
    together = joint_loss(share[large], mean[large], variance[large])
    terms[large] = np.minimum(terms[large], together)
    return add_up(pairs.own_user, (terms,), pairs.n_users, up=True)


def _checked_scales(scales: ArrayLike | None, occupancy: Occupancy, name: str) -> Floats:
    array = np.full(occupancy.n_cells, np.inf) if scales is None else np.array(scales, np.float64)
    if array.shape != (occupancy.n_cells,):
        raise InputError(f"{name} needs one scale per cell ({occupancy.n_cells}).")
    if not (array > 0).all():
        raise InputError(f"{name} must be positive everywhere; use infinity for a constant.")
    return array


def joint_loss(reach: Floats, mean_scale: Floats, variance_scale: Floats) -> Floats:
    """Return max over z <= reach of z/b_mean + z (1 - z)/b_var, for bounds of width 1.

    1 - z loses digits where z is near 1, but only if b_var >= (2 z - 1) b_mean: then the digits
    that are lost are tiny beside z/b_mean.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        best = (1.0 + variance_scale / mean_scale) / 2.0
    # Both infinite: nothing is published, and any z gives 0.
    z = np.minimum(reach, np.where(np.isnan(best), reach, best))
    return np.asarray(z / mean_scale + z * (1.0 - z) / variance_scale)


# ---- at inverse noise scales, for the search ----


def loss_at(pairs: Pairs, *, total: Ints, mean: Floats, variance: Floats, factor: Floats) -> Floats:
    """Return the loss of each user at these rates, not rounded."""
    x = record_shares(pairs, total) * factor[pairs.user]
    terms = mean[pairs.cell] * x
    if variance.any():
        terms += variance[pairs.cell] * variance_sensitivity_bound(x)
    return sum_terms_per_user(pairs, terms)


def bisect_factors(
    pairs: Pairs,
    *,
    total: Ints,
    mean: Floats,
    variance: Floats,
    factor: Floats,
    loss: float,
    lower_bound: bool,
) -> Floats:
    """Return the largest factors within a loss of users of more than half a cell; others stay.

    With `lower_bound` users are charged the least that a plan may charge them (`_min_charge`), and
    the factor returned is one too large by a halving: what follows from it is a lower bound.
    """
    x = record_shares(pairs, total)
    who = np.unique(pairs.user[(x > 0.5) & (variance[pairs.cell] > 0)])
    factors = pairs.own_users(factor)
    if not who.size:
        return factors
    rows = np.flatnonzero(np.isin(pairs.user, who))
    x, cell, position = x[rows], pairs.cell[rows], np.searchsorted(who, pairs.user[rows])
    rates = mean[cell], variance[cell]
    largest = variance_share(pairs.n[rows], total[cell])
    low, high = np.zeros(who.size), np.ones(who.size)
    for step in range(HALVINGS):
        midpoint = (low + high) / 2.0 if step else high
        contribution = x * midpoint[position]
        terms = rates[0] * contribution + rates[1] * variance_sensitivity_bound(contribution)
        if lower_bound:
            # Where nothing of a cell is put at the middle that is COMP Proposition III.1.
            charge = np.minimum(variance_sensitivity_bound(contribution), largest)
            terms = rates[0] * contribution + rates[1] * charge
        cost = np.bincount(position, weights=terms, minlength=who.size)
        low, high = (np.where(cost <= loss, midpoint, low), np.where(cost <= loss, high, midpoint))
    factors = factors.copy()
    factors[who if pairs.has_whole_cells else who - pairs.first] = high if lower_bound else low
    return factors


N = TypeVar("N", bound=np.generic)

# ---- after the cap ----


@dataclass(frozen=True, eq=False)
class KeptRecords(ReadOnlyArrays):
    """The records that each pair contributes: f min(m, t), none of suppressed pairs.

    Attributes
    ----------
    cap : ndarray of int64, shape (n_cells,)
        t: records that count of a user.
    factor : ndarray of float, shape (n_users,)
        f, from 0 to 1.
    span_quanta : ndarray of float, shape (n_cells,)
        Quanta in the bounds, of which whole ones count; zeros if a contribution need not be whole.
    suppressed : SuppressedPairs or None
    """

    cap: Ints
    factor: Floats
    span_quanta: Floats
    suppressed: SuppressedPairs | None = None

    def of(self, pairs: Pairs) -> Floats:
        """Return the records of each pair."""
        kept = np.minimum(pairs.n, self.cap[pairs.cell]) * self.factor[pairs.user]
        # Rounded down: what is charged is what is measured, and both stay below the factor's share.
        if self._are_whole:
            kept = round_down_to_quanta(kept, self.span_quanta[pairs.cell])
        return self.without_suppressed(pairs, kept)

    @cached_property
    def _are_whole(self) -> bool:
        return bool(self.span_quanta.any())

    def without_suppressed(self, pairs: Pairs, kept: NDArray[N]) -> NDArray[N]:
        """Return a number of each pair, 0 where it is suppressed."""
        if self.suppressed is None:
            return kept
        return np.where(self.suppressed.of(pairs), kept.dtype.type(0), kept)


def clipped_by_caps(pairs: Pairs, *, kept: KeptRecords) -> Floats:
    """Return the records of each cell that caps, factors and suppression put at the middle."""
    return sum_terms_per_cell(pairs, np.maximum(pairs.n - kept.of(pairs), 0.0))


def unsuppressed_cells(pairs: Pairs, *, suppressed: SuppressedPairs) -> tuple[Ints, Bools]:
    """Return the largest count of each cell that is not suppressed, and where none is."""
    begin, is_suppressed = pairs.start[:-1], suppressed.of(pairs)
    largest = np.maximum.reduceat(np.where(is_suppressed, 0, pairs.n), begin)
    return largest, np.logical_and.reduceat(~is_suppressed, begin)


# ---- shares of a cell's records ----


def record_shares(pairs: Pairs, total: Ints) -> Floats:
    """Return each pair's share of its cell's records."""
    return np.asarray(pairs.n / total[pairs.cell])


def sum_per_user(pairs: Pairs, *, total: Ints, figure: Floats, power: int = 1) -> Floats:
    """Return per user the sum over its cells of its share^power times a figure of the cell."""
    return sum_terms_per_user(pairs, record_shares(pairs, total) ** power * figure[pairs.cell])


def sum_per_cell(pairs: Pairs, *, total: Ints, figure: Floats, power: int = 1) -> Floats:
    """Return per cell the sum over its users of their share^power times a figure of the user."""
    return sum_terms_per_cell(pairs, record_shares(pairs, total) ** power * figure[pairs.user])


def majority_user(pairs: Pairs, *, total: Ints) -> tuple[Ints, Ints]:
    """Return the user of more than half of each cell, and its records; -1 and 0 without one."""
    large = np.flatnonzero(2 * pairs.n > total[pairs.cell])
    user, n = np.full(pairs.n_cells, -1), np.zeros(pairs.n_cells, dtype=np.int64)
    own = pairs.cell[large] - pairs.first
    user[own], n[own] = pairs.user[large], pairs.n[large]
    return user, n


def threshold_shares(pairs: Pairs, *, threshold: Ints) -> Floats:
    """Return each user's Σ min(m, t)/t, rounded up; cells of threshold 0 cost nothing."""
    t = threshold[pairs.cell].astype(np.float64)
    shares = np.divide(pairs.n, t, out=np.zeros_like(t), where=t > 0)
    return sum_upper_bounds(pairs.own_user, np.minimum(shares, 1.0), pairs.n_users)


def effective_users(pairs: Pairs, *, total: Ints) -> Floats:
    """Return the users of each cell, as many as would have its records in equal parts: 1 / Σ p²."""
    return np.asarray(1.0 / np.add.reduceat(record_shares(pairs, total) ** 2, pairs.start[:-1]))


def sum_terms_per_user(pairs: Pairs, terms: Floats) -> Floats:
    """Return the sum of the terms of each user's pairs."""
    sums = np.bincount(pairs.own_user, weights=terms, minlength=pairs.n_users)
    return np.asarray(sums, dtype=np.float64)


def sum_terms_per_cell(pairs: Pairs, terms: Floats) -> Floats:
    """Return the sum of the terms of each cell's pairs."""
    return np.asarray(np.add.reduceat(terms, pairs.start[:-1]))
