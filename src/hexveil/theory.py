"""Formulas: arrays in, numbers out. Public facts only; numpy only."""

from hexveil.accounting.bias import best_offset as best_offset
from hexveil.accounting.bias import clipping_bias as clipping_bias
from hexveil.accounting.bias import linear_bias as linear_bias
from hexveil.accounting.bias import linear_error as linear_error
from hexveil.accounting.bias import midpoint_mean_bias as midpoint_mean_bias
from hexveil.accounting.bias import midpoint_variance_bias as midpoint_variance_bias
from hexveil.accounting.bias import midpoint_variance_offset as midpoint_variance_offset
from hexveil.accounting.bias import reweighted_mean_bias as reweighted_mean_bias
from hexveil.accounting.bias import reweighted_variance_bias as reweighted_variance_bias
from hexveil.accounting.bias import truncation_mean_bias as truncation_mean_bias
from hexveil.accounting.bias import truncation_variance_bias as truncation_variance_bias
from hexveil.accounting.clip_user import Suppression as Suppression
from hexveil.accounting.clip_user import SuppressionStage as SuppressionStage
from hexveil.accounting.clip_user import clip_user as clip_user
from hexveil.accounting.error_model import noise_floor as noise_floor
from hexveil.accounting.privacy_loss import privacy_loss as privacy_loss
from hexveil.accounting.pseudo_user_caps import Clipping as Clipping
from hexveil.accounting.pseudo_user_caps import capped_total as capped_total
from hexveil.accounting.pseudo_user_caps import clipping_rank as clipping_rank
from hexveil.accounting.pseudo_user_caps import exact_cap as exact_cap
from hexveil.accounting.pseudo_user_caps import median_cap as median_cap
from hexveil.accounting.pseudo_user_caps import minimax_cap as minimax_cap
from hexveil.accounting.pseudo_user_caps import optimal_clipping as optimal_clipping
from hexveil.accounting.pseudo_user_caps import sqrt_cap as sqrt_cap
from hexveil.accounting.pseudo_user_caps import surrogate_cap as surrogate_cap
from hexveil.accounting.pseudo_user_caps import surrogate_objective as surrogate_objective
from hexveil.accounting.pseudo_users import PseudoUsers as PseudoUsers
from hexveil.accounting.pseudo_users import best_fit as best_fit
from hexveil.accounting.pseudo_users import wrap_around as wrap_around
from hexveil.accounting.sensitivity import contribution_weights as contribution_weights
from hexveil.accounting.sensitivity import mean_sensitivity as mean_sensitivity
from hexveil.accounting.sensitivity import user_mean_sensitivity as user_mean_sensitivity
from hexveil.accounting.sensitivity import (
    user_midpoint_mean_sensitivity as user_midpoint_mean_sensitivity,
)
from hexveil.accounting.sensitivity import (
    user_midpoint_variance_sensitivity as user_midpoint_variance_sensitivity,
)
from hexveil.accounting.sensitivity import (
    user_reweighted_mean_sensitivity as user_reweighted_mean_sensitivity,
)
from hexveil.accounting.sensitivity import (
    user_reweighted_variance_sensitivity as user_reweighted_variance_sensitivity,
)
from hexveil.accounting.sensitivity import user_variance_sensitivity as user_variance_sensitivity
from hexveil.accounting.sensitivity import variance_sensitivity as variance_sensitivity

__all__ = [name for name in dir() if not name.startswith("_")]
