"""Expected errors of days to come, on paper: what an archive that remembers will reach.

All days are taken to have the occupancy of the records at hand, and the model of the memory its
usual deviations. Noise, and what ranges hide, count as normal numbers of the same variance, so that
the model becomes a Kalman filter, whose variances need no numbers. Only public facts enter: nothing
is spent, and cities that are not like the usual have other errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.promise import promised
from hexveil.base.blas_threads import single_blas_thread
from hexveil.base.errors import InputError
from hexveil.learning.memory import Deviations, Memory
from hexveil.learning.published_day import blank_day
from hexveil.mechanisms.looks.remembered_ranges import choose_half_widths, weights_for
from hexveil.mechanisms.looks.user_weights import PRIOR_SD
from hexveil.planning.optimizers.calibration import Trial, least_epsilon
from hexveil.publishing.memory.history import MOST_CELLS, day_and_places, record_shares
from hexveil.smoothing.user_mean_law import WITHIN_SHARE, CellDesign

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.model.public_metadata import PublicMetadata

MEAN_ABS_NORMAL = math.sqrt(2.0 / math.pi)
LASTING_SHARE = 0.3
"""Usual lasting error of a remembered range, in deviations of users."""
FIRST_DAY = date(2024, 1, 1)
"""A Monday: weekends come after five days."""


@dataclass(frozen=True)
class ExpectedErrors:
    """Expected errors of a series of days.

    Attributes
    ----------
    epsilon : Fraction
        Of each day.
    errors : tuple of float
        Mean absolute error over the cells of each day, value units.
    """

    epsilon: Fraction
    errors: tuple[float, ...]


@single_blas_thread()
def expected_errors(
    facts: PublicMetadata, epsilon: Fraction, n_days: int, *, delta: Fraction = Fraction(0)
) -> ExpectedErrors:
    """Return the expected errors of days like these records, each at an epsilon.

    Parameters
    ----------
    facts : PublicMetadata
        Of the records of a usual day.
    epsilon : Fraction
    n_days : int
    delta : Fraction
    """
    return _Series.of(facts, epsilon, n_days, delta).errors(epsilon)


def least_daily_epsilon(
    facts: PublicMetadata, error: float, n_days: int, *, delta: Fraction = Fraction(0)
) -> ExpectedErrors:
    """Return the expected errors at the least daily epsilon that reaches one on the last day.

    Raises
    ------
    InputError
        If no epsilon does: what differs between users from day to day stays.
    """
    series = _Series.of(facts, Fraction(1), n_days, delta)
    found = least_epsilon(lambda epsilon: Trial(series.errors(epsilon).errors[-1] <= error), 1)
    if found is None:
        floor = series.errors(Fraction(100)).errors[-1]
        raise InputError(
            f"no epsilon is expected to reach an error of {error:g} on day {n_days}; at epsilon "
            f"100 it is {floor:.3g}."
        )
    return series.errors(found)


@dataclass(frozen=True, eq=False)
class _Series:
    """Days of one occupancy, and the noise of their cells for ranges of width 1 at an epsilon."""

    memory: Memory
    deviations: Deviations
    noise: Floats
    squares: Floats
    epsilon: Fraction
    delta: Fraction

    @classmethod
    def of(cls, facts: PublicMetadata, epsilon: Fraction, n_days: int, delta: Fraction) -> _Series:
        """Return the series of days like these records."""
        if facts.occupancy.n_cells > MOST_CELLS:
            raise InputError(f"maps of more than {MOST_CELLS} cells are not remembered.")
        span = float(facts.lattice.span)
        bounds = float(facts.lattice.lower), float(facts.lattice.upper)
        users, promise = WITHIN_SHARE * PRIOR_SD, promised(epsilon, delta)
        half = np.full(facts.occupancy.n_cells, users)
        weights = weights_for(facts.occupancy, promise, users, half)
        design, places = CellDesign.of(weights.weight), day_and_places(facts, FIRST_DAY)[1:]
        first = blank_day((0, *places), bounds, users * span, record_shares(facts.occupancy))
        # Of a sum of weights near the shares: what they are off by lasts, with what ranges hide.
        hidden = np.hypot(LASTING_SHARE, np.sqrt(design.difference_squares)) * users * span
        days = [
            replace(first, day=(FIRST_DAY + timedelta(k)).toordinal(), lasting=hidden)
            for k in range(n_days)
        ]
        noise = weights.noise * math.sqrt(promise.law.variance)
        usual = Deviations.usual(span, users * span)
        return cls(Memory(days), usual, noise, design.weight_squares, epsilon, delta)

    def errors(self, epsilon: Fraction) -> ExpectedErrors:
        """Return the expected error of each day at an epsilon."""
        amounts = (promised(one, self.delta) for one in (self.epsilon, epsilon))
        own, wanted = amounts
        noise = self.noise * float(own.amount / wanted.amount) ** (1.0 / own.law.power)
        memory, by, span = self.memory, self.deviations, self.memory.span
        state, errors = memory.prior(by), []
        for number, day in enumerate(memory.days):
            state = memory.advance(state, by, number)
            prediction = memory.predict(state, by, day)
            truth = memory.without_lasting(state, day, prediction)
            # A first day searches its range, and knows where the map lies.
            deviation = np.minimum(np.sqrt(np.diag(truth.covariance)), PRIOR_SD * span)
            _, number_deviation = choose_half_widths(
                WITHIN_SHARE * PRIOR_SD, deviation / span, noise, self.squares
            )
            _, shown, with_state = prediction
            loss = np.linalg.inv(shown + np.diag((number_deviation * span) ** 2))
            left = np.diag(truth.covariance - truth.with_shown @ loss @ truth.with_shown.T)
            errors.append(MEAN_ABS_NORMAL * float(np.mean(np.sqrt(left))))
            state.covariance[:] = state.covariance - with_state @ loss @ with_state.T
        return ExpectedErrors(epsilon, tuple(errors))
