"""FORESIGHT: of many ways to read a mean, the one that a public prior says is best.

Ours, from ERRATA 8 and 12 and WC Theorem III.1. A mean is read as a Huber location
(`huber_location`): from a point c, chosen with one part of ε, y = c + (B(c) + noise)/ΣV with the
rest, or y = c without a rest. Then y is projected to where it can lie at all, and a public curve
bends it back to where the prior expects the mean.

Neighbours: one user's values all change within the bounds; users and counts are public.
Everything is chosen from counts and ε: the weights (all alike, for the least noise, or nearer to
the counts, for the least bias), the reach, the candidates, how ε is split, and the curve. None of
it costs privacy.
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
import re
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms.single_cell import (
    STUDY_SPAN,
    BoundedStage,
    CellAllocation,
    CellMechanism,
    CellProblem,
    EstimateError,
    unknown_choice,
)
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from hexveil_research.mechanisms.huber_location import (
    COST_STEPS,
    BalancePoint,
    ScoreSumAtPoint,
    ScoreSums,
    selected_point,
    selection_laws,
)

SCENARIOS = 64
MAX_USERS = 1536
"""Users of a scenario; a larger cell is thinned, and ε enlarged in proportion."""

PREFERENCE = 1.03
"""A curve must promise to win this factor over none."""

WEIGHT_GRAIN = 2**4
"""A weight of one record, so that the reach resolves parts of it."""

CURVE_GRAIN = 2**30
"""Parts of one in a curve's factors: whole numbers are stored, and come back as they were."""

LAPLACE = -np.log(1.0 - (np.arange(12) + 0.5) / 12.0)
NOISE = np.concatenate((-LAPLACE[::-1], LAPLACE))
"""The middles of 24 equally likely parts of the Laplace distribution."""


@dataclass(frozen=True)
class HuberDesign:
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
DESIGNS = (
    *(HuberDesign(q, h, 1, Fraction(0)) for q in _CAPS[:3] for h in (0.3, 0.4, 0.5)),
    *(
        HuberDesign(q, h, c, Fraction(1))
        for q in (_CAPS[0], *_CAPS[2:])
        for h in (0.05, 0.1, 0.2, 0.35)
        for c in (20, 80)
    ),
    *(
        HuberDesign(q, h, 40, s)
        for q in _CAPS[2:]
        for h in (0.05, 0.15, 0.4, 1.2)
        for s in (Fraction(1, 4), Fraction(1, 2))
    ),
)
"""The mean from the middle; a point alone; the mean from a point."""


@dataclass(frozen=True, eq=False)
class HuberMean(CellAllocation):
    """The allocation of FORESIGHT.

    Attributes
    ----------
    scores : ScoreSums
        Weights, reach and candidates.
    mean_epsilon : Fraction
        ε'', the part of ε that pays for the noise, 0 or above; the rest chooses the point.
    curve : tuple of float
        Factors of z, z³, z⁵ and so on, z = y less the middle, in parts of the span.
    """

    scores: ScoreSums
    mean_epsilon: Fraction
    curve: tuple[float, ...] = (1.0,)

    def estimate(self, outputs: Outputs) -> Floats:
        """Return the estimates: see `CellAllocation.estimate`."""
        offset = np.zeros(1)
        if self.mean_epsilon:
            offset = outputs["score"][:, 0] / (self.cell.span * self.scores.total_weight)
        return np.asarray(self.cell.span * self.bend(self.locate(selected_point(outputs), offset)))

    def locate(self, selected: Ints, offset: Floats) -> Floats:
        """Return y in parts of the span, for numbers of candidates and (B + noise)/(S ΣV)."""
        points = self.scores.points[selected] / self.cell.span
        if not self.mean_epsilon:
            return np.asarray(points)
        unit = self.cell.span * self.scores.total_weight
        lowest, highest = (end[selected] / unit for end in self.scores.room())
        return np.asarray(points + np.clip(offset, lowest, highest))

    def bend(self, y: Floats) -> Floats:
        """Return the estimate in parts of the span: the curve, projected to the bounds."""
        z = y - 0.5
        bent = np.zeros_like(z)
        # Horner's rule, one element at a time: the same double for one estimate as for many.
        for factor in reversed(self.curve):
            bent = bent * z**2 + factor
        return np.asarray(np.clip(0.5 + bent * z, 0.0, 1.0))

    def relative_scales(self) -> Floats:
        """Return the Laplace scale of y at each candidate, in parts of the span; 0 without ε''."""
        if not self.mean_epsilon:
            return np.zeros(self.scores.points.size)
        unit = self.cell.span * self.scores.total_weight * float(self.mean_epsilon)
        return np.asarray(self.scores.max_sensitivity / unit)

    def sensitivity(self, width: float) -> float:
        """Return the largest change of y before noise, over all candidates; 0 without noise."""
        return width * float(self.relative_scales().max()) * float(self.mean_epsilon)

    def error(self, width: float) -> EstimateError:
        """Return the largest noise scale; estimate and mean both lie within the bounds."""
        return EstimateError(width * float(self.relative_scales().max()), width)

    def grid(self) -> tuple[float, float]:
        """Return no numbers: estimates are a curve of integers."""
        return math.nan, math.nan


