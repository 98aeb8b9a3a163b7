import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.optimizers.joint import (
    MAX_DISTINCT_SCALES,
    quantize_noise_scales,
)
from mechanisms.measuring import lattice

SIZES = st.floats(1e-290, 1e290)


def many(first):
    """Return more sizes than are left as they are, `first` among them."""
    return np.concatenate([[0.0, first], np.geomspace(1e-3, 1e3, 2 * MAX_DISTINCT_SCALES)])


@given(SIZES)
def test_each_rounding_keeps_to_its_side(size):
    """Noise moves by less than a 128th, only up or down if asked, by half of it to the nearest."""
    near, down, up = (
        quantize_noise_scales(many(size), how)[1] for how in (np.rint, np.floor, np.ceil)
    )
    assert down <= size <= up
    assert near in (down, up)
    assert size - down < size / 128
    assert up - size < size / 128
    assert abs(near - size) <= size / 256


def crowded(cells=600, users=30):
    """Return an occupancy of so many cells that their scales are made few."""
    rng = np.random.default_rng(4)
    dense = rng.poisson(0.4, (users, cells)) * rng.integers(1, 9, (users, cells))
    dense[np.arange(cells) % users, np.arange(cells)] += 1
    return hv.Occupancy.from_dense(dense)


ASKED = [
    {"epsilon": 60},
    {"epsilon": 60, "objective": "max"},
    {"epsilon": 60, "method": "per-cell", "statistics": ("mean", "variance")},
    {"target_error": "45%"},
    {"target_error": "45%", "objective": "mean"},
]


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
def test_a_plan_of_many_cells_draws_few_scales(asked, monkeypatch):
    """It keeps to what was asked, is as good as with its own scale everywhere, and says its own."""
    occupancy, asked = crowded(), {"bounds": (0, 10), "advise": False} | asked
    monkeypatch.setattr("hexveil.planning.optimizers.joint.MAX_DISTINCT_SCALES", 400)
    made = hv.plan(occupancy, **asked)
    where = lattice(made, ValueLattice.of((0, 10), "0.1"))
    assert np.unique(where.noise).size < 400
    stated = 200 * made.allocation.noise_scale_records
    assert ((stated <= where.noise) & (where.noise <= np.nextafter(stated, np.inf))).all()
    monkeypatch.setattr("hexveil.planning.optimizers.joint.MAX_DISTINCT_SCALES", occupancy.n_cells)
    own = hv.plan(occupancy, **asked)
    sizes = [np.unique(one.allocation.noise_scale_records).size for one in (own, made)]
    assert sizes[0] >= sizes[1]
    if "epsilon" in asked:
        assert made.epsilon <= made.requested_epsilon
        assert made.objective_errors().mean() <= own.objective_errors().mean() * 1.003
    else:
        errors = made.error if made.request.objective == "max" else made.error.mean()
        assert np.max(errors) <= 4.5
        assert float(made.epsilon) <= float(own.epsilon) * 1.008
    gap, own_gap = (one.with_lower_bound().gap for one in (made, own))
    if gap is not None:
        assert 0 <= gap <= own_gap + 0.008
