"""Posteriors of cell means from noisy averages of clipped user means.

The likelihood is described below, the prior is that of `cell_priors`; each cell has a
grid of its own. Where cells have groups the prior is a mixture of two: with one centre for all
cells, and with centres that the other cells of a cell's groups predict (`group_centres`). The grid
is laid three times: evenly in the mode of the cell's law, then where the likelihood is, then where
the posterior is. Looks at one cell are independent given the values.
Where one noisy number was made from another by more noise, only the finer one is a look: two noisy
versions of one draw would count it twice.
Post-processing of noisy numbers and public facts, without randomness: it costs no privacy.
Numbers are the same on every processor but for their last digits: sums without matrix products, and
no comparison that a published number jumps at.

Model of a cell: user means follow a two-piece normal law of mode M, deviations s- below and s+
above it, censored at the bounds of the values. T is its mean, and of a range [a, b] a look shows

    m(T; a, b) + Laplace(scale) + N(0, misfit²),    m the mean after clipping to [a, b].

Both T and m rise with M, so that M is the coordinate of all grids: evenly spaced in M, points crowd
together where T comes close to a bound. T is the mean of the very users of the cell, weighted by
their shares p of the records; around it these vary less than around the mean of their law, by
1 - Σp² in the variance. The misfit is the sum, in squares, of

- sampling: the variance of clipped user means that T does not explain, times Σw²;
- weights w that differ from p: (s² Σ(w - p)²), and a systematic part of Σ|w - p|;
- a within-cell deviation that differs from the pooled one;
- tails heavier than normal: beyond a cut at distance d an exponential law has s exp(-1 - d/s) more.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.work_share import ESTIMATES, parts_of_work, share_of_work, tell_share
from hexveil.smoothing.cell_groupings import RandomEffect, drop_uninformative
from hexveil.smoothing.cell_priors import CellPosterior, CellPrior, MapParameters, fit_parameters
from hexveil.smoothing.group_centres import CellLikelihoods, predict_centres
from hexveil.smoothing.mixed_noise import log_mean_density
from hexveil.smoothing.user_mean_law import (
    WEIGHT_DRIFT,
    CellDesign,
    ClippedLook,
    ClippedMoments,
    RatioLook,
    UserMeanLaw,
    UserMeanSpread,
    refine,
    take_rows,
)

SPREAD_MULTIPLES = ((1.0, 0.5), (0.5, 0.25), (2.0, 0.25))
"""Multiples of the within-cell deviation that a cell may have, with their prior probabilities."""
LOG_SPREAD_SD = 0.2
"""Standard deviation of the logarithm of the within-cell deviation around these multiples."""
TAIL_EXCESS = 1.2
"""Multiple of the exponential tail that is allowed for beyond each cut."""
SMALLEST_INSIDE = 1e-9
"""Smallest probability that a user mean is within the bounds."""
SMALLEST_NOISE = 2.0**-24
"""Smallest misfit and scale, as parts of the span."""


@dataclass(frozen=True, eq=False)
class LookModel:
    """Of each mode of each cell: expected look, misfits, and slope in T, between 0 and 1."""

    expected: Floats
    sampling_squares: Floats
    lasting_squares: Floats
    slope: Floats

    @property
    def misfit_squares(self) -> Floats:
        """Variance of the misfit."""
        return self.sampling_squares + self.lasting_squares


def model_look(
    law: "UserMeanLaw",
    design: CellDesign,
    mode: Floats,
    ends: tuple[Floats, Floats],
    whole: "ClippedMoments",
) -> LookModel:
    """Return the expected look of each mode of each cell, and the variance of the misfit.

    Modes have shape (n_cells, n_points), the ends of the ranges (n_cells,); `whole` is of the
    bounds of the values, for the same modes.
    """
    low, high = ends[0][:, None], ends[1][:, None]
    own = law.clipped(mode, low, high)
    slope = np.minimum(own.inside / np.maximum(whole.inside, SMALLEST_INSIDE), 1.0)
    sampling = np.maximum(own.variance - slope**2 * whole.variance, 0.0)
    weights = design.difference_squares + (WEIGHT_DRIFT * design.difference) ** 2
    lasting = (
        law.deviation**2 * weights[:, None]
        + (LOG_SPREAD_SD * (own.log_slope - slope * whole.log_slope)) ** 2
        + _tails(law, mode, own.mean, low, high)
    )
    return LookModel(own.mean, sampling * design.weight_squares[:, None], lasting, slope)


def _tails(law: "UserMeanLaw", mode: Floats, expected: Floats, low: Floats, high: Floats) -> Floats:
    """Return the variance that is allowed for tails beyond both cuts."""
    total = np.zeros_like(mode)
    bottom, top = law.bounds
    for distance, room, end, sd in (
        (mode - low, low - bottom, expected - low, law.below),
        (high - mode, top - high, high - expected, law.above),
    ):
        excess = sd * np.exp(np.minimum(-1.0 - distance / sd, 0.0))
        # A cut moves nobody further than to the bound, and the average no further than the end.
        allowed = np.minimum(np.minimum(excess, end), np.maximum(room, 0.0))
        total += (TAIL_EXCESS * np.maximum(allowed, 0.0)) ** 2
    return total


def mixed_likelihood(
    law: "UserMeanLaw", design: CellDesign, looks: Sequence[ClippedLook], edges: Floats
) -> tuple[Floats, Floats]:
    """Return the edges of bins as means, and the likelihood of all looks in each bin.

    It is averaged over the within-cell deviations that a cell may have, and at most 1 in a cell.

    Parameters
    ----------
    law : UserMeanLaw
    design : CellDesign
    looks : sequence of ClippedLook
    edges : ndarray of float, shape (n_cells, n_bins + 1)
        Edges of bins, as modes of the law.
    """
    own = law.clipped(edges, *law.bounds)
    means = own.mean.copy()
    means[:, 0], means[:, -1] = law.bounds
    total = np.full((edges.shape[0], edges.shape[1] - 1), -np.inf)
    for multiple, share in SPREAD_MULTIPLES:
        as_laid = multiple == 1.0
        scaled = law if as_laid else law.scaled(multiple)
        modes = edges if as_laid else scaled.modes(means)
        whole = own if as_laid else scaled.clipped(modes, *scaled.bounds)
        log_density = np.full(total.shape, math.log(share))
        for look in looks:
            log_density += log_likelihood(scaled, design, look, modes, whole)
        total = np.logaddexp(total, log_density)
    return means, np.exp(total - np.max(total, axis=1, keepdims=True))


def log_likelihood(
    law: "UserMeanLaw",
    design: CellDesign,
    look: ClippedLook,
    edges: Floats,
    whole: "ClippedMoments",
    lasting: float = 1.0,
) -> Floats:
    """Return the log likelihood of a look in each bin of the grid, shape (n_cells, n_bins).

    Parameters
    ----------
    law : UserMeanLaw
    design : CellDesign
    look : ClippedLook
    edges : ndarray of float, shape (n_cells, n_bins + 1)
        Edges of bins of M.
    whole : ClippedMoments
        Of the bounds of the values, at these edges.
    lasting : float
        Part of the variance of the lasting misfit that is this look's alone.
    """
    span = law.bounds[1] - law.bounds[0]
    modelled = model_look(law, design, edges, (look.lower, look.upper), whole)
    m, v = modelled.expected, modelled.sampling_squares + lasting * modelled.lasting_squares
    misfit = (v[:, 1:] + v[:, :-1]) / 2.0
    if isinstance(look, RatioLook):
        return _log_ratio_density(look, m, misfit)
    silent = np.isinf(look.scale)
    # An average of clipped values lies within the range, so that noise alone leads beyond it:
    # further out all means are as likely, relative to each other, as at the end.
    noisy = np.clip(np.where(silent, look.lower, look.noisy), look.lower, look.upper)[:, None]
    scale = np.maximum(np.where(silent, span, look.scale), SMALLEST_NOISE * span)[:, None]
    normal = np.sqrt(misfit + (SMALLEST_NOISE * span) ** 2)
    if look.is_gaussian:
        # Gaussian noise and misfit are one normal number; the Laplace part is next to nothing.
        normal, scale = np.hypot(normal, scale), np.full_like(scale, SMALLEST_NOISE * span)
    density = log_mean_density(noisy - m[:, 1:], noisy - m[:, :-1], scale, normal)
    return np.where(silent[:, None], 0.0, density)


LEAST_RATIO, LEAST_SCALE = 1e-2, 1e-3
"""Ratio below which both scales are taken to differ by twice as much, and the least scale."""


def _log_ratio_density(look: RatioLook, m: Floats, misfit: Floats) -> Floats:
    """Return the log likelihood of a noisy ratio in each bin of expected looks m.

    Of scales a = 1 - z and c = 1 + z the density of a X + c Y is (c² f_c - a² f_a) / (c² - a²), f_a
    that of Laplace noise of scale a; with the misfit, as that of the weight there is.
    """
    radius = (look.upper - look.lower)[:, None] / 2.0
    z = np.clip((m - look.lower[:, None]) / radius - 1.0, -1.0, 1.0)
    gap = look.noisy[:, None] - z * look.weight[:, None]
    low, high = np.minimum(gap[:, 1:], gap[:, :-1]), np.maximum(gap[:, 1:], gap[:, :-1])
    scale, size = look.scale[:, None], np.abs(z[:, 1:] + z[:, :-1]) / 2.0
    sd = np.maximum(look.weight[:, None], scale) * np.sqrt(misfit) / radius
    sd = np.maximum(sd, SMALLEST_NOISE * scale)
    if look.is_gaussian:
        sd = np.hypot(sd, scale * np.sqrt(2.0 + 2.0 * size**2))
        return log_mean_density(low, high, np.full_like(sd, SMALLEST_NOISE) * scale, sd)
    size = np.maximum(size, LEAST_RATIO)
    a, c = np.maximum(1.0 - size, LEAST_SCALE), 1.0 + size
    near, far = (log_mean_density(low, high, own * scale, sd) for own in (a, c))
    # The wider law is above the other, times the squares of both scales.
    apart = -np.expm1(np.minimum(near - far + 2.0 * np.log(a / c), -1e-12))
    return np.asarray(far + np.log(apart) - np.log1p(-((a / c) ** 2)))


BINS = 96
"""Bins of the mean of a cell."""
BLOCK_CELLS = 256
"""Cells whose grids are held in a processor's cache at once."""
MOST_OF_GROUPS = 0.8
"""Largest weight of the prior whose centres other cells predict."""


