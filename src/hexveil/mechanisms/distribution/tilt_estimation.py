"""Distributions of single cells as tilted forms of the pooled shape. Post-processing, public.

Of a cell's distribution little is measured, of the whole map's much. A cell's share of a bin x is

    F_c(x) = P(x) exp(Σ_k t_ck φ_k(r(x))) / Z,

P the pooled shape, r its ranks, φ_k Legendre polynomials on [0, 1]. One term moves mass up or down;
two and three widen it and skew it. F_c is a distribution whatever the tilts t are: quantiles rise
with their level, shares lie from 0 to 1 and fall with their threshold, and all statistics agree.

`fit_bins` finds three terms from noisy bins of all cells together, by empirical Bayes. The
likelihood of a cell's bins is normal with the noise's variance, and the tilts are

    t_c = m + Σ_k a_k(g_k(c)) + η_c,    a_k ~ N(0, Λ_k),    η_c ~ N(0, Λ),

g_k(c) the cell's place, slot or value of a label. So a cell of few records takes after its place at
other times and its slot at other places. Each round linearises the likelihood at the tilts found so
far: to first order it says J t_c = h. Effects, m and variances follow by expectations of each given
the others (variational). Variances have floors, as pseudo-cells: without them they collapse to 0 on
small grids. m stays near 0, where P would be the mean shape.

Where noise hides how much cells differ, any Λ fits. So uncertainty is averaged over multiples of Λ,
by their marginal likelihood and a prior that falls with the multiple: intervals of maps of mostly
noise are wide, those of others as before.

With a forecast by earlier days t_c is the forecast and this sum, and the variance of η_c is that of
the forecast and Λ. Then uncertainty is that of draws: normal ones, by the curvature at the mode and
twice as wide in variance, of which those are kept that the likelihood itself makes likely. Where
cells differ much, the curvature of one point allows for tilts that the bins contradict. The weight
of a cell is free in it, as noise hides it too: only how its bins compare counts.

`fit_cells` does so where weights are private: by the expected weight W of a cell. The variance of
its bins is that of the noise, SAMPLING / max(W, 1), as cells have few units, and DRIFT, as weights
of units are not those of records, however many there are. Without a forecast intervals multiply
that of the tilts by INFLATION, as shapes of cells are not exactly tilts of the pooled one; with one
draws are no tilts either (`tilted_shapes.add_misfit`). Constants were chosen on the tuning sets
of `benchmarks/distributions.py`, those of days with a forecast by `benchmarks/learning.py`.

Source: exponential tilting and empirical Bayes (Efron, 2016); random effects by iterated
expectations (Dempster, Laird and Rubin, 1977); averaging over hyperparameters (Kass and Steffey,
1989); sampling by importance resampling (Rubin, 1988).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.base.work_share import ESTIMATES, parts_of_work
from hexveil.mechanisms.distribution.tilted_shapes import legendre_terms, tilt

ROUNDS = 25
PSEUDO_CELLS, PSEUDO_VARIANCE = 2.0, 0.5
PSEUDO_LABELS, LABEL_VARIANCE = 1.0, 0.02
"""The same of the effects of a grouping: without evidence they are small."""
LABEL_START = 0.05
"""Variance of these effects that is started from."""
MEAN_VARIANCE = 0.05
"""Prior variance of m."""
ORDER = 1.0
"""Power of the order with which prior variances of terms fall."""
MULTIPLES = 2.0 ** np.arange(6)
"""Multiples of Λ that uncertainty is averaged over, each doubling one deviation further off."""
MOST_LABELS = 0.6
"""Labels per cell up to which a grouping takes part: of more, nearly every cell has its own."""
N_DRAWS, PROPOSALS, WIDER, SEED = 200, 500, 2.0, 20_261_123
"""Draws that are kept, normal ones that they are taken from, and the factor of their variance."""


def fit_bins(
    shares: Floats,
    noisy: Floats,
    place: Ints,
    weight: Floats,
    variance: Floats,
    groups: Sequence[Ints] = (),
    forecast: TiltFit | None = None,
) -> TiltFit:
    """Return the tilts of cells from their noisy bins.

    Parameters
    ----------
    shares : ndarray of float, shape (n_fine_bins,)
        P.
    noisy : ndarray of float, shape (n_cells, n_bins)
        Noisy weights of bins.
    place : ndarray of int64, shape (n_fine_bins,)
        Bin of each fine bin.
    weight : ndarray of float, shape (n_cells,)
        Weight of each cell: the sum of its bins without noise.
    variance : ndarray of float, shape (n_cells,)
        Variance of a bin's share of the weight: noise, and weights that are not those of records.
    groups : sequence of ndarray of int64, shape (n_cells,)
        Label of each cell in each grouping: its place, its slot.
    forecast : TiltFit, optional
        By earlier days: tilts are those, and what m, labels and η of this day add.
    """
    likelihood = _BinLikelihood(shares, noisy / weight[:, None], place, 1.0 / variance)
    size = weight.size, likelihood.terms.shape[1]
    known = forecast or TiltFit(np.zeros(size), np.zeros((*size, size[1])))
    alpha, prior = known.alpha, _TiltPrior(known, groups)
    for _ in parts_of_work(ESTIMATES, range(ROUNDS)):
        information, score = likelihood.linearised(alpha)
        prior.update_means(information, score)
        step = prior.modes(information, score) - alpha
        # A bounded step: far from the mode the curvature of one point misleads.
        alpha = alpha + step / np.maximum(1.0, np.abs(step).max(axis=1, keepdims=True))
        prior.update_spread(information, alpha)
    linearised = likelihood.linearised(alpha)
    covariance, draws = prior.covariance(*linearised), None
    if forecast is not None:
        draws = likelihood.draws(alpha, covariance, *linearised)
    return TiltFit(alpha, covariance, draws)


SAMPLING, DRIFT, INFLATION = 0.02, 0.004, 3.25
UNSEEN = 0.05
"""Part of the misfit that no bin shows, as units weigh otherwise than their records."""
LEAST_MEAN, LEAST_VARIATION, LEAST_WEIGHT = 0.05, 0.3, 0.25
"""Least mean of weights, in deviations of their noise; least deviation and weight, in means."""


def fit_cells(
    shares: Floats,
    bins: Floats,
    place: Ints,
    noise: float | Floats,
    groups: Sequence[Ints] = (),
    forecast: TiltFit | None = None,
    n_days: float | Floats = 1.0,
) -> TiltFit:
    """Return the tilts of cells by noisy bins of private weights: see `fit_bins`.

    `noise` is its deviation; of averages over days, with the number of days of each cell.
    """
    weight, noise_variance, misfit = weight_variances(bins, noise, n_days)
    return fit_bins(shares, bins, place, weight, noise_variance + misfit, groups, forecast)


def weight_variances(
    bins: Floats, noise: float | Floats, n_days: float | Floats = 1.0
) -> tuple[Floats, Floats, Floats]:
    """Return expected weights of cells, and variances of a bin's share: of noise, and of misfit."""
    weight = expected_weights(bins.sum(axis=1), bins.shape[1] * np.square(noise))
    return weight, (noise / weight) ** 2, SAMPLING / np.maximum(n_days * weight, 1.0) + DRIFT


