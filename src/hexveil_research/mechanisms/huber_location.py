"""Huber location in integers: a private point about which user scores balance, and their sum there.

User l with the public whole weight V has u = floor(V s/m), from 0 to V S for its sum s of m records
and bounds of S quanta. At a point θ, whole quanta, its score is clip(u - V θ, ±H) with the public
whole number H, the reach. The score sum B(θ) = Σ_l clip(u_l - V_l θ, ±H) falls in θ and vanishes at
a Huber location: the weighted mean for a long reach, the median of users for a short one.

Two stages. One chooses a point from public candidates θ_j at cost floor(Q |B(θ_j)|/r_j), Q = 2^20
and r_j = max_l d_lj. The other noises B at the point chosen, with scale r_c/ε''.

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity of B(θ_j): d_lj = min(V (S - θ_j), H) + min(V θ_j, H), exactly: u is monotone in s and
reaches 0 and V S, so a score lies between its values there and takes both. Of the costs: |B| moves
by at most d_lj, and floor(Q x/r) by at most ceil(Q d/r) when x moves by d.
Loss: 2 max_j ceil(Q d_lj/r_j)/scale for the choice by permute-and-flip (ERRATA 12), at most ε' at
scale 2 Q/ε' rounded up; d_lc/(r_c/ε''), at most ε'', for the noise, whatever point was chosen.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.base.rational import round_down, round_up
from hexveil.mechanisms.contract import DrawnRow
from hexveil.mechanisms.private_quantile import ROUND_UP, selection_scale
from hexveil.mechanisms.sensitivity_report import LaplaceNoise, NoiseRequest, NoisyMax, Separate
from hexveil.mechanisms.single_cell.clipped_user_sums import check_int64, weighted_share
from hexveil.mechanisms.stage_data import Outputs, PrivateSums, Scores, Values

COST_STEPS = 2**20
"""Q: steps of the cost that one user can move."""

EXACT_IN_DOUBLES = 2**53

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """B at every candidate: see the module's head.

    Attributes
    ----------
    counts, weight : ndarray of int64, shape (n_users,)
        m and V.
    reach : int
        H, at least 1.
    points : ndarray of int64, shape (n_candidates,)
        θ, ascending.
    span : int
        S.
    """

    counts: Ints
    weight: Ints
    reach: int
    points: Ints
    span: int

    @cached_property
    def key(self) -> Hashable:
        """Content."""
        return "score sums", self.reach, self.points.tobytes(), self.weight.tobytes()

    @cached_property
    def total_weight(self) -> int:
        """ΣV."""
        return int(self.weight.sum())

    def values(self, sums: PrivateSums) -> Ints:
        """Return B, shape (batch, n_candidates). PRIVATE."""
        heights = weighted_share(self.weight, sums.total, self.counts, self.span)
        if self.points.size == 1:
            scores = np.clip(heights - self.weight * self.points[0], -self.reach, self.reach)
            return np.asarray(scores.sum(axis=1, keepdims=True))
        return self._at_all_points(heights)

    def _at_all_points(self, heights: Ints) -> Ints:
        """Return B at every candidate by running sums: users plus candidates, not their product.

        A user's score is H up to the last point at or below (u - H)/V, -H from the first one at or
        above (u + H)/V, and u - V θ in between.
        """
        falling = np.searchsorted(self.points, (heights - self.reach) // self.weight, "right")
        lowest = np.searchsorted(self.points, -(-(heights + self.reach) // self.weight), "left")
        weights = np.broadcast_to(self.weight, heights.shape)
        n_falling, n_lowest = self._upto(falling, None), self._upto(lowest, None)
        height = self._upto(falling, heights) - self._upto(lowest, heights)
        slope = self._upto(falling, weights) - self._upto(lowest, weights)
        at_reach = heights.shape[1] - n_falling - n_lowest
        return np.asarray(self.reach * at_reach + height - self.points * slope)

    def _upto(self, place: Ints, terms: Ints | None) -> Ints:
        """Return the sums of terms (ones if None) with a place at or below each candidate."""
        rows, width = len(place), self.points.size + 1
        bins = (place + width * np.arange(rows)[:, None]).ravel()
        if terms is None:
            sums = np.bincount(bins, minlength=rows * width)
        # bincount adds in doubles: faster, and exact below 2^53.
        elif self.total_weight * self.span < EXACT_IN_DOUBLES:
            sums = np.bincount(bins, terms.ravel(), minlength=rows * width).astype(np.int64)
        else:
            sums = np.zeros(rows * width, dtype=np.int64)
            np.add.at(sums, bins, terms.ravel())
        return np.asarray(np.cumsum(sums.reshape(rows, width), axis=1)[:, :-1], dtype=np.int64)

    def room(self) -> tuple[Ints, Ints]:
        """Return the smallest and the largest B at each candidate, whatever the values."""
        v = self.weight[:, None]
        lowest = -np.minimum(v * self.points, self.reach).sum(axis=0)
        return lowest, np.minimum(v * (self.span - self.points), self.reach).sum(axis=0)

    @cached_property
    def user_sensitivity(self) -> Ints:
        """Largest change d of B by each user at each candidate, shape (n_users, n_candidates)."""
        v = self.weight[:, None]
        above = np.minimum(v * (self.span - self.points), self.reach)
        return np.asarray(above + np.minimum(v * self.points, self.reach))

    @cached_property
    def max_sensitivity(self) -> Ints:
        """Largest change r of B by any user at each candidate."""
        return np.asarray(self.user_sensitivity.max(axis=0))


@dataclass(frozen=True, eq=False)
class BalancePoint(DrawnRow):
    """Choice of a point about which scores nearly balance.

    Attributes
    ----------
    scores : ScoreSums
    scale : float
        Of permute-and-flip.
    """

    scores: ScoreSums
    scale: float

    name = "point"
    entries = 1

    @classmethod
    def at_loss(cls, scores: ScoreSums, epsilon: Fraction) -> BalancePoint:
        """Return the choice with a loss of at most ε."""
        return cls(scores, selection_scale(COST_STEPS, epsilon))

    @cached_property
    def user_sensitivity(self) -> Ints:
        """Largest change of any cost by each user."""
        # Rounded up: the floor of a cost can move one step further than the quotient.
        steps = -(-COST_STEPS * self.scores.user_sensitivity // self.scores.max_sensitivity)
        return np.asarray(steps.max(axis=1))

    def costs(self, balance: Ints) -> Ints:
        """Return floor(Q |B|/r) without leaving 64 bits. PRIVATE."""
        # Q |B| may leave 64 bits; whole part and remainder do not.
        quotient, remainder = np.divmod(np.abs(balance), self.scores.max_sensitivity)
        return np.asarray(
            COST_STEPS * quotient + COST_STEPS * remainder // self.scores.max_sensitivity
        )

    def losses(self) -> Floats:
        """Return each user's loss, rounded up."""
        moves = Separate.of_one_entry(self.user_sensitivity)
        return moves.loss_upper_bound(NoisyMax(self.scale))

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return the choice."""
        return (NoisyMax(self.scale),)

    def sensitivity(self, earlier: Outputs) -> tuple[Separate, ...]:  # noqa: ARG002
        """Return by how much each user moves a cost."""
        return (Separate.of_one_entry(self.user_sensitivity),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Scores, ...]:  # noqa: ARG002
        """Return the scores of the candidates. PRIVATE."""
        ones = np.ones((1, self.scores.points.size), dtype=np.int64)
        # Permute-and-flip takes the largest score: costs are negated.
        return (Scores(-self.costs(sums.read(self.scores)), ones),)


@dataclass(frozen=True, eq=False)
class ScoreSumAtPoint(DrawnRow):
    """B at the point chosen; at the only candidate if there is no choice.

    Attributes
    ----------
    scores : ScoreSums
    epsilon : Fraction
        Loss of the most exposed user.
    """

    scores: ScoreSums
    epsilon: Fraction

    name = "score"
    entries = 1

    def __post_init__(self) -> None:
        total = self.scores.total_weight * self.scores.span
        check_int64(total, float(self.scales.max()))

    @cached_property
    def scales(self) -> Floats:
        """Noise scale at each candidate, rounded up."""
        return np.nextafter(self.scores.max_sensitivity / round_down(self.epsilon), np.inf)

    def losses(self) -> Floats:
        """Return each user's loss, rounded up, whatever point was chosen."""
        relative = (self.scores.user_sensitivity / self.scores.max_sensitivity).max(axis=1)
        return np.asarray(round_up(self.epsilon) * relative * ROUND_UP)

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:
        """Return the noise at the point chosen."""
        return (LaplaceNoise(self.scales[selected_point(earlier)][:, None]),)

    def sensitivity(self, earlier: Outputs) -> tuple[Separate, ...]:
        """Return by how much each user moves B at the point of the first data set."""
        return (
            # A release is one data set. A study has many, and no meter that would ask.
            Separate.of_one_entry(self.scores.user_sensitivity[:, int(selected_point(earlier)[0])]),
        )

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:
        """Return B at the point chosen. PRIVATE."""
        balance, selected = sums.read(self.scores), selected_point(earlier)
        rows = np.arange(len(balance)) if len(balance) > 1 else np.zeros(1, dtype=np.int64)
        return (Values(balance[rows, selected][:, None]),)


