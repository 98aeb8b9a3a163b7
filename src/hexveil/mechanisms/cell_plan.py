"""What every mechanism of one cell offers, and what it is handed.

Neighbours, everywhere: one user's values all change within the bounds; users and counts are
public. A plan is made from counts, bounds and ε alone, so it costs no privacy. Nothing here
releases real records: a study hands in user means and a source of noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hexveil.base.rational import Number


class NoiseSource(Protocol):
    """Where a study takes its noise from; a real release never takes one."""

    def laplace(self, scale: float) -> float:
        """Return one draw of the Laplace distribution of the given scale."""

    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int:
        """Return the position that permute-and-flip of the given scale chooses."""


class CellPlan(Protocol):
    """The public plan of one cell's mean; every figure in value units.

    `sensitivity` and `noise_scale` are the largest that can occur where the noise is fitted to
    an interval found privately. `worst_case_bias` and `worst_case_error` are None there: the
    interval is random, and no closed form is known. `bound95` is the error not exceeded with
    probability 95 percent, whatever the values.
    """

    @property
    def epsilon(self) -> Fraction:
        """Loss of the whole release."""

    @property
    def sensitivity(self) -> float:
        """Largest change of the noiseless estimate when one user's values change."""

    @property
    def noise_scale(self) -> float:
        """Laplace scale, which is also the expected |noise|."""

    @property
    def worst_case_bias(self) -> float | None:
        """Largest |expected estimate - true mean| over all values."""

    @property
    def worst_case_error(self) -> float | None:
        """Planning error: worst-case bias plus expected |noise|."""

    @property
    def bound95(self) -> float:
        """Error not exceeded with probability 95 percent, whatever the values."""

    def release(self, user_means: ArrayLike, noise: NoiseSource) -> float:
        """Return one estimate, for study: means and noise are handed in.

        Parameters
        ----------
        user_means : array_like of float, shape (n_users,)
            Mean of each user's samples, in the order of the counts, in value units.
        noise : NoiseSource
            Simulated noise, or the vetted one in a test.
        """

    def simulate(
        self, user_means: ArrayLike, generator: np.random.Generator, trials: int
    ) -> NDArray[np.float64]:
        """Return many independent estimates, distributed as those of `release`.

        Parameters
        ----------
        user_means : array_like of float, shape (n_users,) or (trials, n_users)
            The same values in every trial, or values of each trial.
        generator : numpy.random.Generator
            Plain floating-point randomness: for study only.
        trials : int
            How many estimates.

        Returns
        -------
        ndarray of float, shape (trials,)
        """


class Mechanism(Protocol):
    """An algorithm for the mean of one cell."""

    @property
    def name(self) -> str:
        """As constructed, for tables."""

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> CellPlan:
        """Return the public plan of one cell.

        Parameters
        ----------
        counts : array_like of int, shape (n_users,)
            Samples per user, each >= 1. Public.
        bounds : pair of numbers
            Lower and upper bound of a value, in value units.
        epsilon : number
            The cell's loss.

        Raises
        ------
        InputError
            On counts below 1, reversed or infinite bounds, an epsilon not above zero.
        """
