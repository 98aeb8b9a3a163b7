"""Privacy loss of (cell, user) pairs: contribution after the cap, and its cost to the user.

Each takes some pairs (`hexveil.model.occupancy.Pairs`), arrays with an entry per cell and arrays
with an entry per user; so they can be asked of all pairs at once, or block by block where pairs
lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hexveil.accounting.error_model import round_down_to_quanta, variance_sensitivity_bound
from hexveil.accounting.sensitivity import variance_share
from hexveil.base.rational import sum_upper_bounds
from hexveil.model.occupancy import BLOCK_PAIRS, CellSlice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.model.occupancy import Pairs

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

VARIANCE_LATTICE = 2.0**-30
"""Step of a published variance, as a part of its noise scale; charged to each user of the cell."""
HALVINGS = 60


# ---- what is kept ----


def contributed_records(pairs: Pairs, threshold: Ints, steps: Floats, factor: Floats) -> Floats:
    """Return the samples kept of each pair: f min(m, t).

    `steps` are the quanta in a cell's bounds, of which whole ones are kept; zeros if parts may be.
    """
    capped = np.minimum(pairs.n, threshold[pairs.cell]) * factor[pairs.user]
    return round_down_to_quanta(capped, steps[pairs.cell]) if steps.any() else np.asarray(capped)


def clipped_per_cell(pairs: Pairs, kept_of_pair: Floats) -> Floats:
    """Return the samples of each cell that are put at the middle."""
    clipped = np.maximum(pairs.n - kept_of_pair, 0.0)
    return np.asarray(np.add.reduceat(clipped, pairs.start[:-1]), dtype=np.float64)


def clipped_by_caps(pairs: Pairs, threshold: Ints, steps: Floats, factor: Floats) -> Floats:
    """Return the clipped share under thresholds and factors."""
    return clipped_per_cell(pairs, contributed_records(pairs, threshold, steps, factor))


# ---- what it costs ----


class LossParameters(NamedTuple):
    """Parameters of a pair's privacy loss, one entry per cell each.

    Attributes
    ----------
    records : ndarray of int64
        Records of each cell.
    cap : ndarray of int64
        Contribution cap of the mean.
    noise : ndarray of float
        Noise scale of the mean, in records.
    span_quanta : ndarray of float
        Quanta in the bounds; 0 where contributions need not be whole.
    variance_cap, variance_noise : ndarray
        The same of the variance; its noise scale is for bounds of width 1.
    unclipped, variance_unclipped : ndarray of bool
        Whether all records contribute in full, to the mean and to the variance.
    publishes_mean, publishes_variance : ndarray of bool
        Whether the statistic is requested.
    """

    records: Ints
    cap: Ints
    noise: Floats
    span_quanta: Floats
    variance_cap: Ints
    variance_noise: Floats
    unclipped: NDArray[np.bool_]
    variance_unclipped: NDArray[np.bool_]
    publishes_mean: NDArray[np.bool_]
    publishes_variance: NDArray[np.bool_]


N_PARAMETERS = len(LossParameters._fields)


def pair_losses(pairs: Pairs, *given: NDArray[Any]) -> Floats:
    """Return the loss that each pair adds to its user's, not yet rounded up.

    Parameters
    ----------
    pairs : Pairs
    *given
        The fields of `LossParameters`, the users' factors and, if any are, which pairs are dropped.
    """
    terms = np.empty(pairs.n.size)
    for begin in range(0, terms.size, BLOCK_PAIRS):
        rows = slice(begin, begin + BLOCK_PAIRS)
        columns = pairs.cell[rows], pairs.user[rows], pairs.n[rows]
        block = CellSlice(*columns, pairs.n_cells, pairs.n_users, start=np.zeros(0, dtype=np.int64))
        dropped = (array[rows] for array in given[N_PARAMETERS + 1 :])
        terms[rows] = _charged(block, *given[: N_PARAMETERS + 1], *dropped)
    return terms


def _charged(pairs: Pairs, *given: NDArray[Any]) -> Floats:
    """Return the losses of a block of pairs that fits a processor's cache."""
    cells, factor = LossParameters(*given[:N_PARAMETERS]), given[N_PARAMETERS]
    stay = np.logical_not(given[N_PARAMETERS + 1]) if len(given) > N_PARAMETERS + 1 else 1.0
    cell = pairs.cell
    terms = np.zeros(pairs.n.size)
    n_statistics = 0
    if cells.publishes_mean.any():
        contribution = contributed_records(pairs, cells.cap, cells.span_quanta, factor) * stay
        terms += _mean_charge(contribution, cells.noise[cell])
        n_statistics += 1
    if cells.publishes_variance.any():
        contribution = (
            contributed_records(pairs, cells.variance_cap, np.zeros_like(cells.span_quanta), factor)
            * stay
        )
        terms += _variance_charge(pairs, cells, contribution)
        n_statistics += 1
    return terms if n_statistics < 2 else _joint_charge(pairs, cells, terms)


