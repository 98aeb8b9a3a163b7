"""Meter of releases under (ε, δ) where occupancy is public: squares of μ of each unit.

Neighbours: all values of one unit change within the bounds.
Sensitivity: stated by each stage. Loss: squares of μ add up over stages, also those chosen by
earlier outcomes; a purely private choice has the square of its own loss
(accounting/gaussian_composition.py, with proof and source). The meter adds them up from the very
scales that go to the noise source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.gaussian_composition import square_of_pure
from hexveil.mechanisms.contract import GaussianNoise, refuse_overspending
from hexveil.mechanisms.sensitivity_report import SquaresReport

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.contract import NoiseRequest, SensitivityReport

ROUNDED = 1e-9
"""Relative room for the rounding of squares."""


class UnitSquareMeter:
    """Squares of μ of each unit, against the booking.

    Parameters
    ----------
    booked : ndarray of float, shape (n_users,)
        μ² of each unit.
    """

    def __init__(self, booked: Floats) -> None:
        self._booked, self._spent = booked, np.zeros_like(booked)

    def authorise(
        self, requests: tuple[NoiseRequest, ...], reports: tuple[SensitivityReport, ...]
    ) -> None:
        """Add the squares of a stage; refuse above the booking.

        Raises
        ------
        HexveilError
            If a unit would certainly lose more than was booked for it.
        """
        for request, report in zip(requests, reports, strict=True):
            self._spent += _squares(request, report, self._booked.size) * (1.0 - ROUNDED)
        refuse_overspending(self._spent, self._booked)


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
