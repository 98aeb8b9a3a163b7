"""Losses over all parts of a plan, and the figures that follow from them."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from hexveil.accounting.promise import of_amount
from hexveil.base.read_only import read_only

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.distribution.combined_stages import CombinedStages


class PartsBooking:
    """Losses over all parts of a plan, and the figures that follow from them."""

    @property
    def delta(self) -> Fraction:
        """δ of the promise, the same for all parts; 0 of a pure one."""
        raise NotImplementedError

    def allocation(self) -> CombinedStages:
        """Return the stages of all parts."""
        raise NotImplementedError

    @cached_property
    def booked_losses(self) -> Floats:
        """Booking of each unit over all parts: its loss, or its square of μ."""
        booked: Floats = read_only(self.allocation().losses())
        return booked

    @cached_property
    def user_losses(self) -> Floats:
        """Loss of each unit over all parts, at `delta`, rounded up; shape (n_units,)."""
        promise = of_amount(self.booked_limit, self.delta)
        losses: Floats = read_only(promise.losses(self.booked_losses))
        return losses

    def losses(self) -> Floats:
        """Return the loss of each unit over all parts, rounded up."""
        return self.user_losses

    @property
    def epsilon(self) -> Fraction:
        """Privacy loss of the most exposed unit: the cost of the release."""
        return Fraction(float(self.user_losses.max(initial=0.0)))

    @property
    def booked_limit(self) -> Fraction:
        """Most that the ledger books for a unit: its loss, or under a δ its square of μ."""
        return Fraction(float(self.booked_losses.max(initial=0.0)))
