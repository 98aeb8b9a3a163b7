"""Audits: can many releases of neighbouring inputs refute a claimed loss? See docs/understand."""

from hexveil_research.audit.bounds import detection, loss_bound, lower_end, upper_end
from hexveil_research.audit.cases import Case, suite
from hexveil_research.audit.laws import Event, Mixture, mixture
from hexveil_research.audit.run import (
    exact_loss,
    level,
    power,
    simulated_bound,
    table,
    vetted_bound,
)
from hexveil_research.audit.twins import Twin, applicable, broken

__all__ = [
    "Case",
    "Event",
    "Mixture",
    "Twin",
    "applicable",
    "broken",
    "detection",
    "exact_loss",
    "level",
    "loss_bound",
    "lower_end",
    "mixture",
    "power",
    "simulated_bound",
    "suite",
    "table",
    "upper_end",
    "vetted_bound",
]
