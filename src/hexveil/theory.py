"""Formulas: arrays in, numbers out. Public facts only; numpy only."""

from hexveil.accounting.bias import (
    best_offset,
    clipping_bias,
    linear_bias,
    linear_error,
    midpoint_mean_bias,
    midpoint_variance_bias,
    midpoint_variance_offset,
    reweighted_mean_bias,
    reweighted_variance_bias,
    truncation_mean_bias,
    truncation_variance_bias,
)
from hexveil.accounting.clip_user import Suppression, clip_user
from hexveil.accounting.error_model import noise_floor
from hexveil.accounting.privacy_loss import privacy_loss
from hexveil.accounting.pseudo_user_caps import (
    Clipping,
    capped_total,
    clipping_rank,
    exact_cap,
    median_cap,
    minimax_cap,
    optimal_clipping,
    sqrt_cap,
    surrogate_cap,
    surrogate_objective,
)
from hexveil.accounting.pseudo_users import PseudoUsers, best_fit, wrap_around
from hexveil.accounting.sensitivity import (
    contribution_weights,
    mean_sensitivity,
    user_mean_sensitivity,
    user_midpoint_mean_sensitivity,
    user_midpoint_variance_sensitivity,
    user_reweighted_mean_sensitivity,
    user_reweighted_variance_sensitivity,
    user_variance_sensitivity,
    variance_sensitivity,
)
from hexveil.accounting.clip_user import SuppressionStage

__all__ = [
    "Clipping",
    "PseudoUsers",
    "Suppression",
    "SuppressionStage",
    "best_fit",
    "best_offset",
    "capped_total",
    "clip_user",
    "clipping_bias",
    "clipping_rank",
    "contribution_weights",
    "exact_cap",
    "linear_bias",
    "linear_error",
    "mean_sensitivity",
    "median_cap",
    "midpoint_mean_bias",
    "midpoint_variance_bias",
    "midpoint_variance_offset",
    "minimax_cap",
    "noise_floor",
    "optimal_clipping",
    "privacy_loss",
    "reweighted_mean_bias",
    "reweighted_variance_bias",
    "sqrt_cap",
    "surrogate_cap",
    "surrogate_objective",
    "truncation_mean_bias",
    "truncation_variance_bias",
    "user_mean_sensitivity",
    "user_midpoint_mean_sensitivity",
    "user_midpoint_variance_sensitivity",
    "user_reweighted_mean_sensitivity",
    "user_reweighted_variance_sensitivity",
    "user_variance_sensitivity",
    "variance_sensitivity",
    "wrap_around",
]
