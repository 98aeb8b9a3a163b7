"""Sums of pairs' shares of their cells, or of squared shares: over a cell, or over a user.

Where pairs are at hand, searches ask for thousands of them: products with a sparse matrix. Of pairs
that stay elsewhere they are asked of their blocks, and the search begins with some users, whose
pairs are fetched.
"""

import hashlib
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from hexveil.accounting import privacy_loss as contributions
from hexveil.base.arrays import Floats, Ints
from hexveil.base.blas_threads import single_blas_thread
from hexveil.model.occupancy import LocalOccupancy, Occupancy, Pairs, Partition

BLOCK_PAIRS = 2**15
"""Pairs that are looked at together: all that is made of so many stays in a core's own cache."""
FETCHED_PAIRS = 2**22
"""Pairs that are fetched to begin with, about."""
CACHED_ANSWERS = 4
"""Answers about pairs elsewhere that are kept: a step of a search asks for some sums twice."""


PairLooks: TypeAlias = Callable[[Pairs, Floats], Any]
"""From a block of pairs and their shares a look (mechanisms/looks/user_weights.py): `of_cells()`
returns figures of each cell of a block of whole cells, and `of_pairs(*figures)` by these a figure
of each pair."""


class LocalShareSums:
    """Sums of shares to a power, of pairs at hand."""

    cheap = True
    """Whether thousands of sums may be asked for; else a search begins with some users."""

    def __init__(self, occupancy: LocalOccupancy) -> None:
        self.occupancy = occupancy
        records = occupancy.records_per_cell.astype(np.float64)
        self.share = occupancy.n / np.repeat(records, occupancy.users_per_cell)
        self._powers: dict[int, tuple[Any, Any]] = {}

    def _of(self, power: int) -> tuple[Any, Any]:
        """Return the matrix of cells by users of shares to a power, and its transpose."""
        if power not in self._powers:
            self._powers[power] = self._matrices(self.share**power)
        return self._powers[power]

    def _matrices(self, figure: Floats) -> tuple[Any, Any]:
        import scipy.sparse  # noqa: PLC0415  slow to import

        occupancy = self.occupancy
        # Indices of 32 bits take half of the memory that scipy would give to int64 ones.
        columns, first = occupancy.user.astype(np.int32), occupancy.start.astype(np.int32)
        shape = occupancy.n_cells, occupancy.n_users
        matrix = scipy.sparse.csr_array((figure, columns, first), shape=shape)
        # Transposed once: each sum would make a matrix of its own.
        return matrix, matrix.T

    def per_cell(self, per_user: Floats, power: int = 1) -> Floats:
        """Return per cell the sum over its users of share^power times a figure of the user."""
        return np.asarray(self._of(power)[0] @ per_user)

    def per_user(self, per_cell: Floats, power: int = 1) -> Floats:
        """Return per user the sum over its cells of share^power times a figure of the cell."""
        return np.asarray(self._of(power)[1] @ per_cell)

    def look(self, make: PairLooks, times: Floats) -> tuple[tuple[Floats, ...], Floats]:
        """Look at all pairs: the cells' figures, and per user the sum of pairs' figures times one.

        Parameters
        ----------
        make : callable
            From `Pairs` and their shares; of a module, with the arrays that it takes by name.
        times : ndarray of float, shape (n_cells,)
            What the figure of a pair is multiplied with.
        """
        figures = []
        matrix, transposed = self._figures
        for block in self._blocks:
            seen = make(block, self.share[block.rows])
            figures.append(seen.of_cells())
            # In place: the transpose has the same numbers.
            matrix.data[block.rows] = seen.of_pairs(*map(block.repeat, figures[-1]))
        columns = tuple(map(np.concatenate, zip(*figures, strict=True)))
        return columns, np.asarray(transposed @ times)

    @cached_property
    def _figures(self) -> tuple[Any, Any]:
        return self._matrices(np.empty_like(self.share))

    @cached_property
    def _blocks(self) -> list[Partition]:
        return list(self.occupancy.blocks(BLOCK_PAIRS))


