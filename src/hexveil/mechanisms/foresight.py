"""FORESIGHT: of many ways to read a mean, the one that a public prior says is best.

Ours, from ERRATA 8 and 12 and WC Theorem III.1. How a mean is read and why that is private is said
in `balance`.
Neighbours: one user's values all change within the bounds; users and counts are public.
Everything is chosen from counts, bounds and ε: the weights (all alike, for the least noise, or
nearer to the counts, for the least bias), the reach, the candidates, how ε is split, and a curve
that bends the noisy number back to where the prior expects the mean. None of it costs privacy.
Loss: ε. The choice of the point loses its part; for every point the Laplace noise loses the rest
(composition); the curve and all projections after it see noisy output and public facts alone.

Prior, in parts of the span: the cell's level is uniform within the bounds; users differ from it
with one of several standard deviations (`spreads`), samples of a user from the user's level with
another (`within`), whatever the counts.
The best way is the one with the least geometric mean, over the spreads, of the mean absolute
error: half the error counts the same in an easy cell as in a hard one.
Predicted errors are not bounds: where the prior is wrong, so may be the choice, never the privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.mechanisms.huber_location import UNIT, BalanceChoice, BalancePlan, laws, powers
from hexveil.mechanisms.selection import selection_scale
from hexveil.mechanisms.single_cell_plan import CellFacts, Named, cell_facts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from hexveil.base.rational import Number

    Floats = NDArray[np.float64]

SCENARIOS = 64
USERS = 1536
"""Users of a scenario; a larger cell is thinned, and ε enlarged in proportion."""

PREFERENCE = 1.03
"""A curve must promise to win this factor over none."""

LAPLACE = -np.log(1.0 - (np.arange(12) + 0.5) / 12.0)
NOISE = np.concatenate((-LAPLACE[::-1], LAPLACE))
"""The middles of 24 equally likely parts of the Laplace distribution."""


@dataclass(frozen=True)
class Look:
    """One way to read a mean.

    Attributes
    ----------
    cap : Fraction
        Quantile of the counts to which weights are capped; 0 gives every user the same weight.
    reach : float
        In parts of the span, for a user of median weight.
    candidates : int
        Of the choice; 1 reads from the middle of the bounds.
    share : Fraction
        Part of ε that pays for the choice.
    """

    cap: Fraction
    reach: float
    candidates: int
    share: Fraction


_CAPS = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1))
LOOKS = (
    *(Look(q, h, 1, Fraction(0)) for q in _CAPS[:3] for h in (0.3, 0.4, 0.5)),
    *(
        Look(q, h, c, Fraction(1))
        for q in (_CAPS[0], *_CAPS[2:])
        for h in (0.05, 0.1, 0.2, 0.35)
        for c in (20, 80)
    ),
    *(
        Look(q, h, 40, s)
        for q in _CAPS[2:]
        for h in (0.05, 0.15, 0.4, 1.2)
        for s in (Fraction(1, 4), Fraction(1, 2))
    ),
)
"""The mean from the middle; a point alone; the mean from a point."""


@dataclass(frozen=True, repr=False)
class Foresight(Named):
    """The mean read in the way of least predicted error, bent to what a prior expects.

    Parameters
    ----------
    spreads : tuple of float
        Standard deviations of users' levels about the cell's, in parts of the span, above zero.
    within : float
        Standard deviation of samples about their user's level, in parts of the span.

    Raises
    ------
    InputError
        If an argument is out of range.

    Examples
    --------
    >>> plan = Foresight().plan([9, 4, 1, 1] * 30, bounds=(0, 8), epsilon=1)
    >>> plan.bound95, plan.worst_case_bias is None
    (8.0, True)
    """

    spreads: tuple[float, ...] = (0.005, 0.02, 0.08, 0.2)
    within: float = 0.15

    def __post_init__(self) -> None:
        given = (*self.spreads, self.within)
        if not self.spreads or not all(math.isfinite(s) and 0 < s <= 1 for s in given):
            raise InputError(
                "spreads and within are standard deviations in parts of the span: above 0, at most "
                f"1, and at least one spread; got {self.spreads} and {self.within}."
            )

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> BalancePlan:
        """Return the public plan of one cell: see `Mechanism.plan`."""
        cell = cell_facts(counts, bounds, epsilon)
        thin = _thinned(cell)
        scenes = _scenes(thin, self.spreads, self.within)
        foreseen = [_foresee(_draft(thin, look), scenes) for look in LOOKS]
        best = min(range(len(LOOKS)), key=lambda i: foreseen[i][0])
        return replace(_draft(cell, LOOKS[best]), curve=foreseen[best][1])


@dataclass(frozen=True, eq=False)
class _Scenes:
    """Cells as the prior draws them, in parts of the span.

    Attributes
    ----------
    values : ndarray of float, shape (scenarios, n_users)
        User means.
    truth : ndarray of float, shape (scenarios,)
    group : ndarray of int, shape (scenarios,)
        Which kind of cell each is.
    """

    values: Floats
    truth: Floats
    group: NDArray[np.int64]


def _thinned(cell: CellFacts) -> CellFacts:
    """Return the cell with its users in order of counts, every k-th of them if they are many."""
    counts = np.sort(cell.counts)
    if counts.size > USERS:
        at = ((np.arange(USERS) + 0.5) * counts.size / USERS).astype(np.int64)
        counts = counts[at]
    epsilon = cell.epsilon * Fraction(cell.counts.size, counts.size)
    return CellFacts(counts, cell.lower, cell.upper, epsilon)


def _scenes(cell: CellFacts, spreads: tuple[float, ...], within: float) -> _Scenes:
    """Return the prior's cells at these counts: always the same ones."""
    generator = np.random.default_rng(0)
    number = np.arange(SCENARIOS)
    group = number % len(spreads)
    level = generator.permutation((number + 0.5) / SCENARIOS)
    shape = SCENARIOS, cell.counts.size
    values = level[:, None] + np.array(spreads)[group][:, None] * generator.normal(size=shape)
    values += generator.normal(size=shape) * (within / np.sqrt(cell.counts))
    values = np.clip(values, 0.0, 1.0)
    return _Scenes(values, values @ cell.counts / cell.total, group)


