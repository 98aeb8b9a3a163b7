"""The variance of a cell of one record is 0, whatever its value is: known without noise."""

import numpy as np
import pytest

import hexveil as hv

COUNTS = np.vstack([np.tile([4, 0], (40, 1)), [[0, 1]]])
"""A cell of forty users, and a cell of one record."""
METHODS = {
    "joint": {"method": "joint", "objective": "mean", "epsilon": 1},
    "per-cell": {"method": "per-cell", "epsilon": 1},
    "equal-split": {"method": "equal-split", "epsilon": 1},
    "clip-user": {"method": "clip-user", "epsilon": 1},
}


LOSSES = np.geomspace(1 / 30, 30, 9).round(6).tolist()


def curve(counts, statistics, **options):
    """Return the error under the plan's objective at each of some losses."""
    occupancy, over = hv.Occupancy.from_dense(counts), options.get("objective", "mean")
    plans = [
        hv.plan(
            occupancy, bounds=(0, 1), statistics=statistics, advise=False,
            **options | {"epsilon": loss},
        )
        for loss in LOSSES
    ]  # fmt: skip
    return np.array([getattr(plan.single.objective_errors(), over)() for plan in plans])


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


@pytest.mark.parametrize("statistics", [("variance",), ("mean", "variance")])
def test_a_known_variance_leaves_the_joint_curve_of_the_largest_error_as_it_is(statistics):
    """With the cell of one record the curve of variances is that of the others.

    With means it is that of means alone: the mean of one record is not known, and costs.
    """
    both = curve(COUNTS, statistics, method="joint", objective="max")
    if statistics == ("variance",):
        alone = curve(COUNTS[:40, :1], statistics, method="joint", objective="max")
        assert both == pytest.approx(alone, rel=1e-6)
    else:
        alone = curve(COUNTS, ("mean",), method="joint", objective="max")
        # Errors of both are shares of a constant's, which is half of the bounds' width.
        assert both == pytest.approx(alone / 0.5, rel=1e-6)
