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
from typing import TYPE_CHECKING

import numpy as np

from hexveil.mechanisms.contract import DrawnRow, Values
from hexveil.mechanisms.presence.any_unit import AnyUnit, total_over_units
from hexveil.mechanisms.presence.contribution import CellWindow, norm_of
from hexveil.mechanisms.sensitivity_report import even_noise

if TYPE_CHECKING:
    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Ints
    from hexveil.mechanisms.contract import NoiseRequest, Outputs, PrivateSums, SensitivityReport
    from hexveil.mechanisms.presence.map_refinement import MapRefinement
    from hexveil.model.private_pairs import PrivatePairs


@dataclass(frozen=True, eq=False)
class WeightMap(DrawnRow):
    """Noisy A of each cell, then noisy B of each cell.

    Attributes
    ----------
    name : str
    window : CellWindow
    span_quanta : int
    law : NoiseLaw
        Of the noise on every number.
    """

    name: str
    window: CellWindow
    span_quanta: int
    law: NoiseLaw

    @property
    def entries(self) -> int:
        """Two numbers per cell."""
        return 2 * self.window.prices.size

    def noise(self, earlier: Outputs) -> tuple[NoiseRequest, ...]:  # noqa: ARG002  see Stage
        """Return noise of one scale for all numbers."""
        return (even_noise(self.law, 2 * self.window.prices.size),)

    def sensitivity(self, earlier: Outputs) -> tuple[SensitivityReport, ...]:  # noqa: ARG002
        """Return that any unit moves all numbers together by at most `PARTS`."""
        return (AnyUnit.of(self.law),)

    def measure(self, sums: PrivateSums, earlier: Outputs) -> tuple[Values, ...]:  # noqa: ARG002
        """Return the halves of the weights. PRIVATE."""
        return (Values(total_over_units(sums, self.halves)[None]),)

    def halves(self, pairs: PrivatePairs) -> Ints:
        """Return the halves of the weights of some units. PRIVATE."""
        return self.window.sums(pairs, self.span_quanta, norm_of(self.law))


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
