"""The exponential mechanism, as the papers print it, in place of permute-and-flip: for study only.

Source: IOT Algorithm 3 and section III-E, with ERRATA 11 and 12. A candidate of cost c is chosen
with a chance proportional to exp(-c/scale). At the scale of permute-and-flip, 2 votes/ε, it has
the same loss ε; so both differ in their error alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.simulated_noise import SimulatedNoise

if TYPE_CHECKING:
    from hexveil.mechanisms.contract import Floats, Ints


class ExponentialNoise(SimulatedNoise):
    """Simulated noise whose choices are those of the exponential mechanism."""

    def noisy_max(self, scores: Ints, sizes: Ints, scale: float) -> Ints:
        """Return the candidate chosen in each trial: see `SimulatedNoise.noisy_max`."""
        run = choose_exponential(-scores, sizes, scale, self._generator, self._trials)
        begin = np.cumsum(sizes, axis=1) - sizes
        row = 0 if len(sizes) == 1 else np.arange(self._trials)
        # The candidates of a run have one score, so each is chosen alike.
        within = self._generator.random(self._trials) * sizes[row, run]
        return np.asarray(begin[row, run] + within.astype(np.int64))


def exponential_law(costs: Ints, sizes: Ints, scale: float) -> Floats:
    """Return the chance of each run of candidates of one cost, for each row.

    Examples
    --------
    >>> exponential_law(np.array([[0, 1]]), np.array([[1, 1]]), 1 / np.log(4)).tolist()
    [[0.8, 0.2]]
    """
    least = np.where(sizes > 0, costs, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
    # An empty run may cost less than any candidate: it must not overflow before it counts 0.
    weights = sizes * np.exp(-np.maximum(costs - least, 0) / scale)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def choose_exponential(
    costs: Ints, sizes: Ints, scale: float, generator: np.random.Generator, trials: int
) -> Ints:
    """Return the run that the exponential mechanism chooses in each trial.

    Parameters
    ----------
    costs, sizes, scale, generator, trials
        As for `hexveil.mechanisms.permute_and_flip.choose`.
    """
    ends = exponential_law(costs, sizes, scale).cumsum(axis=1)
    draws = generator.random(trials) * ends[:, -1]
    if len(ends) == 1:
        return np.asarray(np.searchsorted(ends[0], draws, side="right"), dtype=np.int64)
    return np.asarray((ends <= draws[:, None]).sum(axis=1), dtype=np.int64)
