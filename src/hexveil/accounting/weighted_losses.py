"""Privacy losses of weighted means and variances in a private range, over pairs wherever they are.

A cell with noise b for a range of width 1 costs a user its weight's share of the cell, divided by b
(mechanisms/weighted/weighted_mean.py for the proof); its variance with noise b' for a radius of 1
the same share, divided by b' (mechanisms/weighted/weighted_variance.py). Each function takes some
pairs, their whole weights, and arrays with an entry per cell, so that it can be mapped over blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexveil.accounting.privacy_loss import compose_losses
from hexveil.base.rational import sum_upper_bounds

if TYPE_CHECKING:
    from hexveil.base.arrays import Floats, Ints
    from hexveil.model.occupancy import Pairs


def weighted_pair_losses(pairs: Pairs, weight: Ints, totals: Ints, *noises: Floats) -> Floats:
    """Return the loss that each pair adds to its user's, not yet rounded up; 0 without noise.

    `noises` are those of each statistic, which add up.
    """
    share = weight / totals[pairs.cell]
    terms = np.zeros_like(share)
    for scale in (noise[pairs.cell] for noise in noises):
        terms += np.divide(share, scale, out=np.zeros_like(share), where=scale > 0)
    return terms


def weighted_user_losses(pairs: Pairs, weight: Ints, totals: Ints, *noises: Floats) -> Floats:
    """Return each user's loss over all cells, rounded up."""
    terms = weighted_pair_losses(pairs, weight, totals, *noises)
    return compose_losses(pairs.user, terms, pairs.n_users)


def largest_weighted_losses(pairs: Pairs, weight: Ints, totals: Ints, *noises: Floats) -> Floats:
    """Return the largest term of a user in each cell."""
    terms = weighted_pair_losses(pairs, weight, totals, *noises)
    return np.asarray(np.maximum.reduceat(terms, pairs.start[:-1]))


def claimed_user_losses(pairs: Pairs, weight: Ints, claimed: Floats) -> Floats:
    """Return each user's loss if each cell in which it has weight claims `claimed`."""
    terms = np.where(weight > 0, claimed[pairs.cell], 0.0)
    return sum_upper_bounds(pairs.user, terms, pairs.n_users)
