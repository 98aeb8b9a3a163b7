"""The privacy ledger: losses booked per unit, durable before anything is published."""

from typing import TYPE_CHECKING

from hexveil.base.optional_packages import load_on_use
from hexveil.ledger.unit_losses import Key, Losses, hash_losses

if TYPE_CHECKING:
    from hexveil.ledger.accounts import Spend
    from hexveil.ledger.bookings import Booking
    from hexveil.ledger.ledger import Ledger

__all__ = ["Booking", "Key", "Ledger", "Losses", "Spend", "hash_losses"]

# Losses are described without a database; loading its library takes a moment.
__getattr__ = load_on_use(
    __name__, {"Booking": "bookings", "Ledger": "ledger", "Spend": "accounts"}
)
