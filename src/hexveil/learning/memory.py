"""A state of all cells that follows published days: levels, days apart, and changes.

Model. The average of cell c on a day is

    T = level + weekend + day + own,      level = place + slot + cell

with normal parts: places, slots and cells around the middle of the bounds; a weekend's difference,
common and by slot; a difference that all cells share on that day; and the cell's own, of variance
λ (within² + user² Σp²), p the shares of users in its records. λ is learned for each cell. Levels
drift by the days that pass. A published number shows T + lasting · β, where β is a number of the
cell that stays: what a clipping range hides today it hides tomorrow.

All deviations are fitted by the evidence of the days, with broad priors in parts of the span.
Everything here is made of published numbers and public facts: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.learning.published_day import (
    FACTORS,
    LASTING_PRIOR,
    SWEEPS,
    PublishedDay,
    Update,
    cell_names,
    update,
)

MULTIPLES: Floats = np.array([0.25, 1.0, 4.0, 16.0])
LOG_MULTIPLE_SD = 0.7
"""Values of λ, and the deviation of its logarithm."""
_FIRST_LOG_MULTIPLES: Floats = -0.5 * (np.log(MULTIPLES) / LOG_MULTIPLE_SD) ** 2
SHIFTS: Floats = np.array([0.04, 0.08, 0.15, 0.3])
"""Changes of a level that are looked for, either way, in parts of the span."""
WINDOW, ALARM = 7, 7.0
"""Days over which a change may be noticed, and the log likelihood ratio that notices it."""
USER_SHARE = 0.7
"""Usual part of the deviation of users that differs from day to day: a route has the same users."""
SWEEPS_OF_A_FIT = 2
MOST_SHARED = 0.9
"""Largest square of the correlation of what is shown and of what clipping hides."""
CHANGE = 0.1
"""Deviation of a changed level, in parts of the span."""


@dataclass(frozen=True)
class Deviations:
    """Standard deviations of the parts of the model, value units.

    Attributes
    ----------
    place, slot, cell : float
        Parts of a level.
    weekend, day : float
        What all cells share.
    within, user : float
        A cell's own on a day, and of its users.
    drift : float
        Of a level, from one day to the next.
    """

    place: float
    slot: float
    cell: float
    weekend: float
    day: float
    within: float
    user: float
    drift: float

    @classmethod
    def usual(cls, span: float, user: float) -> Deviations:
        """Return the middles of the priors."""
        middles = Deviations(1 / 8, 1 / 20, 1 / 40, 1 / 100, 1 / 80, 1 / 40, 1.0, 1 / 800)
        scaled = cls(*(span * middle for middle in astuple(middles)))
        return replace(scaled, user=USER_SHARE * user)


PRIOR_SDS = Deviations(1.0, 1.0, 0.25, 1.0, 1.0, 0.5, 0.3, 1.5)
"""Standard deviations of the priors, of logarithms."""


def usual_deviation(days: Sequence[PublishedDay]) -> float:
    """Return the geometric mean of users' deviations of some days."""
    return float(np.exp(np.mean([np.log(day.user_deviation) for day in days])))


@dataclass(frozen=True, eq=False)
class _Day(ReadOnlyArrays):
    """A published day, the days since the one before, and which cells it has."""

    published: PublishedDay
    gap: int
    cells: Ints


@dataclass(frozen=True, eq=False)
class Forecast(ReadOnlyArrays):
    """Forecast of each cell of a day by everything but its own number, value units.

    Attributes
    ----------
    mean, deviation : ndarray of float, shape (n_cells,)
        Of what the cell would show without noise.
    lasting_mean, lasting_deviation, lasting_slope : ndarray of float, shape (n_cells,)
        Of its difference from the cell's average, given what it would show: normal around
        lasting_mean + lasting_slope · (shown - mean). Where little is known of the level, a part of
        what is seen is what clipping hides.
    """

    mean: Floats
    deviation: Floats
    lasting_mean: Floats
    lasting_deviation: Floats
    lasting_slope: Floats


