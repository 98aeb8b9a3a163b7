"""Noise that a stage asks for, how far each user moves its numbers, and the meter of both.

All of it is public. A report turns the scales that go to the noise source into each user's privacy
loss: Σ moved/scale for discrete Laplace noise, 2 moved/scale for permute-and-flip (ERRATA 12).
Neighbours: one user's values all change within the bounds; users and counts are public.

The meter adds up the real cost of the stages to each unit, against the booking, from the very
scales that go to the noise source, by the accountant that made the booking (accounting/moves.py),
rounded down. Pure losses add up over stages, also those chosen by earlier outcomes. Under (ε, δ)
squares of μ do; a purely private choice has the square of its own loss
(accounting/gaussian_composition.py, with proof and source).

Sensitivity of the numbers of one draw, by the moves of pairs wherever these are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np

from hexveil.accounting.gaussian_composition import MIN_DEVIATION, square_of_pure
from hexveil.accounting.moves import (
    ULP,
    Currency,
    PairMoves,
    StatisticMoves,
    add_up,
    beyond,
    losses,
    squares,
)
from hexveil.accounting.noise_law import Gaussian, NoiseLaw
from hexveil.base.arrays import Floats, Ints
from hexveil.base.errors import HexveilError


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
    if isinstance(law, Gaussian):
        return GaussianNoise(np.maximum(scales, MIN_DEVIATION))
    return LaplaceNoise(scales)


def scales_of(request: NoiseRequest) -> Floats:
    """Return the scale of each number of a request, shape (entries,)."""
    match request:
        case LaplaceNoise(scales):
            return np.asarray(np.atleast_2d(scales)[0])
        case GaussianNoise(deviations):
            return deviations
        case NoisyMax(scale):
            # A choice costs twice a move over its scale.
            return np.array([scale / 2.0])


class SensitivityReport:
    """Base of reports of how much each user can move the numbers of one noise request. Public."""

    of_choices: ClassVar[bool] = False
    """Whether it is of scores, too."""

    def charge(self, scales: Floats, n_users: int, currency: Currency) -> Floats:  # noqa: ARG002
        """Return each user's loss at these scales, rounded down; infinite without a limit."""
        return np.full(n_users, np.inf)

    def loss_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:
        """Return each user's privacy loss under this request, rounded down.

        It is the loss itself but for the rounding of floating-point sums, whose direction never
        makes the meter refuse what was booked rightly. No pure loss limits Gaussian noise, so that
        the meter of a pure promise refuses it, as it does what was never booked.
        """
        if isinstance(request, LaplaceNoise) or (self.of_choices and isinstance(request, NoisyMax)):
            return self.charge(scales_of(request), n_users, losses)
        return np.full(n_users, np.inf)

    def squares_lower_bound(self, request: NoiseRequest, n_users: int) -> Floats:
        """Return each user's square of μ, rounded down; infinite unless its loss is proved.

        Of Gaussian noise it is for finite parameters of at least 1.
        """
        if not isinstance(request, GaussianNoise):
            # Units of equal loss share a conversion, which takes a while.
            pure, which = np.unique(self.loss_lower_bound(request, n_users), return_inverse=True)
            limited = [square_of_pure(one) if np.isfinite(one) else one for one in pure.tolist()]
            return np.asarray(np.array(limited)[which])
        deviations = request.deviations
        if not (np.isfinite(deviations) & (deviations >= MIN_DEVIATION)).all():
            return np.full(n_users, np.inf)
        return self.charge(deviations, n_users, squares)


@dataclass(frozen=True, eq=False)
class Separate(SensitivityReport):
    """Sensitivity of numbers with a bound each: losses add up, or squares under Gaussian noise.

    Of Gaussian noise the numbers of a request are one vector.

    Attributes
    ----------
    user, entry, by : ndarray of int64, shape (n,)
        User `user[i]` moves entry `entry[i]` by at most `by[i]`; of a choice there is one entry,
        and every score moves by at most `by`.
    """

    user: Ints
    entry: Ints
    by: Ints
    of_choices: ClassVar[bool] = True

    @classmethod
    def of_one_entry(cls, by: Ints) -> Separate:
        """Return the report of users 0, 1, ... who all move the same entry."""
        return cls(np.arange(by.size), np.zeros(by.size, dtype=np.int64), by)

    def charge(self, scales: Floats, n_users: int, currency: Currency) -> Floats:
        """Return each user's loss, rounded down: see `SensitivityReport`."""
        terms = currency([(self.by, scales[self.entry])])
        return add_up(self.user, terms, n_users, up=False)

    def loss_upper_bound(self, request: NoiseRequest) -> Floats:
        """Return the loss of users 0, 1, ... who all move something, rounded up: booked."""
        terms = losses([(self.by, scales_of(request)[self.entry])])
        return add_up(self.user, terms, self.user.size, up=True)


