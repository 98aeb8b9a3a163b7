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

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.learning.joint_law import Conditioned, NumberLaw, Update, update
from hexveil.learning.published_day import FACTORS, LASTING_PRIOR, PublishedDay, cell_names

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
    """Law of levels, weekend, weekend by slot, β, and averages where asked for: rows in this order.

    What cells share is few numbers u, all standard normal: of places, slots, weekend, and days. So
    rows are mean + roots · u + residual, the last for each cell apart.

    Attributes
    ----------
    mean : ndarray of float, shape (n_rows,)
    roots : ndarray of float, shape (n_rows, k)
    residual : ndarray of float, shape (n_cells, n_parts, n_parts)
        Covariance of the residuals of a cell's rows: level, β, average.
    """

    mean: Floats
    roots: Floats
    residual: Floats


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
        self.changes: list[LevelShift] = []
        self._log_multiples = np.tile(_FIRST_LOG_MULTIPLES, (self.n_cells, 1))

    # ---- the state ----

    @property
    def multiples(self) -> Floats:
        """Expected λ of each cell."""
        weight = np.exp(self._log_multiples - self._log_multiples.max(axis=1, keepdims=True))
        return np.asarray(weight @ MULTIPLES / weight.sum(axis=1))

    def rows(self, cells: Ints, n_parts: int = 2) -> Ints:
        """Return the rows of level, β and average of cells, a row for each cell."""
        n, first = self.n_cells, self.n_cells + 1 + self.n_slots
        return np.asarray(cells[:, None] + np.array([0, first, first + n])[:n_parts])

    def prior(self, by: Deviations, n_parts: int = 2) -> _State:
        """Return the state before any day; averages are 0."""
        n, end = self.n_cells, self.n_cells + 1 + self.n_slots
        is_shared = np.bincount(self.places)[self.places] > 1
        places = np.equal.outer(self.places, np.unique(self.places[is_shared]))
        n_slots = self.n_slots if self.n_slots > 1 else 0
        slots = np.equal.outer(self.slots, np.arange(n_slots))
        shared = np.hstack([np.full((n, 1), self.span / 3.0), by.place * places, by.slot * slots])
        k = shared.shape[1]
        mean = np.zeros(end + (n_parts - 1) * n)
        roots = np.zeros((mean.size, k + 1 + self.n_slots))
        residual = np.zeros((n, n_parts, n_parts))
        mean[:n], roots[:n, :k] = sum(self.bounds) / 2.0, shared
        roots[n:end, k:] = by.weekend * np.diag([1.0, *[math.sqrt(0.5)] * self.n_slots])
        residual[:, 0, 0] = by.cell**2 + np.where(is_shared, 0.0, by.place**2)
        residual[:, 1, 1] = LASTING_PRIOR**2
        return _State(mean, roots, residual)

    def advance(self, state: _State, by: Deviations, number: int) -> _State:
        """Return the state before a day: levels drift, and shifts widen them."""
        roots, residual = state.roots, state.residual.copy()
        residual[:, 0, 0] += by.drift**2 * self.days[number].gap
        for change in self.changes:
            if change.since == number:
                cells, deviation = change.cells, CHANGE * self.span
                if cells.size > 1:
                    roots = np.hstack([roots, np.zeros((len(roots), 1))])
                    roots[cells, -1] = deviation
                    deviation /= 2.0
                residual[cells, 0, 0] += deviation**2
        return _State(state.mean, roots, residual)

    def predict(self, state: _State, by: Deviations, day: _Day) -> tuple[_State, NumberLaw]:
        """Return the state with what the cells of a day share, and the law of its true numbers."""
        n, cells, effect = self.n_cells, day.cells, day.published.lasting
        roots = np.hstack([state.roots, np.zeros((len(state.roots), 1))])
        columns = [cells]
        if day.published.is_weekend:
            columns += [np.full_like(cells, n), n + 1 + self.slots[cells]]
        lasting = self.rows(cells)[:, 1]
        mean = sum(state.mean[column] for column in columns) + effect * state.mean[lasting]
        shown_roots = sum(roots[column] for column in columns) + effect[:, None] * roots[lasting]
        shown_roots[:, -1] = by.day
        with_residual = state.residual[cells, 0] + effect[:, None] * state.residual[cells, 1]
        variance = (by.within**2 + by.user**2 * day.published.share_squares) * self.multiples[cells]
        residual = with_residual[:, 0] + effect * with_residual[:, 1] + variance
        law = NumberLaw(mean, residual, shown_roots, with_residual)
        return _State(state.mean, roots, state.residual), law

    def truth(self, state: _State, law: NumberLaw, day: _Day) -> NumberLaw:
        """Return the law of a day's averages, without the lasting errors of the shown ones."""
        effect, rows = day.published.lasting, self.rows(day.cells)[:, 1]
        of_level = law.with_residual[:, 0]
        of_day = law.residual - of_level - effect * law.with_residual[:, 1]
        return NumberLaw(
            law.mean - effect * state.mean[rows],
            state.residual[day.cells, 0, 0] + of_day,
            law.roots - effect[:, None] * state.roots[rows],
            of_level + of_day,
        )

    def add_truth(
        self, state: _State, law: NumberLaw, day: _Day, weight: Floats
    ) -> tuple[_State, NumberLaw]:
        """Return state and law of the numbers, with a day's averages added to the sums."""
        truth, cells, rows = self.truth(state, law, day), day.cells, self.rows(day.cells, 3)[:, 2]
        mean, roots, residual = state.mean.copy(), state.roots.copy(), state.residual.copy()
        mean[rows] += weight * truth.mean
        roots[rows] += weight[:, None] * truth.roots
        with_parts = weight[:, None] * state.residual[cells, 0]
        residual[cells, 2] += with_parts
        residual[cells, :, 2] += with_parts
        residual[cells, 2, 2] += weight**2 * truth.residual
        with_residual = law.with_residual.copy()
        with_residual[:, 2] += weight * truth.with_residual
        return _State(mean, roots, residual), replace(law, with_residual=with_residual)

    def condition(self, state: _State, law: NumberLaw, day: _Day, posterior: Conditioned) -> _State:
        """Return the state after a day, whose numbers have normal factors."""
        cells, with_residual = day.cells, law.with_residual
        mean, roots, residual = state.mean.copy(), state.roots.copy(), state.residual.copy()
        rows = self.rows(cells, with_residual.shape[1])
        gain = with_residual * posterior.weight[:, None]
        mean[rows] += with_residual * posterior.shift[:, None]
        roots[rows] -= gain[:, :, None] * law.roots[:, None]
        residual[cells] -= gain[:, :, None] * with_residual[:, None]
        return _State(mean + roots @ posterior.mean, roots @ posterior.whitener.T, residual)

    def update_state(
        self, state: _State, by: Deviations, number: int, *, is_first: bool = False
    ) -> tuple[_State, Update, tuple[Floats, Floats]]:
        """Return the state after a day, the update, and mean and variance that were expected."""
        day = self.days[number]
        state, law = self.predict(self.advance(state, by, number), by, day)
        step = update(law, day.published.edges, day.published.density, is_first=is_first)
        new = self.condition(state, law, day, step.posterior)
        return new, step, (law.mean, law.variance)

    # ---- all days, with changes ----

    def run(self, by: Deviations, n_days: int) -> None:
        """Go through the first days, from the beginning."""
        self.changes, self._states = [], [self.prior(by)]
        self._ratios: list[Floats] = []
        self._log_multiples = np.tile(_FIRST_LOG_MULTIPLES, (self.n_cells, 1))
        self.log_factors = np.zeros((1, FACTORS.size))
        for number in range(n_days):
            self._go_through(by, number)

    def finish(self, by: Deviations, today: PublishedDay) -> Forecast:
        """Go through the last day as it was published, and return its forecast."""
        day, number = replace(self.days[-1], published=today), len(self.days) - 1
        self.days = [*self.days[:-1], day]
        step = self._go_through(by, number)
        morning, law = self.predict(self.advance(self._states[-2], by, number), by, day)
        rows, effect = self.rows(day.cells)[:, 1], day.published.lasting
        roots, residual = morning.roots[rows], morning.residual[day.cells, 1, 1]
        variance = effect**2 * (np.sum(roots**2, axis=1) + residual)
        shared = effect * (np.sum(roots * law.roots, axis=1) + law.with_residual[:, 1])
        most = np.sqrt(MOST_SHARED * variance * step.variance)
        slope = np.clip(shared, -most, most) / step.variance
        return Forecast(
            step.mean,
            np.sqrt(step.variance),
            effect * morning.mean[rows],
            np.sqrt(variance - slope**2 * step.variance),
            slope,
        )

    def _go_through(self, by: Deviations, number: int) -> Update:
        """Update all that is known by a day; what a copy of this object has is left alone."""
        day, states = self.days[number], self._states
        new, step, expected = self.update_state(states[-1], by, number, is_first=not number)
        if number:
            self._ratios = [*(one.copy() for one in self._ratios), self._shifted(*expected, day)]
            self._ratios = self._ratios[-WINDOW:]
            shifts = self._notice(self._ratios, number)
            if shifts:
                self.changes = [*self.changes, *shifts]
                start = min(shift.since for shift in shifts)
                states = states[: len(states) - (number - start)]
                for repeated in range(start, number + 1):
                    new, step, expected = self.update_state(states[-1], by, repeated)
                    states = [*states, new]
                states = states[:-1]
            self._learn_multiples(*expected, by, day)
            factors = day.published.log_factors(step.mean, step.variance)
            self.log_factors = np.vstack([self.log_factors, factors])
        self._states = [*states, new][-WINDOW - 1 :]
        return step

    def _shifted(self, mean: Floats, variance: Floats, day: _Day) -> Floats:
        """Return each cell's log likelihood of shifted levels, against that of none."""
        shifts = self.span * np.concatenate([[0.0], SHIFTS, -SHIFTS])
        ratios = np.zeros((self.n_cells, shifts.size))
        ratios[day.cells] = day.published.log_masses(mean + shifts[:, None], variance).T
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
                # An average is at most the largest: mostly nothing is seen at once.
                if (is_place and self.n_slots == 1) or np.max(rows) <= ALARM:
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

    def _learn_multiples(self, mean: Floats, variance: Floats, by: Deviations, day: _Day) -> None:
        """Update the law of λ of the day's cells."""
        unit = by.within**2 + by.user**2 * day.published.share_squares
        base = np.maximum(variance - unit * self.multiples[day.cells], 1e-6)
        self._log_multiples = self._log_multiples.copy()
        masses = day.published.log_masses(mean, base + unit * MULTIPLES[:, None])
        self._log_multiples[day.cells] += masses.T