def expected_weights(noisy: Floats, variance: float | Floats) -> Floats:
    """Return the expected weights of cells, given noisy ones and the variance of their noise.

    A cell's noisy weight in the place of its weight would shrink the tilts of cells of little
    weight, and so the estimate of how much cells differ.
    """
    usual = float(np.mean(variance))
    mean = max(float(noisy.mean()), LEAST_MEAN * usual**0.5)
    between = max(float(noisy.var()) - usual, (LEAST_VARIATION * mean) ** 2)
    expected = mean + between / (between + variance) * (noisy - mean)
    return np.asarray(np.maximum(expected, LEAST_WEIGHT * mean))


class _BinLikelihood:
    """Normal likelihood of the shares of bins: terms, bin of each fine bin, target, precision."""

    def __init__(self, shares: Floats, target: Floats, place: Ints, precision: Floats) -> None:
        self.shares, self.terms = shares, legendre_terms(shares)
        self.gather = np.eye(target.shape[1])[place]
        self.target, self.precision = target, precision

    def linearised(self, alpha: Floats) -> tuple[Floats, Floats]:
        """Return J, shape (n_cells, n_terms, n_terms), and h, at these tilts."""
        p = tilt(self.shares, self.terms, alpha)
        centred = self.terms[None] - (p @ self.terms)[:, None, :]
        slope = np.einsum("cx,cxk,xb->cbk", p, centred, self.gather, optimize=True)
        weighted = self.precision[:, None, None] * slope
        information = np.einsum("cbk,cbl->ckl", weighted, slope)
        residual = self.target - p @ self.gather
        return information, np.einsum("cbk,cb->ck", weighted, residual) + _times(information, alpha)

    def draws(
        self, alpha: Floats, covariance: Floats, information: Floats, score: Floats
    ) -> Floats:
        """Return likely ones of wide normal draws, shape (N_DRAWS, n_cells, n_terms)."""
        # The same draws for every cell, from a fixed seed: equal outputs give equal intervals.
        normal = np.random.default_rng(SEED).standard_normal((PROPOSALS, alpha.shape[1]))
        wide = (1.0 - WIDER) * (normal**2).sum(axis=1)
        steps, kept = (np.arange(N_DRAWS) + 0.5) / N_DRAWS, np.empty((N_DRAWS, *alpha.shape))
        for cell, root in enumerate(np.linalg.cholesky(WIDER * covariance)):
            proposed = alpha[cell] + normal @ root.T
            bins = tilt(self.shares, self.terms, proposed) @ self.gather
            square = (bins**2).sum(axis=1)
            fit = self.precision[cell] * np.maximum(bins @ self.target[cell], 0.0) ** 2 / square
            linear = ((proposed @ information[cell] - 2.0 * score[cell]) * proposed).sum(axis=1)
            importance = (fit - np.log(square) + linear + wide) / 2.0
            total = np.cumsum(np.exp(importance - importance.max()))
            kept[:, cell] = proposed[np.searchsorted(total, steps * total[-1])]
        return kept


