"""Releases of clipped statistics: one stage, in which every cell's mean and variance is noised.

Proofs: mechanisms/clipped/clipped_mean.py and mechanisms/clipped/clipped_variance.py. A cell
without noise publishes a constant and its values are not read; without any noised cell there is no
stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hexveil.accounting import privacy_loss
from hexveil.accounting.gaussian_composition import LATTICE
from hexveil.accounting.noise_law import LAPLACE
from hexveil.base.read_only import ReadOnlyArrays
from hexveil.mechanisms.clipped.clipped_variance import STEPS
from hexveil.mechanisms.contract import (
    DONE,
    Decoded,
    DrawnRow,
    LaplaceNoise,
    Values,
)
from hexveil.mechanisms.sensitivity_report import (
    is_gaussian_sound,
    noise_of_law,
    sum_lower_bound,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.accounting.privacy_loss import LossParameters
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import (
        EstimateGrid,
        NoiseRequest,
        Outputs,
        PrivateSums,
        SensitivityReport,
    )
    from hexveil.mechanisms.sensitivity_report import GaussianNoise, SquaredMoves
    from hexveil.model.occupancy import Occupancy, Pairs
    from hexveil.model.suppressed_pairs import Suppressed

CELLS = "cells"
"""Name of the stage in which the cells' own numbers are drawn: the last of every release."""


class ClippedStatistic(Protocol):
    """One statistic of every cell: `ClippedMean` or `ClippedVariance`."""

    @property
    def name(self) -> str:
        """Statistic: "mean" or "variance"."""

    @property
    def noised_cells(self) -> Ints:
        """Numbers of the cells that are noised; of the others no value is read."""

    @property
    def scales(self) -> Floats:
        """Noise scale of each noised cell."""

    @property
    def constants(self) -> Ints:
        """Integer of each cell that is published without noise."""

    @property
    def error(self) -> ErrorModel:
        """Error model of the estimates."""

    def measure(self, sums: PrivateSums) -> Ints:
        """Return the integer of each noised cell, shape (batch, n_noised). PRIVATE."""

    def estimates(self, noisy: Ints) -> Floats:
        """Return the published numbers, in value units, from the integers of all cells."""

    def grid(self) -> EstimateGrid:
        """Return where published numbers can lie."""


@dataclass(frozen=True, eq=False)
class ClippedSensitivity(ReadOnlyArrays):
    """Privacy loss of each user by the noise of clipped statistics, computed in blocks of pairs.

    The formula is the one that was booked (accounting/privacy_loss.py), with the scales that go to
    the noise source in place of the planned ones. Mean and variance of a cell have a joint bound.

    Attributes
    ----------
    occupancy : Occupancy
    charges : LossParameters
        As planned.
    users, suppressed : tuples of ndarray
        Factors of users, and pairs that contribute nothing.
    width : ndarray of int64, shape (n_cells,)
        Width of each cell's bounds in quanta.
    mean_cells, variance_cells : ndarray of int64
        Cells of the entries of the request, means first.
    losses : callable
        The formula, as a function of pairs.
    """

    occupancy: Occupancy
    charges: LossParameters
    users: tuple[Floats, ...]
    suppressed: tuple[Suppressed, ...]
    width: Ints
    mean_cells: Ints
    variance_cells: Ints
    losses: Callable[..., Floats] = privacy_loss.user_losses

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:
        """Return each user's loss, rounded down: see `SensitivityReport`."""
        # Anything else was never booked: the meter refuses an infinite loss.
        if not isinstance(request, LaplaceNoise) or not (request.scales > 0).all():
            return np.full(n_users, np.inf)
        means, variances = np.split(request.scales, [self.mean_cells.size])
        noise = np.zeros(self.width.size)
        # Means are noised in half quanta, the formula counts records: R = 2 S r.
        noise[self.mean_cells] = means / (2.0 * self.width[self.mean_cells])
        variance_noise = np.zeros(self.width.size)
        # Variances are counted in parts of their own noise b, so that the scale at the door is 2^30
        # in every cell; b is a public number of the plan.
        planned = self.charges.variance_noise[self.variance_cells]
        variance_noise[self.variance_cells] = planned * (variances / STEPS)
        parameters = self.charges._replace(noise=noise, variance_noise=variance_noise)
        rounded_up = self.occupancy.map_users(self.losses, parameters, self.users, self.suppressed)
        # A sum of up to as many quotients of doubles as a user has cells, each rounded up before.
        most_cells = int(self.occupancy.cells_per_user.max())
        return np.asarray(rounded_up * (1.0 - 2.0**-46 - most_cells * 2.0**-51))


