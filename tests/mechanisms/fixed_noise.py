"""Fixed noise in place of the library's, for tests that compare what is published.

It stands in the one door to the library, which all draws pass.
"""

import contextlib
from unittest.mock import patch

import numpy as np

from hexveil.mechanisms.noise import VettedNoise

BLOCK = 101


class FixedNoise:
    """Noise that depends on the place of a number alone; the best score is chosen."""

    def laplace(self, values, scales):
        """Return integers with noise of up to 1.5 scales."""
        place = np.arange(values.size).reshape(values.shape) * 7919 % BLOCK
        return values + np.rint(1.5 * (2 * place / (BLOCK - 1) - 1) * scales).astype(np.int64)

    def noisy_max(self, scores, sizes, scale):  # noqa: ARG002  as the noise library
        """Return the place of the first best score."""
        rows = np.broadcast_shapes(scores.shape, sizes.shape)
        scores, sizes = np.broadcast_to(scores, rows), np.broadcast_to(sizes, rows)
        return np.array([np.repeat(s, n).argmax() for s, n in zip(scores, sizes, strict=True)])


@contextlib.contextmanager
def fixed_noise():
    """Put fixed noise in place of the library's."""
    fixed = {"laplace": FixedNoise.laplace, "gaussian": FixedNoise.laplace}
    with patch.multiple(VettedNoise, **fixed, noisy_max=FixedNoise.noisy_max):
        yield
