"""Contributions of (cell, user) pairs: records after the cap, shares of a cell, and their sums.

Each function takes some pairs (`hexveil.model.occupancy.Pairs`), arrays with an entry per cell and
arrays with an entry per user, so that it can be mapped over all pairs at once or block by block
where they lie.
"""

import numpy as np

from hexveil.accounting.error_model import round_down_to_quanta
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.rational import sum_upper_bounds
from hexveil.model.occupancy import Pairs

# ---- after the cap ----


def contributed_records(pairs: Pairs, cap: Ints, span_quanta: Floats, factor: Floats) -> Floats:
    """Return the records that each pair contributes: f min(m, t).

    In whole quanta, where `span_quanta` says how many of them a cell's bounds have; zeros if a
    contribution need not be whole.
    """
    capped = np.minimum(pairs.n, cap[pairs.cell]) * factor[pairs.user]
    # Rounded down: what is charged is what is measured, and both stay below the factor's share.
    return round_down_to_quanta(capped, span_quanta[pairs.cell]) if span_quanta.any() else capped


def clipped_by_caps(
    pairs: Pairs, cap: Ints, span_quanta: Floats, factor: Floats, *suppressed: Bools
) -> Floats:
    """Return the records of each cell that caps, factors and suppression put at the middle."""
    contribution = contributed_records(pairs, cap, span_quanta, factor)
    for is_suppressed in suppressed:
        contribution = np.where(is_suppressed, 0.0, contribution)
    return sum_terms_per_cell(pairs, np.maximum(pairs.n - contribution, 0.0))


def whole_records(pairs: Pairs, cap: Ints, *suppressed: Bools) -> Ints:
    """Return the records that each pair contributes, where they are whole: min(m, t)."""
    capped = np.minimum(pairs.n, cap[pairs.cell])
    for is_suppressed in suppressed:
        capped = np.where(is_suppressed, 0, capped)
    return capped


def contributed_totals(pairs: Pairs, cap: Ints, *suppressed: Bools) -> Ints:
    """Return the records that each cell's users contribute."""
    return np.asarray(np.add.reduceat(whole_records(pairs, cap, *suppressed), pairs.start[:-1]))


def contributes_wholly(pairs: Pairs, cap: Ints, *suppressed: Bools) -> Bools:
    """Return in which cells each user contributes all of its records or none."""
    contribution = whole_records(pairs, cap, *suppressed)
    is_whole = (contribution == 0) | (contribution == pairs.n)
    return np.asarray(np.logical_and.reduceat(is_whole, pairs.start[:-1]))


def unsuppressed_cells(pairs: Pairs, suppressed: Bools) -> tuple[Ints, Bools]:
    """Return the largest count of each cell that is not suppressed, and where none is."""
    begin = pairs.start[:-1]
    largest = np.maximum.reduceat(np.where(suppressed, 0, pairs.n), begin)
    return largest, np.logical_and.reduceat(~suppressed, begin)


def lost_shares(
    pairs: Pairs, total: Ints, contributed: Ints, cap: Ints, *suppressed: Bools
) -> Floats:
    """Return the weight that users of each cell lose as sums are divided by `contributed`."""
    weight = whole_records(pairs, cap, *suppressed) / contributed[pairs.cell]
    lost = np.maximum(record_shares(pairs, total) - weight, 0.0)
    return sum_terms_per_cell(pairs, lost)


# ---- shares of a cell's records ----


def record_shares(pairs: Pairs, total: Ints) -> Floats:
    """Return each pair's share of its cell's records."""
    return np.asarray(pairs.n / total[pairs.cell])


def sum_per_user(pairs: Pairs, total: Ints, figure: Floats, *, power: int = 1) -> Floats:
    """Return per user the sum over its cells of its share^power times a figure of the cell."""
    return sum_terms_per_user(pairs, record_shares(pairs, total) ** power * figure[pairs.cell])


def sum_per_cell(pairs: Pairs, total: Ints, figure: Floats, *, power: int = 1) -> Floats:
    """Return per cell the sum over its users of their share^power times a figure of the user."""
    return sum_terms_per_cell(pairs, record_shares(pairs, total) ** power * figure[pairs.user])


def majority_user(pairs: Pairs, total: Ints) -> tuple[Ints, Ints]:
    """Return the user of more than half of each cell, and its records; -1 and 0 without one."""
    large = np.flatnonzero(2 * pairs.n > total[pairs.cell])
    user, n = np.full(pairs.n_cells, -1), np.zeros(pairs.n_cells, dtype=np.int64)
    user[pairs.cell[large]], n[pairs.cell[large]] = pairs.user[large], pairs.n[large]
    return user, n


def threshold_shares(pairs: Pairs, threshold: Ints) -> Floats:
    """Return each user's Σ min(m, t)/t, rounded up; cells of threshold 0 cost nothing."""
    t = threshold[pairs.cell].astype(np.float64)
    shares = np.divide(pairs.n, t, out=np.zeros_like(t), where=t > 0)
    return sum_upper_bounds(pairs.user, np.minimum(shares, 1.0), pairs.n_users)


def effective_users(pairs: Pairs, total: Ints) -> Floats:
    """Return the users of each cell, as many as would have its records in equal parts: 1 / Σ p²."""
    return np.asarray(1.0 / np.add.reduceat(record_shares(pairs, total) ** 2, pairs.start[:-1]))


def sum_terms_per_user(pairs: Pairs, terms: Floats) -> Floats:
    """Return the sum of the terms of each user's pairs."""
    sums = np.bincount(pairs.user, weights=terms, minlength=pairs.n_users)
    return np.asarray(sums, dtype=np.float64)


def sum_terms_per_cell(pairs: Pairs, terms: Floats) -> Floats:
    """Return the sum of the terms of each cell's pairs."""
    return np.asarray(np.add.reduceat(terms, pairs.start[:-1]))
