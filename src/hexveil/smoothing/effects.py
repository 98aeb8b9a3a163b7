"""The posterior of all group effects at once, given a precision per cell.

Model: y = mu + sum of effects + error of precision p, mu flat; effects of an independent grouping
k are normal with variance s_k / w_j for label j (so that they may be heavy-tailed), those of a
correlated one with s_k times its correlation. The largest independent grouping is eliminated
first (its block is diagonal); what remains is one dense system of at most `MOST_DENSE` effects.
Groupings that would not fit are left out, the later ones first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hexveil.smoothing.structure import Grouping

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

MOST_DENSE = 1_000
_ROWS = 2_000_000
"""Numbers in a dense slice of the eliminated grouping at most."""
_SMALL = 20_000
"""Numbers in its regression up to which that is a dense matrix: much faster on a small map."""


@dataclass(frozen=True)
class Effects:
    """What the cells say of the effects.

    Attributes
    ----------
    mean, variance : ndarray of float, shape (n_cells,)
        Of each cell's mu plus effects, given all cells.
    energy, spread : ndarray of float, shape (n_groupings,)
        Sum of squares of the effects' means, and of their variances, in the metric of the
        grouping's weights or correlation.
    squares : tuple of ndarray of float
        Per grouping the expected square of each label's effect.
    """

    mean: Floats
    variance: Floats
    energy: Floats
    spread: Floats
    squares: tuple[Floats, ...]


@dataclass(frozen=True)
class Block:
    """A grouping inside the dense system: where it stands, and its prior precision."""

    which: int
    start: int
    stop: int
    precision: NDArray[np.floating] | None


class Design:
    """The groupings as one system of equations, built once and solved often.

    Parameters
    ----------
    groupings : sequence of Grouping
    n_cells : int

    Attributes
    ----------
    fits : tuple of int
        The groupings that take part.
    sizes : ndarray of float, shape (n_groupings,)
        Labels of each.
    independent : tuple of bool
        Whether a grouping is without correlation.
    """

    def __init__(self, groupings: Sequence[Grouping], n_cells: int) -> None:
        index = [np.unique(g.label, return_inverse=True)[1].astype(np.int64) for g in groupings]
        sizes = [int(i.max()) + 1 for i in index]
        self.sizes: Floats = np.array(sizes, dtype=np.float64)
        self.independent = tuple(g.correlation is None for g in groupings)
        self.big, inside = _chosen(self.independent, sizes)
        self.fits = tuple(sorted([*inside, *([] if self.big is None else [self.big])]))
        self.big_label = np.zeros(n_cells, np.int64) if self.big is None else index[self.big]
        self.n_big = 1 if self.big is None else sizes[self.big]
        columns, blocks, stop = [np.zeros(n_cells, np.int64)], [], 1
        for k in inside:
            given = groupings[k].correlation
            inverse = None if given is None else np.linalg.inv(given)
            blocks.append(Block(k, stop, stop + sizes[k], inverse))
            columns.append(index[k] + stop)
            stop += sizes[k]
        self.columns: Ints = np.stack(columns, axis=1)
        self.blocks, self.n_dense = tuple(blocks), stop
        # Where each pair of a cell's effects stands in the flattened system.
        self.flat = (self.columns[:, :, None] * stop + self.columns[:, None, :]).ravel()
        self.crossed = (self.big_label[:, None] * stop + self.columns).ravel()

    def solve(self, y: Floats, p: Floats, s: Floats, weights: tuple[Floats, ...]) -> Effects:
        """Return the posterior of the effects.

        Parameters
        ----------
        y, p : ndarray of float, shape (n_cells,)
            Numbers and their precisions, 0 where a cell says nothing.
        s : ndarray of float, shape (n_groupings,)
            Variances of the effects.
        weights : tuple of ndarray of float
            Per grouping the w of each label; 1 for normal effects.
        """
        own: Floats = np.bincount(self.big_label, p, self.n_big).astype(np.float64)
        own = np.full(1, np.inf) if self.big is None else own + weights[self.big] / s[self.big]
        share = self._crossed(p, own)
        known = np.where(np.isinf(own), 0.0, own)[:, None]
        cover = np.linalg.inv(self._dense(p, s, weights) - _array(share.T @ (share * known)))
        cover = (cover + cover.T) / 2.0
        told = np.bincount(self.big_label, p * y, self.n_big)
        right = np.zeros(self.n_dense)
        for column in self.columns.T:
            right += np.bincount(column, p * y, self.n_dense)
        rest = cover @ (right - share.T @ told)
        first = told / own - share @ rest
        mean = first[self.big_label] + rest[self.columns].sum(axis=1)
        variance, alone = self._variances(cover, share, own)
        return Effects(mean, variance, *self._sizes((rest, cover), (first, alone), weights))

    def _crossed(self, p: Floats, own: Floats) -> Any:  # noqa: ANN401  scipy is not typed
        """Return the eliminated grouping's regression on the dense effects; sparse where large."""
        n = self.columns.shape[1]
        shape = (self.n_big, self.n_dense)
        if self.n_big * self.n_dense <= _SMALL:
            each = np.bincount(self.crossed, np.repeat(p, n), self.n_big * self.n_dense)
            return each.reshape(shape) / own[:, None]
        from scipy import sparse  # noqa: PLC0415  importing hexveil must stay light

        rows = np.repeat(self.big_label, n)
        crossed = sparse.csr_array((np.repeat(p, n), (rows, self.columns.ravel())), shape=shape)
        return sparse.csr_array(crossed * (1.0 / own[:, None]))

    def _dense(self, p: Floats, s: Floats, weights: tuple[Floats, ...]) -> Floats:
        """Return the precision of the dense effects, before the elimination."""
        n = self.n_dense
        each = np.repeat(p, self.columns.shape[1] ** 2)
        total: Floats = np.bincount(self.flat, each, n * n).astype(np.float64).reshape(n, n)
        for b in self.blocks:
            here = slice(b.start, b.stop)
            prior = np.diag(weights[b.which]) if b.precision is None else b.precision
            total[here, here] += prior / s[b.which]
        return total

    def _variances(self, cover: Floats, share: Any, own: Floats) -> tuple[Floats, Floats]:  # noqa: ANN401
        """Return the variance of each cell, and of each eliminated effect."""
        inside = np.zeros(self.columns.shape[0])
        inside += cover.ravel()[self.flat].reshape(inside.size, -1).sum(axis=1)
        if self.big is None:
            return inside, np.zeros(1)
        order = np.argsort(self.big_label, kind="stable")
        step = max(1, _ROWS // self.n_dense)
        alone = 1.0 / own
        for start in range(0, self.n_big, step):
            rows = share[start : start + step]
            mixed = rows @ cover
            alone[start : start + step] += np.asarray((rows * mixed).sum(axis=1)).ravel()
            first, last = np.searchsorted(self.big_label[order], [start, start + step])
            cells = order[first:last]
            of = self.big_label[cells] - start
            inside[cells] -= 2.0 * mixed[of[:, None], self.columns[cells]].sum(axis=1)
        return inside + alone[self.big_label], alone

    def _sizes(
        self,
        dense: tuple[Floats, Floats],
        eliminated: tuple[Floats, Floats],
        weights: tuple[Floats, ...],
    ) -> tuple[Floats, Floats, tuple[Floats, ...]]:
        """Return the energy, the spread and the squares of every grouping."""
        energy, spread = np.zeros(self.sizes.size), np.zeros(self.sizes.size)
        squares = [np.ones(int(n)) for n in self.sizes]
        rest, cover = dense
        for b in self.blocks:
            u, inside = rest[b.start : b.stop], cover[b.start : b.stop, b.start : b.stop]
            metric = np.diag(weights[b.which]) if b.precision is None else b.precision
            energy[b.which], spread[b.which] = u @ metric @ u, np.sum(metric * inside)
            squares[b.which] = u**2 + np.diag(inside)
        if self.big is not None:
            u, alone = eliminated
            w = weights[self.big]
            energy[self.big], spread[self.big] = w @ u**2, w @ alone
            squares[self.big] = u**2 + alone
        return energy, spread, tuple(squares)


def _array(matrix: Any) -> Floats:  # noqa: ANN401  scipy is not typed
    """Return a matrix, sparse or not, as an array."""
    return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())


def _chosen(free: tuple[bool, ...], sizes: list[int]) -> tuple[int | None, list[int]]:
    """Return the grouping to eliminate and those in the dense system.

    Of all choices the one that keeps the earliest groupings; among equals the largest is
    eliminated.
    """
    best: tuple[list[bool], int, int | None, list[int]] | None = None
    candidates: list[int | None] = [k for k, alone in enumerate(free) if alone]
    for big in candidates or [None]:
        inside, stop = [], 1
        for k, size in enumerate(sizes):
            if k != big and stop + size <= MOST_DENSE:
                inside.append(k)
                stop += size
        lost = [k != big and k not in inside for k in range(len(sizes))]
        here = (lost, 0 if big is None else -sizes[big], big, inside)
        best = here if best is None or here[:2] < best[:2] else best
    return (None, []) if best is None else best[2:]