@single_blas_thread()
def fit(
    looks: Sequence[ClippedLook],
    design: CellDesign,
    spread: UserMeanSpread,
    bounds: tuple[float, float],
    effects: Sequence[RandomEffect] = (),
) -> CellPosterior:
    """Return the posterior of the mean of each cell's records.

    Parameters
    ----------
    looks : sequence of ClippedLook
        Independent ones; of a cell that is looked at once the other has an infinite scale.
    design : CellDesign
    spread : UserMeanSpread
    bounds : pair of float
        Bounds of the values.
    effects : sequence of RandomEffect
        Groups of cells that resemble each other; without them all have one prior.

    Examples
    --------
    >>> ends = np.zeros(3), np.full(3, 50.0)
    >>> look = ClippedLook(np.array([20.0, 30.0, 22.0]), *ends, np.full(3, 0.1))
    >>> same = np.full(3, 1 / 40)
    >>> design = CellDesign(np.full(3, 40), same, same, 0 * same, 0 * same)
    >>> spread = UserMeanSpread(24.0, 6.0, 6.0, 4.0)
    >>> fit([look], design, spread, (0.0, 50.0)).median().round(1)
    array([20., 30., 22.])
    """
    prior = CellPrior.of(design, spread, bounds)
    blocks = [
        _Block.of(
            [take_rows(look, rows) for look in looks], take_rows(design, rows), spread, bounds
        )
        for rows in _blocks(design.users.size)
    ]
    if not blocks:
        return CellPosterior(np.zeros((0, BINS + 1)), np.zeros((0, BINS)), bounds)
    with share_of_work(ESTIMATES, 0.0, 0.3):
        seen = [block.bins(block.first) for block in parts_of_work(ESTIMATES, blocks)]
    alike = _FittedPrior.of(prior, seen, spread, bounds)
    roughs = [alike.masses(k, *bins) for k, bins in enumerate(seen)]
    models = [(1.0, alike)]
    groups = drop_uninformative(effects)
    centres = None
    if groups:
        own = alike.numbers(seen, roughs)
        centres = predict_centres(own, last_look(looks), design, spread, bounds, groups)
    if centres is not None:
        offset, variance = centres
        moved = replace(prior, offset=offset, offset_variance=variance)
        grouped = _FittedPrior.of(moved, seen, spread, bounds)
        share = _share_of_groups(alike.parameters, grouped.parameters)
        models = [(1.0 - share, alike), (share, grouped)]
        roughs = [
            (1.0 - share) * rough + share * grouped.masses(k, *bins)
            for k, (rough, bins) in enumerate(zip(roughs, seen, strict=True))
        ]
    answers = []
    for k, (block, rough) in enumerate(zip(blocks, roughs, strict=True)):
        tell_share(ESTIMATES, 0.4 + 0.6 * k / len(blocks))
        edges, likelihood = block.bins(refine(block.first, rough))
        masses = [weight * model.masses(k, edges, likelihood) for weight, model in models]
        answers.append((edges, np.sum(masses, axis=0)))
    edges, probability = (np.concatenate(column) for column in zip(*answers, strict=True))
    return CellPosterior(edges, probability, bounds)


