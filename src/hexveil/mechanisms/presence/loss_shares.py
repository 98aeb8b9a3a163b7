"""Shares of a release's loss: of ε where the promise is pure, of μ² where a δ is promised.

A stage has a share of the whole, from which the noise of its map or histogram follows.

Neighbours: all records of one privacy unit are added or removed.
Sensitivity: stated by each stage.
Loss: the shares add up to at most 1. Pure losses add up to ε. Under (ε, δ) squares of μ add up to
`GaussianShares.square`, also over stages chosen by earlier outcomes; a choice that is purely
private has the square of that loss (`accounting.gaussian_composition`, with proof and source).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hexveil.accounting.gaussian_composition import (
    calibrated_square,
    cut_digits,
    square_of_pure,
)
from hexveil.accounting.gaussian_loss import MIN_DEVIATION
from hexveil.base.errors import InputError
from hexveil.base.rational import round_up
from hexveil.mechanisms.contract import Meter
from hexveil.mechanisms.presence.any_unit import N_ACCOUNTS
from hexveil.mechanisms.presence.contribution import PARTS
from hexveil.mechanisms.presence.map_noise import GaussianMapNoise, LaplaceMapNoise, MapNoise
from hexveil.mechanisms.presence.map_stage import MAX_SCALE, map_scale

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import Authority


@dataclass(frozen=True)
class PureShares:
    """Shares of ε.

    Attributes
    ----------
    epsilon : Fraction
    """

    epsilon: Fraction

    @property
    def booked(self) -> Fraction:
        """Loss of any unit, in ε."""
        return self.epsilon

    def map_noise(self, share: Fraction = Fraction(1), weights: int = 1) -> MapNoise:
        """Return the noise of a map with this share, of so many full weights of a unit."""
        return LaplaceMapNoise(map_scale(self.epsilon * share, weights * PARTS))

    def meter(self, booked: Floats) -> Authority:
        """Return the meter of the losses that were booked."""
        return Meter(booked)


@dataclass(frozen=True)
class GaussianShares:
    """Shares of the square of μ that is (ε, δ)-private.

    Attributes
    ----------
    epsilon, delta : Fraction
    """

    epsilon: Fraction
    delta: Fraction

    @property
    def square(self) -> Fraction:
        """μ² of all stages together, rounded down."""
        return calibrated_square(self.epsilon, self.delta)

    @property
    def booked(self) -> Fraction:
        """Loss of any unit, as a square of μ."""
        return self.square

    def map_noise(self, share: Fraction = Fraction(1), weights: int = 1) -> MapNoise:
        """Return the noise of a map with this share, of so many full weights of a unit."""
        variance = weights * PARTS**2 / (self.square * share)
        if variance > MAX_SCALE**2:
            raise InputError(
                "epsilon is too small for this delta: its noise could leave the range of 64-bit "
                "integers. Ask for a larger epsilon."
            )
        deviation = math.nextafter(math.sqrt(round_up(variance)), math.inf)
        # The lattice term is proved for parameters from 1 on.
        return GaussianMapNoise(max(deviation, MIN_DEVIATION))

    def square_shares(self, share: Fraction, n_histograms: int) -> Fraction:
        """Return the share of the square with which histograms need no more than this share of ε.

        Each has an equal part of the share of ε.
        """
        each = square_of_pure(float(self.epsilon * share / n_histograms))
        return Fraction(cut_digits(n_histograms * each / float(self.square)))

    def meter(self, booked: Floats) -> Authority:
        """Return the meter of the squares that were booked."""
        return Meter(booked, squared=True)


@dataclass(frozen=True)
class AddedSquares:
    """Square of μ of several parts together, which have their own shares.

    Attributes
    ----------
    booked : Fraction
        Loss of any unit over all parts, as a square of μ.
    """

    booked: Fraction

    def meter(self, booked: Floats) -> Authority:
        """Return the meter of the squares that were booked."""
        return Meter(booked, squared=True)


LossShares: TypeAlias = PureShares | GaussianShares


def loss_shares(epsilon: Fraction, delta: Fraction) -> LossShares:
    """Return the shares of a pure promise, or of one with δ above 0."""
    return GaussianShares(epsilon, delta) if delta else PureShares(epsilon)


def booked_losses(shares: LossShares | AddedSquares) -> Floats:
    """Return the loss of any unit, shape (1,), rounded up: in ε, or as a square of μ."""
    return np.full(N_ACCOUNTS, round_up(shares.booked))
