"""Contributions of (cell, user) pairs: records after the cap, shares of a cell, and their sums.

Each function takes some pairs (`hexveil.model.occupancy.Pairs`) and, by name, arrays of all cells
and users, so that it can be mapped over all pairs at once or block by block where they lie.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hexveil.accounting.error_model import round_down_to_quanta
from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.rational import sum_upper_bounds
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.model.occupancy import Pairs
from hexveil.model.pair_columns import SuppressedPairs

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

    def whole(self, pairs: Pairs) -> Ints:
        """Return the records of each pair where no factor divides them: min(m, t)."""
        return self.without_suppressed(pairs, np.minimum(pairs.n, self.cap[pairs.cell]))

    def without_suppressed(self, pairs: Pairs, kept: NDArray[N]) -> NDArray[N]:
        """Return a number of each pair, 0 where it is suppressed."""
        if self.suppressed is None:
            return kept
        return np.where(self.suppressed.of(pairs), kept.dtype.type(0), kept)


def clipped_by_caps(pairs: Pairs, *, kept: KeptRecords) -> Floats:
    """Return the records of each cell that caps, factors and suppression put at the middle."""
    return sum_terms_per_cell(pairs, np.maximum(pairs.n - kept.of(pairs), 0.0))


def contributed_totals(pairs: Pairs, *, kept: KeptRecords) -> Ints:
    """Return the records that each cell's users contribute."""
    return np.asarray(np.add.reduceat(kept.whole(pairs), pairs.start[:-1]))


def contributes_wholly(pairs: Pairs, *, kept: KeptRecords) -> Bools:
    """Return in which cells each user contributes all of its records or none."""
    contribution = kept.whole(pairs)
    is_whole = (contribution == 0) | (contribution == pairs.n)
    return np.asarray(np.logical_and.reduceat(is_whole, pairs.start[:-1]))


def unsuppressed_cells(pairs: Pairs, *, suppressed: SuppressedPairs) -> tuple[Ints, Bools]:
    """Return the largest count of each cell that is not suppressed, and where none is."""
    begin, is_suppressed = pairs.start[:-1], suppressed.of(pairs)
    largest = np.maximum.reduceat(np.where(is_suppressed, 0, pairs.n), begin)
    return largest, np.logical_and.reduceat(~is_suppressed, begin)


def lost_shares(pairs: Pairs, *, total: Ints, contributed: Ints, kept: KeptRecords) -> Floats:
    """Return the weight that users of each cell lose as sums are divided by `contributed`."""
    weight = kept.whole(pairs) / contributed[pairs.cell]
    lost = np.maximum(record_shares(pairs, total) - weight, 0.0)
    return sum_terms_per_cell(pairs, lost)


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