def _mean_charge(contribution: Floats, noise: Floats) -> Floats:
    live = (noise > 0) & (contribution > 0)
    return np.divide(contribution, noise, out=np.zeros_like(noise), where=live)


def _variance_charge(pairs: Pairs, cells: LossParameters, contribution: Floats) -> Floats:
    cell = pairs.cell
    total, noise = cells.records[cell], cells.variance_noise[cell]
    bound = variance_sensitivity_bound(contribution / total)
    sensitivity = np.where(cells.variance_unclipped[cell], variance_share(pairs.n, total), bound)
    live = (noise > 0) & (contribution > 0)
    return np.where(
        live,
        np.divide(sensitivity, noise, out=np.zeros_like(noise), where=live) + VARIANCE_LATTICE,
        0.0,
    )


def _joint_charge(pairs: Pairs, cells: LossParameters, separate: Floats) -> Floats:
    """Return an upper bound on a majority user's loss by both statistics.

    Only where nothing of the cell is put at the middle (accounting/privacy_loss.py).
    """
    mean, variance = cells.noise / cells.records, cells.variance_noise
    is_unclipped = (mean > 0) & (variance > 0) & cells.unclipped & cells.variance_unclipped
    large = np.flatnonzero(is_unclipped[pairs.cell] & (2 * pairs.n > cells.records[pairs.cell] + 1))
    if not large.size:
        return separate
    cell = pairs.cell[large]
    reach, b, c = pairs.n[large] / cells.records[cell], mean[cell], variance[cell]
    z = np.minimum(reach, (1.0 + c / b) / 2.0)
    joint = separate.copy()
    joint[large] = np.minimum(separate[large], z / b + z * (1.0 - z) / c + VARIANCE_LATTICE)
    return joint


def user_losses(pairs: Pairs, *given: NDArray[Any]) -> Floats:
    """Return each user's loss, rounded up; see `pair_losses`."""
    # Each term was made by a few correctly rounded operations: eight ulps cover them.
    terms = pair_losses(pairs, *given)
    terms *= 1.0 + 2.0**-49
    return sum_upper_bounds(pairs.user, terms, pairs.n_users)


def count_charged_cells(pairs: Pairs, *given: NDArray[Any]) -> Ints:
    """Return in how many cells each user loses anything; see `pair_losses`."""
    losses = pair_losses(pairs, *given) > 0
    return np.bincount(pairs.user[losses], minlength=pairs.n_users)


def max_pair_loss(pairs: Pairs, *given: NDArray[Any]) -> Floats:
    """Return the largest term of a user in each cell; see `pair_losses`."""
    return np.asarray(np.maximum.reduceat(pair_losses(pairs, *given), pairs.start[:-1]))


def composed_losses(pairs: Pairs, most: Floats, *given: NDArray[Any]) -> Floats:
    """Return each user's loss at the largest charge of its cells; see `pair_losses`."""
    terms = pair_losses(pairs, *given)
    for begin in range(0, terms.size, BLOCK_PAIRS):
        rows = slice(begin, begin + BLOCK_PAIRS)
        terms[rows] = np.where(terms[rows] > 0, most[pairs.cell[rows]], 0.0)
    return sum_upper_bounds(pairs.user, terms, pairs.n_users)


# ---- shares, for the search ----


def record_shares(pairs: Pairs, total: Ints) -> Floats:
    """Return each pair's share of its cell's records."""
    return np.asarray(pairs.n / total[pairs.cell])


def sum_per_user(pairs: Pairs, total: Ints, figure: Floats) -> Floats:
    """Return per user the sum over its cells of its share times a figure of the cell."""
    return _by_user(pairs, record_shares(pairs, total) * figure[pairs.cell])


def sum_squares_per_user(pairs: Pairs, total: Ints, figure: Floats) -> Floats:
    """Return the same of squared shares."""
    return _by_user(pairs, record_shares(pairs, total) ** 2 * figure[pairs.cell])


def sum_per_cell(pairs: Pairs, total: Ints, figure: Floats) -> Floats:
    """Return per cell the sum over its users of their share times a figure of the user."""
    return _by_cell(pairs, record_shares(pairs, total) * figure[pairs.user])