@dataclass(frozen=True, eq=False)
class LevelShift(ReadOnlyArrays):
    """A change that the numbers of several days show.

    Attributes
    ----------
    since, noticed : int
        Number of the day from which on levels are another, and of the day that showed it.
    cells : ndarray of int64
        Cells of the memory: one, or all of a place.
    """

    since: int
    noticed: int
    cells: Ints


@dataclass(frozen=True, eq=False)
class _State:
    mean: Floats
    covariance: Floats


@dataclass(frozen=True, eq=False)
class Truths:
    """Averages of a day's cells without their lasting errors: mean and covariances.

    Attributes
    ----------
    mean : ndarray of float, shape (n,)
    with_state : ndarray of float, shape (n_state, n)
    with_shown, covariance : ndarray of float, shape (n, n)
        With what the cells would show, and of themselves.
    """

    mean: Floats
    with_state: Floats
    with_shown: Floats
    covariance: Floats


class Memory:
    """State of all cells of some days."""

    def __init__(self, days: Sequence[PublishedDay]) -> None:
        self.bounds = days[-1].bounds
        self.span = self.bounds[1] - self.bounds[0]
        names = [cell_names(day.place, day.slot) for day in days]
        cells, row = np.unique(np.concatenate(names), return_index=True)
        self.place = np.concatenate([day.place for day in days])[row]
        self.slot = np.concatenate([day.slot for day in days])[row]
        self.places = np.unique(self.place, return_inverse=True)[1].reshape(-1)
        self.slots = np.unique(self.slot, return_inverse=True)[1].reshape(-1)
        self.n_cells, self.n_slots = cells.size, int(self.slots.max()) + 1
        self.days = []
        for number, (published, name) in enumerate(zip(days, names, strict=True)):
            index = np.searchsorted(cells, name)
            gap = published.day - days[number - 1].day if number else 0
            self.days.append(_Day(published, gap, index))
        self.user = usual_deviation(days)
        self.changes: list[LevelShift] = []
        self._log_multiples = np.tile(_FIRST_LOG_MULTIPLES, (self.n_cells, 1))
        self.log_factors = np.zeros((len(days), FACTORS.size))

    # ---- the state ----

    @property
    def multiples(self) -> Floats:
        """Expected λ of each cell."""
        weight = np.exp(self._log_multiples - self._log_multiples.max(axis=1, keepdims=True))
        return np.asarray(weight @ MULTIPLES / weight.sum(axis=1))

    def prior(self, by: Deviations, n_more: int = 0) -> _State:
        """Return the state before any day: levels, weekend, weekend by slot, β, and zeros."""
        n, end = self.n_cells, self.n_cells + 1 + self.n_slots
        covariance = np.zeros((end + n + n_more, end + n + n_more))
        levels = (self.span / 3.0) ** 2 + by.place**2 * np.equal.outer(self.places, self.places)
        if self.n_slots > 1:
            levels = levels + by.slot**2 * np.equal.outer(self.slots, self.slots)
        covariance[:n, :n] = levels + by.cell**2 * np.eye(n)
        covariance[n, n] = by.weekend**2
        slots, lasting = np.arange(n + 1, end), np.arange(end, end + n)
        covariance[slots, slots] = by.weekend**2 / 2.0
        covariance[lasting, lasting] = LASTING_PRIOR**2
        mean = np.zeros(end + n + n_more)
        mean[:n] = sum(self.bounds) / 2.0
        return _State(mean, covariance)

    def advance(self, state: _State, by: Deviations, number: int) -> _State:
        """Return the state before a day: levels drift, and shifts widen them."""
        covariance = state.covariance.copy()
        levels = np.arange(self.n_cells)
        covariance[levels, levels] += by.drift**2 * self.days[number].gap
        for change in self.changes:
            if change.since == number:
                cells, variance = change.cells, (CHANGE * self.span) ** 2
                if cells.size > 1:
                    covariance[np.ix_(cells, cells)] += variance
                    variance /= 4.0
                covariance[cells, cells] += variance
        return _State(state.mean, covariance)

    def predict(self, state: _State, by: Deviations, day: _Day) -> tuple[Floats, Floats, Floats]:
        """Return mean and covariance of a day's true numbers, and the state's with them."""
        n, cells = self.n_cells, day.cells
        columns = [cells]
        if day.published.is_weekend:
            columns += [np.full_like(cells, n), n + 1 + self.slots[cells]]
        lasting = n + 1 + self.n_slots + cells
        mean = sum(state.mean[column] for column in columns)
        with_state = sum(state.covariance[:, column] for column in columns)
        mean = mean + day.published.lasting * state.mean[lasting]
        with_state = with_state + day.published.lasting * state.covariance[:, lasting]
        covariance = sum(with_state[column] for column in columns)
        covariance = covariance + day.published.lasting[:, None] * with_state[lasting]
        variance = (by.within**2 + by.user**2 * day.published.share_squares) * self.multiples[cells]
        covariance = (covariance + covariance.T) / 2.0 + by.day**2 + np.diag(variance)
        return np.asarray(mean), np.asarray(covariance), np.asarray(with_state)

    def without_lasting(
        self, state: _State, day: _Day, prediction: tuple[Floats, Floats, Floats]
    ) -> Truths:
        """Return the law of a day's averages, without the lasting errors of the shown ones."""
        mean, covariance, with_state = prediction
        effect, rows = day.published.lasting, self.n_cells + 1 + self.n_slots + day.cells
        of_truth = with_state - effect * state.covariance[:, rows]
        with_shown = covariance - effect[:, None] * with_state[rows]
        return Truths(
            mean - effect * state.mean[rows],
            of_truth,
            with_shown,
            with_shown - (effect[:, None] * of_truth[rows]).T,
        )

    def update_state(
        self, state: _State, by: Deviations, number: int, sweeps: int = SWEEPS
    ) -> tuple[_State, Update, tuple[Floats, Floats]]:
        """Return the state after a day, the update, and mean and variance that were expected."""
        day, morning = self.days[number], self.advance(state, by, number)
        mean, covariance, with_state = self.predict(morning, by, day)
        step = update(covariance, mean, day.published.edges, day.published.density, sweeps)
        new = _State(
            morning.mean + with_state @ step.gain,
            morning.covariance - with_state @ step.loss @ with_state.T,
        )
        return new, step, (mean, np.diag(covariance))

    # ---- fitting ----

    def evidence(self, by: Deviations, numbers: Sequence[int]) -> float:
        """Return the log evidence of some days, with the priors of the deviations."""
        usual, state, total = Deviations.usual(self.span, self.user), self.prior(by), 0.0
        for number in numbers:
            state, step, _ = self.update_state(state, by, number, SWEEPS_OF_A_FIT)
            total += step.evidence
        pulls = np.log(np.array(astuple(by)) / np.array(astuple(usual))) / np.array(
            astuple(PRIOR_SDS)
        )
        return total - 0.5 * float(pulls @ pulls)

    def fitted(self, by: Deviations, numbers: Sequence[int], rounds: int = 1) -> Deviations:
        """Return deviations of more evidence: one after the other, up or down by half an e-fold."""
        best, change = self.evidence(by, numbers), 0.5
        weekends = any(self.days[number].published.is_weekend for number in numbers)
        idle = ["slot"] * (self.n_slots == 1) + ["weekend"] * (not weekends)
        for _ in range(rounds):
            for field in fields(by):
                if field.name in idle:
                    continue
                for sign in (1.0, -1.0):
                    is_better = False
                    while True:
                        value = getattr(by, field.name) * np.exp(sign * change)
                        candidate = replace(by, **{field.name: float(value)})
                        evidence = self.evidence(candidate, numbers)
                        if evidence <= best:
                            break
                        best, by, is_better = evidence, candidate, True
                    if is_better:
                        break
            change /= 2.0
        return by

    # ---- all days, with changes ----

    def run(self, by: Deviations) -> Forecast:
        """Go through all days, and return the forecast of the last one."""
        self.changes = []
        self._log_multiples[:] = _FIRST_LOG_MULTIPLES
        states = [self.prior(by)]
        ratios: list[Floats] = []
        for number, day in enumerate(self.days):
            new, step, expected = self.update_state(states[-1], by, number)
            if number:
                ratios = [*ratios, self._ratios(expected, day)][-WINDOW:]
                shifts = self._notice(ratios, number)
                if shifts:
                    self.changes += shifts
                    start = min(shift.since for shift in shifts)
                    del states[len(states) - (number - start) :]
                    for repeated in range(start, number + 1):
                        new, step, expected = self.update_state(states[-1], by, repeated)
                        states.append(new)
                    states.pop()
                self._learn_multiples(expected, by, day)
                self.log_factors[number] = day.published.log_factors(step.mean, step.variance)
            states = [*states, new][-WINDOW - 1 :]
        return self._forecast(states[-2], by, step)

    def _forecast(self, state: _State, by: Deviations, step: Update) -> Forecast:
        """Return the forecast of the last day, from the state before it."""
        number, day = len(self.days) - 1, self.days[-1]
        morning = self.advance(state, by, number)
        _, _, with_state = self.predict(morning, by, day)
        rows, effect = self.n_cells + 1 + self.n_slots + day.cells, day.published.lasting
        variance = effect**2 * np.diag(morning.covariance)[rows]
        shared = effect * with_state[rows, np.arange(rows.size)]
        most = np.sqrt(MOST_SHARED * variance * step.variance)
        slope = np.clip(shared, -most, most) / step.variance
        return Forecast(
            step.mean,
            np.sqrt(step.variance),
            effect * morning.mean[rows],
            np.sqrt(variance - slope**2 * step.variance),
            slope,
        )

    def _ratios(self, expected: tuple[Floats, Floats], day: _Day) -> Floats:
        """Return each cell's log likelihood of shifted levels, against that of none."""
        mean, variance = expected
        shifts = self.span * np.concatenate([[0.0], SHIFTS, -SHIFTS])
        ratios = np.zeros((self.n_cells, shifts.size))
        for k, shift in enumerate(shifts):
            ratios[day.cells, k] = day.published.log_masses(mean + shift, variance)
        return ratios - ratios[:, :1]

    def _notice(self, ratios: list[Floats], number: int) -> list[LevelShift]:
        """Return the changes of cells and places that several days show, strongest first."""
        hits: dict[tuple[int, ...], tuple[float, int]] = {}
        total = np.zeros_like(ratios[-1])
        for back, day in enumerate(reversed(ratios)):
            total = total + day
            of_places = np.zeros((int(self.places.max()) + 1, total.shape[1]))
            np.add.at(of_places, self.places, total)
            for rows, is_place in ((total, False), (of_places, True)):
                if is_place and self.n_slots == 1:
                    continue
                evidence = np.logaddexp.reduce(rows[:, 1:], axis=1) - np.log(rows.shape[1] - 1)
                for row in np.flatnonzero(evidence > ALARM):
                    cells = np.flatnonzero(self.places == row) if is_place else np.array([row])
                    key = tuple(cells.tolist())
                    hits[key] = max(hits.get(key, (0.0, 0)), (float(evidence[row]), back))
        shifts, is_covered = [], np.zeros(self.n_cells, dtype=bool)
        for key, (_, back) in sorted(hits.items(), key=lambda hit: -hit[1][0]):
            cells = np.array(key)
            if not is_covered[cells].all():
                is_covered[cells] = True
                shifts.append(LevelShift(number - back, number, cells))
                for day in ratios:
                    day[cells] = 0.0
        return shifts

    def _learn_multiples(self, expected: tuple[Floats, Floats], by: Deviations, day: _Day) -> None:
        """Update the law of λ of the day's cells."""
        mean, variance = expected
        unit = by.within**2 + by.user**2 * day.published.share_squares
        base = np.maximum(variance - unit * self.multiples[day.cells], 1e-6)
        for k, multiple in enumerate(MULTIPLES):
            mass = day.published.log_masses(mean, base + unit * multiple)
            self._log_multiples[day.cells, k] += mass