class MovedStatistic(Protocol):
    """Statistic of which each pair moves its cell's integer by a known number of steps."""

    @property
    def noised_cells(self) -> Ints:
        """Numbers of the cells that are noised."""

    @property
    def moved_by(self) -> Callable[..., Ints]:
        """Function of pairs, `move_parameters` and factors: steps of each pair."""

    def move_parameters(self) -> tuple[NDArray[Any], ...]:
        """Return arrays with an entry per cell."""


@dataclass(frozen=True, eq=False)
class MappedMoves:
    """Sensitivity of clipped statistics in one stage of Gaussian noise, in blocks of pairs.

    What `SquaredMoves` says of pairs at hand, by the same whole numbers.

    Attributes
    ----------
    occupancy : Occupancy
    factor : ndarray of float, shape (n_users,)
    statistics : tuple of MovedStatistic
        In the order of the entries of the request.
    """

    occupancy: Occupancy
    factor: Floats
    statistics: tuple[MovedStatistic, ...]

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:  # noqa: ARG002
        """Return infinity: no pure loss limits Gaussian noise."""
        return np.full(n_users, np.inf)

    def squares_lower_bound(self, request: GaussianNoise, n_users: int) -> Floats:
        """Return each user's charge as a square of μ, rounded down (unit_squares)."""
        if not is_gaussian_sound(request):
            return np.full(n_users, np.inf)
        ends = np.cumsum([statistic.noised_cells.size for statistic in self.statistics])
        cells: list[NDArray[Any]] = []
        works = []
        for statistic, own in zip(
            self.statistics, np.split(request.deviations, ends[:-1]), strict=True
        ):
            deviations = np.full(self.occupancy.n_cells, np.inf)
            deviations[statistic.noised_cells] = own
            parameters = statistic.move_parameters()
            cells += [deviations, *parameters]
            works.append((statistic.moved_by, len(parameters)))
        squares = partial(_move_squares, works=tuple(works))
        return np.asarray(self.occupancy.map_users(squares, cells, (self.factor,)))


def _move_squares(
    pairs: Pairs, *given: NDArray[Any], works: tuple[tuple[Callable[..., Ints], int], ...]
) -> Floats:
    """Return each user's square of μ by statistics that follow each other in `given`."""
    stage, lattice, at = np.zeros(pairs.n.size), np.zeros(pairs.n.size), 0
    for moved_by, size in works:
        deviations = given[at][pairs.cell]
        ratio = moved_by(pairs, *given[at + 1 : at + 1 + size], given[-1]) / deviations
        stage += ratio**2
        lattice += ratio / deviations / float(LATTICE)
        at += 1 + size
    sums = (sum_lower_bound(pairs.user, terms, pairs.n_users) for terms in (stage, lattice))
    return np.asarray(np.maximum(*sums))


@dataclass(frozen=True, eq=False)
class ClippedStage(DrawnRow):
    """Integers of all noised cells, one statistic after the other, in one draw."""

    statistics: tuple[ClippedStatistic, ...]
    user_sensitivity: ClippedSensitivity | SquaredMoves | MappedMoves
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
        What is booked for each user, rounded up (accounting/privacy_loss.py; under a δ
        accounting/unit_squares.py).
    """

    stage: ClippedStage
    booked: Floats
    kind: str = "clipped"

    def losses(self) -> Floats:
        """Return each user's privacy loss, rounded up: booked."""
        return self.booked

    def next_stage(self, earlier: Outputs) -> ClippedStage | None:
        """Return the only stage, and none if no cell is noised."""
        # Where every cell is a constant there is nothing to draw, and no value is read.
        return DONE if len(earlier) or not self.stage.entries else self.stage

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
