"""Booking of plans that are made of purely private parts: one exact loss of each unit."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from hexveil.base.read_only import read_only

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hexveil.mechanisms.distribution.combined_stages import CombinedStages

    Floats = NDArray[np.float64]


class PureBooking:
    """Losses over all parts of a plan, and the figures that follow from them."""

    def allocation(self) -> CombinedStages:
        """Return the stages of all parts."""
        raise NotImplementedError

    @cached_property
    def user_losses(self) -> Floats:
        """Loss of each unit over all parts, rounded up; shape (n_units,)."""
        losses: Floats = read_only(self.allocation().losses())
        return losses

    def losses(self) -> Floats:
        """Return the loss of each unit over all parts, rounded up."""
        return self.user_losses

    @property
    def epsilon(self) -> Fraction:
        """Privacy loss of the most exposed unit: the cost of the release."""
        return Fraction(float(self.user_losses.max(initial=0.0)))

    @property
    def delta(self) -> Fraction:
        """δ of the promise: 0, since every part is purely private."""
        return Fraction(0)

    @property
    def booked_limit(self) -> Fraction:
        """Most that the ledger books for a unit."""
        return self.epsilon
