"""Variance components of the model, by maximum marginal likelihood with weak priors.

Cells' own deviations and noises are mixtures of normals (`mixed_noise`), and so are independent
effects (t distributions of four degrees, by their expected precisions); given the components drawn,
everything is normal. The step alternates: components given effects, effects given components
(`effects`), variances given both. A variance x moves to x0 sqrt(a / c), where a is the effects'
energy / x0² and c its expectation: a minorise-maximise step, monotone for normal models. A weak
prior keeps it off zero and off infinity, and steps are longer than that by `_STEP_EXPONENT`.
Units: y is centred and scaled to about 1 beforehand.
"""

from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.smoothing.group_effects import Design, Effects
from hexveil.smoothing.mixed_noise import heavy_tailed, noise_parts

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
        Squared scale of the cells' own deviations (their variance is twice that), for a
        `prior_width` of 1.
    variances : ndarray of float, shape (n_groupings,)
    gaussian : bool
        Whether the noise is Gaussian.
    """

    effects: Effects
    precision: Floats
    own_variance: float
    variances: Floats
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
        Number of steps; default until variances hardly change.
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
    return FittedModel(effects, p, own_variance, variances, gaussian)


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
