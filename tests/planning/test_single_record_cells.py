"""The variance of a cell of one record is 0, whatever its value is: known without noise."""

import numpy as np
import pytest

import hexveil as hv

COUNTS = np.vstack([np.tile([4, 0], (40, 1)), [[0, 1]]])
"""A cell of forty users, and a cell of one record."""
METHODS = {
    "joint": {"method": "joint", "epsilon": 1},
    "per-cell": {"method": "per-cell", "epsilon": 1},
    "equal-split": {"method": "equal-split", "epsilon": 1},
    "clip-user": {"method": "clip-user", "epsilon": 1},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_variance_of_one_record_has_neither_noise_nor_error(method):
    """Of every method; the cell of many records has both."""
    plan = hv.plan(
        hv.Occupancy.from_dense(COUNTS), bounds=(0, 1), statistics=("mean", "variance"),
        advise=False, **METHODS[method],
    )  # fmt: skip
    variance = plan.error_models["variance"]
    assert variance.scale[1] == variance.error[1] == 0
    assert variance.scale[0] > 0