@dataclass(frozen=True, eq=False)
class _FittedPrior:
    """The prior of each block of cells, and the parameters of the map under it."""

    priors: Sequence[CellPrior]
    parameters: MapParameters

    @classmethod
    def of(
        cls,
        prior: CellPrior,
        seen: Sequence[tuple[Floats, Floats]],
        spread: UserMeanSpread,
        bounds: tuple[float, float],
    ) -> "_FittedPrior":
        priors = [take_rows(prior, rows) for rows in _blocks(prior.log_users.size)]
        bins = [(own, *block) for own, block in zip(priors, seen, strict=True)]
        return cls(priors, fit_parameters(bins, spread, bounds))

    def masses(self, block: int, edges: Floats, likelihood: Floats) -> Floats:
        """Return the posterior probability of each bin, averaged over the map's parameters."""
        total, parameters = np.zeros_like(likelihood), self.parameters
        nodes = (parameters.centre, parameters.deviation, parameters.exponent)
        for weight, *node in zip(parameters.weight, *nodes, strict=True):
            product = likelihood * self.priors[block].masses(edges, *map(float, node))
            total += weight * product / (np.sum(product, axis=1, keepdims=True) + 1e-300)
        return np.asarray(total / np.sum(total, axis=1, keepdims=True))

    def numbers(
        self, seen: Sequence[tuple[Floats, Floats]], posteriors: Sequence[Floats]
    ) -> CellLikelihoods:
        """Return the likelihood of each cell: its posterior without this prior."""
        pieces = [
            CellLikelihoods.of(edges, self.masses(k, edges, np.ones_like(likelihood)), posterior)
            for k, ((edges, likelihood), posterior) in enumerate(zip(seen, posteriors, strict=True))
        ]
        columns = zip(*((one.number, one.variance, one.mean) for one in pieces), strict=True)
        return CellLikelihoods(*map(np.concatenate, columns))


