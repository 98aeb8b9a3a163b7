"""Weakened releases: the same stages with too little noise, as a slip would make it.

An audit that passes a sound release means something only if it refutes these. Two slips of a choice
have one law, since both halve its scale: score sensitivity halved (1 taken where a user in two
arrays of WRAPAROUND moves scores by 2, or one half where it moves them by 1), and the "monotonic"
reading of the vetted noisy max (scale 1/ε instead of 2/ε, ERRATA 12).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hexveil.base.arrays import Floats, Ints
from hexveil.mechanisms.contract import NoiseSource


@dataclass(frozen=True)
class Weakening:
    """Factors by which a slip multiplies scales; the claim stays.

    Attributes
    ----------
    name : str
    noise : Fraction
        Factor of the Laplace scale.
    choice : Fraction
        Factor of the scale of every private choice.
    """

    name: str
    noise: Fraction
    choice: Fraction


SOUND = Weakening("as it is", Fraction(1), Fraction(1))
SCALES = Weakening("scales x 0.7", Fraction(7, 10), Fraction(7, 10))
NOISE = Weakening("noise alone x 0.7", Fraction(7, 10), Fraction(1))
SCORES = Weakening("score sensitivity halved, or monotonic", Fraction(1), Fraction(1, 2))


@dataclass(frozen=True)
class WeakenedSource:
    """A noise source that multiplies every scale before it draws.

    Attributes
    ----------
    source : NoiseSource
    weakening : Weakening
    """

    source: NoiseSource
    weakening: Weakening

    def laplace(self, values: Ints, scales: Floats) -> Ints:
        """Return integers plus discrete Laplace noise of too small a scale."""
        # The booking still names the full scales: that gap is the slip.
        return self.source.laplace(values, np.asarray(scales * float(self.weakening.noise)))

    def gaussian(self, values: Ints, deviations: Floats) -> Ints:
        """Return integers plus discrete Gaussian noise of too small a parameter."""
        return self.source.gaussian(values, np.asarray(deviations * float(self.weakening.noise)))

    def noisy_max(self, scores: Ints, sizes: Ints, scale: float) -> Ints:
        """Return the candidate chosen at too small a scale."""
        return self.source.noisy_max(scores, sizes, scale * float(self.weakening.choice))