@dataclass(frozen=True, repr=False)
class Foresight(CellMechanism):
    """The mean by the design of least predicted error, bent towards a prior.

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
        deviations = (*self.spreads, self.within)
        if not self.spreads or not all(math.isfinite(s) and 0 < s <= 1 for s in deviations):
            raise InputError(
                "spreads and within are standard deviations in parts of the span: above 0, at most "
                f"1, and at least one spread; got {self.spreads} and {self.within}."
            )

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> HuberMean:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        return self.allocate_chosen(cell, epsilon, self.choose(cell, epsilon))

    def choose(self, cell: CellProblem, epsilon: Fraction) -> str:
        """Return the number of the best design, then its curve in parts of 2^-30."""
        # Predicted in parts of the span: the same design whatever the quantum.
        sample, thinned_epsilon = _subsample(cell.counts, epsilon)
        scenarios = draw_scenarios(sample, self.spreads, self.within)
        predictions = [
            _predict_error(huber_mean(sample, thinned_epsilon, design), scenarios)
            for design in DESIGNS
        ]
        best = min(range(len(DESIGNS)), key=lambda i: predictions[i][0])
        return " ".join(map(str, (best, *(round(f * CURVE_GRAIN) for f in predictions[best][1]))))

    def allocate_chosen(self, cell: CellProblem, epsilon: Fraction, choice: str) -> HuberMean:
        """Return the allocation of a design: see `CellMechanism.allocate_chosen`."""
        if not re.fullmatch(r"[0-9]{1,3}( -?[0-9]{1,12}){1,2}", choice, re.ASCII):
            raise unknown_choice(self.name)
        number, *factors = map(int, choice.split())
        if number >= len(DESIGNS):
            raise unknown_choice(self.name)
        curve = tuple(factor / CURVE_GRAIN for factor in factors)
        return replace(huber_mean(cell, epsilon, DESIGNS[number]), curve=curve)


def huber_mean(cell: CellProblem, epsilon: Fraction, design: HuberDesign) -> HuberMean:
    """Return the allocation of a design, without a curve."""
    ordered = np.sort(cell.counts)
    cap = ordered[math.ceil(design.cap * ordered.size) - 1] if design.cap else 1
    weights = np.minimum(cell.counts, cap)
    # A user of median weight is clipped at the design's reach.
    reach = design.reach * float(np.median(weights)) * WEIGHT_GRAIN * cell.span
    middles = 2 * np.arange(design.candidates) + 1
    points = cell.span * middles // (2 * design.candidates)
    scores = ScoreSums(cell.counts, WEIGHT_GRAIN * weights, max(round(reach), 1), points, cell.span)
    spent = epsilon * design.share
    stages: tuple[BoundedStage, ...] = ()
    if design.candidates > 1:
        stages += (BalancePoint.at_loss(scores, spent),)
    if spent < epsilon:
        stages += (ScoreSumAtPoint(scores, epsilon - spent),)
    return HuberMean(cell, epsilon, stages, scores, epsilon - spent)


@dataclass(frozen=True, eq=False)
class PriorSample:
    """Cells as the prior draws them.

    Attributes
    ----------
    sums : PrivateSums
        Of drawn values: nothing private.
    truth : ndarray of float, shape (scenarios,)
        Mean of each cell, in parts of the span.
    group : ndarray of int, shape (scenarios,)
        Number of the spread that each cell was drawn with.
    """

    sums: PrivateSums
    truth: Floats
    group: Ints


def _subsample(counts: Ints, epsilon: Fraction) -> tuple[CellProblem, Fraction]:
    """Return users in order of counts, every k-th of them if they are many, and ε for as few."""
    ordered = np.sort(counts)
    if ordered.size > MAX_USERS:
        every = (np.arange(MAX_USERS) + 0.5) * ordered.size / MAX_USERS
        # Evenly by rank, so that the shape of the counts stays.
        ordered = ordered[every.astype(np.int64)]
    # Fewer users at a larger ε: the noise stays as large beside the mean.
    thinned_epsilon = epsilon * Fraction(counts.size, ordered.size)
    return CellProblem(ordered, Fraction(0), Fraction(1, STUDY_SPAN), STUDY_SPAN), thinned_epsilon


def draw_scenarios(cell: CellProblem, spreads: tuple[float, ...], within: float) -> PriorSample:
    """Return the prior's cells at these counts: always the same ones."""
    # The seed is fixed: a plan depends on public facts alone, and comes out alike twice.
    generator = np.random.default_rng(0)
    number = np.arange(SCENARIOS)
    group = number % len(spreads)
    level = generator.permutation((number + 0.5) / SCENARIOS)
    shape = SCENARIOS, cell.counts.size
    means = level[:, None] + np.array(spreads)[group][:, None] * generator.normal(size=shape)
    means += generator.normal(size=shape) * (within / np.sqrt(cell.counts))
    means = np.clip(means, 0.0, 1.0)
    return PriorSample(cell.sums(means), means @ cell.counts / cell.total, group)


