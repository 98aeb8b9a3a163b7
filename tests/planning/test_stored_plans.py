"""Wherever pairs lie, a plan states what one of the same pairs at hand states."""

import numpy as np
import pytest

import hexveil as hv
from examples import some
from hexveil import InputError
from model.stores import distributed, stored

BOUNDS, BOTH = (0, 60), ("mean", "variance")
DELTA = {"epsilon": 2, "delta": "1e-6"}
ASKED = {
    "joint": {"epsilon": 2},
    "largest": {"epsilon": 2, "objective": "max"},
    "target": {"target_error": 12},
    "target on average": {"target_error": 14, "objective": "mean"},
    "per-cell": {"epsilon": 2, "method": "per-cell"},
    "baseline": {"epsilon": 2, "method": "per-cell", "mechanism": hv.mechanisms.Baseline()},
    "equal-split": {"epsilon": 2, "method": "equal-split"},
    "both": {"epsilon": 3, "statistics": BOTH},
    "both, largest": {"epsilon": 3, "statistics": BOTH, "objective": "max"},
    "both, apart": {"epsilon": 3, "statistics": BOTH, "method": "per-cell"},
    "variance": {"epsilon": 3, "statistics": ("variance",)},
    "delta, both": DELTA | {"statistics": BOTH, "clipping_range": "bounds"},
}
RANGED = {
    "auto": {"epsilon": 1},
    "ranges": {"epsilon": 2, "clipping_range": "per-cell"},
    "one range": {"epsilon": 2, "clipping_range": "private"},
    "ranges, delta": DELTA | {"clipping_range": "per-cell"},
    "one range, delta": DELTA | {"clipping_range": "private", "statistics": BOTH},
}


def fleet(seed, users=30, cells=12):
    """Return an occupancy where few report much."""
    draw = np.random.default_rng(seed)
    counts = draw.poisson(draw.pareto(1.2, (users, 1)) + 0.3, (users, cells))
    counts[0] += 1
    counts[counts.sum(axis=1) == 0, 0] = 1
    return hv.Occupancy.from_dense(counts)


def planned(occupancy, **asked):
    """Return a plan without advice."""
    return hv.plan(occupancy, bounds=BOUNDS, advise=False, **asked)


@pytest.mark.parametrize("name", some(ASKED, 4))
def test_a_plan_states_the_losses_of_the_same_rows_at_hand(name):
    """Whatever rows were found: what is stated of them is what is stated of pairs at hand."""
    whole = fleet(2)
    there = planned(distributed(whole, 25), **ASKED[name])
    for store in ("memory", "runs"):
        with stored(whole, store):
            here = there.changed(occupancy=whole)
            np.testing.assert_array_equal(there.losses(), here.losses())
            assert (there.epsilon, there.l0_epsilon) == (here.epsilon, here.l0_epsilon)
            assert there.users.equals(here.users)
            assert there.table.equals(here.table)


@pytest.mark.slow
def test_comparisons_are_those_of_pairs_at_hand():
    """The same rows; what needs pairs at hand is a sentence.

    Of the joint plan of least average error no bound is computed in blocks.
    """
    whole = fleet(4, users=40, cells=4)
    here, there = (planned(one, epsilon=2) for one in (whole, distributed(whole, 30)))
    here, there = (hv.compare(one) for one in (here, there))
    for row, other in zip(here, there, strict=True):
        expected, found = row.to_json(), other.to_json()
        if row.name == "clip-user":
            continue
        if found["certifies"] is None:
            expected |= dict.fromkeys(("certifies", "lower_bound", "gap"))
        for name, value in expected.items():
            number = isinstance(value, float)
            assert found[name] == (pytest.approx(value, rel=1e-3) if number else value), name
    with pytest.raises(InputError, match="target_error with a delta needs all pairs"):
        planned(distributed(whole, 30), target_error=12, delta="1e-6")


def test_a_plan_of_the_mean_error_has_no_certificate_there_and_others_have():
    """The bound of an average looks at each pair; that of a largest error does not."""
    apart = distributed(fleet(7), 40)
    assert (planned(apart, epsilon=1).bound_kind, planned(apart, epsilon=1).gap) == (None, None)
    assert planned(apart, epsilon=1, objective="max").gap <= 0.05
