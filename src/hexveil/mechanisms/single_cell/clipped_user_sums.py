"""Mean of user sums clipped to the middle of the bounds: BASELINE and OPTIMAL CLIPPING.

With the public contribution cap t, user l with m records and the sum s contributes, in half quanta,

    clip(2 s, S m - w, S m + w),    w = S min(m, t),

and the estimate is (Σ + noise)/(2 N): WC Theorem III.1's projection of the user's mean to the
middle t/m of the bounds. With t = 0 nothing is read and the middle of the bounds is published.

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: 2 w, exactly (`linear_sum`); U min(m, t)/N of the estimate.
Loss: ε for a user with at least t samples, ε m/t for the others; 0 with t = 0.
Worst-case bias: U Σ max(m - t, 0)/(2 N) (WC Lemma III.1, exact since the intervals are symmetric
about the middle, ERRATA 14).

BASELINE: the plain mean, with noise for the user of most samples.

Source: COMP eq. (5); RW and IOT's BASELINE.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: U m*/N. Loss: ε for the largest user, ε m/m* for a user of m samples. No bias.
Integers, measuring and decoding: `clipped_user_sums` with t = m*, which clips nothing.

OPTIMAL CLIPPING: the projection of user means with the least worst-case error.

Source: WC Theorem III.1; error as corrected in ERRATA 5.
Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: T/N with T the ⌈2/ε⌉-th largest U m, 0 if there are fewer users.
Loss: ε for a user with U m >= T, ε U m/T for the others; 0 where T = 0 (no value is read).
Integers, measuring and decoding: `clipped_user_sums` with t = T/U.

Sum of fixed, clipped contributions: the one stage of mechanisms without private choices.

User l with m records, their sum s in quanta, 0 <= s <= S m, and the whole weight W contributes

    c = clip(floor(W s/m), low, high),    0 <= low <= high <= W S whole and public.

Neighbours: one user's values all change within the bounds; users and counts are public.
Sensitivity: floor(W s/m) is monotone in s, 0 at s = 0 and W S at s = S m. So c takes low and high
and nothing beyond: a user moves the sum by high - low, exactly.
Loss: (high - low)/R for discrete Laplace noise of scale R = max (high - low)/ε, rounded up; ε for
the most exposed user.
"""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from hexveil.accounting.bias import linear_bias
from hexveil.accounting.error_model import LN20
from hexveil.accounting.pseudo_user_caps import clipping_rank
from hexveil.accounting.pseudo_users import PseudoUsers
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.mechanisms.contract import DrawnRow
from hexveil.mechanisms.sensitivity_report import LaplaceNoise, NoiseRequest, Separate
from hexveil.mechanisms.single_cell import CellAllocation, CellMechanism, CellProblem, EstimateError
from hexveil.mechanisms.stage_data import ROOM, TAIL, Outputs, PrivateSums, Values


@dataclass(frozen=True, eq=False)
class LinearMean(CellAllocation):
    """A sum of fixed contributions over a public divisor; without a stage the middle of the bounds.

    Attributes
    ----------
    divisor : int
        The estimate is the noisy sum over this.
    contribution_cap : int
        t: records kept of a user; 0 publishes the middle of the bounds.
    groups : PseudoUsers, optional
        Which samples share an array, of averages of array means: `.cap`, `.n_arrays`, `.weights`.
    """

    divisor: int
    contribution_cap: int = 0
    groups: PseudoUsers | None = None

    def estimate(self, outputs: Outputs) -> Floats:
        """Return the estimates: see `CellAllocation.estimate`."""
        if not self.stages:
            return np.array([self.cell.span / 2.0])
        return np.asarray(outputs["mean"][:, 0] / self.divisor)

    def sensitivity(self, width: float) -> float:
        """Return U max w of array means, U t/N of user sums."""
        if self.groups is not None:
            return float(self.groups.user_sensitivity(width).max())
        return width * self.contribution_cap / self.cell.total

    def error(self, width: float) -> EstimateError:
        """Return the proven error: see `CellAllocation.error`."""
        if self.groups is not None:
            bias = linear_bias(self.groups.weights, self.cell.counts, width)
        else:
            excess = float(np.maximum(self.cell.counts - self.contribution_cap, 0).sum())
            bias = width * excess / (2.0 * self.cell.total)
        scale = self.sensitivity(width) / float(self.epsilon)
        return EstimateError(scale, bias + scale * LN20, bias)

    def grid(self) -> tuple[float, float]:
        """Return multiples of a quantum over the divisor, or the constant."""
        return (0.0, 1.0 / self.divisor) if self.stages else (self.cell.span / 2.0, 0.0)


