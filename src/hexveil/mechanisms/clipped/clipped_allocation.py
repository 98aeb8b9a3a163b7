"""Releases of clipped statistics: one stage, in which every cell's mean and variance is noised.

Proofs: mechanisms/clipped/clipped_mean.py and mechanisms/clipped/clipped_variance.py. A cell
without noise publishes a constant and its values are not read; without any noised cell there is no
stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hexveil.accounting.error_model import ErrorModel
from hexveil.accounting.noise_law import LAPLACE, NoiseLaw
from hexveil.base.arrays import Floats, Ints
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.clipped.clipped_mean import ClippedMean
from hexveil.mechanisms.clipped.clipped_variance import ClippedVariance
from hexveil.mechanisms.clipped.renormalised_mean import RenormalisedMean
from hexveil.mechanisms.contract import (
    DONE,
    Decoded,
    DrawnRow,
    EstimateGrid,
    NoiseRequest,
    Outputs,
    PrivateSums,
    SensitivityReport,
    Values,
)
from hexveil.mechanisms.sensitivity_report import MappedMoves, noise_of_law
from hexveil.model.public_metadata import ValueLattice

CELLS = "cells"
"""Name of the stage in which the cells' own numbers are drawn: the last of every release."""


ClippedStatistic: TypeAlias = ClippedMean | RenormalisedMean | ClippedVariance
"""One statistic of every cell."""


@dataclass(frozen=True, eq=False)
class ClippedStage(DrawnRow):
    """Integers of all noised cells, one statistic after the other, in one draw."""

    statistics: tuple[ClippedStatistic, ...]
    user_sensitivity: MappedMoves
    name: str = CELLS
    law: NoiseLaw = LAPLACE

    @property
    def entries(self) -> int:
        """One integer per statistic and noised cell."""
        return sum(statistic.noised_cells.size for statistic in self.statistics)

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return the noise of all noised cells."""
        scales = np.concatenate([statistic.scales for statistic in self.statistics])
        return (noise_of_law(self.law, scales),)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return how far each user can move them."""
        return (self.user_sensitivity,)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the integers of all noised cells. PRIVATE."""
        noised = [statistic for statistic in self.statistics if statistic.noised_cells.size]
        return (Values(np.concatenate([statistic.measure(sums) for statistic in noised], axis=1)),)


@dataclass(frozen=True, eq=False)
class ClippedAllocation(ReadOnlyArrays):
    """Public plan of clipped means and variances.

    Attributes
    ----------
    stage : ClippedStage
    booked : ndarray of float, shape (n_users,)
        Loss of each user, or its square of μ, rounded up (planning/clipping_range/clipping.py).
    """

    stage: ClippedStage
    booked: Floats

    def losses(self) -> Floats:
        """Return each user's privacy loss, rounded up: booked."""
        return self.booked

    def next_stage(self, earlier: Outputs) -> ClippedStage | None:
        """Return the only stage, and none if no cell is noised."""
        # Where every cell is a constant there is nothing to draw, and no value is read.
        return DONE if len(earlier) or not self.stage.entries else self.stage

    def check_release(self, scale: ValueLattice, epsilon: float, *, has_squares: bool) -> None:
        """Refuse variances without sums of squares, or that leave 64 bits."""
        for statistic in self.stage.statistics:
            statistic.check(scale.span_quanta, epsilon, has_squares=has_squares)

    def grids(self, models: Mapping[str, ErrorModel]) -> dict[str, EstimateGrid]:  # noqa: ARG002
        """Return where published numbers can lie, by statistic."""
        return {statistic.name: statistic.grid() for statistic in self.stage.statistics}

    def view(self, outputs: Outputs) -> None:
        """Return nothing: means within the bounds have no posterior."""

    def numbers(self, outputs: Outputs) -> dict[str, Ints]:
        """Return each statistic's integer of every cell: noisy, or constant."""
        sizes = [statistic.noised_cells.size for statistic in self.stage.statistics]
        row = outputs[CELLS][0] if CELLS in outputs else np.zeros(0, dtype=np.int64)
        numbers = {}
        columns = np.split(row, np.cumsum(sizes)[:-1])
        for statistic, noisy in zip(self.stage.statistics, columns, strict=True):
            filled = statistic.constants.copy()
            filled[statistic.noised_cells] = noisy
            numbers[statistic.name] = filled
        return numbers

    def decode(self, outputs: Outputs) -> tuple[Decoded, ...]:
        """Return the published statistics."""
        numbers = self.numbers(outputs)
        return tuple(
            Decoded(
                statistic.name,
                statistic.estimates(numbers[statistic.name])[None],
                statistic.grid(),
                statistic.error,
            )
            for statistic in self.stage.statistics
        )
