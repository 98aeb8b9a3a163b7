"""Centres of cells' priors, predicted from cells of the same group: of a place, an hour, a label.

A first posterior, whose prior has one centre for the map, is divided by that prior: what remains is
about what the looks alone say of a cell, as a number with a variance (one step of expectation
propagation: Minka, "Expectation propagation for approximate Bayesian inference", UAI 2001). The
effects of groups are fitted to these numbers (mixed_model.py), and each cell's own number
is taken out of its effects again. What is left is a centre for the cell's prior that does not
depend on its own looks, with a variance.

Cells of a group may all be clipped at one end, or weighted alike, and are then wrong together: as
many as there are, they do not average it out. So a number near an end of its range counts little,
and the variance includes that of the weights.
Post-processing of noisy numbers and public facts: it costs no privacy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.normal_law import ndtr
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.smoothing.cell_groupings import RandomEffect
from hexveil.smoothing.mixed_model import Design, fit_model
from hexveil.smoothing.user_mean_law import WEIGHT_DRIFT, CellDesign, ClippedLook, UserMeanSpread

LEAST_INFORMATION = 0.01
"""Smallest precision of a cell's own number, as a part of that of its prior."""
INSIDE_POWER, LEAST_INSIDE = 4, 1e-3
"""Power of the share of user means inside the range by which a number's precision falls."""
STEPS = 30
"""Steps of the fit: a fixed number, since a test for convergence would make numbers jump."""
LEAST_LEFT = 1e-3
"""Smallest precision that is left of a group without the cell itself, in the fit's units."""


@dataclass(frozen=True, eq=False)
class CellLikelihoods(ReadOnlyArrays):
    """Likelihood of the mean of each cell, without its prior.

    Attributes
    ----------
    number, variance : ndarray of float, shape (n_cells,)
    mean : ndarray of float, shape (n_cells,)
        Posterior means with the prior.
    """

    number: Floats
    variance: Floats
    mean: Floats

    @classmethod
    def of(cls, edges: Floats, prior: Floats, posterior: Floats) -> "CellLikelihoods":
        """Return the normal law by which the prior's moments become those of the posterior.

        Parameters
        ----------
        edges : ndarray of float, shape (n_cells, n_bins + 1)
        prior, posterior : ndarray of float, shape (n_cells, n_bins)
            Masses of the bins; of each cell any factor.

        Examples
        --------
        >>> edges = np.linspace(-8.0, 8.0, 801)[None, :]
        >>> middle = (edges[:, 1:] + edges[:, :-1]) / 2
        >>> prior, looks = np.exp(-0.5 * middle**2), np.exp(-0.5 * (middle - 1.0) ** 2 / 0.25)
        >>> own = CellLikelihoods.of(edges, prior, prior * looks)
        >>> own.number.round(3), own.variance.round(3)
        (array([1.]), array([0.25]))
        """
        prior_mean, prior_variance = _moments(edges, prior)
        posterior_mean, posterior_variance = _moments(edges, posterior)
        smallest = LEAST_INFORMATION / prior_variance
        precision = np.maximum(1.0 / posterior_variance - 1.0 / prior_variance, smallest)
        number = posterior_mean + (posterior_mean - prior_mean) / (prior_variance * precision)
        return cls(np.clip(number, edges[:, 0], edges[:, -1]), 1.0 / precision, posterior_mean)


def predict_centres(
    own: CellLikelihoods,
    look: ClippedLook,
    design: CellDesign,
    spread: UserMeanSpread,
    bounds: tuple[float, float],
    effects: Sequence[RandomEffect],
) -> tuple[Floats, Floats] | None:
    """Return the centre that the other cells of its groups predict for each; None of a few cells.

    As the distance of each cell from the centre of the map, and its variance.

    Parameters
    ----------
    own : CellLikelihoods
    look : ClippedLook
        The last look at each cell.
    design : CellDesign
    spread : UserMeanSpread
    bounds : pair of float
        Bounds of the values.
    effects : sequence of RandomEffect
        Groups that a cell belongs to, informative ones.
    """
    if own.number.size < 3:
        return None
    below, above = spread.within_cells(bounds)
    variance = own.variance / _reliability(own.mean, look, (below, above), bounds)
    centre = float(np.median(own.number))
    deviations = np.abs(own.number - centre)
    unit = max(1.5 * float(np.median(deviations)), float(np.sqrt(np.median(variance))) / 10.0)
    z, scale = (own.number - centre) / unit, np.sqrt(variance / 2.0) / unit
    width = np.median(design.users) / np.maximum(design.users, 1)
    fitted = fit_model(Design(effects, z.size), z, scale, width, steps=STEPS)
    total = 1.0 / fitted.effects.variance
    left = np.maximum(total - fitted.precision, LEAST_LEFT)
    predicted = (total * fitted.effects.mean - fitted.precision * z) / left
    drift = WEIGHT_DRIFT * (below + above) / 2.0 * design.difference
    # Relative to their own middle: the centre of the map is a parameter of the prior.
    offset = unit * (predicted - np.median(predicted))
    return np.asarray(offset), np.asarray(unit**2 / left + drift**2)


def _moments(edges: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of each cell's law."""
    middle = (edges[:, 1:] + edges[:, :-1]) / 2.0
    share = masses / np.sum(masses, axis=1, keepdims=True)
    mean = np.sum(share * middle, axis=1)
    variance = np.sum(share * (middle - mean[:, None]) ** 2, axis=1)
    smallest = 1e-12 * (edges[:, -1] - edges[:, 0]) ** 2
    return np.asarray(mean), np.asarray(np.maximum(variance, smallest))


def _reliability(
    mean: Floats, look: ClippedLook, sds: tuple[float, float], bounds: tuple[float, float]
) -> Floats:
    """Return the factor of each precision, below 1 if the mean is near an end of its range."""
    # An end at a bound cuts nothing off.
    below = np.where(look.lower > bounds[0], (mean - look.lower) / sds[0], np.inf)
    above = np.where(look.upper < bounds[1], (look.upper - mean) / sds[1], np.inf)
    inside = np.maximum(ndtr(np.minimum(below, above)), LEAST_INSIDE)
    return np.asarray(inside**INSIDE_POWER)