class ThresholdMechanism(CellMechanism):
    """Base of mechanisms with a contribution cap that is one of the cell's counts, chosen by rank.

    A release keeps of each user at most as many samples as the `rank`-th largest user has; a
    cell with fewer users than that publishes the middle of its bounds, without noise.
    """

    @abstractmethod
    def rank(self, epsilon: Fraction) -> int:
        """Return which largest count is the cap for a cell loss of `epsilon`."""

    @abstractmethod
    def epsilon_range(self, rank: int) -> tuple[Fraction, Fraction | None] | None:
        """Return the cell losses [low, high) with this rank; None if there are none."""

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> LinearMean:
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        rank = self.rank(epsilon)
        if rank > cell.counts.size:
            # Too few users for the rank: no stage, so that no value is read.
            return LinearMean(cell, epsilon, (), 2 * cell.total)
        cap = int(np.sort(cell.counts)[-rank])
        # In half quanta, so that the middle of the bounds is whole.
        half_width = cell.span * np.minimum(cell.counts, cap)
        middle = cell.span * cell.counts
        ends = middle - half_width, middle + half_width
        stage = LinearSum("mean", cell.counts, 2 * cell.counts, *ends, cell.span, epsilon)
        return LinearMean(cell, epsilon, (stage,), 2 * cell.total, cap)


@dataclass(frozen=True, repr=False)
class Baseline(ThresholdMechanism):
    """The plain mean plus Laplace noise of scale U m* / (N ε).

    Examples
    --------
    >>> Baseline().plan([3, 1], bounds=(0, 8), epsilon=2).noise_scale
    3.0
    """

    def rank(self, epsilon: Fraction) -> int:  # noqa: ARG002  part of the contract
        """Return 1: the largest count is the cap, so nothing is clipped."""
        return 1

    def epsilon_range(self, rank: int) -> tuple[Fraction, Fraction | None] | None:
        """Return every loss for rank 1, none for another."""
        return (Fraction(0), None) if rank == 1 else None


@dataclass(frozen=True, repr=False)
class OptimalClipping(ThresholdMechanism):
    """The mean of user means projected to U/2 ± T/(2m), plus Laplace noise of scale T / (N ε).

    Examples
    --------
    >>> plan = OptimalClipping().plan([4, 2, 1], bounds=(0, 8), epsilon=1)
    >>> plan.sensitivity == 16 / 7, plan.worst_case_bias == 8 / 7
    (True, True)
    """

    def rank(self, epsilon: Fraction) -> int:
        """Return ⌈2/ε⌉ (WC Theorem III.1)."""
        return clipping_rank(epsilon)

    def epsilon_range(self, rank: int) -> tuple[Fraction, Fraction | None] | None:
        """Return [2/k, 2/(k-1)) for rank k."""
        return Fraction(2, rank), Fraction(2, rank - 1) if rank > 1 else None


PRODUCT_ROOM = 2**62


def check_int64(total: int, scale: float) -> None:
    """Refuse, from public facts, sums or noise that could leave 64-bit integers.

    Raises
    ------
    InputError
        If they could.
    """
    # Not (>=): a scale that is no number is refused, too.
    if not total + TAIL * scale < ROOM:
        raise InputError(
            "the sum of a cell or its noise does not fit integers of 64 bits; ask for a larger "
            "epsilon or use a coarser quantum."
        )


def weighted_share(weight: Ints, total: Ints, counts: Ints, span: int) -> Ints:
    """Return floor(weight total/counts) for 0 <= total <= span counts; monotone in total. PRIVATE.

    One division where every product fits 62 bits, a public fact; else whole part and remainder.
    """
    if int(weight.max()) * int(counts.max()) * span < PRODUCT_ROOM:
        return np.asarray(total * weight // counts)
    # weight remainder < weight counts, which fits; weight total itself might not.
    quotient, remainder = np.divmod(total, counts)
    return np.asarray(weight * quotient + weight * remainder // counts)


@dataclass(frozen=True, eq=False)
class LinearSum(DrawnRow):
    """The stage of the module's head.

    Attributes
    ----------
    name : str
    counts, weight, low, high : ndarray of int64, shape (n_users,)
        m, W, and the ends of the contributions. Public.
    span : int
        S.
    epsilon : Fraction
        Loss of the most exposed user.
    """

    name: str
    counts: Ints
    weight: Ints
    low: Ints
    high: Ints
    span: int
    epsilon: Fraction
    entries: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_int64(int(self.high.sum()), self.scale)

    @property
    def user_sensitivity(self) -> Ints:
        """Largest change of the sum by each user, exact."""
        return np.asarray(self.high - self.low)

    @cached_property
    def scale(self) -> float:
        """R."""
        return round_up(Fraction(int(self.user_sensitivity.max())) / self.epsilon)

    def losses(self) -> Floats:
        """Return each user's loss, rounded up."""
        moves = Separate.of_one_entry(self.user_sensitivity)
        return moves.loss_upper_bound(LaplaceNoise(np.array([self.scale])))

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return the noise of the sum."""
        return (LaplaceNoise(np.array([self.scale])),)

    def sensitivity(self, earlier: Outputs) -> tuple[Separate, ...]:  # noqa: ARG002
        """Return by how much each user moves the sum."""
        return (Separate.of_one_entry(self.user_sensitivity),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the sum. PRIVATE."""
        shares = weighted_share(self.weight, sums.total, self.counts, self.span)
        # Clipping after rounding keeps both ends whole, so that the sensitivity is exact.
        contributions = np.clip(shares, self.low, self.high)
        return (Values(contributions.sum(axis=1, keepdims=True)),)
