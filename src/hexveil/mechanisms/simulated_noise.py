"""Noise for studies and tests: seeded, fast, and never accepted by a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SimulatedNoise:
    """A reproducible stream of Laplace draws and of choices by permute-and-flip."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def laplace(self, scale: float) -> float:
        """Return one draw of the Laplace distribution of the given scale."""
        return float(self._generator.laplace(0.0, scale))

    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int:
        """Return the position that permute-and-flip of the given scale chooses.

        It is the largest score plus exponential noise: the same law as visiting the positions in
        random order and stopping with odds exp((score - largest score) / scale).
        """
        return int((scores + self._generator.exponential(scale, scores.size)).argmax())
