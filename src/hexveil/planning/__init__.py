"""Many cells at once: plans made from public facts, and what a fleet can support."""

from hexveil.planning.advice import GridTooFineWarning
from hexveil.planning.api import plan
from hexveil.planning.capacity import Capacity, Offer, capacity
from hexveil.planning.plan import Plan
from hexveil.planning.support import Support

__all__ = ["Capacity", "GridTooFineWarning", "Offer", "Plan", "Support", "capacity", "plan"]
