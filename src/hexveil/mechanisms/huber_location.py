"""A private choice of the point about which users balance, and the sum that says where it lies.

User l pulls at a point θ with v_l (x_l - θ), cut to ±H: v a public weight, x the user's mean, H the
public reach. The balance B(θ) = Σ_l clip(v_l (x_l - θ), ±H) falls in θ and vanishes at a Huber
mean: the weighted mean for a long reach, the median of users for a short one.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity of B(θ): r(θ) = min(v*(1 - θ), H) + min(v* θ, H), v* the largest weight, values in
[0, 1]: a user's pull lies between its pulls at the two bounds. So r shrinks towards the bounds.
Cost of a candidate: |B(θ)| in units of r(θ), rounded to one part in Q: an integer, moved by at
most Q (`BalanceChoice.costs`). Loss: ε by permute-and-flip of scale 2 Q/ε (ERRATA 12).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.permute_and_flip import choose
from hexveil.mechanisms.selection import Choice
from hexveil.mechanisms.single_cell_plan import CellFacts

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from hexveil.mechanisms.cell_plan import NoiseSource

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

UNIT = 1 << 20
"""Q: steps of the cost that one user can move."""

NODES, SHARES = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True, eq=False)
class BalanceChoice(Choice):
    """The point of a public grid on [0, 1] about which the users nearly balance.

    Attributes
    ----------
    weights : ndarray of float, shape (n_users,)
        v, above zero. Public.
    reach : float
        H, above zero.
    candidates : int
        Of the grid, at the middles of equal bins. One candidate is no choice.
    scale : float
        Of permute-and-flip.
    """

    weights: Floats
    reach: float
    candidates: int
    scale: float

    @property
    def points(self) -> Floats:
        """The candidates, ascending, in parts of the span."""
        return (np.arange(self.candidates) + 0.5) / self.candidates

    @property
    def room(self) -> tuple[Floats, Floats]:
        """How far the balance can be below and above 0 at each candidate, whatever the values."""
        v = self.weights[:, None]
        down, up = v * self.points, v * (1.0 - self.points)
        return (
            -np.minimum(down, self.reach).sum(axis=0),
            np.minimum(up, self.reach).sum(axis=0),
        )

    @property
    def moved(self) -> Floats:
        """r: how far one user can move the balance at each candidate."""
        most = float(self.weights.max())
        below = np.minimum(most * self.points, self.reach)
        return np.asarray(below + np.minimum(most * (1.0 - self.points), self.reach))

    def balance(self, values: Floats) -> Floats:
        """Return B at every candidate for each row of values in [0, 1].

        B is n H minus a sum of ramps of slope v, from x - H/v to x + H/v. A kink between two
        candidates is shared between them in proportion, which is exact at the candidates: two
        running sums then cost users plus candidates, not their product.

        Parameters
        ----------
        values : ndarray of float, shape (rows, n_users)

        Returns
        -------
        ndarray of float, shape (rows, candidates)

        Examples
        --------
        >>> choice = BalanceChoice(np.array([1.0, 1.0]), 0.25, 2, 4.0)
        >>> choice.balance(np.array([[0.0, 0.375]])).tolist()
        [[-0.125, -0.5]]
        """
        rows, n = values.shape
        width = self.candidates + 2
        slope, start = np.zeros(rows * width), np.full(rows, n * self.reach)
        half = self.reach / self.weights
        for kink, sign in ((values - half, -1.0), (values + half, 1.0)):
            at = np.minimum(kink * self.candidates - 0.5, self.candidates)
            start += np.maximum(-at, 0.0) @ (sign * self.weights) / self.candidates
            at = np.maximum(at, 0.0)
            left = at.astype(np.int64)
            upper = (at - left) * (sign * self.weights)
            cell = left + (width * np.arange(rows))[:, None]
            for place, share in ((cell, sign * self.weights - upper), (cell + 1, upper)):
                slope += np.bincount(place.ravel(), share.ravel(), minlength=slope.size)
        falls = np.cumsum(slope.reshape(rows, width)[:, : self.candidates - 1], axis=1)
        ramps = np.cumsum(falls, axis=1) / self.candidates
        return start[:, None] + np.concatenate((np.zeros((rows, 1)), ramps), axis=1)

    def weigh(self, balance: Floats) -> Ints:
        """Return the cost of each candidate from its balance.

        In units of r/(Q - 2) one user moves |B| by at most Q - 2, and rounding adds 1 to that:
        one step is left over for the rounding of floating-point sums.
        """
        return np.rint(np.abs(balance) * ((UNIT - 2) / self.moved)).astype(np.int64)

    def costs(self, values: Floats) -> Ints:
        """Return the cost of each candidate: private, of sensitivity Q."""
        return np.asarray(self.weigh(self.balance(values[None]))[0])

    def runs(self, values: Floats) -> tuple[Ints, Ints, Ints]:
        """Return every candidate as a run of its own."""
        return self.alone(self.weigh(self.balance(values)))

    def alone(self, costs: Ints) -> tuple[Ints, Ints, Ints]:
        """Return costs, the size 1 and the number of every candidate."""
        ones = np.ones((1, self.candidates), dtype=np.int64)
        return costs, ones, np.arange(self.candidates)[None]

    def pick(self, values: Floats, noise: NoiseSource) -> tuple[int, float]:
        """Return the number of the chosen candidate, and the balance there (private)."""
        balance = self.balance(values[None])
        if self.candidates == 1:
            return 0, float(balance[0, 0])
        chosen = noise.noisy_max(-self.weigh(balance)[0], self.scale)
        return chosen, float(balance[0, chosen])


@dataclass(frozen=True, eq=False)
class BalancePlan(CellFacts):
    """The public plan of a balance; every figure in value units.

    A point c is chosen with one part of ε. With the rest, ε'', the mean is read from there:
    y = c + (B(c) + noise of scale r(c)/ε'')/V, V the sum of the weights; without a rest y = c.
    Then y is projected to where it can lie at all, and a public curve is applied. `sensitivity` and
    `noise_scale` are the largest that can occur, 0 without a rest. `worst_case_bias` and
    `worst_case_error` are None.

    Attributes
    ----------
    choice : BalanceChoice
        How c is chosen.
    mean_epsilon : Fraction
        ε'', the part of ε that pays for the noise, 0 or above.
    curve : tuple of float
        Factors of z, z³, z⁵ and so on, z = y less the middle, in parts of the span.
    """

    choice: BalanceChoice
    mean_epsilon: Fraction
    curve: tuple[float, ...] = (1.0,)

    @property
    def sensitivity(self) -> float:
        """Largest change of the estimate that noise is added to, over all candidates."""
        if not self.mean_epsilon:
            return 0.0
        return self.span * float(self.choice.moved.max()) / float(self.choice.weights.sum())

    @property
    def noise_scale(self) -> float:
        """Largest Laplace scale that can occur."""
        return self.sensitivity / float(self.mean_epsilon) if self.mean_epsilon else 0.0

    @property
    def worst_case_bias(self) -> None:
        """None: it depends on a point that is random, and no closed form is known."""

    @property
    def worst_case_error(self) -> None:
        """None: see `worst_case_bias`."""

    @property
    def bound95(self) -> float:
        """U: estimate and mean both lie within the bounds. Far from tight."""
        return self.span

    @property
    def scales(self) -> Floats:
        """Laplace scale at each candidate, in parts of the span."""
        if not self.mean_epsilon:
            return np.zeros(self.choice.candidates)
        total = float(self.choice.weights.sum()) * float(self.mean_epsilon)
        return np.asarray(self.choice.moved / total, dtype=np.float64)

    def read(self, chosen: Ints, balance: Floats, noise: Floats | float) -> Floats:
        """Return y in parts of the span, for numbers of candidates and balances there."""
        points = self.choice.points[chosen]
        if not self.mean_epsilon:
            return points
        total = self.choice.weights.sum()
        low, high = (ends[chosen] / total for ends in self.choice.room)
        return np.asarray(points + np.clip(balance / total + noise, low, high))

    def bend(self, y: Floats) -> Floats:
        """Return the estimate in parts of the span: the curve, projected to the bounds."""
        return np.asarray(np.clip(0.5 + powers(y, len(self.curve)) @ self.curve, 0.0, 1.0))

    def release(self, user_means: ArrayLike, noise: NoiseSource) -> float:
        """Return one estimate, for study: see `CellPlan.release`."""
        chosen, balance = self.choice.pick(self._parts(self.means(user_means)), noise)
        scale = float(self.scales[chosen]) * self.span
        drawn = noise.laplace(scale) / self.span if scale else 0.0
        y = self.read(np.array([chosen]), np.array([balance]), drawn)
        return self.lower + self.span * float(self.bend(y)[0])

    def simulate(
        self, user_means: ArrayLike, generator: np.random.Generator, trials: int
    ) -> Floats:
        """Return many estimates distributed as those of `release`: see `CellPlan.simulate`."""
        values = self._parts(np.atleast_2d(self.means(user_means, trials)))
        balance = self.choice.balance(values)
        chosen = np.zeros(trials, dtype=np.int64)
        if self.choice.candidates > 1:
            costs, sizes, _ = self.choice.alone(self.choice.weigh(balance))
            chosen = choose(costs, sizes, self.choice.scale, generator, trials)
        row = np.arange(trials) if len(balance) > 1 else 0
        noise = generator.laplace(0.0, 1.0, trials) * self.scales[chosen]
        y = self.read(chosen, balance[row, chosen], noise)
        return np.asarray(self.lower + self.span * self.bend(y), dtype=np.float64)

    def _parts(self, means: Floats) -> Floats:
        return np.asarray((means - self.lower) / self.span, dtype=np.float64)


def powers(y: Floats, degree: int) -> Floats:
    """Return z, z³, z⁵, ... along a new last axis, z = y less one half."""
    z = y - 0.5
    return np.stack([z ** (2 * i + 1) for i in range(degree)], axis=-1)


def laws(costs: Floats, scale: float) -> Floats:
    """Return the law of permute-and-flip for each row of costs, to about 1e-6.

    For prediction only: as `permute_and_flip.law`, with one substitution for all intervals.

    Examples
    --------
    >>> laws(np.array([[0.0, 1.0]]), 1 / np.log(4)).round(6).tolist()
    [[0.875, 0.125]]
    """
    odds = np.exp(-(costs - costs.min(axis=1, keepdims=True)) / scale)
    steep = 3.0 * odds.sum(axis=1)[:, None]
    power = np.log1p(steep)
    grown = np.exp((NODES + 1.0) / 2.0 * power)
    u, step = (grown - 1.0) / steep, SHARES / 2.0 * power * grown / steep
    missed = np.log1p(-u[:, :, None] * odds[:, None, :])
    before = np.exp(missed.sum(axis=2, keepdims=True) - missed)
    chance = odds * (before * step[:, :, None]).sum(axis=1)
    return np.asarray(chance / chance.sum(axis=1, keepdims=True), dtype=np.float64)
