"""The privacy ledger: losses booked per unit, durable before anything is published."""

from hexveil.ledger.accounts import Spend
from hexveil.ledger.bookings import Booking
from hexveil.ledger.ledger import Ledger
from hexveil.ledger.unit_losses import Key, Losses, hash_losses

__all__ = ["Booking", "Key", "Ledger", "Losses", "Spend", "hash_losses"]
