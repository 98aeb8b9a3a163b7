"""Maps that remember: whatever prices and ranges a forecast gives, a unit loses at most ε."""

import numpy as np
import pytest

from hexveil import InputError
from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.presence.contribution import CellWindow
from hexveil.mechanisms.presence.remembered_map import RememberedMap
from mechanisms.presence.presence_laws import ExactPresenceLoss, PresenceWorld


def remembered(window):
    """Return the stages of a map of two cells with these prices and ranges."""
    return RememberedMap(
        n_cells=2, span_quanta=2, epsilon=2, form=None, releases=("",), window=window, within=0.1
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_unit_loses_more_than_epsilon_wherever_earlier_outputs_lead(seed):
    """Of any prices and ranges that a forecast may give the exact loss is nearly ε, never more."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, PARTS // 2, 2)
    window = CellWindow(rng.integers(1, 2**20, 2), low, low + rng.integers(1, PARTS // 2, 2))
    plan = remembered(window)
    base = ((0, 0, 1, 1), (1, 0, 2, 4), (0, 1, 3, 2))
    found = ExactPresenceLoss(PresenceWorld.of(base, 2, 2, max_n=2, step=3), lambda _: plan)
    assert 0.9 * 2 <= found.worst <= 2 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("price", "low", "high"),
    [(-1, 0, 1), (2**20 + 1, 0, 1), (1, -1, 1), (1, 2, 2), (1, 3, 2), (1, 0, PARTS + 1)],
)
def test_parameters_that_break_the_sensitivity_are_refused(price, low, high):
    """A negative price would give weights whose sum is beyond what the noise is for."""
    window = CellWindow(np.array([1, price]), np.array([0, low]), np.array([1, high]))
    with pytest.raises(InputError, match="lead to no map"):
        remembered(window)
