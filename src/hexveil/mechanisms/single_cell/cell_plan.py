"""The plan of one cell in value units, for studies: figures, and simulated estimates.

Estimates come from the contract's own loop: the same stages, integers and decoding as in a release,
with a noise source that is handed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.mechanisms.contract import (
    UNMETERED,
    MemoryJournal,
    NoiseSource,
    Outputs,
    PrivateSums,
    ProvenError,
    StatisticError,
    Values,
    execute,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike

    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.single_cell.cell_allocation import CellAllocation, CellProblem


@dataclass(frozen=True, eq=False)
class CellPlan:
    """A mechanism's allocation of one cell, with its figures in value units.

    Attributes
    ----------
    allocation : CellAllocation
        Stages, and public facts such as the pseudo-users.
    """

    allocation: CellAllocation

    @property
    def cell(self) -> CellProblem:
        """Public facts of the cell."""
        return self.allocation.cell

    @property
    def epsilon(self) -> Fraction:
        """Loss of the whole release."""
        return self.allocation.epsilon

    @property
    def error(self) -> StatisticError:
        """Error of the estimate, of one cell."""
        return self.allocation.error(self.cell.width)

    @property
    def sensitivity(self) -> float:
        """Largest change of the noiseless estimate when one user's values change.

        Where the noise is fitted to a range found privately: for the widest range.
        """
        return self.allocation.sensitivity(self.cell.width)

    @property
    def noise_scale(self) -> float:
        """Laplace scale, which is also the expected |noise|; the largest that can occur."""
        return float(self.error.scale[0])

    @property
    def worst_case_bias(self) -> float | None:
        """Largest |expected estimate - true mean| over all values; None if no closed form is known.

        That is where a range is found privately.
        """
        return float(self.error.bias[0]) if isinstance(self.error, ProvenError) else None

    @property
    def worst_case_error(self) -> float | None:
        """Planning error: worst-case bias plus expected |noise|; None like `worst_case_bias`."""
        bias = self.worst_case_bias
        return None if bias is None else bias + self.noise_scale

    @property
    def bound95(self) -> float:
        """Error not exceeded with probability 95 percent, whatever the values."""
        return float(self.error.bound95[0])

    def outputs(self, sums: PrivateSums, source: NoiseSource) -> Outputs:
        """Return the noisy integers of all stages: see `estimates`."""
        return execute(self.allocation, sums, source, MemoryJournal(), UNMETERED)

    def estimates(self, sums: PrivateSums, source: NoiseSource) -> Floats:
        """Return estimates in value units, one per data set or trial.

        Parameters
        ----------
        sums : PrivateSums
            As `CellProblem.sums` returns them.
        source : NoiseSource
            Simulated noise, or the vetted one in a test.
        """
        return self._in_value_units(self.allocation.estimate(self.outputs(sums, source)))

    def noiseless_estimates(self, sums: PrivateSums) -> Floats:
        """Return estimates before noise in value units, of a mechanism without private choices.

        Raises
        ------
        InputError
            If the mechanism makes private choices, so that there is no single such estimate.
        """
        measured = {}
        for stage in self.allocation.stages:
            # Without noise there are no outputs of earlier stages, which a second stage would need.
            (values,) = stage.measure(sums, Outputs())
            if len(self.allocation.stages) > 1 or not isinstance(values, Values):
                raise InputError("a mechanism that makes private choices has no single estimate.")
            measured[stage.name] = values.integers
        estimates = self._in_value_units(self.allocation.estimate(Outputs(measured)))
        # A cell that no stage reads has one estimate for all data sets.
        return np.asarray(np.broadcast_to(estimates, (len(sums.total),)))

    def estimate(self, user_means: ArrayLike, source: NoiseSource) -> float:
        """Return one estimate, for a study: user means and noise are handed in.

        Parameters
        ----------
        user_means : array_like of float, shape (n_users,)
            In the order of the counts, in value units.
        source : NoiseSource
        """
        return float(self.estimates(self.cell.sums(user_means), source)[0])

    def simulate(
        self, user_means: ArrayLike, generator: np.random.Generator, trials: int
    ) -> Floats:
        """Return independent estimates with simulated noise, in value units.

        Parameters
        ----------
        user_means : array_like of float, shape (n_users,) or (trials, n_users)
            The same values in every trial, or values of each trial.
        generator : numpy.random.Generator
            Plain floating-point randomness: for study only.
        trials : int

        Returns
        -------
        ndarray of float, shape (trials,)
        """
        from hexveil.mechanisms.simulated_noise import (  # noqa: PLC0415  a release never loads it
            SimulatedNoise,
        )

        sums = self.cell.sums(user_means)
        if len(sums.total) not in {1, trials}:
            raise InputError(
                f"one mean per user is needed ({self.cell.counts.size}), for all or for each of "
                f"{trials} trials."
            )
        estimates = self.estimates(sums, SimulatedNoise(generator, trials))
        return np.asarray(np.broadcast_to(estimates, (trials,)))

    def _in_value_units(self, estimates: Floats) -> Floats:
        return np.asarray(float(self.cell.lower) + float(self.cell.quantum) * estimates)
