"""Expected errors of days to come, on paper: of averages, shares, quantiles, and under presence.

All days are taken to be like the one at hand, and the model of the memory to have its usual
deviations. Noise, and what ranges hide, count as normal numbers of the same variance, so that the
model becomes a Kalman filter, whose variances need no numbers. Only public facts enter: nothing is
spent, and cities that are not like the usual have other errors.

A kind of statistic gives a few numbers: how far users' averages spread, what each number is off by
on every day, the noise of a day's cells for ranges of width 1, how likely they are published, and
what an error of averages makes of the statistic.

- **Averages** of counted cells: the weights of the memory's ranges.
- **Shares and quantiles**: the same of mean scores, as `ScorePlan` and `shape_errors` predict those
  of a day alone. The distribution that ranks are ranks in is of the first day, and so is its error.
- **Private presence**: fleet, traffic, spread and biases of `presence_prediction`. Prices follow
  from the cells that were likely open before; a number counts by the probability that it is
  published. The average is over the traffic in open cells. A share is the average of an indicator;
  its first day, and all days of quantiles, have the error that `presence_prediction` gives to bins.
  Bins of quantiles add up as in `shape_history`; earlier ones miss by what a day differs, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from hexveil.accounting.error_model import PRIOR_SHARE
from hexveil.accounting.gaussian_composition import to_delta
from hexveil.accounting.promise import PARTS, promised
from hexveil.base.arrays import Floats
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.errors import InputError
from hexveil.base.rational import to_positive_fraction
from hexveil.learning.joint_law import condition
from hexveil.learning.memory import Deviations, Memory
from hexveil.learning.published_day import LASTING_PRIOR, blank_day
from hexveil.mechanisms.distribution.pooled_shape import PooledShape
from hexveil.mechanisms.distribution.shape_statistics import MEAN, SCORE_LATTICE
from hexveil.mechanisms.forecast_widths import choose_half_widths
from hexveil.mechanisms.looks.remembered_ranges import weights_for
from hexveil.mechanisms.looks.user_weights import MEAN_ABS_NORMAL, PRIOR_SD
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata
from hexveil.model.statistic_terms import Quantile, Share, Term, term_of
from hexveil.planning import distribution_measures
from hexveil.planning.allocation import CellForecast
from hexveil.planning.distribution_component import USELESS_ERROR
from hexveil.planning.feasibility.utility_test import shape_errors
from hexveil.planning.optimizers.calibration import least_epsilon
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.presence import presence_prediction as paper
from hexveil.planning.presence.presence_plan import plan_presence
from hexveil.planning.presence.presence_request import REMEMBERED, PresenceRequest
from hexveil.publishing.memory.history import MOST_CELLS, SCORE_SD, day_and_places, record_shares
from hexveil.publishing.memory.presence_history import SELDOM
from hexveil.publishing.memory.score_history import NOTHING
from hexveil.publishing.memory.shape_history import HALF_LIFE
from hexveil.smoothing.user_mean_law import WITHIN_SHARE, CellDesign

LASTING_SHARE = 0.3
"""Usual lasting error of a remembered range, in deviations of users."""
FIRST_DAY = date(2024, 1, 1)
"""A Monday: weekends come after five days."""
Facts: TypeAlias = PublicMetadata | DeclaredFacts
DayNoise: TypeAlias = tuple[Floats, Floats]
"""Deviation of each cell's noise for a range of width 1; probability that it is published."""
DayNoises: TypeAlias = Callable[[Fraction], Iterable[DayNoise]]
"""From an epsilon to each day's noise, and the probability that each cell is published."""


@dataclass(frozen=True)
class ExpectedErrors:
    """Expected errors of a series of days.

    Attributes
    ----------
    epsilon : Fraction
        Of each day.
    errors : tuple of float
        Mean absolute error of each day, in units of the statistic.
    n_cells : float
        Cells that are expected on the last day.
    """

    epsilon: Fraction
    errors: tuple[float, ...]
    n_cells: float


ErrorsOf: TypeAlias = Callable[[Fraction], ExpectedErrors]


