"""Choice of each cell's second clipping range from the posterior of its first look.

A cell may keep its range, and have its first number refined with all of its loss; or be looked at
again in another range with what the first look left over. For a mean T the standard error of either
is about

    1 / sqrt(J(T)),    J = slope² / (2 scale² + misfit²) of a look, added up over independent looks,

with the slope of the expected look in T and the precision of the prior in J. The criterion is
its mean over the posterior. Candidates are ranges from a low to a high posterior quantile, widened
by a multiple of the spread of user means, and all of the bounds. A cell moves only if the best of
them promises a third less error: for less than that, noise would move cells that are all alike.

These decisions jump at noisy numbers: a release stores them with the draws that led to them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hexveil.base.arrays import Bools, Floats
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.smoothing.cell_priors import CellPosterior
from hexveil.smoothing.clipped_posterior import model_look
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanLaw, UserMeanSpread

GAIN = 0.35
"""Part of the error that a second range must save."""
STRETCHES = (1.3, 1.8, 2.5)
"""Multiples of the spread that candidates reach beyond their posterior quantiles."""
TAIL_LEVELS = (0.5, 0.1587, 0.0446)
"""Levels of these quantiles: those of a normal law at 0, 1 and 1.7 deviations."""
NODES = (np.arange(16) + 0.5) / 16
"""Levels of the posterior quantiles over which the criterion is averaged."""


@dataclass(frozen=True, eq=False)
class SelectedRanges(ReadOnlyArrays):
    """Cells that are looked at again, and the range of every cell.

    Attributes
    ----------
    moved : ndarray of bool, shape (n_cells,)
    lower, upper : ndarray of float, shape (n_cells,)
        Value units; those of the first look where a cell is not moved.
    """

    moved: Bools
    lower: Floats
    upper: Floats


def select_ranges(
    posterior: CellPosterior,
    looks: Sequence[ClippedLook],
    design: CellDesign,
    spread: UserMeanSpread,
    noise: Floats,
    first_share: float,
    bounds: tuple[float, float],
) -> SelectedRanges:
    """Return the cells that are looked at again, and in which range.

    Parameters
    ----------
    posterior : CellPosterior
        Of the first look.
    looks : sequence of ClippedLook
        The first look alone.
    design : CellDesign
    spread : UserMeanSpread
    noise : ndarray of float, shape (n_cells,)
        Laplace scale of each cell for a range of width 1 and all of the loss.
    first_share : float
        Share of the loss that the first look spent.
    bounds : pair of float
        Bounds of the values.
    """
    (look,) = looks
    if not noise.size:
        return SelectedRanges(np.zeros(noise.size, dtype=np.bool_), look.lower, look.upper)
    law = UserMeanLaw.of(design, spread, bounds)
    nodes = np.stack([posterior.quantile(float(level)) for level in NODES], axis=1)
    modes = law.modes(nodes)
    # The information that needs no further look: of the prior, and of the first one.
    seen = _information(law, design, modes, look, look.scale)
    prior_information = np.maximum(_precision(nodes) - np.mean(seen, axis=1), 0.0)[:, None]
    full_scale = noise * (look.upper - look.lower)
    stay = _expected_error(prior_information + _information(law, design, modes, look, full_scale))
    best, lower, upper = stay.copy(), look.lower.copy(), look.upper.copy()
    for low, high in _candidates(posterior, spread, bounds):
        scale = noise * (high - low) / (1.0 - first_share)
        second = ClippedLook(look.noisy, low, high, scale)
        error = _expected_error(
            prior_information + seen + _information(law, design, modes, second, scale)
        )
        better = error < best
        best = np.where(better, error, best)
        lower, upper = np.where(better, low, lower), np.where(better, high, upper)
    moved = best < (1.0 - GAIN) * stay
    lower, upper = np.where(moved, lower, look.lower), np.where(moved, upper, look.upper)
    return SelectedRanges(moved, lower, upper)


def _candidates(
    posterior: CellPosterior, spread: UserMeanSpread, bounds: tuple[float, float]
) -> Iterator[tuple[Floats, Floats]]:
    """Yield ranges of every cell, the bounds last."""
    bottom, top = bounds
    below, above = spread.within_cells(bounds)
    for level in TAIL_LEVELS:
        low, high = posterior.quantile(level), posterior.quantile(1.0 - level)
        for stretch in STRETCHES:
            yield (
                np.maximum(low - stretch * below, bottom),
                np.minimum(high + stretch * above, top),
            )
    yield np.full(low.shape, bottom), np.full(low.shape, top)


def _information(
    law: UserMeanLaw, design: CellDesign, modes: Floats, look: ClippedLook, scale: Floats
) -> Floats:
    """Return J of a look at each node, shape (n_cells, n_nodes)."""
    whole = law.clipped(modes, *law.bounds)
    modelled = model_look(law, design, modes, (look.lower, look.upper), whole)
    finite = np.where(np.isinf(scale), 1.0, scale)[:, None]
    information = modelled.slope**2 / (2.0 * finite**2 + modelled.misfit_squares + 1e-300)
    return np.where(np.isinf(scale)[:, None], 0.0, information)


def _precision(nodes: Floats) -> Floats:
    """Return the inverse of the posterior variance of each cell."""
    mean = np.mean(nodes, axis=1, keepdims=True)
    return np.asarray(1.0 / (np.mean((nodes - mean) ** 2, axis=1) + 1e-300))


def _expected_error(information: Floats) -> Floats:
    """Return the mean of 1 / sqrt(J) over the posterior, shape (n_cells,)."""
    return np.asarray(np.mean(1.0 / np.sqrt(information + 1e-300), axis=1)) * math.sqrt(2 / math.pi)
