"""Joint plan of least average error at a given loss, under either noise.

Class and symbols: docs/understand/plan-class.md, `user_factors`. With the factors
at their largest within the loss, the average error is a smooth function of the logarithms of the
rates but for users just held; it is minimised by L-BFGS from several places, statistics of cells
that would do better as constants are made so, and it is minimised again. With a share d of a cell
at the middle, its mean is off by at most d/2, its variance by `variance_bias`, and the noise is
expected to be κ / a in size: κ is 1 for Laplace noise, √(2/π) for Gaussian noise, where the class
has the L2 norm of a user's rates in place of their sum. Where each user is in k cells alike and
nobody is held, Gaussian rates are a = √M / (p √k), M the square of μ.

Of pairs that stay elsewhere some users are fetched, a part q of all, drawn without regard to what
they reported. A cell's share of a fetched user is about 1/q times its share among all. So the rates
of these users at the loss L / q, or M / q², are about those of all at L, or M, in cells where many
were fetched. From there a few steps are taken with all users, unless all were fetched; whatever the
rates are, factors and losses are computed from all pairs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from hexveil.accounting.error_model import MAX_CONSTANT_ERROR, WORST_CASE_BIAS, has_single_record
from hexveil.accounting.noise_law import GAUSSIAN, LAPLACE, NoiseLaw
from hexveil.base.arrays import Bools, Floats
from hexveil.base.work_share import SEARCH, parts_of_work
from hexveil.model.occupancy import Occupancy
from hexveil.planning.optimizers.pair_sums import descend, fetch_sample, to_all_cells
from hexveil.planning.optimizers.user_factors import ClippingProblem, JointSolution, Rates
from hexveil.planning.request import Request

CONSTANT_ROUNDS = 6
"""How often cells that are better constants are looked for."""
LOG_SCALE_RANGE = 30.0
"""How far the logarithms of the rates may go from where they began: numbers stay ordinary."""
START_QUANTILES = {LAPLACE: (0.9,), GAUSSIAN: (0.5, 0.9, 1.0)}
"""Quantiles of what users lose at equal rates, where searches begin."""
FEW_CELLS = {LAPLACE: 0, GAUSSIAN: 8}
"""Cells up to which searches also begin with single cells, and without them."""


CONSTANT_ERRORS = np.array([*MAX_CONSTANT_ERROR.values()])[:, None]
"""Of mean and variance, for bounds of width 1."""


def objective_weights(request: Request, span: Floats, occupancy: Occupancy) -> Floats:
    """Return weights that make the sum of errors the average of `Plan.objective_errors`.

    Of errors for bounds of width 1, shape (2, n_cells): 0 of a statistic that is not asked for, and
    of the variance of one record, which is 0.
    """
    weights, names = np.zeros((2, span.size)), request.noised
    for power, (weight, name) in enumerate(zip(weights, MAX_CONSTANT_ERROR, strict=True), start=1):
        if name in names:
            weight[:] = span**power / span.size
            if len(names) == 2:
                weight[:] = 1.0 / (2.0 * span.size) / MAX_CONSTANT_ERROR[name]
    weights[1, has_single_record(occupancy)] = 0.0
    return weights


def constant_error(weights: Floats) -> float:
    """Return the average error of constants alone."""
    return float((weights * CONSTANT_ERRORS).sum(axis=0).sum())


FULL_SEARCH = {"maxiter": 300}
"""Limits of a descent with all pairs at hand."""
DISTRIBUTED_SEARCH = {"maxiter": 12, "maxfun": 24, "maxls": 5}
"""Limits of the search with all users elsewhere; each evaluation asks for a few sums of pairs."""


def minimize_mean_error(
    exposure: ClippingProblem,
    weights: Floats,
    loss: float,
    effort: Mapping[str, int] = FULL_SEARCH,
    begin: Rates | None = None,
) -> JointSolution:
    """Minimize the weighted sum of errors within a loss.

    Less effort is good enough for a prediction, and from rates to begin with that are those of a
    like occupancy; the constants of these are kept.

    Examples
    --------
    >>> from hexveil.model.occupancy import LocalOccupancy
    >>> crowd = ClippingProblem(LocalOccupancy.from_dense([[1, 1]] * 50), law=GAUSSIAN)
    >>> means = np.array([[0.5, 0.5], [0.0, 0.0]])
    >>> found = minimize_mean_error(crowd, means, 0.08)
    >>> (1.0 / found.rates[0]).round(9)  # (1/50) √2 / √0.08
    array([0.1, 0.1])
    """
    # Cells that are constants at the beginning stay so: deciding anew would cost all descents.
    if begin is not None:
        # Between constants alone there is nothing to descend.
        if begin.any():
            begin = _descend(exposure, weights, loss, begin > 0, begin, effort)[1]
        return JointSolution(begin, exposure.largest_factors(begin, loss))
    if not exposure.shares.cheap:
        return _from_sample(exposure, weights, loss)
    best: tuple[float, Rates] = (constant_error(weights), np.zeros_like(weights))
    nobody = np.ones(exposure.occupancy.n_users)
    if not best[0]:  # constants miss nothing
        return JointSolution(best[1], nobody)
    for start in parts_of_work(SEARCH, list(_starts(exposure, weights, loss))):
        result = _descents(exposure, weights, loss, start, effort)
        best = min(best, result, key=lambda one: one[0])
    _, rates = best
    return JointSolution(rates, exposure.largest_factors(rates, loss) if rates.any() else nobody)


def _from_sample(exposure: ClippingProblem, weights: Floats, loss: float) -> JointSolution:
    """Return the solution to which some users lead, and a few steps with all of them."""
    sample, cells, part = fetch_sample(exposure.occupancy)
    of_sample = loss / part**exposure.law.power
    found = minimize_mean_error(
        replace(exposure, occupancy=sample, span_quanta=None), weights[:, cells], of_sample
    ).rates
    n_cells = exposure.occupancy.n_cells
    rates = np.stack([to_all_cells(rate, cells, n_cells) for rate in found])
    if part == 1.0:
        return JointSolution(rates, exposure.largest_factors(rates, loss))
    return minimize_mean_error(exposure, weights, loss, DISTRIBUTED_SEARCH, rates)


def _starts(exposure: ClippingProblem, weights: Floats, loss: float) -> Iterator[Rates]:
    """Yield rates at which a typical user's loss is the one allowed; constants have a rate of 0.

    All numbers begin with noise; of two statistics also either alone, of few cells also all but one
    or one. Between constants and noise lies a barrier, which matters where little can be said at
    all: in logarithms no rate reaches 0.
    """
    everywhere = (weights > 0).astype(np.float64)
    n_cells = everywhere.shape[1]
    rows = [row for row in np.eye(2)[:, :, None] * everywhere if row.any()]
    live = [everywhere, *(rows if len(rows) > 1 else ())]
    if 1 < n_cells <= FEW_CELLS[exposure.law]:
        alone = [everywhere * indicator for indicator in np.eye(n_cells)]
        live += [*alone, *(everywhere - indicator for indicator in alone if n_cells > 2)]
    everybody = np.ones(exposure.occupancy.n_users)
    for indicator in live:
        if indicator.any():
            losses = exposure.losses(indicator, everybody)
            quantiles = np.quantile(losses[losses > 0], START_QUANTILES[exposure.law])
            for typical in np.unique(quantiles).tolist():
                # Most users are then not clipped, and a descent moves freely from there.
                yield indicator * (loss / typical) ** (1.0 / exposure.law.power)


def _descents(
    exposure: ClippingProblem, weights: Floats, loss: float, start: Rates, effort: Mapping[str, int]
) -> tuple[float, Rates]:
    """Return the least error found, making cells constants that would do better so."""
    best: tuple[float, Rates] | None = None
    live = start > 0
    for _ in parts_of_work(SEARCH, range(CONSTANT_ROUNDS)):
        results = _descend(exposure, weights, loss, live, start, effort)
        best = results if best is None else min(best, results, key=lambda one: one[0])
        worse = _worse(exposure, results[1], loss, live)
        live = live & ~worse
        if not worse.any() or not live.any():
            break
        start = results[1]
    assert best is not None  # noqa: S101  there is a round
    return best


def _descend(
    exposure: ClippingProblem,
    weights: Floats,
    loss: float,
    live: Bools,
    start: Rates,
    effort: Mapping[str, int],
) -> tuple[float, Rates]:
    """Return the error that L-BFGS finds, and the rates there."""

    def unpack(logs: Floats) -> Rates:
        rates = np.zeros(live.shape)
        rates[live] = np.exp(logs)
        return rates

    def value(logs: Floats) -> tuple[float, Floats]:
        error, slope = error_and_slope(exposure, weights, loss, unpack(logs))
        return error, slope[live] * np.exp(logs)

    # Logarithms keep rates positive, and their slopes of one size over many orders.
    begin = np.log(np.maximum(start[live], 1e-12))
    found, error = descend(value, begin, LOG_SCALE_RANGE, **effort)
    return error, unpack(found)


def error_and_slope(
    exposure: ClippingProblem, weights: Floats, loss: float, rates: Rates
) -> tuple[float, Floats]:
    """Return the weighed error of these rates and its slope in them, shape (2, n_cells)."""
    factor = exposure.largest_factors(rates, loss)
    clipped = exposure.clipped_share(factor)
    error = weighted_errors(weights, rates, clipped, exposure.law).sum()
    multiplier = loss_multipliers(exposure, weights, rates, factor, factor < 1.0, clipped)
    # Users who are not clipped have a multiplier of 0: more noise for them changes no bias.
    pushed = exposure.marginal_sums(rates, multiplier, factor)
    gained = exposure.law.mean_absolute * weights
    slope = pushed - np.divide(gained, rates**2, out=np.zeros_like(rates), where=rates > 0)
    return float(error), slope


def cell_errors(rates: Rates, clipped: Floats, law: NoiseLaw) -> Floats:
    """Return the error of both statistics of each cell for bounds of width 1, shape (2, n_cells).

    Infinity where there is no noise.
    """
    biases = np.stack([WORST_CASE_BIAS[name](clipped) for name in MAX_CONSTANT_ERROR])
    noise = np.divide(law.mean_absolute, rates, out=np.full_like(rates, np.inf), where=rates > 0)
    return np.asarray(biases + noise)


def weighted_errors(weights: Floats, rates: Rates, clipped: Floats, law: NoiseLaw) -> Floats:
    """Return the weighed error of each cell."""
    errors = cell_errors(rates, clipped, law)
    missed = np.where(np.isfinite(errors), errors, CONSTANT_ERRORS)
    return np.asarray((weights * missed).sum(axis=0))


def loss_multipliers(
    exposure: ClippingProblem,
    weights: Floats,
    rates: Rates,
    factor: Floats,
    held: Bools,
    clipped: Floats,
) -> Floats:
    """Return how much the weighed error falls per loss that a user who is held is allowed more."""
    steep = np.where(rates[0] > 0, weights[0] / 2.0, 0.0)
    if rates[1].any():
        remaining = np.maximum(1.0 - 2.0 * clipped, 0.0)
        # The bias of a variance bends: its slope falls with what is clipped already.
        steep += np.where(rates[1] > 0, weights[1] * remaining / 2.0, 0.0)
    gain = exposure.shares.per_user(steep)
    cost = exposure.loss_slope(rates, factor)
    return np.divide(gain, cost, out=np.zeros_like(gain), where=held & (cost > 0))


def _worse(exposure: ClippingProblem, rates: Rates, loss: float, live: Bools) -> Bools:
    """Return the statistics of cells with a larger error than a constant."""
    clipped = exposure.clipped_share(exposure.largest_factors(rates, loss))
    return live & (cell_errors(rates, clipped, exposure.law) >= CONSTANT_ERRORS)