def _share_of_groups(alike: MapParameters, grouped: MapParameters) -> float:
    """Return the weight of the model with groups, by the evidence of both."""
    difference = grouped.log_evidence - alike.log_evidence
    # Of a thousand cells the evidence is overwhelming for either, and no model is quite right.
    return MOST_OF_GROUPS / (1.0 + math.exp(-min(max(difference, -50.0), 50.0)))


def last_look(looks: Sequence[ClippedLook]) -> ClippedLook:
    """Return the last look at each cell that has noise of finite scale."""
    final, *earlier = reversed(looks)
    for look in earlier:
        missing = np.isinf(final.scale)
        noisy, lower, upper, scale = (
            np.where(missing, getattr(look, name), getattr(final, name))
            for name in ("noisy", "lower", "upper", "scale")
        )
        final = ClippedLook(noisy, lower, upper, scale, final.is_gaussian)
    return final


@dataclass(frozen=True, eq=False)
class _Block:
    """Some cells, their looks, and their grid where the likelihood is."""

    looks: Sequence[ClippedLook]
    design: CellDesign
    law: UserMeanLaw
    first: Floats

    @classmethod
    def of(
        cls,
        looks: Sequence[ClippedLook],
        design: CellDesign,
        spread: UserMeanSpread,
        bounds: tuple[float, float],
    ) -> "_Block":
        law = UserMeanLaw.of(design, spread, bounds)
        even = law.edge_modes(BINS)
        likelihood = cls(looks, design, law, even).bins(even)[1]
        likelihood = likelihood / np.sum(likelihood, axis=1, keepdims=True)
        return cls(looks, design, law, refine(even, likelihood))

    def bins(self, modes: Floats) -> tuple[Floats, Floats]:
        """Return the edges of bins as means, and the likelihood of each."""
        return mixed_likelihood(self.law, self.design, self.looks, modes)


def _blocks(n_cells: int) -> Iterator[slice]:
    """Yield blocks of cells."""
    for start in range(0, n_cells, BLOCK_CELLS):
        yield slice(start, start + BLOCK_CELLS)
