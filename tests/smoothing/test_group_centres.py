"""Centres that other cells of a group predict: better estimates where groups exist, none lost."""

from dataclasses import replace

import numpy as np
import pytest

from hexveil.smoothing.cell_groupings import RandomEffect
from hexveil.smoothing.clipped_posterior import fit
from hexveil.smoothing.group_centres import CellLikelihoods, predict_centres
from hexveil.smoothing.user_mean_law import CellDesign, ClippedLook, UserMeanSpread

BOUNDS = 0.0, 100.0
SPREAD = UserMeanSpread(40.0, 12.0, 12.0, 4.0)
PLACES, SLOTS = 12, 8
PLACE = RandomEffect("same place", np.repeat(np.arange(PLACES), SLOTS))


def design_of(n, users=200):
    """Return cells of users with equal weights, which are their shares of the records."""
    same, none = np.full(n, 1.0 / users), np.zeros(n)
    return CellDesign(np.full(n, users), same, same, none, none)


def drawn(rng, between, own, scale=8.0, ends=(15.0, 65.0)):
    """Return true means of cells at places, and a look at them."""
    place = rng.normal(40.0, between, PLACES)[PLACE.label] if between else 40.0
    truth = np.clip(place + rng.normal(0.0, own, PLACES * SLOTS), 1.0, 99.0)
    noisy = np.clip(truth, *ends) + rng.laplace(0.0, scale, truth.size)
    flat = np.ones(truth.size)
    return truth, ClippedLook(noisy, ends[0] * flat, ends[1] * flat, scale * flat)


def estimated(look, effects):
    """Return median, low and high of each cell."""
    posterior = fit([look], design_of(look.noisy.size), SPREAD, BOUNDS, effects)
    return posterior.median(), *posterior.interval(0.95)


@pytest.mark.slow
def test_cells_of_one_place_learn_from_each_other():
    """Where places differ and slots hardly do, errors fall and intervals still hold."""
    errors, held = [], []
    for seed in range(2):
        truth, look = drawn(np.random.default_rng(seed), 10.0, 1.5, scale=5.0)
        alone, grouped = estimated(look, ()), estimated(look, (PLACE,))
        errors.append([np.abs(one[0] - truth).mean() for one in (alone, grouped)])
        held.append(((grouped[1] <= truth) & (truth <= grouped[2])).mean())
    alone, grouped = np.mean(errors, axis=0)
    assert grouped < 0.85 * alone
    assert np.mean(held) > 0.93


@pytest.mark.slow
def test_a_group_at_an_end_of_the_range_teaches_little():
    """A place whose cells are all cut off is wrong in all of them: intervals reach its truth."""
    rng = np.random.default_rng(3)
    truth, look = drawn(rng, 4.0, 1.5, scale=2.0)
    far = PLACE.label == 0
    truth = np.where(far, 85.0, truth)
    look = replace(look, noisy=np.where(far, 65.0 + rng.laplace(0.0, 2.0, truth.size), look.noisy))
    _, _, high = estimated(look, (PLACE,))
    assert (high[far] > 85.0).mean() > 0.9


def test_a_cell_does_not_predict_its_own_centre():
    """Moving one cell's number moves the others' centres, and its own by its place's alone."""
    rng = np.random.default_rng(4)
    truth, look = drawn(rng, 8.0, 2.0, scale=1.0)
    own = CellLikelihoods(look.noisy, np.full(truth.size, 4.0), look.noisy)

    def centres(numbers):
        return predict_centres(
            CellLikelihoods(numbers, own.variance, numbers),
            look,
            design_of(truth.size),
            SPREAD,
            BOUNDS,
            (PLACE,),
        )

    moved = own.number.copy()
    moved[5] += 0.5
    (before, variance), (after, _) = centres(own.number), centres(moved)
    change = np.abs(after - before)
    assert change[5] < 0.4 * change[PLACE.label == 0].max()
    assert (variance > 0).all()
