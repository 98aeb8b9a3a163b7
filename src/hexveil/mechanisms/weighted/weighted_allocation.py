"""Releases in a private clipping range: the range, then weighted means, and second moments.

Proofs: mechanisms/private_quantile.py (the range), mechanisms/weighted/weighted_mean.py and
mechanisms/weighted/weighted_variance.py. A map is one data set: of a batch there is one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.accounting.noise_law import LAPLACE
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.clipped.clipped_allocation import CELLS
from hexveil.mechanisms.contract import (
    DONE,
    Decoded,
    DrawnRow,
    LaplaceNoise,
    Separate,
    Values,
)
from hexveil.mechanisms.released_ranges import widened
from hexveil.mechanisms.sensitivity_report import SquaredMoves, noise_of_law
from hexveil.mechanisms.weighted.factored_sensitivity import FactoredSensitivity, FactoredSquares

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.mechanisms.clipped.clipped_mean import CellLattice
    from hexveil.mechanisms.contract import (
        Floats,
        Ints,
        NoiseRequest,
        Outputs,
        PrivateSums,
        SensitivityReport,
        Stage,
    )
    from hexveil.mechanisms.map_quantiles import RangeQuantiles
    from hexveil.mechanisms.weighted.weighted_mean import WeightedMean
    from hexveil.mechanisms.weighted.weighted_variance import WeightedVariance


class RangeErrors(Protocol):
    """Error models of the statistics, once the range is released."""

    def __call__(self, ends: tuple[int, int]) -> Mapping[str, ErrorModel]:
        """Return the error model of each statistic for this range, in quanta."""


@dataclass(frozen=True, eq=False)
class WeightedStage(DrawnRow):
    """Weighted sums of user means in the range, and of second moments, in one draw.

    Attributes
    ----------
    mean : WeightedMean
    variances : tuple of WeightedVariance
        One, or none.
    ends : pair of int
        The released range.
    lattice_steps : int
        Width of the records' bounds in quanta.
    """

    mean: WeightedMean
    variances: tuple[WeightedVariance, ...]
    ends: tuple[int, int]
    lattice_steps: int
    name: str = CELLS
    law: NoiseLaw = LAPLACE

    @property
    def entries(self) -> int:
        """One integer per statistic and cell."""
        return self.mean.noise.size * (1 + len(self.variances))

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return noise for the width of the range, and for the squared radius."""
        # Means first: the order of the stored row, which noise, sensitivity and measure share.
        means = self.mean.scales(self.ends[1] - self.ends[0])
        squares = [variance.scales for variance in self.variances]
        if self.law != LAPLACE:
            # One vector: what a unit moves in it is limited in L2, not statistic by statistic.
            return (noise_of_law(self.law, np.concatenate([means, *squares])),)
        return tuple(map(LaplaceNoise, (means, *squares)))

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return how far each user can move them."""
        means = self.mean.sensitivity(self.ends[1] - self.ends[0])
        reports = means, *(variance.sensitivity() for variance in self.variances)
        if self.law == LAPLACE:
            return reports
        elsewhere = [report for report in reports if isinstance(report, FactoredSensitivity)]
        if elsewhere:
            return (FactoredSquares(tuple(elsewhere)),)
        moves = [report for report in reports if isinstance(report, Separate)]
        return (SquaredMoves(Separate.side_by_side(moves, self.mean.noise.size)),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the integers of all cells. PRIVATE."""
        numbers = [
            self.mean.measure(sums, self.ends),
            *(variance.measure(sums, self.ends, self.lattice_steps) for variance in self.variances),
        ]
        if self.law != LAPLACE:
            return (Values(np.concatenate(numbers, axis=1)),)
        return tuple(map(Values, numbers))


@dataclass(frozen=True, eq=False)
class WeightedAllocation(ReadOnlyArrays):
    """Public plan of weighted means in a private clipping range.

    Attributes
    ----------
    range : RangeQuantiles
        The stage that chooses the ends.
    widening : Fraction
        By how much the released range is widened around its middle.
    mean : WeightedMean
    variances : tuple of WeightedVariance
        One, or none.
    published : tuple of str
        Statistics that are published; the mean is measured in any case.
    lattice : CellLattice
        Of cells that all have the records' bounds.
    lattice_steps : int
        Width of the records' bounds in quanta.
    booked : ndarray of float, shape (n_users,)
        Loss of each user, rounded up.
    errors : RangeErrors
    """

    range: RangeQuantiles
    widening: Fraction
    mean: WeightedMean
    variances: tuple[WeightedVariance, ...]
    published: tuple[str, ...]
    lattice: CellLattice
    lattice_steps: int
    booked: Floats
    errors: RangeErrors
    kind: str = "weighted"
    law: NoiseLaw = LAPLACE

    def losses(self) -> Floats:
        """Return each user's privacy loss, whatever range is released; rounded up: booked."""
        return self.booked

    def next_stage(self, earlier: Outputs) -> Stage | None:
        """Return the choice of the range, then the cells' own numbers."""
        if not earlier:
            return self.range
        if len(earlier) == 1:
            # Exact arithmetic on the stored ends: a release that is resumed widens them alike.
            ends = self.released_range(earlier)
            return WeightedStage(self.mean, self.variances, ends, self.lattice_steps, law=self.law)
        return DONE

    def released_range(self, outputs: Outputs) -> tuple[int, int]:
        """Return the ends in quanta above the lower bound of the records."""
        return widened(self.range.ends(outputs), self.lattice_steps, self.widening)

    def numbers(self, outputs: Outputs) -> dict[str, Ints]:
        """Return the noisy integers of each statistic."""
        # The mean is drawn whether or not it is published: a variance is decoded with it.
        names = ("mean", "variance")[: 1 + len(self.variances)]
        columns = np.split(outputs[CELLS][0], len(names))
        return dict(zip(names, columns, strict=True))

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the published statistics."""
        ends, numbers = self.released_range(outputs), self.numbers(outputs)
        errors = self.errors(ends)
        decoded = {}
        mean = self.lattice.in_units(self.mean.averages(numbers["mean"]))
        grid = self.mean.grid(self.lattice)
        decoded["mean"] = mean, grid
        for variance in self.variances:
            grid = variance.grid(errors["variance"].unit)
            # A whole number of steps, so that the published variance lies on its grid.
            in_steps = variance.estimates(
                numbers["variance"], numbers["mean"], ends, self.lattice_steps
            )
            decoded["variance"] = in_steps * grid.step, grid
        return tuple(
            Decoded(name, decoded[name][0][None], decoded[name][1], errors[name])
            for name in self.published
        )