class _LabelEffect:
    """Effects a of one grouping, their covariances and their variance Λ."""

    def __init__(self, group: Ints, n_terms: int) -> None:
        self.group, n_labels = group, int(group.max()) + 1
        self.effect = np.zeros((n_labels, n_terms))
        self.covariance = np.zeros((n_labels, n_terms, n_terms))
        self._spread = LABEL_START * _by_order(n_terms)

    def update(self, information: Floats, score: Floats) -> None:
        """Update expectations of effects and variance from the cells' information on their sum."""
        group_information, group_score = np.zeros_like(self.covariance), np.zeros_like(self.effect)
        np.add.at(group_information, self.group, information)
        np.add.at(group_score, self.group, score)
        self.covariance = np.linalg.inv(group_information + np.linalg.inv(self._spread))
        self.effect = _times(self.covariance, group_score)
        self._spread = _spread(self.covariance, self.effect, PSEUDO_LABELS, LABEL_VARIANCE)


class _TiltPrior:
    """Prior of the tilts of all cells: forecast, m, effects of groupings, and Λ of single cells."""

    def __init__(self, forecast: TiltFit, groups: Sequence[Ints]) -> None:
        self._forecast, (n_cells, n_terms) = forecast, forecast.alpha.shape
        codes = [np.unique(group, return_inverse=True)[1] for group in groups]
        self._effects = [
            _LabelEffect(code, n_terms)
            for code in codes
            if 1 < code.max(initial=0) + 1 <= MOST_LABELS * n_cells
        ]
        self._unit = np.eye(n_terms)
        self._mean, self._mean_covariance = np.zeros(n_terms), np.zeros((n_terms, n_terms))
        self._spread = PSEUDO_VARIANCE * _by_order(n_terms)
        self._mean_precision = np.linalg.inv(MEAN_VARIANCE * _by_order(n_terms))

    def _sum(self, *, without: _LabelEffect | None = None) -> Floats:
        """Return the forecast and the effects of each cell, shape (n_cells, n_terms)."""
        terms = (effect.effect[effect.group] for effect in self._effects if effect is not without)
        return np.asarray(sum(terms, self._forecast.alpha), dtype=np.float64)

    def _spreads(self, multiple: float = 1.0) -> Floats:
        """Return Λ and what the forecast leaves open, of each cell."""
        return np.asarray(multiple * self._spread + self._forecast.covariance)

    def update_means(self, information: Floats, score: Floats) -> None:
        """Update m and the effects from J and h, η integrated out."""
        shrinkage = np.asarray(np.linalg.inv(self._unit + information @ self._spreads()))
        marginal_information, marginal_score = shrinkage @ information, _times(shrinkage, score)
        self._mean_covariance = np.linalg.inv(
            marginal_information.sum(axis=0) + self._mean_precision
        )
        # Twice, as each is given the others.
        for _ in range(2):
            residual = marginal_score - _times(marginal_information, self._sum())
            self._mean = self._mean_covariance @ residual.sum(axis=0)
            for effect in self._effects:
                others = self._mean + self._sum(without=effect)
                effect.update(
                    marginal_information, marginal_score - _times(marginal_information, others)
                )

    def modes(self, information: Floats, score: Floats) -> Floats:
        """Return the tilts that J, h and the prior lead to."""
        inverse: Floats = np.linalg.inv(self._spreads()).astype(np.float64)
        covariance: Floats = np.linalg.inv(information + inverse).astype(np.float64)
        return _times(covariance, score + _times(inverse, self._mean + self._sum()))

    def update_spread(self, information: Floats, alpha: Floats) -> None:
        """Update Λ by the expectation of η ηᵀ: of what a cell is off by, the part of its day."""
        inverse: Floats = np.linalg.inv(self._spreads()).astype(np.float64)
        gain = self._spread @ inverse
        posterior = np.linalg.inv(information + inverse)
        covariance = gain @ (posterior @ np.swapaxes(gain, 1, 2) - self._spread) + self._spread
        deviation = _times(gain, alpha - self._mean - self._sum())
        self._spread = _spread(covariance, deviation, PSEUDO_CELLS, PSEUDO_VARIANCE)

    def covariance(self, information: Floats, score: Floats) -> Floats:
        """Return the covariance of each cell's tilts, averaged over multiples of Λ."""
        score = score - _times(information, self._mean + self._sum())
        around = self._mean_covariance + sum(
            (effect.covariance[effect.group] for effect in self._effects),
            np.zeros_like(information),
        )
        evidence, covariances = [], []
        for multiple in MULTIPLES:
            spread = self._spreads(multiple)
            gain = np.linalg.inv(self._unit + spread @ information)
            posterior = gain @ spread
            fits = np.einsum("ck,ckl,cl->c", score, posterior, score) + np.linalg.slogdet(gain)[1]
            evidence.append((fits.sum() - np.log2(multiple) ** 2) / 2.0)
            covariances.append(posterior + gain @ around @ np.swapaxes(gain, 1, 2))
        share = np.exp(np.array(evidence) - max(evidence))
        mixed = np.tensordot(share / share.sum(), np.stack(covariances), axes=1)
        # Products round: draws need it symmetric.
        return np.asarray((mixed + np.swapaxes(mixed, 1, 2)) / 2.0)


