"""Audits: can many releases of neighbouring inputs refute a claimed loss? See docs/understand."""

from hexveil_research.audit.cases import Case, suite
from hexveil_research.audit.output_distributions import AuditedRelease, Event, Mixture, Weakening
from hexveil_research.audit.run import (
    detection,
    exact_loss,
    level,
    loss_bound,
    lower_end,
    power,
    simulated_bound,
    table,
    upper_end,
    vetted_bound,
)

__all__ = [
    "AuditedRelease",
    "Case",
    "Event",
    "Mixture",
    "Weakening",
    "detection",
    "exact_loss",
    "level",
    "loss_bound",
    "lower_end",
    "power",
    "simulated_bound",
    "suite",
    "table",
    "upper_end",
    "vetted_bound",
]