class MappedShareSums:
    """The same sums, asked of blocks of pairs; the last answers are remembered."""

    cheap = False

    def __init__(self, occupancy: Occupancy) -> None:
        self.occupancy = occupancy
        self._last: dict[str, Floats] = {}

    def per_cell(self, per_user: Floats, power: int = 1) -> Floats:
        """Return per cell the sum over its users: see `LocalShareSums`."""
        work = partial(contributions.sum_per_cell, figure=per_user, **self._shares(power))
        return self._remembered(f"cells {power}", per_user, lambda: self.occupancy.map_cells(work))

    def per_user(self, per_cell: Floats, power: int = 1) -> Floats:
        """Return per user the sum over its cells: see `LocalShareSums`."""
        work = partial(contributions.sum_per_user, figure=per_cell, **self._shares(power))
        return self._remembered(f"users {power}", per_cell, lambda: self.occupancy.map_users(work))

    def _shares(self, power: int) -> dict[str, Any]:
        return {"total": self.occupancy.records_per_cell, "power": power}

    def _remembered(self, question: str, figure: Floats, ask: Callable[[], Floats]) -> Floats:
        # The hash, not the array: figures have an entry per user and would stay in memory.
        key = f"{question} {hashlib.sha256(figure.tobytes()).hexdigest()}"
        if key not in self._last:
            if len(self._last) >= CACHED_ANSWERS:
                # Dictionaries keep the order of insertion: the oldest answer goes.
                del self._last[next(iter(self._last))]
            self._last[key] = np.asarray(ask(), dtype=np.float64)
        return self._last[key]

    def look(self, make: PairLooks, times: Floats) -> tuple[tuple[Floats, ...], Floats]:
        """Look at blocks of cells, then at blocks of users: see `LocalShareSums`."""
        occupancy = self.occupancy
        look = partial(_look, make=make, records=occupancy.records_per_cell)
        figures = occupancy.map_cells(partial(_look_at_cells, look=look))
        work = partial(_look_at_users, look=look, times=times, figures=figures)
        return figures, occupancy.map_users(work)


ShareSums: TypeAlias = LocalShareSums | MappedShareSums


def share_sums(occupancy: Occupancy) -> ShareSums:
    """Return the sums of pairs' shares, wherever these are."""
    if isinstance(occupancy, LocalOccupancy):
        return LocalShareSums(occupancy)
    return MappedShareSums(occupancy)


def _look(pairs: Pairs, *, make: PairLooks, records: Ints) -> Any:  # noqa: ANN401  a look
    return make(pairs, contributions.record_shares(pairs, records))


def _look_at_cells(pairs: Pairs, *, look: Callable[[Pairs], Any]) -> tuple[Floats, ...]:
    figures: tuple[Floats, ...] = look(pairs).of_cells()
    return figures


def _look_at_users(
    pairs: Pairs, *, look: Callable[[Pairs], Any], times: Floats, figures: tuple[Floats, ...]
) -> Floats:
    of_cells = (figure[pairs.cell] for figure in figures)
    terms = look(pairs).of_pairs(*of_cells) * times[pairs.cell]
    return contributions.sum_terms_per_user(pairs, terms)


# ---- some of the users ----


def fetch_sample(occupancy: Occupancy) -> tuple[LocalOccupancy, Ints, float]:
    """Return some users' pairs, the numbers of their cells, and the part of users that they are.

    All users are fetched where pairs are few; pairs at hand are all there.
    """
    if isinstance(occupancy, LocalOccupancy):
        return occupancy, np.arange(occupancy.n_cells), 1.0
    # Rounded up, so that no more pairs than the limit come to the driver.
    every = -(-occupancy.n_pairs // FETCHED_PAIRS)
    cell, user, n = occupancy.map_users(partial(_fetched, every=every))
    cells, number = np.unique(cell, return_inverse=True)
    users, who = np.unique(user, return_inverse=True)
    # Cells and users without fetched pairs are left out: empty cells have no shares.
    sample = LocalOccupancy.from_coo(number, who, n)
    return sample, cells, users.size / occupancy.n_users


def _fetched(pairs: Pairs, *, every: int) -> tuple[Ints, Ints, Ints]:
    """Return the pairs of every so many users."""
    rows = np.flatnonzero(pairs.user % every == 0)
    return pairs.cell[rows], pairs.user[rows], pairs.n[rows]


def to_all_cells(rate: Floats, cells: Ints, n_cells: int) -> Floats:
    """Return inverse scales of all cells; cells without fetched users get a typical one."""
    usual = float(np.median(rate[rate > 0])) if (rate > 0).any() else 0.0
    full = np.full(n_cells, usual)
    full[cells] = rate
    return full


# ---- a descent ----


def descend(
    objective: Callable[[Floats], tuple[float, Floats]],
    begin: Floats,
    reach: float,
    **limits: float,
) -> tuple[Floats, float]:
    """Return the point that SciPy's L-BFGS-B finds, and the objective there.

    Near the minimum a line search compares values that differ only by rounding, so the number of
    evaluations depends on the processor. Where an evaluation is dear, limit evaluations as well as
    iterations.

    Parameters
    ----------
    objective : callable
        From a point to the objective and its slope; it must not keep or change the point.
    begin : ndarray of float, shape (n,)
    reach : float
        How far each number may go from where it began.
    **limits
        Options of L-BFGS-B.
    """
    import scipy.optimize  # noqa: PLC0415  slow to import

    bounds = np.stack((begin - reach, begin + reach), axis=1)
    # Here, as the linear algebra of SciPy may have been loaded only just now.
    with single_blas_thread():
        found = scipy.optimize.minimize(
            objective, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=limits
        )
    return np.asarray(found.x), float(found.fun)
