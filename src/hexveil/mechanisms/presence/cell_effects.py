"""Levels of cells of a grid with several dimensions: place and slot, or several labels.

The mean of cell c with coordinates g_1, g_2, ... is modelled as

    θ_c = μ + Σ_k a_k(g_k) + η_c

with normal a_k and η of variances to be estimated. With W and D the noisy A + B and A - B of a
cell, m and r its centre and radius and s the standard deviation of W and of D, the number
m + r D / W is θ_c with a variance near (r s / W)². Effects and variances follow by iterated
expectations (empirical Bayes); the estimate is the expectation of θ_c. A cell of little weight
thereby takes after its place at other times and its slot at other places.

W is smoothed first: by the product of its margins, which sum many cells, and by as much of its own
deviation as the noise does not explain. A noisy W in the denominator would bias the many cells of
little weight.

Post-processing of released numbers and of the declared grid: it costs no privacy.
Source: random effects by iterated expectations (Dempster, Laird and Rubin, 1977).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.read_only import ReadOnlyArrays
from hexveil.base.work_share import ESTIMATES, parts_of_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats, Ints

SWEEPS = 25
MIN_WEIGHT_PER_NOISE = 0.02
"""Smallest smoothed weight, per standard deviation of its noise."""
RATIO_NOISE = 1.2
"""Variance of D / W about its ratio q is (1 + q²) s² / W², q² rather below one half."""


@dataclass(frozen=True, eq=False)
class NoisyLevels(ReadOnlyArrays):
    """Noisy numbers of all cells of a grid, in units of weight and shares of the span.

    Attributes
    ----------
    weight, difference : ndarray of float, shape (n_cells,)
        W, smoothed (`smooth_weights`) or known to be above its noise; and A - B.
    centre, radius : ndarray of float, shape (n_cells,)
        m and r.
    noise : ndarray of float, shape (n_cells,)
        s.
    """

    weight: Floats
    difference: Floats
    centre: Floats
    radius: Floats
    noise: Floats

    @classmethod
    def of(
        cls, weight: Floats, difference: Floats, centre: Floats, radius: Floats, noise: float
    ) -> NoisyLevels:
        """Return those of a map of one noise."""
        return cls(weight, difference, centre, radius, np.full(weight.size, noise))

    def smoothed(self, shape: tuple[int, ...]) -> NoisyLevels:
        """Return the same with smoothed weights."""
        return replace(self, weight=smooth_weights(self.weight, self.noise, shape))

    def above_noise(self) -> NoisyLevels:
        """Return the same with weights of one standard deviation at least."""
        return replace(self, weight=np.maximum(self.weight, self.noise))

    def where(self, condition: NDArray[np.bool_], other: NoisyLevels) -> NoisyLevels:
        """Return these numbers where the condition holds, the others elsewhere."""
        names = [field.name for field in fields(self)]
        return NoisyLevels(
            *(np.where(condition, getattr(self, name), getattr(other, name)) for name in names)
        )

    def levels(self, shape: tuple[int, ...]) -> Floats:
        """Return the estimated mean of each cell, open or closed.

        Parameters
        ----------
        shape : tuple of int
            Lengths of the dimensions; cells are in C order.
        """
        groups = np.unravel_index(np.arange(self.weight.size), shape)
        # Relative to the centre, within twice the radius: where W is small, D is noise alone.
        offset = np.clip(
            self.radius * self.difference / self.weight, -2 * self.radius, 2 * self.radius
        )
        value = self.centre + offset
        variance = RATIO_NOISE * (self.radius * self.noise / self.weight) ** 2
        is_told = self.weight > 2 * self.noise
        between = float(np.median(self.radius)) ** 2 / 4
        effects = [_Effect(np.asarray(g), n, between) for g, n in zip(groups, shape, strict=True)]
        mean = float((value / variance).sum() / (1 / variance).sum())
        for _ in parts_of_work(ESTIMATES, range(SWEEPS)):
            precision = 1.0 / (variance + between)
            for effect in effects:
                others = mean + sum(one.of_cells for one in effects if one is not effect)
                effect.update(value - others, precision)
            rest = value - sum(one.of_cells for one in effects)
            mean = float((precision * rest).sum() / precision.sum())
            kept = between / (between + variance)
            expected = (kept * (rest - mean)) ** 2 + kept * variance
            if is_told.any():
                between = max(float(expected[is_told].mean()), np.finfo(float).tiny)
        kept = between / (between + variance)
        fitted = mean + sum(one.of_cells for one in effects)
        return np.asarray(fitted + kept * (value - fitted))


class _Effect:
    """Effects a of one dimension, and their variance."""

    def __init__(self, group: Ints, n: int, variance: float) -> None:
        self._group, self._variance = group, variance
        self._alpha = np.zeros(n)

    @property
    def of_cells(self) -> Floats:
        """The effect on each cell."""
        return np.asarray(self._alpha[self._group])

    def update(self, residual: Floats, precision: Floats) -> None:
        """Take the expectations of effects and variance, given the residuals of cells."""
        n = self._alpha.size
        told = np.maximum(np.bincount(self._group, precision, n), np.finfo(float).tiny)
        kept = self._variance / (self._variance + 1.0 / told)
        self._alpha = kept * np.bincount(self._group, precision * residual, n) / told
        variance = float(np.mean(self._alpha**2 + (1.0 - kept) * self._variance))
        self._variance = max(variance, np.finfo(float).tiny)


def smooth_weights(weight: Floats, noise: Floats, shape: tuple[int, ...]) -> Floats:
    """Return positive weights: products of margins, corrected beyond the noise.

    Examples
    --------
    >>> weight = np.array([8.0, 4.0, 4.0, 2.0])
    >>> smooth_weights(weight, np.full(4, 0.1), (2, 2)).round(2).tolist()
    [8.0, 4.0, 4.0, 2.0]
    """
    deviation = float(np.sqrt((noise**2).sum()))
    total = max(float(weight.sum()), deviation)
    product = np.full(weight.size, total)
    for group, n in zip(np.unravel_index(np.arange(weight.size), shape), shape, strict=True):
        margin = np.bincount(group, weight, n)
        floor = np.sqrt(np.bincount(group, noise**2, n)) / 2
        product *= (np.maximum(margin, floor) / total)[group]
    excess = float(((weight - product) ** 2 - noise**2).sum() / (product**2).sum())
    variance = max(excess, 0.0) * product**2
    smoothed = product + variance / (variance + noise**2) * (weight - product)
    return np.asarray(np.maximum(smoothed, MIN_WEIGHT_PER_NOISE * noise))
