import html

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from planning.sums import sums_of
from strategies import occupancies

METHODS = st.sampled_from(["per-cell", "equal-split"])
MECHANISMS = st.sampled_from([hv.mechanisms.Baseline(), hv.mechanisms.OptimalClipping()])


def planned(occupancy, **options):
    """Return a per-cell plan without advice, on bounds [-5, 15], unless told otherwise."""
    usual = {"bounds": (-5, 15), "epsilon": 1, "method": "per-cell", "advise": False}
    return hv.plan(occupancy, **usual | options)


def general_losses(plan):
    """Return the losses of a plan of means: the sum of each user's sensitivities over scales."""
    total = plan.occupancy.records_per_cell[plan.occupancy.cell]
    scale = np.where(plan.primary_statistic.scale > 0, plan.primary_statistic.scale, np.inf)
    moved = 20.0 * plan.contributions("mean") / total
    return np.bincount(plan.occupancy.user, moved / scale[plan.occupancy.cell])


@given(occupancies(), METHODS, MECHANISMS)
def test_losses_agree_with_the_general_formula(occupancy, method, mechanism):
    """Losses by min(m, t) / r equal the sums of sensitivities over scales."""
    plan = planned(occupancy, method=method, mechanism=mechanism)
    assert plan.losses() == pytest.approx(general_losses(plan), rel=1e-9, abs=1e-12)


@given(occupancies(), MECHANISMS)
def test_cells_equal_the_mechanism_alone(occupancy, mechanism):
    """Each cell's noise, bias and bound are those of the mechanism planning that cell alone."""
    plan = planned(occupancy, mechanism=mechanism)
    for cell in range(occupancy.n_cells):
        counts = occupancy.n[occupancy.cell == cell]
        alone = mechanism.plan(counts, bounds=(-5, 15), epsilon=plan.cell_epsilon)
        assert plan.contribution_cap[cell] == alone.allocation.contribution_cap
        assert plan.primary_statistic.scale[cell] == pytest.approx(alone.noise_scale)
        assert plan.primary_statistic.bias[cell] == pytest.approx(alone.worst_case_bias)
        assert plan.primary_statistic.bound95[cell] == pytest.approx(alone.bound95)


@pytest.mark.parametrize("method", ["per-cell", "equal-split"])
def test_counting_cells_claims_the_loss_of_a_cell_for_each_of_the_most(method):
    """Of a user in three cells three times a cell's, though another is in one alone."""
    crowd = hv.Occupancy.from_dense([[2, 1, 3]] * 20 + [[1, 0, 0]] * 20)
    plan = planned(crowd, method=method, epsilon=9)
    assert plan.l0_epsilon == 3 * plan.cell_epsilon


@given(occupancies(), st.sampled_from([0.1, 0.5, 1, 2]))
def test_equal_split_is_never_better(occupancy, epsilon):
    """Accounting per user never has a larger error than counting cells."""
    exact = planned(occupancy, epsilon=epsilon)
    counted = planned(occupancy, epsilon=epsilon, method="equal-split")
    assert exact.expected_error <= counted.expected_error * (1 + 1e-9)


def test_plan_reads_no_value():
    """Of a data set, a plan looks at the public facts only."""
    occupancy = hv.Occupancy.from_dense([[2, 1], [1, 1]])

    class Poisoned:
        """A data set whose private side must not be touched."""

        def __init__(self, facts):
            self.public = facts

        @property
        def sums(self):
            pytest.fail("a plan looked at private sums")

    facts = hv.plan(occupancy, bounds=(0, 1), epsilon=9, advise=False)
    public = sums_of([[2, 1], [1, 1]], bounds=(0, 1), quantum="0.1").public
    plan = hv.plan(Poisoned(public), epsilon=9, advise=False)
    assert plan.names == ("cell 000", "cell 001")
    assert np.array_equal(plan.allocation.noise_scale_records, facts.allocation.noise_scale_records)


def test_tables_hold_a_row_per_cell_and_user():
    """The tables carry public columns with one row per cell and per user."""
    plan = planned(hv.Occupancy.from_dense([[2, 1], [1, 1], [1, 0]]))
    assert plan.table.num_rows == 2
    assert plan.table["records"].to_pylist() == [4, 2]
    assert plan.users["cells"].to_pylist() == [2, 2, 1]
    assert plan.users["loss"].to_pylist() == plan.losses().tolist()


def test_a_plan_is_a_data_frame_and_a_page():
    """The rows of the cells go to pandas; a notebook shows the first of them, names escaped."""
    pytest.importorskip("pandas")
    counts = np.ones((40, 30), dtype=int)
    plan = hv.plan(hv.Occupancy.from_dense(counts), bounds=(0, 10), epsilon=1, advise=False)
    assert plan.to_pandas()["mean_error"].tolist() == plan.table["mean_error"].to_pylist()
    page = plan._repr_html_()
    assert page.startswith(f"<p>{html.escape(repr(plan))}</p><table>")
    assert page.count("<tr>") == 1 + 20
    assert "The first 20 of 30 rows." in page
