"""What has been spent, durable before anything is published."""

from hexveil.ledger.ledger import Booking, Ledger

__all__ = ["Booking", "Ledger"]
