"""Noise that a stage asks for, and by how much each user moves the numbers it is added to.

All of it is public. A report turns the scales that go to the noise source into each user's privacy
loss: Σ moved/scale for discrete Laplace noise, 2 moved/scale for permute-and-flip (ERRATA 12).
Neighbours: one user's values all change within the bounds; users and counts are public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np

from hexveil.accounting.gaussian_loss import MIN_DEVIATION
from hexveil.accounting.moves import add_up, quotient, squares
from hexveil.accounting.noise_law import GAUSSIAN

if TYPE_CHECKING:
    from hexveil.accounting.noise_law import NoiseLaw
    from hexveil.base.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class LaplaceNoise:
    """Discrete Laplace noise of these scales. Public.

    Attributes
    ----------
    scales : ndarray of float, shape (entries,) or (batch, entries)
    """

    scales: Floats


@dataclass(frozen=True)
class NoisyMax:
    """A choice of one candidate by permute-and-flip of this scale. Public."""

    scale: float


@dataclass(frozen=True, eq=False)
class GaussianNoise:
    """Discrete Gaussian noise of these parameters; never purely private. Public.

    Attributes
    ----------
    deviations : ndarray of float, shape (entries,)
    """

    deviations: Floats


NoiseRequest: TypeAlias = LaplaceNoise | NoisyMax | GaussianNoise


def noise_of_law(law: NoiseLaw, scales: Floats) -> LaplaceNoise | GaussianNoise:
    """Return the request for noise of a law; Gaussian only where its loss is proved."""
    if law == GAUSSIAN:
        return GaussianNoise(np.maximum(scales, MIN_DEVIATION))
    return LaplaceNoise(scales)


class SensitivityReport(Protocol):
    """By how much each user can move the numbers of one noise request. Public."""

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:
        """Return each user's privacy loss under this request, rounded down.

        It is the loss itself but for the rounding of floating-point sums, whose direction never
        makes the meter refuse what was booked rightly.
        """


@runtime_checkable
class SquaresReport(Protocol):
    """Report that limits squares of μ, where noise is Gaussian. Public."""

    def squares_lower_bound(self, request: GaussianNoise, n_users: int) -> Floats:
        """Return each user's square of μ, rounded down; infinite if nothing limits it."""


@dataclass(frozen=True, eq=False)
class Separate:
    """Sensitivity of numbers with a bound each: losses add up.

    Attributes
    ----------
    user, entry, by : ndarray of int64, shape (n,)
        User `user[i]` moves entry `entry[i]` by at most `by[i]`; of a choice there is one entry,
        and every score moves by at most `by`.
    """

    user: Ints
    entry: Ints
    by: Ints

    @classmethod
    def of_one_entry(cls, by: Ints) -> Separate:
        """Return the report of users 0, 1, ... who all move the same entry."""
        return cls(np.arange(by.size), np.zeros(by.size, dtype=np.int64), by)

    def terms(self, request: NoiseRequest) -> Floats:
        """Return the loss of each coordinate."""
        if isinstance(request, GaussianNoise):
            # No pure loss limits it, so that the meter of a pure promise refuses it.
            return np.full(self.by.size, np.inf)
        if isinstance(request, NoisyMax):
            return 2.0 * quotient(self.by, np.full(self.by.size, request.scale))
        return quotient(self.by, np.atleast_2d(request.scales)[0][self.entry])

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:
        """Return each user's loss, rounded down: see `SensitivityReport`."""
        return add_up(self.user, (self.terms(request),), n_users, up=False)

    def loss_upper_bound(self, request: NoiseRequest) -> Floats:
        """Return the loss of users 0, 1, ... who all move something, rounded up: booked."""
        return add_up(self.user, (self.terms(request),), self.user.size, up=True)


@dataclass(frozen=True, eq=False)
class SquaredMoves:
    """Sensitivity of numbers of one stage of Gaussian noise: squares of moves add up.

    Attributes
    ----------
    moves : Separate
    """

    moves: Separate

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:  # noqa: ARG002
        """Return infinity: no pure loss limits Gaussian noise."""
        return np.full(n_users, np.inf)

    def squares_lower_bound(self, request: GaussianNoise, n_users: int) -> Floats:
        """Return each user's charge as a square of μ, rounded down."""
        if not is_gaussian_sound(request):
            return np.full(n_users, np.inf)
        terms = squares([(self.moves.by, request.deviations[self.moves.entry])])
        return add_up(self.moves.user, terms, n_users, up=False)


def is_gaussian_sound(request: GaussianNoise) -> bool:
    """Return whether the loss of this noise is proved: finite parameters of at least 1."""
    deviations = request.deviations
    return bool((np.isfinite(deviations) & (deviations >= MIN_DEVIATION)).all())
