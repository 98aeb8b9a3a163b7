"""Mixed model of cells: the posterior of all random effects, and their variances.

Model: y = mu + sum of effects + error of precision p, mu flat; effects of an independent effect
k are normal with variance s_k / w_j for label j (so that they may be heavy-tailed), those of a
correlated one with s_k times its correlation. The largest independent effect is eliminated
first (its block is diagonal); the others form one dense system of at most `MAX_DENSE_EFFECTS`
values. Effects that would not fit are left out, the later ones first.

Variances by maximum marginal likelihood with weak priors: cells' own deviations and noises are
mixtures of normals, and so are independent effects (t distributions of four degrees, by their
expected precisions); given the components drawn, everything is normal. The step alternates:
components given effects, effects given components (`effects`), variances given both. A variance x
moves to x0 sqrt(a / c), where a is the effects' energy / x0² and c its expectation: a
minorise-maximise step, monotone for normal models. A weak prior keeps it off zero and off infinity,
and steps are longer by `_STEP_EXPONENT`. Units: y is centred and scaled to about 1 beforehand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexveil.base.arrays import Floats, Ints
from hexveil.smoothing.cell_groupings import RandomEffect
from hexveil.smoothing.mixed_noise import heavy_tailed, noise_parts

MAX_DENSE_EFFECTS = 1_000
_MAX_PART_NUMBERS = 50_000
"""Largest part of the eliminated effect's regression, a dense matrix."""


@dataclass(frozen=True)
class Effects:
    """Posterior of the effects, given all cells.

    Attributes
    ----------
    mean, variance : ndarray of float, shape (n_cells,)
        Mean and variance of each cell's mu plus effects.
    energy, variance_energy : ndarray of float, shape (n_groupings,)
        Sum of squares of means, and of variances, in the metric of weights or correlation.
    squares : tuple of ndarray of float
        Per effect the expected square of each label's value.
    """

    mean: Floats
    variance: Floats
    energy: Floats
    variance_energy: Floats
    squares: tuple[Floats, ...]


EffectBlock: TypeAlias = tuple[int, slice, "NDArray[np.floating] | None"]
"""Effect inside the dense system: its index, its rows, and its prior precision."""


@dataclass(frozen=True)
class EliminatedPart:
    """Part of the eliminated labels, the columns of the dense system that their cells have.

    Attributes
    ----------
    labels : slice
        Neighbouring labels: of a map they share most of their columns.
    cells, columns : ndarray of int
    crossed : ndarray of int
        Index of each pair of a cell and a column in the flattened matrix of the part.
    """

    labels: slice
    cells: Ints
    columns: Ints
    crossed: Ints


