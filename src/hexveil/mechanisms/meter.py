"""The meter of a release: what its stages really cost each unit, against what was booked.

Neighbours and sensitivity: stated by each stage. Loss: pure losses add up over stages, also those
chosen by earlier outcomes. Under (ε, δ) squares of μ do; a purely private choice has the square of
its own loss (accounting/gaussian_composition.py, with proof and source). Both are added up from the
very scales that go to the noise source, by the accountant that made the booking
(accounting/moves.py), rounded down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from hexveil.accounting.gaussian_composition import square_of_pure
from hexveil.accounting.moves import ULP
from hexveil.base.errors import HexveilError
from hexveil.mechanisms.sensitivity_report import GaussianNoise, SquaresReport

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.sensitivity_report import NoiseRequest, SensitivityReport

ROUNDED = 1e-9
"""Relative room for the rounding of squares."""


class Authority(Protocol):
    """Right to draw: a `Meter` for a release, `UNMETERED` for a study."""

    def authorise(
        self, requests: tuple[NoiseRequest, ...], reports: tuple[SensitivityReport, ...]
    ) -> None:
        """Raise HexveilError if these draws would cost a user more than was booked."""


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
                loss = _squares(request, report, n_users) * (1.0 - ROUNDED)
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


def _squares(request: NoiseRequest, report: SensitivityReport, n_users: int) -> Floats:
    """Return each unit's square of μ by a request; infinite where no square limits it."""
    if isinstance(request, GaussianNoise):
        if not isinstance(report, SquaresReport):
            return np.full(n_users, np.inf)
        return report.squares_lower_bound(request, n_users)
    # Units of equal loss share a conversion, which takes a while.
    pure, which = np.unique(report.loss_lower_bound(request, n_users), return_inverse=True)
    squares = [square_of_pure(one) if np.isfinite(one) else np.inf for one in pure.tolist()]
    return np.asarray(np.array(squares)[which])
