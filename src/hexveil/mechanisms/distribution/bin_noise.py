"""Noise of bins: Laplace within a share of ε, or Gaussian within a share of a square of μ.

Neighbours: one unit's values all change within the bounds; units, counts and weights are public.
Sensitivity: bins of a group of weight M are not negative and add up to M, whatever the values are
(`binned_stage`). Two such vectors differ by u - v, u and v not negative, in no bin together and of
an equal sum of at most M: by at most 2 M in L1. As |u|² <= M² and |v|² <= M², by at most √2 M in
L2, which all records moving from one bin to another attain.
Loss: Laplace noise of scale b costs 2 M / b for each group. Gaussian noise of parameter r costs, of
all groups of a unit in one stage,

    max(Σ 2 M² / r², Σ 2 M / r² / LATTICE)

as a square of μ. A unit's groups belong to different sums, so that squares add up. The second term
keeps the lattice term of the stage, Σ 2 M / r², within what composition asks
(`accounting.gaussian_composition`); it matters for groups of fewer than 1 / LATTICE = 512 parts.
Source: L1 sensitivity of histograms (Dwork, McSherry, Nissim and Smith, 2006); the discrete
Gaussian (Canonne, Kamath and Steinke, 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hexveil.accounting.gaussian_composition import calibrated_square
from hexveil.accounting.gaussian_loss import MIN_DEVIATION
from hexveil.accounting.moves import add_up, losses, squares
from hexveil.base.rational import round_up
from hexveil.mechanisms.contract import GaussianNoise, LaplaceNoise, Separate
from hexveil.mechanisms.sensitivity_report import SquaredMoves

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats, Ints
    from hexveil.mechanisms.contract import NoiseRequest, SensitivityReport

PARTS = 2**20
"""Largest weight of a group, in whole parts."""
ENLARGED = 1.0 + 2.0**-20
"""More than what a root and a quotient round."""


@dataclass(frozen=True)
class LaplaceBins:
    """Discrete Laplace noise at which a unit of full weight loses at most ε.

    Attributes
    ----------
    epsilon : Fraction
    """

    epsilon: Fraction

    def part(self, share: Fraction) -> LaplaceBins:
        """Return the noise of a stage with this share of the loss."""
        return LaplaceBins(self.epsilon * share)

    @property
    def booked(self) -> Fraction:
        """Loss of a unit of full weight: ε."""
        return self.epsilon

    @property
    def scale(self) -> float:
        """Parameter b of the noise, in parts."""
        return round_up(2 * PARTS / self.epsilon)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise, in full weights."""
        return 2.0 * math.sqrt(2.0) / float(self.epsilon)

    @property
    def equivalent_epsilon(self) -> Fraction:
        """The ε at which Laplace noise deviates as this noise does: its own."""
        return self.epsilon

    def request(self, scales: Floats) -> NoiseRequest:
        """Return the noise of numbers with these scales."""
        return LaplaceNoise(scales)

    def report(self, user: Ints, first_bin: Ints, weight: Ints) -> SensitivityReport:
        """Return 2 M for each group, stated at the first bin of its sum: all have one scale."""
        return Separate(user, first_bin, 2 * weight)

    @staticmethod
    def losses(user: Ints, weight: Ints, scale: Floats, n_users: int, *, up: bool = True) -> Floats:
        """Return each unit's loss by groups of these weights and scales, rounded up or down."""
        return add_up(user, losses([(2 * weight, scale)]), n_users, up=up)

    def sizes(self, user: Ints, priced: Ints, n_users: int) -> Ints:
        """Return each unit's size, within which its weights are limited: the sum."""
        total = np.zeros(n_users, dtype=np.int64)
        np.add.at(total, user, priced)
        return total


@dataclass(frozen=True)
class GaussianBins:
    """Discrete Gaussian noise at which a unit of full weight spends at most a square of μ.

    Attributes
    ----------
    square : Fraction
    """

    square: Fraction

    def part(self, share: Fraction) -> GaussianBins:
        """Return the noise of a stage with this share of the square."""
        return GaussianBins(self.square * share)

    @property
    def booked(self) -> Fraction:
        """Loss of a unit of full weight, as a square of μ."""
        return self.square

    @property
    def scale(self) -> float:
        """Parameter r of the noise, in parts."""
        deviation = math.nextafter(math.sqrt(round_up(2 * PARTS**2 / self.square)), math.inf)
        return max(deviation, MIN_DEVIATION)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise, in full weights."""
        return self.scale / PARTS

    @property
    def equivalent_epsilon(self) -> Fraction:
        """The ε at which Laplace noise deviates as this noise does."""
        return Fraction(2.0 * math.sqrt(2.0) / self.deviation)

    def request(self, scales: Floats) -> NoiseRequest:
        """Return the noise of numbers with these parameters."""
        return GaussianNoise(scales)

    def report(self, user: Ints, first_bin: Ints, weight: Ints) -> SensitivityReport:
        """Return M at each of two bins for each group: 2 M² in squares, 2 M in L1."""
        moves = Separate(*(np.concatenate(two) for two in (
            (user, user), (first_bin, first_bin + 1), (weight, weight)
        )))  # fmt: skip
        return SquaredMoves(moves)

    @staticmethod
    def losses(user: Ints, weight: Ints, scale: Floats, n_users: int, *, up: bool = True) -> Floats:
        """Return each unit's square of μ by groups of these weights and scales, rounded."""
        # M moves in each of two bins: see `report`.
        return add_up(user, squares([(weight, scale)] * 2), n_users, up=up)

    def sizes(self, user: Ints, priced: Ints, n_users: int) -> Ints:
        """Return each unit's size, within which its weights are limited: the root of squares."""
        squares = np.bincount(user, priced.astype(np.float64) ** 2, n_users)
        return np.ceil(np.sqrt(squares) * ENLARGED).astype(np.int64)


BinNoise: TypeAlias = LaplaceBins | GaussianBins


def bin_noise(epsilon: Fraction, delta: Fraction) -> BinNoise:
    """Return the noise of stages that promise ε, or (ε, δ) with δ above 0, together.

    Examples
    --------
    >>> bin_noise(Fraction(1, 2), Fraction(0)).scale / PARTS
    4.0
    >>> round(bin_noise(Fraction(1), Fraction("1e-6")).scale / PARTS, 2)
    5.98
    """
    return GaussianBins(calibrated_square(epsilon, delta)) if delta else LaplaceBins(epsilon)