def _predict_error(
    allocation: HuberMean, scenarios: PriorSample
) -> tuple[float, tuple[float, ...]]:
    """Return the predicted error of an allocation with its best curve, and that curve."""
    y, chance = _outcomes(allocation, scenarios.sums)
    truth = np.broadcast_to(scenarios.truth[:, None], y.shape)
    unbent = _mean_error(np.abs(y - truth), chance, scenarios.group)
    if allocation.scores.points.size > 1 and allocation.mean_epsilon:
        return unbent, allocation.curve
    bent = replace(allocation, curve=_fit_curve(y, truth, chance))
    score = PREFERENCE * _mean_error(np.abs(bent.bend(y) - truth), chance, scenarios.group)
    return (score, bent.curve) if score < unbent else (unbent, allocation.curve)


def _outcomes(allocation: HuberMean, sums: PrivateSums) -> tuple[Floats, Floats]:
    """Return all y that each scenario can give, shape (scenarios, outcomes), and their chances."""
    scores = allocation.scores
    balance = scores.values(sums)
    n, candidates = balance.shape
    chance = np.ones(balance.shape)
    if isinstance(allocation.stages[0], BalancePoint):
        scale = allocation.stages[0].scale / COST_STEPS
        chance = selection_laws(np.abs(balance) / scores.max_sensitivity, scale)
    # Fewer parts of the noise where each of many candidates has them.
    noise = NOISE if candidates == 1 else NOISE[2::5]
    noise = noise if allocation.mean_epsilon else np.zeros(1)
    drawn = allocation.relative_scales()[:, None] * noise
    number = np.broadcast_to(np.arange(candidates)[:, None], drawn.shape)
    offset = balance[:, :, None] / (allocation.cell.span * scores.total_weight) + drawn
    y = np.broadcast_to(allocation.locate(number, offset), (n, *drawn.shape))
    spread_chance = np.broadcast_to(chance[:, :, None] / drawn.shape[1], y.shape)
    return y.reshape(n, drawn.size), spread_chance.reshape(n, drawn.size)


def _mean_error(errors: Floats, chance: Floats, group: Ints) -> float:
    """Return the geometric mean, over the kinds of cells, of the mean absolute error."""
    # Geometric, so that kinds of cells with small errors count as much as others.
    kinds = np.bincount(group, (errors * chance).sum(axis=1)) / np.bincount(group)
    return float(np.exp(np.log(kinds + 1e-9).mean()))


def _fit_curve(y: Floats, truth: Floats, chance: Floats) -> tuple[float, ...]:
    """Return the curve of degree three with nearly the least mean absolute error.

    By least squares, weighed anew with the inverse of the errors; tied to no curve at all where the
    outcomes do not say.
    """
    terms, goal = odd_powers(y, 2).reshape(-1, 2), truth.ravel() - 0.5
    weight, tie = chance.ravel(), 1e-9 * np.eye(2)
    # Weights are inverse errors: without a floor one exact outcome would get all of it.
    floor = 0.1 * float((weight * np.abs(y.ravel() - truth.ravel())).sum() / weight.sum()) + 1e-9
    factors = np.array([1.0, 0.0])
    for _ in range(6):
        errors = np.maximum(np.abs(terms @ factors - goal), floor)
        pull = (terms * (weight / errors)[:, None]).T
        factors = np.linalg.solve(pull @ terms + tie, pull @ goal + tie[0])
    return tuple(float(factor) for factor in factors)


def odd_powers(y: Floats, degree: int) -> Floats:
    """Return z, z³, z⁵, ... along a new last axis, z = y less one half."""
    z = y - 0.5
    return np.stack([z ** (2 * i + 1) for i in range(degree)], axis=-1)
