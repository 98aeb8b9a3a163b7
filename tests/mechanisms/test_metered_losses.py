"""The meter adds up, from the scales that are drawn with, what is booked: no less and no more.

Too small a scale exceeds the booking, and is refused; too large a one spends less than was booked.
"""

import numpy as np
import pytest

import hexveil as hv
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.moment_part import allocation_of
from hexveil.publishing.private_sums import private_sums
from publishing.setting import dataset_of

COUNTS = np.array([[4, 3], [2, 1], [3, 2], [1, 2], [2, 2], [1, 0]])
PLANS = {
    "factors": {"epsilon": 2, "clipping_range": "bounds"},
    "each cell alone": {"epsilon": 2, "method": "per-cell"},
    "little noise": {"epsilon": 40, "clipping_range": "bounds"},
    "both": {"epsilon": 40, "clipping_range": "bounds", "statistics": ("mean", "variance")},
    "suppression": {"epsilon": 4, "method": "clip-user", "statistics": ("mean", "variance")},
    "range": {"epsilon": 8, "clipping_range": "private"},
    "range, both": {
        "epsilon": 8,
        "clipping_range": "private",
        "statistics": ("mean", "variance"),
    },
}


def spent_over_booked(dataset, plan):
    """Return each user's loss by the meter, in parts of its booking."""
    allocation = allocation_of(plan, dataset.public.lattice)
    meter = Meter(allocation.losses())
    execute(allocation, private_sums(dataset), VettedNoise(), MemoryJournal(), meter)
    return meter._spent / allocation.losses()


@pytest.mark.parametrize("kind", PLANS)
def test_each_user_loses_what_is_booked(kind):
    """Of a plan with one way to go the loss of each user is known, but for rounding."""
    n = COUNTS.T[COUNTS.T > 0]
    scale = ValueLattice.of((0, 12), 1)
    dataset = dataset_of(COUNTS, 5 * n, 25 * n, scale=scale)
    plan = hv.plan(dataset, advise=False, **PLANS[kind])
    spent = spent_over_booked(dataset, plan)
    if kind.startswith("range"):
        # Who has fewer votes than others spends less on the histogram, which is booked in full.
        assert ((spent > 0.8) & (spent <= 1)).all()
        assert spent.max() > 0.999
    else:
        assert spent == pytest.approx(1, rel=0, abs=1e-12)


def test_a_scale_of_nothing_is_an_infinite_loss():
    """And any positive one is not, however small."""
    dataset = dataset_of(COUNTS, 5, scale=ValueLattice.of((0, 12), 1))
    allocation = allocation_of(hv.plan(dataset, epsilon=2, advise=False), dataset.public.lattice)
    (request,), (report,) = allocation.stage.noise({}), allocation.stage.sensitivity({})
    losses = report.loss_lower_bound(request, 6)
    small = report.loss_lower_bound(type(request)(request.scales / 2.0**20), 6)
    assert small.tolist() == (losses * 2.0**20).tolist()
    none = report.loss_lower_bound(type(request)(request.scales * [0, 1]), 6)
    assert none.tolist() == [np.inf] * 6