def selected_point(outputs: Outputs) -> Ints:
    """Return the number of the candidate chosen, shape (batch,); 0 if there was no choice."""
    return outputs["point"][:, 0] if "point" in outputs else np.zeros(1, dtype=np.int64)


def selection_laws(costs: Floats, scale: float) -> Floats:
    """Return the law of permute-and-flip for each row of costs, to about 1e-6.

    For prediction only: as `simulated_noise.law`, with one substitution for all intervals.

    Examples
    --------
    >>> selection_laws(np.array([[0.0, 1.0]]), 1 / np.log(4)).round(6).tolist()
    [[0.875, 0.125]]
    """
    odds = np.exp(-(costs - costs.min(axis=1, keepdims=True)) / scale)
    steep = 3.0 * odds.sum(axis=1)[:, None]
    power = np.log1p(steep)
    grown = np.exp((NODES + 1.0) / 2.0 * power)
    u, step = (grown - 1.0) / steep, NODE_WEIGHTS / 2.0 * power * grown / steep
    missed = np.log1p(-u[:, :, None] * odds[:, None, :])
    n_falling = np.exp(missed.sum(axis=2, keepdims=True) - missed)
    chance = odds * (n_falling * step[:, :, None]).sum(axis=1)
    return np.asarray(chance / chance.sum(axis=1, keepdims=True), dtype=np.float64)
