"""Noise for studies: many trials at once in plain numpy, never accepted by a release."""

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms.permute_and_flip import choose


class SimulatedNoise:
    """Discrete Laplace and Gaussian noise and permute-and-flip for a batch of trials.

    Parameters
    ----------
    generator : numpy.random.Generator
        Not a cryptographic one: for study only.
    trials : int
        Rows of every result; values of one row are the same in all trials.
    """

    def __init__(self, generator: np.random.Generator, trials: int) -> None:
        self._generator, self._trials = generator, trials

    def laplace(self, values: Ints, scales: Floats) -> Ints:
        """Return integers plus discrete Laplace noise, shape (trials, entries).

        floor(R E) of a standard exponential E is geometric, and the difference of two is discrete
        Laplace of scale R.
        """
        shape = self._trials, values.shape[1], 2
        # Both draws of a trial stand together, so that the stream does not depend on the batch.
        geometric = np.floor(self._generator.standard_exponential(shape) * scales[:, :, None])
        noise = geometric[:, :, 0] - geometric[:, :, 1]
        return np.asarray(values + noise.astype(np.int64))

    def gaussian(self, values: Ints, deviations: Floats) -> Ints:
        """Return integers plus rounded normal noise, shape (trials, entries).

        For a deviation of 100 or more no study can tell it from discrete Gaussian noise.
        """
        shape = self._trials, values.shape[1]
        noise = np.rint(self._generator.standard_normal(shape) * deviations)
        return np.asarray(values + noise.astype(np.int64))

    def noisy_max(self, scores: Ints, sizes: Ints, scale: float) -> Ints:
        """Return the candidate that permute-and-flip chooses in each trial."""
        run = choose(-scores, sizes, scale, self._generator, self._trials)
        begin = np.cumsum(sizes, axis=1) - sizes
        row = 0 if len(sizes) == 1 else np.arange(self._trials)
        # The candidates of a run have one score, so each is chosen alike.
        within = self._generator.random(self._trials) * sizes[row, run]
        return np.asarray(begin[row, run] + within.astype(np.int64))
