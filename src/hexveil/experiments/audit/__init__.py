"""Audits: can many releases of neighbouring inputs refute a claimed loss? See docs/understand."""

from hexveil.experiments.audit.bounds import detection, loss_bound, lower_end, upper_end
from hexveil.experiments.audit.cases import Case, suite
from hexveil.experiments.audit.laws import Event, Mixture, mixture
from hexveil.experiments.audit.run import (
    exact_loss,
    level,
    power,
    simulated_bound,
    table,
    vetted_bound,
)
from hexveil.experiments.audit.twins import Twin, applicable, broken

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
