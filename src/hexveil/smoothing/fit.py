"""The variances of the model, by maximum marginal likelihood with weak priors.

Cells' own deviations and noises are mixtures of normals (`mixtures`), and so are the effects of
independent groupings (t laws of four degrees, by their expected precisions); given which parts
were drawn, everything is normal. The step alternates: parts given effects, effects given parts
(`effects`), variances given both. A variance x moves to x0 sqrt(a / c), where a is the effects'
energy / x0² and c its expectation: a minorise-maximise step, monotone for normal models. A weak
prior keeps it off zero and off infinity, and steps are longer than that by `_STRIDE`.
Units: y is centred and scaled to about 1 beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.smoothing.mixtures import heavy_tailed, laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.smoothing.effects import Design, Effects

    Floats = NDArray[np.float64]

_STEPS, _CLOSE = 150, 2e-3
_STRIDE = 1.6
"""Of a step in the logarithm: the safe one is 1, and slow near zero; 2 would be a fixed point's."""
_CHUNK = 20_000
_OFF_ZERO = 0.5
"""Exponent of a variance in its prior near zero, doubled, shared by all variances of a model: weak,
and keeps a variance off zero where few cells could not tell."""


@dataclass(frozen=True)
class Fit:
    """The fitted model.

    Attributes
    ----------
    effects : Effects
    precision : ndarray of float, shape (n_cells,)
        With which each cell spoke to the effects; 0 for a constant.
    own : float
        Squared scale of the cells' own deviations (their variance is twice that), for `wide` of 1.
    variances : ndarray of float, shape (n_groupings,)
    """

    effects: Effects
    precision: Floats
    own: float
    variances: Floats


def fit(design: Design, y: Floats, scale: Floats, wide: Floats) -> Fit:
    """Return the fitted variances and the effects under them.

    Parameters
    ----------
    design : Design
    y : ndarray of float, shape (n_cells,)
    scale : ndarray of float, shape (n_cells,)
        Of the Laplace noise; 0 for a constant, which says nothing.
    wide : ndarray of float, shape (n_cells,)
        Of each cell's own deviation: its variance as a multiple of the fitted one.
    """
    said = scale > 0
    own, variances = _start(y[said], scale[said], design.sizes.size)
    # At first a far cell speaks softly, or it would draw the centre and widen all laws.
    far = (y - np.median(y[said])) ** 2
    p = np.where(said, 1.0 / (2.0 * own * wide + 2.0 * scale**2 + far), 0.0)
    weights = tuple(np.ones(int(n)) for n in design.sizes)
    off_zero = _OFF_ZERO / (1 + design.sizes.size)
    for _ in range(_STEPS):
        effects = design.solve(y, p, variances, weights)
        misfit = (y - effects.mean) ** 2 + effects.variance
        p[said], excess, expected = _parts(misfit[said], scale[said], own * wide[said])
        excess, expected = excess / own, expected / own
        there = (design.sizes - effects.spread / variances) / variances
        before = np.append(variances, own)
        now = _moved(
            np.append(effects.energy / variances**2, excess),
            np.append(there, expected),
            before,
            off_zero,
        )
        variances, own = now[:-1], float(now[-1])
        if np.max(np.abs(np.sqrt(now) - np.sqrt(before))) < _CLOSE:
            break
        weights = _weights(design, effects, variances)
    return Fit(design.solve(y, p, variances, weights), p, own, variances)


def _weights(design: Design, effects: Effects, variances: Floats) -> tuple[Floats, ...]:
    """Return each label's expected precision under a t law of four degrees; 1 if correlated."""
    return tuple(
        5.0 / (4.0 + square / x) if independent else np.ones_like(square)
        for square, x, independent in zip(
            effects.squares, variances, design.independent, strict=True
        )
    )


def _start(y: Floats, scale: Floats, groupings: int) -> tuple[float, Floats]:
    """Return first guesses: what the noise leaves of the usual deviation, in equal parts."""
    usual = 2.2 * float(np.median(np.abs(y - np.median(y)))) ** 2
    left = max(usual - float(np.median(2.0 * scale**2)), 0.1 * usual, 1e-6)
    part = left / (groupings + 1)
    return part / 1.5, np.full(groupings, part)


def _moved(excess: Floats, expected: Floats, now: Floats, off_zero: float) -> Floats:
    """Return the next variances: towards the roots of c x² - d x - a x0² = 0, prior in c and d."""
    a = excess * now**2
    c = np.maximum(expected, 0.0) + 1.0  # the prior's size: as wide as the map
    root = np.maximum((off_zero + np.sqrt(off_zero**2 + 4 * a * c)) / (2 * c), 1e-12)
    return np.asarray(now * (root / now) ** _STRIDE)


def _parts(misfit: Floats, scale: Floats, own: Floats) -> tuple[Floats, float, float]:
    """Return each cell's precision, and the two sums that move the own variances `own`.

    The sums are those of the score in the logarithm: c r²/V² and c/V over parts of variance
    V = c + noise, c of the cell's own deviation.
    """
    (t_share, t_size), (l_share, l_size) = heavy_tailed(), laplace()
    share = np.log(t_share)[:, None] + np.log(l_share)
    precision = np.empty(misfit.size)
    excess = expected = 0.0
    for start in range(0, misfit.size, _CHUNK):
        here = slice(start, start + _CHUNK)
        noise = scale[here, None, None] ** 2 * l_size
        size = own[here, None, None] * t_size[:, None]
        inverse = 1.0 / (size + noise)
        square = misfit[here, None, None] * inverse
        weight = share + 0.5 * np.log(inverse) - 0.5 * square
        weight = np.exp(weight - weight.max(axis=(1, 2), keepdims=True))
        weight *= inverse / weight.sum(axis=(1, 2), keepdims=True)
        precision[here] = weight.sum(axis=(1, 2))
        weight *= size
        expected += float(weight.sum())
        excess += float((weight * square).sum())
    return precision, excess, expected