def expected_errors(
    facts: Facts, options: PlanArguments, n_days: int, error: float | None = None
) -> ExpectedErrors:
    """Return the expected errors of days like this one, each at the epsilon that is asked for.

    Parameters
    ----------
    facts : PublicMetadata or DeclaredFacts
        Of a usual day.
    options : PlanArguments
        With an epsilon.
    n_days : int
    error : float, optional
        In place of that epsilon the least one that reaches this error on the last day.

    Raises
    ------
    InputError
        Of statistics that are not remembered; and if no epsilon reaches the error: what differs
        between users from day to day stays.
    """
    days = plan_days(facts, options, n_days)
    if error is None:
        found = to_positive_fraction(options.epsilon or 0, "epsilon")
    else:
        least = least_epsilon(lambda epsilon: days(epsilon).errors[-1] <= error, 1)
        if least is None:
            floor = days(Fraction(100)).errors[-1]
            raise InputError(
                f"no epsilon is expected to reach an error of {error:g} on day {n_days}; at "
                f"epsilon 100 it is {floor:.3g}."
            )
        found = least
    _refuse_bins(facts, options, found)
    return days(found)


@dataclass(frozen=True, eq=False)
class PlannedDays:
    """Days that are alike, and the numbers of a kind of statistic.

    Attributes
    ----------
    memory : Memory
        Of days without numbers.
    spread : float
        Deviation of all user means, as a part of the span.
    squares : ndarray of float, shape (n_cells,)
        Σw² of each cell.
    counts : ndarray of float, shape (n_cells,)
        How much the error of a cell counts in the average.
    noises : DayNoises
    of_averages : callable
        The error of the statistic, by that of averages at an epsilon.
    """

    memory: Memory
    spread: float
    squares: Floats
    counts: Floats
    noises: DayNoises
    of_averages: Callable[[float, Fraction], float] = lambda error, _: error

    @single_blas_thread()
    def errors(self, epsilon: Fraction) -> ExpectedErrors:
        """Return the expected error of each day at an epsilon."""
        memory, span, within = self.memory, self.memory.span, WITHIN_SHARE * self.spread
        by = Deviations.usual(span, within * span)
        state, errors, probability = memory.prior(by), [], np.zeros(0)
        for number, (noise, probability) in enumerate(self.noises(epsilon)):
            day = memory.days[number]
            state, law = memory.predict(memory.advance(state, by, number), by, day)
            truth = memory.truth(state, law, day)
            # A first day searches its range, and knows where the map lies.
            deviation = np.minimum(np.sqrt(truth.variance), self.spread * span)
            _, number_deviation = choose_half_widths(within, deviation / span, noise, self.squares)
            variance = (number_deviation * span) ** 2 / np.maximum(probability, 1e-9)
            posterior = condition(law, 1.0 / variance, np.zeros_like(variance))
            state = memory.condition(state, law, day, posterior)
            remaining = np.sqrt(posterior.variance(truth, law))
            mean = np.average(remaining, weights=self.counts * probability)
            errors.append(self.of_averages(MEAN_ABS_NORMAL * float(mean), epsilon))
        return ExpectedErrors(epsilon, tuple(errors), float(np.sum(probability)))


def _alike_days(
    facts: Facts, n_days: int, spread: float, shares: Floats, recurring: Floats
) -> Memory:
    """Return days with Σp² of each cell, and what each number is off by on every one of them."""
    span, places = float(facts.lattice.span), day_and_places(facts, FIRST_DAY)[1:]
    bounds = float(facts.lattice.lower), float(facts.lattice.upper)
    first = blank_day((0, *places), bounds, WITHIN_SHARE * spread * span, shares)
    dates = [FIRST_DAY + timedelta(number) for number in range(n_days)]
    return Memory([replace(first, day=day.toordinal(), lasting=recurring * span) for day in dates])


# ---- kinds of statistics ----


