"""Exact laws of several value columns under a δ: squares of all columns add up, and are booked.

Without a δ every kind of release is tried at the door to the noise, several columns among them.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import HexveilError
from hexveil.accounting.gaussian_composition import calibrated_square
from hexveil.accounting.promise import Squares
from hexveil.mechanisms.stage_data import Outputs, PrivateSums

pytestmark = pytest.mark.slow


def read(**options):
    """Return two columns of few records."""
    table = pa.table(
        {
            "sensor": ["a", "a", "b", "b", "c"],
            "ward": ["x", "y", "x", "x", "y"],
            "p": pa.array([1, 2, 0, 1, 2], pa.float64()),
            "q": pa.array([None, 1, 2, None, 0], pa.float64()),
        }
    )
    return hv.read(table, user="sensor", value=("p", "q"), bounds=(0, 2), **options)


def refuse(both, plan):
    """Assert that too low a booking draws nothing."""
    book = hv.Ledger("memory://", dataset="air", budget=9, delta=plan.delta)
    with pytest.raises(HexveilError, match="more than was booked"):
        hv.release(both, plan, ledger=book, accept_noise=True)


def exact_squares(both, plan):
    """Return each unit's largest square of μ, from what the stages themselves noise."""
    squares = np.zeros(both.public.n_units)
    for column, one in both.datasets.items():
        stages = plan.stages().component(column).plan
        stage, pairs = stages.next_stage(Outputs()), one.occupancy.local()
        (request,) = stage.noise(Outputs())
        top = pairs.n * one.public.lattice.span_quanta
        low, high = (
            stage.measure(PrivateSums(total), Outputs())[0].integers[0] for total in (0 * top, top)
        )
        # Every unit's move of each cell, one unit after the other, others at the lower bound.
        for user, number in enumerate(both.public.units[column]):
            total = np.where(pairs.user == user, top, 0)
            moved = stage.measure(PrivateSums(total), Outputs())[0].integers[0] - low
            squares[number] += float(((moved / request.deviations) ** 2).sum())
        assert (high > low).all()
    return squares


def test_squares_of_all_columns_add_up_under_a_delta(monkeypatch):
    """Booked is the exact sum over columns, within ε and δ; one column alone is too little."""
    few = {"select": hv.Select(min_users=1), "accept_single_records": True, "max_bad_rows": 0.9}
    both, delta = read(cells=hv.Labels("ward"), **few), "0.001"
    options = {"epsilon": 6, "clipping_range": "bounds", "advise": False}
    plan = hv.plan(both, delta=delta, weights={"p": 2}, **options)
    exact, booked = exact_squares(both, plan), plan.booked_losses
    assert (booked >= exact).all()
    assert np.allclose(exact, booked, rtol=1e-3)
    whole = calibrated_square(Fraction(6), Fraction(delta))
    assert 0.95 * whole < plan.booked_limit <= whole
    # A twin that charges the first column alone.
    first = plan.with_stages({"p": plan.stages().component("p").plan}).losses()
    short = replace(plan.stages(), booked=first)
    monkeypatch.setattr(hv.Plan, "stages", lambda _: short)
    refuse(both, plan)


def test_squares_of_any_unit_add_up_under_a_delta(monkeypatch):
    """Any unit is booked the sum of squares, in an account of this δ; too little draws nothing."""
    both = read(cells=hv.Labels("ward", values=["x", "y"]), protect="presence")
    plan = hv.plan(both, epsilon=3, delta="1e-6", fleet=400, advise=False)
    squares = [calibrated_square(one.epsilon, plan.delta) for one in plan.plans.values()]
    assert float(plan.booked_limit) == pytest.approx(float(sum(squares)), rel=1e-12)
    assert sum(squares) <= calibrated_square(Fraction(3), plan.delta)
    # A twin that books the first column alone.
    monkeypatch.setattr(hv.Plan, "promise", Squares(squares[0], plan.delta))
    refuse(both, plan)