class Design:
    """All random effects as one system of equations, built once and solved often.

    Parameters
    ----------
    effects : sequence of RandomEffect
    n_cells : int

    Attributes
    ----------
    fits : tuple of int
        The effects that take part.
    sizes : ndarray of float, shape (n_groupings,)
        Number of labels of each effect.
    independent : tuple of bool
        Whether an effect is without correlation.
    """

    def __init__(self, effects: Sequence[RandomEffect], n_cells: int) -> None:
        index = [np.unique(g.label, return_inverse=True)[1].astype(np.int64) for g in effects]
        sizes = [int(i.max()) + 1 for i in index]
        self.sizes: Floats = np.array(sizes, dtype=np.float64)
        self.independent = tuple(g.correlation is None for g in effects)
        self.eliminated, inside = _choose_eliminated(self.independent, sizes)
        k = self.eliminated
        self.fits = tuple(sorted([*inside, *([] if k is None else [k])]))
        self.eliminated_label = np.zeros(n_cells, np.int64) if k is None else index[k]
        self.n_eliminated = 1 if k is None else sizes[k]
        columns, blocks, stop = [np.zeros(n_cells, np.int64)], [], 1
        for k in inside:
            correlation = effects[k].correlation
            inverse = None if correlation is None else np.linalg.inv(correlation)
            blocks.append((k, slice(stop, stop + sizes[k]), inverse))
            columns.append(index[k] + stop)
            stop += sizes[k]
        self.columns: Ints = np.stack(columns, axis=1)
        self.blocks: tuple[EffectBlock, ...] = tuple(blocks)
        self.n_dense = stop
        # Index of each pair of a cell's effects in the flattened system.
        self.flat = (self.columns[:, :, None] * stop + self.columns[:, None, :]).ravel()
        self.eliminated_blocks = tuple(self._eliminated_parts())

    def _eliminated_parts(self) -> Iterator[EliminatedPart]:
        order = np.argsort(self.eliminated_label, kind="stable")
        step = max(1, _MAX_PART_NUMBERS // self.n_dense)
        for start in range(0, self.n_eliminated, step):
            ends = np.searchsorted(self.eliminated_label[order], [start, start + step])
            cells = order[slice(*ends)]
            columns, place = np.unique(self.columns[cells], return_inverse=True)
            row = self.eliminated_label[cells] - start
            crossed = row[:, None] * columns.size + place.reshape(cells.size, -1)
            labels = slice(start, min(start + step, self.n_eliminated))
            yield EliminatedPart(labels, cells, columns, crossed.ravel())

    def solve(self, y: Floats, p: Floats, s: Floats, weights: tuple[Floats, ...]) -> Effects:
        """Return the posterior of the effects.

        Parameters
        ----------
        y, p : ndarray of float, shape (n_cells,)
            Numbers and their precisions, 0 of a constant.
        s, weights : ndarray of float, shape (n_groupings,), and tuple of ndarray
            Variances of the effects, and the w of each label; 1 for normal effects.
        """
        if self.eliminated is None:
            eliminated_precision: Floats = np.full(1, np.inf)
        else:
            own = np.bincount(self.eliminated_label, p, self.n_eliminated)
            eliminated_precision = own + weights[self.eliminated] / s[self.eliminated]
        # Block elimination: the largest independent effect has a diagonal block, inverted for free.
        finite = np.where(np.isinf(eliminated_precision), 0.0, eliminated_precision)[:, None]
        eliminated_sums = np.bincount(self.eliminated_label, p * y, self.n_eliminated)
        precision, dense_sums = self._dense(p, s, weights), np.zeros(self.n_dense)
        for column in self.columns.T:
            dense_sums += np.bincount(column, p * y, self.n_dense)
        for block, regression in self._regressions(p, eliminated_precision):
            explained = regression.T @ (regression * finite[block.labels])
            precision[np.ix_(block.columns, block.columns)] -= explained
            dense_sums[block.columns] -= regression.T @ eliminated_sums[block.labels]
        covariance = np.linalg.inv(precision)
        # Rounding makes the inverse slightly unsymmetric; variances read it both ways.
        covariance = (covariance + covariance.T) / 2.0
        dense_mean = covariance @ dense_sums
        eliminated_mean = eliminated_sums / eliminated_precision
        eliminated_variance = 1.0 / eliminated_precision
        variance = covariance.ravel()[self.flat].reshape(y.size, -1).sum(axis=1)
        for block, regression in self._regressions(p, eliminated_precision):
            mixed = regression @ covariance[np.ix_(block.columns, block.columns)]
            eliminated_mean[block.labels] -= regression @ dense_mean[block.columns]
            eliminated_variance[block.labels] += (regression * mixed).sum(axis=1)
            both = mixed.ravel()[block.crossed].reshape(block.cells.size, -1)
            variance[block.cells] -= 2.0 * both.sum(axis=1)
        variance += eliminated_variance[self.eliminated_label]
        mean = eliminated_mean[self.eliminated_label] + dense_mean[self.columns].sum(axis=1)
        return Effects(
            mean,
            variance,
            *self._sizes((dense_mean, covariance), (eliminated_mean, eliminated_variance), weights),
        )

    def _regressions(
        self, p: Floats, eliminated_precision: Floats
    ) -> Iterator[tuple[EliminatedPart, Floats]]:
        """Yield the eliminated effect's regression on the dense ones, part by part."""
        for block in self.eliminated_blocks:
            precision = eliminated_precision[block.labels, None]
            shape = precision.size, block.columns.size
            products = np.repeat(p[block.cells], self.columns.shape[1])
            sums = np.bincount(block.crossed, products, shape[0] * shape[1])
            yield block, sums.reshape(shape) / precision

    def _dense(self, p: Floats, s: Floats, weights: tuple[Floats, ...]) -> Floats:
        """Return the precision of the dense effects, before the elimination."""
        n = self.n_dense
        products = np.repeat(p, self.columns.shape[1] ** 2)
        total: Floats = np.bincount(self.flat, products, n * n).astype(np.float64).reshape(n, n)
        for k, rows, precision in self.blocks:
            prior = np.diag(weights[k]) if precision is None else precision
            total[rows, rows] += prior / s[k]
        return total

    def _sizes(
        self,
        dense: tuple[Floats, Floats],
        eliminated: tuple[Floats, Floats],
        weights: tuple[Floats, ...],
    ) -> tuple[Floats, Floats, tuple[Floats, ...]]:
        """Return energy, energy of the variances and squares of every effect."""
        energy, variance_energy = np.zeros(self.sizes.size), np.zeros(self.sizes.size)
        squares = [np.ones(int(n)) for n in self.sizes]
        dense_mean, covariance = dense
        for k, rows, precision in self.blocks:
            u, inside = dense_mean[rows], covariance[rows, rows]
            metric = np.diag(weights[k]) if precision is None else precision
            energy[k], variance_energy[k] = u @ metric @ u, np.sum(metric * inside)
            squares[k] = u**2 + np.diag(inside)
        if self.eliminated is not None:
            k, (u, inside) = self.eliminated, eliminated
            energy[k], variance_energy[k] = weights[k] @ u**2, weights[k] @ inside
            squares[k] = u**2 + inside
        return energy, variance_energy, tuple(squares)


def _choose_eliminated(
    independent: tuple[bool, ...], sizes: list[int]
) -> tuple[int | None, list[int]]:
    """Return the effect to eliminate and those in the dense system.

    Of all choices the one that keeps the earliest effects; among equals the largest is eliminated.
    """
    best: tuple[list[bool], int, int | None, list[int]] | None = None
    candidates: list[int | None] = [k for k, possible in enumerate(independent) if possible]
    for eliminated in candidates or [None]:
        inside, stop = [], 1
        for k, size in enumerate(sizes):
            if k != eliminated and stop + size <= MAX_DENSE_EFFECTS:
                inside.append(k)
                stop += size
        left_out = [k != eliminated and k not in inside for k in range(len(sizes))]
        choice = (left_out, 0 if eliminated is None else -sizes[eliminated], eliminated, inside)
        best = choice if best is None or choice[:2] < best[:2] else best
    return (None, []) if best is None else best[2:]


_MAX_STEPS, _TOLERANCE = 150, 2e-3
_STEP_EXPONENT = 1.6
"""Length of a step in the logarithm: 1 is safe but slow near zero; 2 would be a fixed point's."""
_CHUNK_CELLS = 20_000
_PRIOR_EXPONENT = 0.5
"""Exponent of a variance in its prior near zero, doubled, shared by all variances of a model: weak,
and keeps a variance off zero where few cells could not tell."""


@dataclass(frozen=True)
class FittedModel:
    """The fitted model.

    Attributes
    ----------
    effects : Effects
    precision : ndarray of float, shape (n_cells,)
        Precision of each cell's number, given the effects; 0 for a constant.
    own_variance : float
        Squared scale of cells' own deviations: half their variance, for a `prior_width` of 1.
    gaussian : bool
        Whether the noise is Gaussian.
    """

    effects: Effects
    precision: Floats
    own_variance: float
    gaussian: bool = False


def fit_model(
    design: Design,
    y: Floats,
    scale: Floats,
    prior_width: Floats,
    steps: int | None = None,
    *,
    gaussian: bool = False,
) -> FittedModel:
    """Return the fitted variances and the effects under them.

    Parameters
    ----------
    design : Design
    y : ndarray of float, shape (n_cells,)
    scale : ndarray of float, shape (n_cells,)
        Scale of the Laplace noise; 0 for a constant, which carries no information.
    prior_width : ndarray of float, shape (n_cells,)
        Variance of each cell's own deviation, as a multiple of the fitted one.
    steps : int, optional
        By default until variances hardly change.
    gaussian : bool
        Whether the noise is Gaussian, and `scale` its deviation over √2.
    """
    has_noise = scale > 0
    own_variance, variances = _first_guesses(y[has_noise], scale[has_noise], design.sizes.size)
    # At first an outlying cell has little weight, or it would draw the centre and widen everything.
    outlying = (y - np.median(y[has_noise])) ** 2
    p = np.where(
        has_noise, 1.0 / (2.0 * own_variance * prior_width + 2.0 * scale**2 + outlying), 0.0
    )
    weights = tuple(np.ones(int(n)) for n in design.sizes)
    prior_exponent = _PRIOR_EXPONENT / (1 + design.sizes.size)
    for _ in range(steps or _MAX_STEPS):
        effects = design.solve(y, p, variances, weights)
        misfit = (y - effects.mean) ** 2 + effects.variance
        p[has_noise], excess, expected = _score_sums(
            misfit[has_noise], scale[has_noise], own_variance * prior_width[has_noise], gaussian
        )
        excess, expected = excess / own_variance, expected / own_variance
        expected_effects = (design.sizes - effects.variance_energy / variances) / variances
        previous = np.append(variances, own_variance)
        # All variances move together: one after the other would take several solves a step.
        updated = _step_variances(
            np.append(effects.energy / variances**2, excess),
            np.append(expected_effects, expected),
            previous,
            prior_exponent,
        )
        variances, own_variance = updated[:-1], float(updated[-1])
        if not steps and np.max(np.abs(np.sqrt(updated) - np.sqrt(previous))) < _TOLERANCE:
            break
        weights = _weights(design, effects, variances)
    effects = design.solve(y, p, variances, weights)
    return FittedModel(effects, p, own_variance, gaussian)


def _weights(design: Design, effects: Effects, variances: Floats) -> tuple[Floats, ...]:
    """Return each label's expected precision under a t law of four degrees; 1 if correlated."""
    return tuple(
        5.0 / (4.0 + square / x) if independent else np.ones_like(square)
        for square, x, independent in zip(
            effects.squares, variances, design.independent, strict=True
        )
    )


def _first_guesses(y: Floats, scale: Floats, n_effects: int) -> tuple[float, Floats]:
    """Return first guesses: the usual squared deviation beyond the noise, in equal shares."""
    usual_square = 2.2 * float(np.median(np.abs(y - np.median(y)))) ** 2
    signal = max(usual_square - float(np.median(2.0 * scale**2)), 0.1 * usual_square, 1e-6)
    variance_each = signal / (n_effects + 1)
    return variance_each / 1.5, np.full(n_effects, variance_each)


def _step_variances(
    excess: Floats, expected: Floats, variances: Floats, prior_exponent: float
) -> Floats:
    """Return the next variances: towards the roots of c x² - d x - a x0² = 0, prior in c and d."""
    a = excess * variances**2
    c = np.maximum(expected, 0.0) + 1.0  # the prior's size: as wide as the map
    root = np.maximum((prior_exponent + np.sqrt(prior_exponent**2 + 4 * a * c)) / (2 * c), 1e-12)
    return np.asarray(variances * (root / variances) ** _STEP_EXPONENT)


def _score_sums(
    misfit: Floats, scale: Floats, own_variance: Floats, gaussian: bool
) -> tuple[Floats, float, float]:
    """Return each cell's precision, and the two sums that update the own variances.

    The sums are those of the score in the logarithm: c r²/V² and c/V over components of variance
    V = c + noise, c of the cell's own deviation.
    """
    (t_share, t_size), (l_share, l_size) = heavy_tailed(), noise_parts(gaussian=gaussian)
    share = np.log(t_share)[:, None] + np.log(l_share)
    precision = np.empty(misfit.size)
    excess = expected = 0.0
    for start in range(0, misfit.size, _CHUNK_CELLS):
        rows = slice(start, start + _CHUNK_CELLS)
        noise = scale[rows, None, None] ** 2 * l_size
        size = own_variance[rows, None, None] * t_size[:, None]
        inverse = 1.0 / (size + noise)
        square = misfit[rows, None, None] * inverse
        weight = share + 0.5 * np.log(inverse) - 0.5 * square
        # Subtracted before exp, or densities of far cells underflow.
        weight = np.exp(weight - weight.max(axis=(1, 2), keepdims=True))
        weight *= inverse / weight.sum(axis=(1, 2), keepdims=True)
        precision[rows] = weight.sum(axis=(1, 2))
        weight *= size
        expected += float(weight.sum())
        excess += float((weight * square).sum())
    return precision, excess, expected