def planned_term(options: PlanArguments) -> Quantile | Share | None:
    """Return the quantile or share of which days are planned; None of averages.

    Raises
    ------
    InputError
        Of any other statistics: with what can be planned.
    """
    first, *others = options.statistics or (MEAN,)
    term = term_of(first)
    if others or not (first == MEAN or isinstance(term, (Quantile, Share))):
        raise InputError(
            'days to come are planned of one statistic of these: "mean", a quantile, a share; name '
            "it, as in --set plan.statistics=mean."
        )
    return term if isinstance(term, (Quantile, Share)) else None


def plan_days(facts: Facts, options: PlanArguments, n_days: int) -> ErrorsOf:
    """Return the expected errors of the statistic that is asked for, by epsilon."""
    n_cells = len(facts.cells)
    if n_cells > MOST_CELLS:
        raise InputError(
            f"maps of more than {MOST_CELLS} cells are not remembered, and this one has "
            f"{n_cells:,}; choose a coarser grid (--resolution, --timeslot)."
        )
    term = planned_term(options)
    if isinstance(facts, DeclaredFacts):
        return _declared_days(facts, options, n_days, term)
    if term is None:
        return _counted_days(facts, options, n_days, PRIOR_SD).errors
    days = _counted_days(distribution_measures.score_metadata(facts), options, n_days, SCORE_SD)
    if isinstance(term, Share) and options.estimator in (None, "auto"):
        return days.errors  # of an indicator
    error = partial(_rank_error, facts=facts, options=options, term=term)
    return replace(days, of_averages=error).errors


def _counted_days(
    facts: PublicMetadata, options: PlanArguments, n_days: int, spread: float
) -> PlannedDays:
    """Return days of averages of counted cells."""
    occupancy, within = facts.occupancy, WITHIN_SHARE * spread
    epsilon = to_positive_fraction(options.epsilon or 0, "epsilon")
    planned = promised(epsilon, to_delta(options.delta))
    weights = weights_for(occupancy, planned, within, np.full(occupancy.n_cells, within))
    design, every = CellDesign.of(weights.weight), np.ones(occupancy.n_cells)

    def noises(epsilon: Fraction) -> Iterable[DayNoise]:
        amount = promised(epsilon, planned.delta).amount
        worse = float(planned.amount / amount) ** (1.0 / planned.law.power)
        noise = weights.noise * math.sqrt(planned.law.variance) * worse
        return repeat((noise, every), n_days)

    # Of a sum of weights near the shares: what they are off by lasts, with what ranges hide.
    recurring = np.hypot(LASTING_SHARE, np.sqrt(design.difference_squares)) * within
    memory = _alike_days(facts, n_days, spread, record_shares(occupancy), recurring)
    return PlannedDays(memory, spread, design.weight_squares, every, noises)


# ---- mean scores ----


def _rank_error(
    error: float, epsilon: Fraction, *, facts: PublicMetadata, options: PlanArguments, term: Term
) -> float:
    """Return the error of a quantile or share by that of mean ranks, as a day alone has it."""
    assert facts.bins is not None  # noqa: S101  see plan_distribution
    delta, shares = to_delta(options.delta), distribution_measures.RANK_TO_SHARE * error
    of_shape = promised(epsilon, delta).part(distribution_measures.SHAPE_SHARE).planned
    shape = PooledShape(facts.occupancy, facts.bins.edges, of_shape, delta)
    levels = math.hypot(shares, shape.level_error)
    median = float(facts.lattice.span) / PRIOR_SHARE
    return shape_errors([term], shares, levels, USELESS_ERROR, median)[0].error


def _refuse_bins(facts: Facts, options: PlanArguments, epsilon: Fraction) -> None:
    """Refuse a quantile or share that is measured by bins: these are not remembered."""
    if isinstance(facts, DeclaredFacts) or (term := planned_term(options)) is None:
        return
    promise = promised(epsilon, to_delta(options.delta))
    remembered, estimator = CellForecast(NOTHING, NOTHING, 0, ()), options.estimator or "auto"
    measure = distribution_measures.plan_measure(facts, (term,), estimator, promise, remembered)
    if measure.estimator == "bins":
        raise InputError(
            f"at epsilon {float(epsilon):g} {term.text} is measured by bins, which are not "
            "remembered: each day has the error of the plan without --days. For days that "
            "remember, --set plan.estimator=ranks."
        )


