import numpy as np
import pytest

import hexveil as hv
from planning.sums import sums_of

BOTH = {"statistics": ("mean", "variance")}
PRIVATE = {"epsilon": 1, "clipping_range": "private"}
COUNTS = [[2, 1], [1, 1], [1, 3]]
OCCUPANCY = hv.Occupancy.from_dense(COUNTS)


def planned(**options):
    """Return a plan of three users in two cells, without advice."""
    usual = {"bounds": (0, 10), "advise": False}
    return hv.plan(options.pop("source", OCCUPANCY), **usual | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give exactly one of them"),
        ({"epsilon": 1, "target_error": 1}, "give exactly one of them"),
        ({"epsilon": 0}, "epsilon must be positive"),
        ({"epsilon": 1, "method": "magic"}, "method must be one of joint, per-cell, equal-split"),
        ({"epsilon": 1, "objective": "least"}, "objective must be one of max, mean"),
        ({"epsilon": 1, "statistics": ("median",)}, "statistics must be one or more of mean"),
        ({"epsilon": 1, "statistics": ()}, "statistics must be one or more of mean"),
        ({"epsilon": 1, "statistics": ("mean", "mean")}, "each once"),
        ({"epsilon": 1, "edition": " "}, "edition must be a name"),
        ({"epsilon": 1, "edition": 2}, "edition must be a name"),
        ({"epsilon": 1, "mechanism": "Levy"}, 'mechanism goes with method "per-cell"'),
        ({"epsilon": 1, "mechanism": 3}, "mechanism must be a mechanism of one cell"),
        ({"epsilon": 1, "mechanism": "Baseline", "method": "clip-user"}, 'not with "clip-user"'),
        (
            {"epsilon": 1, "objective": "mean", "method": "per-cell"},
            'objective "mean" goes with method "joint" or a target',
        ),
        ({"range_share": 0} | PRIVATE, "range_share is the part of epsilon .* between 0 and"),
        ({"range_share": 1.5} | PRIVATE, "range_share is the part of epsilon .* between 0 and"),
        ({"epsilon": 1, "range_share": "0.1", "clipping_range": "bounds"}, "range_share goes with"),
        ({"epsilon": 1, "clipping_range": "all"}, "clipping_range must be one of bounds, private"),
        ({"method": "per-cell"} | PRIVATE, 'method "joint"'),
        ({"objective": "max"} | PRIVATE, 'objective "mean"'),
        (PRIVATE | {"epsilon": None, "target_error": 2}, "epsilon, not target_error|objective"),
        (
            {"epsilon": 1, "clipping_range": "per-cell"} | BOTH,
            '"per-cell" goes with the mean alone',
        ),
        ({"epsilon": 1, "delta": "0.001", "method": "equal-split"}, "delta goes with method"),
        ({"epsilon": 1, "delta": "0.001", "objective": "max"}, "or name target_error"),
        ({"epsilon": 1, "delta": "0.4"}, "below 1 / 3 units"),
        ({"epsilon": 1, "delta": "0"}, "delta"),
        ({"epsilon": 1, "delta": 5e-324}, "delta must be a finite number.*write a larger one"),
        ({"epsilon": 1, "delta": "1e4000"}, "delta must be a finite number.*write a smaller one"),
        ({"epsilon": 1, "bounds": None}, "bounds are needed to plan a bare occupancy"),
        ({"epsilon": 1, "bounds": (3, 3)}, "from the smaller to the larger"),
        ({"epsilon": 1, "bounds": (0, float("inf"))}, "upper bounds must be a finite number"),
        ({"epsilon": 1, "bounds": {"a": (0, 1)}}, "bounds must be"),
        ({"epsilon": 1, "baseline_error": -1}, "baseline_error must be positive"),
        ({"epsilon": 1, "source": "records.csv"}, "for a data set or an occupancy, got str"),
        ({"target_error": 0}, "target_error must be positive and finite, got 0"),
        ({"target_error": "-5%"}, "target_error must be positive and finite, got -5"),
        ({"target_error": "wide"}, "target_error must be a finite number"),
        ({"target_error": float("nan")}, "target_error must be a finite number"),
        ({"target_error": [1, 2, 3]}, "target_error must be a finite number"),
        ({"target_error": {"variance": 1}}, "target_error must name mean, got variance"),
        ({"target_error": 1} | BOTH, "a target for each of mean and variance"),
        ({"target_error": {"mean": 1}} | BOTH, "must name mean and variance, got mean"),
    ],
)
def test_wrong_requests_are_named(options, message):
    """Each wrong argument is refused in one sentence that names it."""
    with pytest.raises(hv.InputError, match=message) as caught:
        planned(**options)
    assert "\n" not in str(caught.value)


def test_no_cell_is_nothing_to_plan():
    """An occupancy without cells is refused."""
    with pytest.raises(hv.InputError, match="there is no cell to plan"):
        planned(source=hv.Occupancy.from_dense(np.zeros((0, 0), dtype=int)), epsilon=1)


@pytest.mark.parametrize(
    ("dense", "message"),
    [
        ([[1, 0], [2, 0]], "cell 1 has no records"),
        ([[1, 1], [0, 0]], "user 1 has no records"),
        ([[1, -1], [2, 3]], "counts must be 0 or above, got -1"),
    ],
)
def test_bad_occupancies_are_named(dense, message):
    """Empty cells, empty users and negative counts never reach a plan."""
    with pytest.raises(hv.InputError, match=message):
        hv.Occupancy.from_dense(dense)


def test_targets_in_any_form_are_the_same():
    """Numbers, percentages and mappings of a target are read alike."""
    one, *others = (
        planned(bounds=(0, 20), target_error=asked).to_json()
        for asked in ("10%", {"mean": "10%"}, 2)
    )
    assert others == [one, one]
    assert planned(bounds=(0, 20), target_error=1.99).to_json() != one
    asked = {"mean": 1, "variance": "10%"}, {"mean": 1, "variance": 40}
    both = [planned(bounds=(0, 20), target_error=one, **BOTH).to_json() for one in asked]
    assert both[0] == both[1]


def test_statistics_come_in_one_order():
    """However they are asked for, statistics come as mean, variance, sd, each once."""
    for asked, found in ((None, "mean"), ("sd", "sd"), (("sd", "mean"), ("mean", "sd"))):
        plan = planned(epsilon=3, statistics=asked)
        assert plan.statistics == (found if isinstance(found, tuple) else (found,))


def test_a_deviation_costs_what_its_variance_costs():
    """Variance and deviation together are one noisy number per cell."""
    one = planned(epsilon=3, statistics=("variance",))
    both = planned(epsilon=3, statistics=("variance", "sd"))
    assert both.request.noised == ("variance",)
    assert both.epsilon == one.epsilon
    assert np.array_equal(both.allocation.variance_noise, one.allocation.variance_noise)


def test_bounds_of_records_are_checked():
    """Bounds must lie within those of the records, on their lattice."""
    facts = sums_of(COUNTS, bounds=(0, 10), quantum="0.5")
    for bounds, message in (
        ((0, 12), "within the bounds"),
        ((0, "7.3"), "multiple of the quantum"),
    ):
        with pytest.raises(hv.InputError, match=message):
            planned(source=facts, bounds=bounds, epsilon=1)
    assert planned(source=facts, bounds=None, epsilon=1).span.tolist() == [10.0, 10.0]