def _spread(covariance: Floats, effect: Floats, pseudo: float, variance: float) -> Floats:
    """Return the mean of the squares of effects, with pseudo-effects of a variance beside them."""
    prior = pseudo * variance * _by_order(effect.shape[1])
    total = covariance.sum(axis=0) + effect.T @ effect + prior
    return np.asarray(total / (len(effect) + pseudo))


def _by_order(n_terms: int) -> Floats:
    """Return how variances of the terms compare beforehand: higher ones are smaller.

    Few bins hardly tell the third term, and with large variances it takes over from the others.
    """
    return np.diag(np.arange(1.0, n_terms + 1.0) ** -ORDER)


def _times(matrix: Floats, vector: Floats) -> Floats:
    """Return the products of one matrix and one vector for each cell."""
    return np.asarray(np.einsum("ckl,cl->ck", matrix, vector))


@dataclass(frozen=True, eq=False)
class TiltFit(ReadOnlyArrays):
    """Tilts of all cells, with their uncertainty.

    Attributes
    ----------
    alpha : ndarray of float, shape (n_cells, n_terms)
        Posterior modes.
    covariance : ndarray of float, shape (n_cells, n_terms, n_terms)
    draws : ndarray of float, shape (n_draws, n_cells, n_terms), optional
        Of the posterior law, where it is not taken to be normal.
    """

    alpha: Floats
    covariance: Floats
    draws: Floats | None = None

    def rows(self, rows: slice | Bools) -> TiltFit:
        """Return the tilts of some cells."""
        draws = None if self.draws is None else self.draws[:, rows]
        return TiltFit(self.alpha[rows], self.covariance[rows], draws)