ROUNDED = 1e-9
"""Relative room for the rounding of squares."""


class Meter:
    """Privacy loss added up from the scales that go to the noise source, against the booking.

    Parameters
    ----------
    booked : ndarray of float, shape (n_users,)
        In epsilon, or squares of μ.
    squared : bool
        Whether squares of μ are added up.
    """

    def __init__(self, booked: Floats, *, squared: bool = False) -> None:
        self._booked, self._squared = booked, squared
        self._spent = np.zeros_like(booked)

    def authorise(
        self, requests: tuple[NoiseRequest, ...], reports: tuple[SensitivityReport, ...]
    ) -> None:
        """Add the losses of a stage; refuse above the booking.

        Raises
        ------
        HexveilError
            If a user would certainly lose more than was booked for it.
        """
        n_users = self._booked.size
        for request, report in zip(requests, reports, strict=True):
            if self._squared:
                loss = report.squares_lower_bound(request, n_users) * (1.0 - ROUNDED)
            else:
                loss = report.loss_lower_bound(request, n_users)
            # Losses of a whole stage come with its first request: nothing is added by the others.
            if loss.any():
                # A sum of doubles, rounded down.
                self._spent = (self._spent + loss) * (1.0 - ULP)
        # Not (spent > booked): a loss that is not a number is refused, too.
        if not (self._spent <= self._booked).all():
            raise HexveilError(
                "this release would cost a unit more than was booked for it, so no noise was "
                "drawn: its plan was changed after its loss was computed. Plan again."
            )


class Unmetered:
    """A study books nothing: its noise is simulated, and nothing of it is released."""

    def authorise(
        self, requests: tuple[NoiseRequest, ...], reports: tuple[SensitivityReport, ...]
    ) -> None:
        """Accept every draw."""


UNMETERED = Unmetered()
Authority: TypeAlias = Meter | Unmetered
"""Right to draw: a `Meter` for a release, `UNMETERED` for a study."""


@dataclass(frozen=True, eq=False)
class MappedMoves(SensitivityReport):
    """Sensitivity of the numbers of one draw, of pairs wherever they are.

    Attributes
    ----------
    moves : PairMoves
        Statistics in the order of the entries of the request.
    before : tuple of StatisticMoves
        What an earlier stage authorised for these cells, and what it spent of that; or nothing.
    bins : int
        Bins of a cell, cell by cell, where a pair moves two of them by its weight; or none.
    """

    moves: PairMoves
    before: tuple[StatisticMoves, ...] = ()
    bins: int = 0

    def charge(self, scales: Floats, n_users: int, currency: Currency) -> Floats:
        """Return each user's loss beyond the authorised one, rounded down."""
        # Anything else was never booked: the meter refuses an infinite loss.
        if not (scales > 0).all():
            return np.full(n_users, np.inf)
        moves = self.moves.at(self._by_statistic(scales))
        if self.before and currency is losses:
            moves = replace(moves, statistics=(*moves.statistics, *self.before))
            return moves.per_user(beyond, up=False)
        return moves.per_user(currency, up=False)

    def _by_statistic(self, scales: Floats) -> list[Floats]:
        """Return the scales of a request by statistic, in the order of cells."""
        if self.bins:
            # All bins of a cell have one scale; were one smaller, the loss would be at most that.
            return [scales.reshape(-1, self.bins).min(axis=1)] * 2
        sizes = [int(np.isfinite(one.scale).sum()) for one in self.moves.statistics]
        return np.split(scales, np.cumsum(sizes)[:-1])
