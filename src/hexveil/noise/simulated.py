"""Noise for studies and tests: seeded, fast, and never accepted by a release."""

from __future__ import annotations

import numpy as np


class SimulatedNoise:
    """A reproducible stream of Laplace draws."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def laplace(self, scale: float) -> float:
        """Return one draw of the Laplace distribution of the given scale."""
        return float(self._generator.laplace(0.0, scale))
