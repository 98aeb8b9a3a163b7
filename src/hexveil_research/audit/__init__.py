"""Audits: can many releases of neighbouring inputs refute a claimed loss? See docs/understand."""

from hexveil_research.audit.bounds import detection, loss_bound, lower_end, upper_end
from hexveil_research.audit.cases import Case, suite
from hexveil_research.audit.output_distributions import AuditedRelease, Event, Mixture
from hexveil_research.audit.run import (
    exact_loss,
    level,
    power,
    simulated_bound,
    table,
    vetted_bound,
)
from hexveil_research.audit.weakenings import Weakening

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
