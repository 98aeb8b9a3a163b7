"""Stages that release a map: noisy halves of the weight of each cell.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: `PARTS` over all numbers of the stage together, in L1 under Laplace noise and in L2
under Gaussian noise (`contribution`).
Loss: PARTS / b, b the scale of the noise on every number; or PARTS² / r² as a square of μ. Prices,
centres, radius and cap were declared or released before, so stages compose adaptively: their losses
add up.
Source: `contribution`; adaptive composition in `hexveil.mechanisms.contract`.

Every cell of the declared grid gets noise, whether records lie in it or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.mechanisms.contract import DrawnRow, Values
from hexveil.mechanisms.presence.any_unit import total_over_units
from hexveil.mechanisms.presence.contribution import PARTS, CellWindow

if TYPE_CHECKING:
    from hexveil.base.arrays import Ints
    from hexveil.mechanisms.contract import NoiseRequest, Outputs, PrivateSums, SensitivityReport
    from hexveil.mechanisms.presence.map_noise import MapNoise
    from hexveil.mechanisms.presence.map_refinement import MapRefinement
    from hexveil.model.private_pairs import PrivatePairs


MAX_SCALE = Fraction(2**51)
"""Largest noise scale. Below it noise leaves room in 64 bits for the weight of 2^32 units, so that
the noise door never refuses a release for its records."""


def map_scale(epsilon: Fraction, parts: int = PARTS) -> float:
    """Return the noise scale at which a sensitivity of so many parts costs at most ε.

    Raises
    ------
    InputError
        If noise of that scale could leave 64 bits, whatever the records are.

    Examples
    --------
    >>> map_scale(Fraction(1, 2)) == 2 * PARTS
    True
    """
    scale = Fraction(parts) / epsilon
    if scale > MAX_SCALE:
        raise InputError(
            "epsilon is too small: its noise could leave the range of 64-bit integers. Ask for a "
            "larger epsilon, or for fewer cells per unit."
        )
    return round_up(scale)


@dataclass(frozen=True, eq=False)
class WeightMap(DrawnRow):
    """Noisy A of each cell, then noisy B of each cell.

    Attributes
    ----------
    name : str
    window : CellWindow
    span_quanta : int
    law : MapNoise
        Of the noise on every number.
    """

    name: str
    window: CellWindow
    span_quanta: int
    law: MapNoise

    @property
    def entries(self) -> int:
        """Two numbers per cell."""
        return 2 * self.window.prices.size

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return noise of one scale for all numbers."""
        return (self.law.request(2 * self.window.prices.size),)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return that any unit moves all numbers together by at most `PARTS`."""
        return (self.law.report(),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the halves of the weights. PRIVATE."""
        return (Values(total_over_units(sums, self.halves)[None]),)

    def halves(self, pairs: PrivatePairs) -> Ints:
        """Return the halves of the weights of some units. PRIVATE."""
        return self.window.sums(pairs, self.span_quanta, self.law.norm)


@dataclass(frozen=True, eq=False)
class CoarseMap(WeightMap):
    """Weight map with a row that also holds the centres and prices made from it.

    Attributes
    ----------
    refinement : MapRefinement
    """

    refinement: MapRefinement

    @property
    def entries(self) -> int:
        """Two noisy numbers per cell, its centre and its price."""
        return 4 * self.window.prices.size

    def row(self, drawn: Ints, earlier: Outputs) -> Ints:  # noqa: ARG002  see Stage.row
        """Return the noisy numbers, then the centres, then the prices."""
        refined = [self.refinement.centres_and_prices(self.window, noisy) for noisy in drawn]
        return np.hstack([drawn, np.array([np.concatenate(two) for two in refined])])