# ---- private presence ----


def _declared_days(
    facts: DeclaredFacts, options: PlanArguments, n_days: int, term: Quantile | Share | None
) -> ErrorsOf:
    """Return the errors of declared cells, by the assumptions of `presence_prediction`."""
    request = plan_presence(facts, options).request
    traffic = paper.traffic_shares(facts.grid.n_cells)
    units = np.maximum(paper.units_per_cell(request, traffic), 1.0)
    noises = partial(_declared_noises, request, traffic, n_days)
    by_bins = partial(_errors_by_bins, request, units, traffic, noises)
    if isinstance(term, Quantile):
        return by_bins
    spread = paper.SPREAD_SHARE
    if term is not None:  # its indicator
        facts, spread = replace(facts, lattice=SCORE_LATTICE), SCORE_SD
    # What weights and clipping bias a day alone by is the same every day.
    bias = spread * paper.bias_by_weights(units)
    recurring = bias / (MEAN_ABS_NORMAL * LASTING_PRIOR)
    memory = _alike_days(facts, n_days, spread, 1.0 / units, recurring)
    days = PlannedDays(memory, spread, 1.0 / units, traffic, noises)

    def errors(epsilon: Fraction) -> ExpectedErrors:
        found = days.errors(epsilon)
        first = found if term is None else by_bins(epsilon)
        return replace(found, errors=first.errors[:1] + found.errors[1:])

    return errors


def _errors_by_bins(
    request: PresenceRequest, units: Floats, traffic: Floats, noises: DayNoises, epsilon: Fraction
) -> ExpectedErrors:
    """Return the errors by bins that add up over days; those of the first day count alike."""
    # Of a cell's share of records, from day to day.
    day_deviation = Deviations.usual(distribution_measures.RANK_TO_SHARE, 0.0).within
    half, errors, probability = 0.5 ** (1.0 / HALF_LIFE), [], np.zeros(0)
    count = squares = np.zeros_like(traffic)
    for number, (noise, probability) in enumerate(noises(epsilon)):
        variance = noise**2
        if number:
            earlier = squares / np.maximum(count, 1e-9) ** 2 + day_deviation**2
            variance = 1.0 / (1.0 / variance + 1.0 / earlier)
        ranks = paper.rank_errors(np.sqrt(variance), units)
        mean = float(np.average(ranks, weights=traffic * probability))
        errors.append(paper.term_errors(request, mean)[0].error)
        count, squares = half * count + probability, half**2 * squares + probability * noise**2
    return ExpectedErrors(epsilon, tuple(errors), float(np.sum(probability)))


def _declared_noises(
    request: PresenceRequest, traffic: Floats, n_days: int, epsilon: Fraction
) -> Iterator[DayNoise]:
    """Yield each day's noise, and the probability that cells are open."""
    request = replace(request, epsilon=epsilon)
    weight = request.fleet.units * request.even_weight * traffic
    middle = np.full(weight.size, float(request.lattice.lower + request.lattice.upper) / 2.0)
    plan: Any = request.allocation()
    priced, total, later = weight, np.zeros_like(weight), None
    if request.terms and request.share is None:  # as `RememberedShapes`
        later = replace(plan, form=REMEMBERED)
    for number in range(n_days):
        probability = paper.opening_probability(plan, priced)
        total += probability
        law, n_numbers = plan.tests[1][0]
        yield law.number_deviation / PARTS * math.sqrt(n_numbers) / (2.0 * priced), probability
        # At least the busiest cell is used.
        is_used = total >= min(SELDOM * (number + 1), float(total.max()))
        units = np.where(is_used, request.cells_of_unit * weight, 0.0)
        forecast = CellForecast(middle, middle, 1.0, (), units)
        plan = replace(request, forecast=forecast).mean_allocation()
        prices = weight * plan.window.prices
        priced, plan = np.maximum(weight.sum() / prices.sum() * prices, 1.0), later or plan
