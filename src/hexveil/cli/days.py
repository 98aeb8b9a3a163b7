"""Plans of single days, as publishing needs them under either privacy model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from hexveil.ledger import Ledger
    from hexveil.publishing import Release


@dataclass(frozen=True)
class PlannedDay:
    """A planned day: its request, its price, and the way to publish it.

    Attributes
    ----------
    request : str
        Fingerprint of the request.
    epsilon : Fraction
        Loss of the most exposed unit.
    privacy_unit : str
    publish : callable
        From a ledger to the release: books, draws, or replays what was drawn.
    """

    request: str
    epsilon: Fraction
    privacy_unit: str
    publish: Callable[[Ledger], Release]

    @property
    def price(self) -> float:
        """Loss of the most exposed unit."""
        return float(self.epsilon)
