import numpy as np
import pytest

from hexveil.smoothing.mixed_model import Design, fit_model
from smoothing.maps import crossed, heavy


def test_known_variances_are_found():
    """On a large map of the model the fitted sizes are those it was drawn with."""
    rng = np.random.default_rng(0)
    groupings = crossed(60, 50)
    row, column = (g.label for g in groupings)
    truth = 1.2 * rng.normal(size=60)[row] + 0.5 * rng.normal(size=50)[column]
    truth = truth + 0.8 * heavy(rng, 3_000)
    scale = np.full(3_000, 0.7)
    y = truth + rng.laplace(0.0, 0.7, 3_000)
    done = fit_model(Design(groupings, 3_000), y, scale, np.ones(3_000))
    assert np.sqrt(2 * done.own_variance) == pytest.approx(0.8, rel=0.08)
    sizes = [np.sqrt(square.mean()) for square in done.effects.squares]
    assert sizes == pytest.approx([1.2, 0.5], rel=0.3)


@pytest.mark.parametrize("wild", [30.0, 1e3])
def test_far_cells_speak_softly(wild):
    """A cell far from all others has a small precision, so that it does not move the effects."""
    y = np.r_[np.linspace(-1, 1, 20), wild]
    done = fit_model(Design((), 21), y, np.full(21, 0.3), np.ones(21))
    assert done.precision[-1] < 0.05 * done.precision[:-1].min()
    assert abs(done.effects.mean[0]) < 0.5