def sums_per_cell(
    pairs: Pairs, total: Ints, figure: Floats, squared: Floats
) -> tuple[Floats, Floats]:
    """Return the same, and the sums of squared shares times another figure."""
    x = record_shares(pairs, total)
    bent = _by_cell(pairs, x**2 * squared[pairs.user])
    return _by_cell(pairs, x * figure[pairs.user]), bent


def loss_at(pairs: Pairs, total: Ints, mean: Floats, variance: Floats, factor: Floats) -> Floats:
    """Return the loss of each user at these rates, not rounded."""
    x = record_shares(pairs, total) * factor[pairs.user]
    terms = mean[pairs.cell] * x
    if variance.any():
        terms += variance[pairs.cell] * variance_sensitivity_bound(x)
    return _by_user(pairs, terms)


def majority_user(pairs: Pairs, total: Ints) -> tuple[Ints, Ints]:
    """Return the user of more than half of each cell, and its records; -1 and 0 without one."""
    large = np.flatnonzero(2 * pairs.n > total[pairs.cell])
    who, n = np.full(pairs.n_cells, -1), np.zeros(pairs.n_cells, dtype=np.int64)
    who[pairs.cell[large]], n[pairs.cell[large]] = pairs.user[large], pairs.n[large]
    return who, n


def bisect_factors(
    pairs: Pairs,
    total: Ints,
    mean: Floats,
    variance: Floats,
    factor: Floats,
    *,
    loss: float,
    least: bool,
) -> Floats:
    """Return the factors with those of users of more than half a cell found by halving.

    With `least` users are charged the least that a plan may charge them (`_least_charge`).
    """
    x = record_shares(pairs, total)
    who = np.unique(pairs.user[(x > 0.5) & (variance[pairs.cell] > 0)])
    if not who.size:
        return factor
    rows = np.flatnonzero(np.isin(pairs.user, who))
    x, cell, position = x[rows], pairs.cell[rows], np.searchsorted(who, pairs.user[rows])
    rates = mean[cell], variance[cell]
    largest = variance_share(pairs.n[rows], total[cell])
    low, high = np.zeros(who.size), np.ones(who.size)
    for _ in range(HALVINGS):
        midpoint = (low + high) / 2.0 if _ else high
        contribution = x * midpoint[position]
        terms = rates[0] * contribution + rates[1] * variance_sensitivity_bound(contribution)
        if least:
            terms = _least_charge(contribution, largest, *rates)
        cost = np.bincount(position, weights=terms, minlength=who.size)
        low, high = (
            np.where(cost <= loss, midpoint, low),
            np.where(cost <= loss, high, midpoint),
        )
    factors = factor.copy()
    factors[who] = high if least else low
    return factors


def _least_charge(x: Floats, maximum: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return a lower bound on a pair's charge, whether or not its cell is reduced.

    Where nothing of a cell is put at the middle a plan charges COMP Proposition III.1 (`most`)
    and, of both statistics, no more than the joint formula (accounting/privacy_loss.py).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(variance > 0, (1.0 + mean / variance) / 2.0, np.inf)
    z = np.minimum(x, far)
    together = mean * z + variance * z * (1.0 - z)
    separate = mean * x + variance * np.minimum(variance_sensitivity_bound(x), maximum)
    return np.asarray(np.where(variance > 0, np.minimum(separate, together), mean * x))


def threshold_shares(pairs: Pairs, threshold: Ints) -> Floats:
    """Return each user's Σ min(m, t)/t, rounded up; cells of threshold 0 cost nothing."""
    t = threshold[pairs.cell].astype(np.float64)
    shares = np.divide(pairs.n, t, out=np.zeros_like(t), where=t > 0)
    return sum_upper_bounds(pairs.user, np.minimum(shares, 1.0), pairs.n_users)


def effective_users(pairs: Pairs, total: Ints) -> Floats:
    """Return the users of each cell, as many as would have its records in equal parts: 1 / Σ p²."""
    return np.asarray(1.0 / np.add.reduceat(record_shares(pairs, total) ** 2, pairs.start[:-1]))


def _by_user(pairs: Pairs, terms: Floats) -> Floats:
    sums = np.bincount(pairs.user, weights=terms, minlength=pairs.n_users)
    return np.asarray(sums, dtype=np.float64)


def _by_cell(pairs: Pairs, terms: Floats) -> Floats:
    return np.asarray(np.add.reduceat(terms, pairs.start[:-1]))
