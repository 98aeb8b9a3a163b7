"""Mechanisms of one cell compared on known values: `evaluate`, and distributions of values."""

from hexveil.mechanisms.priors import Normal, PerUser, Uniform, UnknownRange
from hexveil.simulation.evaluation import evaluate
from hexveil.simulation.value_distributions import Drift, Heterogeneous, StudentT

__all__ = [
    "Drift",
    "Heterogeneous",
    "Normal",
    "PerUser",
    "StudentT",
    "Uniform",
    "UnknownRange",
    "evaluate",
]
