"""Plans of many cells, made from public metadata, and the grids that a fleet supports."""

from hexveil.planning.api import plan
from hexveil.planning.feasibility.advice import GridTooFineWarning
from hexveil.planning.feasibility.capacity import Capacity, capacity
from hexveil.planning.feasibility.grid_assessment import GridAssessment
from hexveil.planning.feasibility.utility_test import UtilityAssessment
from hexveil.planning.plan import Plan

__all__ = [
    "Capacity",
    "GridAssessment",
    "GridTooFineWarning",
    "Plan",
    "UtilityAssessment",
    "capacity",
    "plan",
]
