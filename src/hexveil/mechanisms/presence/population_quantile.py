"""Private quantile of a population of private size.

Each unit spreads at most V whole votes over its values. Let F(j) be the votes of values at or below
candidate j and n all votes. For the quantile q = a/d, candidate j costs

    |d F(j) - a n|

and permute-and-flip (the vetted noisy max) chooses one of low cost. A declared penalty per
candidate may be added: where many candidates have the same F, the first is preferred.

Neighbours: all records of one privacy unit are added or removed; n changes with them.
Sensitivity: a unit with v <= V votes in all, f of them at or below j, moves d F(j) - a n by
d f - a v, which lies in [-a v, (d - a) v]. So every cost moves by at most V max(a, d - a): in units
of d votes, by max(q, 1 - q) per vote. A penalty does not depend on records.
Loss: 2 V max(a, d - a) / scale. Some costs rise while others fall, so the library's "monotonic"
distance is not asked for.
Source: permute-and-flip (McKenna and Sheldon, 2020; ERRATA 12); the sensitivity is proved above.

Costs stay below 2^62 for fewer than 2^34 units and d <= 100, so the noise door refuses no records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.contract import DrawnRow, NoisyMax, Scores
from hexveil.mechanisms.presence.any_unit import score_sensitivity, total_over_units
from hexveil.mechanisms.presence.contribution import (
    L1,
    PARTS,
    Norm,
    priced_records,
)
from hexveil.mechanisms.private_quantile import selection_scale

if TYPE_CHECKING:
    from fractions import Fraction

    from hexveil.mechanisms.contract import (
        Ints,
        NoiseRequest,
        Outputs,
        PrivateSums,
        SensitivityReport,
    )
    from hexveil.mechanisms.private_quantile import ListedPoints
    from hexveil.model.private_pairs import PrivatePairs

MAX_DENOMINATOR = 100


@dataclass(frozen=True)
class QuantileCost:
    """Cost |d F - a n| of the quantile a/d; see the module's head.

    Attributes
    ----------
    numerator, denominator : int
        0 <= a <= d <= `MAX_DENOMINATOR`.
    """

    numerator: int
    denominator: int

    @classmethod
    def of(cls, quantile: Fraction) -> QuantileCost:
        """Return the cost of a quantile.

        Examples
        --------
        >>> from fractions import Fraction
        >>> QuantileCost.of(Fraction("0.85"))
        QuantileCost(numerator=17, denominator=20)
        """
        if not 0 <= quantile <= 1 or quantile.denominator > MAX_DENOMINATOR:
            raise ValueError(f"{quantile} is no quantile in parts of at most {MAX_DENOMINATOR}.")
        return cls(quantile.numerator, quantile.denominator)

    @property
    def sensitivity(self) -> int:
        """Largest change of a cost per vote of a unit: max(a, d - a)."""
        return max(self.numerator, self.denominator - self.numerator)

    def costs(self, cumulative: Ints) -> Ints:
        """Return the costs, for votes at or below each candidate and, at last, all votes."""
        below = self.denominator * cumulative[:, :-1]
        return np.asarray(np.abs(below - self.numerator * cumulative[:, -1:]))


@dataclass(frozen=True, eq=False)
class UnitTotals:
    """Priced records of each unit, `PARTS` votes each; units without any do not vote.

    Attributes
    ----------
    prices : ndarray of int64, shape (n_cells,)
    norm : Norm
        Size of a unit's priced records, as in the map that is capped.
    """

    prices: Ints
    norm: Norm = L1

    def values_and_votes(self, pairs: PrivatePairs) -> tuple[Ints, Ints]:
        """Return the totals and their votes. PRIVATE."""
        totals = self.norm.sizes(pairs, priced_records(pairs, self.prices))
        return totals, PARTS * (totals > 0).astype(np.int64)


@dataclass(frozen=True, eq=False)
class PopulationQuantile(DrawnRow):
    """Choice of a candidate near a quantile of voted values; its row is the candidate's number.

    Attributes
    ----------
    name : str
    values : UnitTotals
    candidates : ListedPoints
    cost : QuantileCost
    scale : float
    penalty : int
        Added to the cost of candidate j: j times. Declared.
    """

    name: str
    values: UnitTotals
    candidates: ListedPoints
    cost: QuantileCost
    scale: float
    penalty: int = 0

    @classmethod
    def at_loss(
        cls,
        name: str,
        values: UnitTotals,
        candidates: ListedPoints,
        quantile: Fraction,
        epsilon: Fraction,
        penalty_votes: int = 0,
    ) -> PopulationQuantile:
        """Return the stage that costs any unit at most ε."""
        cost = QuantileCost.of(quantile)
        scale = selection_scale(PARTS * cost.sensitivity, epsilon)
        # A cost counts d for a vote.
        penalty = penalty_votes * PARTS * cost.denominator
        return cls(name, values, candidates, cost, scale, penalty)

    @property
    def entries(self) -> int:
        """The number of one candidate."""
        return 1

    def selected(self, outputs: Outputs) -> int:
        """Return the point that was chosen."""
        return int(self.candidates.points(outputs[self.name][0])[0])

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return permute-and-flip of the stage's scale."""
        return (NoisyMax(self.scale),)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return the largest change of a cost by any unit."""
        return (score_sensitivity(PARTS * self.cost.sensitivity),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Scores, ...]:  # noqa: ARG002
        """Return the scores of the candidates. PRIVATE."""
        size = self.candidates.size
        cumulative = np.cumsum(total_over_units(sums, self.tally))[None]
        costs = self.cost.costs(cumulative) + self.penalty * np.arange(size, dtype=np.int64)
        return (Scores(-costs, np.ones((1, size), dtype=np.int64)),)

    def tally(self, pairs: PrivatePairs) -> Ints:
        """Return the votes for each candidate, and last those beyond all of them. PRIVATE."""
        values, votes = self.values.values_and_votes(pairs)
        places, size = self.candidates.places(values), self.candidates.size
        # Exact: every partial sum is a whole number below 2^53.
        return np.bincount(places, weights=votes, minlength=size + 1).astype(np.int64)