def _draft(cell: CellFacts, look: Look) -> BalancePlan:
    """Return the plan of a look, without a curve."""
    ordered = np.sort(cell.counts)
    cap = ordered[math.ceil(look.cap * ordered.size) - 1] if look.cap else 1
    weights = np.minimum(cell.counts, cap).astype(np.float64)
    reach = look.reach * float(np.median(weights))
    spent = cell.epsilon * look.share
    scale = selection_scale(UNIT, spent) if spent else 1.0
    choice = BalanceChoice(weights, reach, look.candidates, scale)
    facts = cell.counts, cell.lower, cell.upper, cell.epsilon
    return BalancePlan(*facts, choice, cell.epsilon - spent)


def _foresee(plan: BalancePlan, scenes: _Scenes) -> tuple[float, tuple[float, ...]]:
    """Return the predicted error of a plan with its best curve, and that curve."""
    y, chance = _outcomes(plan, scenes.values)
    truth = np.broadcast_to(scenes.truth[:, None], y.shape)
    plain = _score(np.abs(y - truth), chance, scenes.group)
    if plan.choice.candidates > 1 and plan.mean_epsilon:
        return plain, plan.curve
    bent = replace(plan, curve=_fit(y, truth, chance))
    score = PREFERENCE * _score(np.abs(bent.bend(y) - truth), chance, scenes.group)
    return (score, bent.curve) if score < plain else (plain, plan.curve)


def _outcomes(plan: BalancePlan, values: Floats) -> tuple[Floats, Floats]:
    """Return what each scenario can give, shape (scenarios, outcomes), and how likely it is."""
    choice = plan.choice
    balance = choice.balance(values)
    chance = laws(np.abs(balance) / choice.moved, choice.scale / UNIT)
    noise = NOISE if choice.candidates == 1 else NOISE[2::5]
    drawn = plan.scales[:, None] * (noise if plan.mean_epsilon else np.zeros(1))
    number = np.broadcast_to(np.arange(choice.candidates)[:, None], drawn.shape)
    y = plan.read(number, balance[:, :, None], drawn)
    shape = len(values), number.size
    each = np.broadcast_to(chance[:, :, None] / drawn.shape[1], (len(values), *drawn.shape))
    return np.broadcast_to(y, each.shape).reshape(shape), each.reshape(shape)


def _score(missed: Floats, chance: Floats, group: NDArray[np.int64]) -> float:
    """Return the geometric mean, over the kinds of cells, of the mean absolute error."""
    kinds = np.bincount(group, (missed * chance).sum(axis=1)) / np.bincount(group)
    return float(np.exp(np.log(kinds + 1e-9).mean()))


def _fit(y: Floats, truth: Floats, chance: Floats) -> tuple[float, ...]:
    """Return the curve of degree three with nearly the least mean absolute error.

    By least squares, weighed anew with the inverse of what is missed; tied to no curve at all where
    the outcomes do not say.
    """
    terms, goal = powers(y, 2).reshape(-1, 2), truth.ravel() - 0.5
    weight, tie = chance.ravel(), 1e-9 * np.eye(2)
    floor = 0.1 * float((weight * np.abs(y.ravel() - truth.ravel())).sum() / weight.sum()) + 1e-9
    found = np.array([1.0, 0.0])
    for _ in range(6):
        pull = (terms * (weight / np.maximum(np.abs(terms @ found - goal), floor))[:, None]).T
        found = np.linalg.solve(pull @ terms + tie, pull @ goal + tie[0])
    return tuple(float(factor) for factor in found)
