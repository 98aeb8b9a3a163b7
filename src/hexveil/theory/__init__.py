"""Formulas: arrays in, numbers out. Public facts only; numpy only."""

from hexveil.theory.clipping import Clipping, clipping_rank, optimal_clipping
from hexveil.theory.loss import privacy_loss
from hexveil.theory.sensitivity import (
    mean_sensitivity,
    user_mean_sensitivity,
    user_variance_sensitivity,
    variance_sensitivity,
)
from hexveil.theory.support import noise_floor

__all__ = [
    "Clipping",
    "clipping_rank",
    "mean_sensitivity",
    "noise_floor",
    "optimal_clipping",
    "privacy_loss",
    "user_mean_sensitivity",
    "user_variance_sensitivity",
    "variance_sensitivity",
]
