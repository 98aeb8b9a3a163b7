"""Exact laws of several value columns: a unit loses the sum over columns, and that is booked.

Of values and of presence, and with a δ. Twins that book one column alone are refused by the meter.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil import HexveilError
from hexveil.accounting.gaussian_composition import calibrated_square
from hexveil.accounting.promise import Squares
from hexveil.mechanisms.contract import MemoryJournal, execute
from hexveil.mechanisms.distribution import ColumnSums, CombinedStages
from hexveil.mechanisms.presence.count_map import CountAllocation
from hexveil.mechanisms.presence.presence_allocation import MapForm, PresenceAllocation
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from presence_laws import ColumnWorld, ExactPresenceLoss, PresenceWorld

DELTA = "0.001"


def drawn(both, stages, booked, *, squared=False):
    """Draw all stages under a booking."""
    sums = ColumnSums({name: PrivateSums(one.sums.total) for name, one in both.datasets.items()})
    source = SimulatedNoise(np.random.default_rng(1), 1)
    execute(stages, sums, source, MemoryJournal(), Meter(booked, squared=squared))


def read(quantum=1, **options):
    """Return two columns of whole values 0, 1 and 2 of few records."""
    table = pa.table(
        {
            "sensor": ["a", "a", "b", "b", "c"],
            "ward": ["x", "y", "x", "x", "y"],
            "p": pa.array([1, 2, 0, 1, 2], pa.float64()),
            "q": pa.array([None, 1, 2, None, 0], pa.float64()),
        }
    )
    given = {"user": "sensor", "value": ("p", "q"), "bounds": (0, 2), "quantum": quantum}
    return hv.read(table, **given, **options)


FEW = {"select": hv.Select(min_users=1), "accept_single_records": True, "max_bad_rows": 0.9}


@pytest.fixture(scope="module")
def both():
    """Return these columns of public users."""
    return read(cells=hv.Labels("ward"), **FEW)


@pytest.fixture(scope="module")
def plan(both):
    """Return a plan within bounds."""
    return hv.plan(both, epsilon=4, clipping_range="bounds", advise=False)


def exact_losses(both, plan):
    """Return each unit's largest log-ratio of chances, from what the stages themselves noise.

    Discrete Laplace noise attains exp(|change| / scale), and columns change freely: the law of
    all outputs is the product over columns, so the largest ratios multiply.
    """
    losses = np.zeros(both.public.n_units)
    for column, one in both.datasets.items():
        component = plan.stages().component(column)
        occupancy = both.public.columns[column].occupancy
        for user, number in enumerate(both.public.units[column]):
            mine = np.flatnonzero(occupancy.user == user)
            ranges = [range(2 * int(n) + 1) for n in occupancy.n[mine]]
            rows = []
            for sums in itertools.product(*ranges):
                total = one.sums.total.copy()
                total[mine] = sums
                (stage,) = [component.plan.next_stage(Outputs())]
                (measured,) = stage.measure(PrivateSums(total), Outputs())
                (request,) = stage.noise(Outputs())
                rows.append(measured.integers[0] / np.atleast_2d(request.scales)[0])
            changes = np.abs(np.array(rows)[:, None] - np.array(rows)[None]).sum(axis=2)
            losses[number] += changes.max()
    return losses


def test_booked_losses_are_the_exact_ones_over_both_columns(both, plan):
    """Booked is at least the true loss, at most a tenth more; one column alone is too little."""
    exact, booked = exact_losses(both, plan), plan.losses()
    assert np.all(booked >= exact * (1 - 1e-12))
    assert np.all(exact >= 0.9 * booked)
    first = plan.with_stages({"p": plan.stages().component("p").plan}).losses()
    assert np.any(first < 0.9 * exact)
    # The meter of a release would refuse to draw the second column under that booking.
    drawn(both, plan.stages(), booked)
    with pytest.raises(HexveilError, match="more than was booked"):
        drawn(both, plan.stages(), first)


def test_a_column_is_charged_to_its_own_units(both, plan):
    """A twin that charges other units for the second column is caught."""
    units = {**both.public.units, "q": np.array([1, 2, 0])}
    wrong = replace(plan, facts=replace(plan.facts, units=units))
    assert np.any(wrong.losses() < exact_losses(both, plan) * (1 - 1e-6))


# ---- under a delta ----


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


@pytest.mark.slow
def test_squares_of_all_columns_add_up_under_a_delta():
    """Booked is the exact sum over columns, within ε and δ; one column alone is too little."""
    options = {"epsilon": 6, "delta": DELTA, "clipping_range": "bounds", "advise": False}
    both = read("0.001", cells=hv.Labels("ward"), **FEW)
    plan = hv.plan(both, weights={"p": 2}, **options)
    exact, booked = exact_squares(both, plan), plan.booked_losses
    assert (booked >= exact).all()
    assert np.allclose(exact, booked, rtol=1e-3)
    whole = calibrated_square(Fraction(6), Fraction(DELTA))
    assert 0.95 * whole < plan.booked_limit <= whole
    drawn(both, plan.stages(), booked, squared=True)
    # A twin that charges the first column alone.
    first = plan.with_stages({"p": plan.stages().component("p").plan}).losses()
    with pytest.raises(HexveilError, match="more than was booked"):
        drawn(both, plan.stages(), first, squared=True)


# ---- under private presence ----


@pytest.fixture(scope="module")
def units():
    """Return a world of two columns, and stages of both: averages, and numbers of units."""
    options = {"user": "u", "bounds": (0, 2), "quantum": 1, "protect": "presence"}
    cells = hv.Labels("ward", values=["x"])
    facts = hv.declare(value=("p", "q"), cells=cells, **options)
    plan = hv.plan(facts, epsilon=2, fleet=9, advise=False)
    form = MapForm(Fraction("0.02"))
    stages = {
        "p": PresenceAllocation(1, 2, Fraction(1), form, None),
        "q": CountAllocation(1, 1, Fraction(1), None),
    }
    base = ((0, 0, 1, 1), (0, 1, 1, 2))
    world = ColumnWorld({name: PresenceWorld.of(base, 1, 2, max_n=1) for name in stages})
    return world, plan, stages


def test_booked_is_the_exact_loss_of_a_unit_in_both_columns(units):
    """Over all sets of records in both columns no unit loses more than booked, nor far less."""
    world, plan, stages = units
    both = plan.with_stages(stages)
    found = ExactPresenceLoss(world, lambda _: both)
    (booked,) = both.losses()
    assert booked == pytest.approx(2, rel=1e-12)
    assert 0.9 * booked <= found.worst <= booked * (1 + 1e-9)


def test_booking_one_of_two_columns_is_caught(units):
    """The meter refuses a twin that books the first column alone; its true loss is larger."""
    world, plan, stages = units
    both, first = plan.with_stages(stages), plan.with_stages({"p": stages["p"]})
    with pytest.raises(HexveilError, match="more than was booked"):
        ExactPresenceLoss(world, lambda _: CombinedStages(both.components, first.losses()))
    assert first.losses() < 0.9 * ExactPresenceLoss(world, lambda _: both).worst


@pytest.mark.slow
def test_squares_of_any_unit_add_up_under_a_delta(tmp_path, monkeypatch):
    """Any unit is booked the sum of squares, in an account of this δ; too little draws nothing."""
    units = read(cells=hv.Labels("ward", values=["x", "y"]), protect="presence")
    plan = hv.plan(units, epsilon=3, delta="1e-6", fleet=400, advise=False)
    squares = [calibrated_square(one.epsilon, plan.delta) for one in plan.plans.values()]
    assert float(plan.booked_limit) == pytest.approx(float(sum(squares)), rel=1e-12)
    assert sum(squares) <= calibrated_square(Fraction(3), plan.delta)
    # A twin that books the first column alone.
    monkeypatch.setattr(hv.Plan, "promise", Squares(squares[0], plan.delta))
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="air", budget=3, delta="1e-6")
    with pytest.raises(HexveilError, match="more than was booked"):
        hv.release(units, plan, ledger=book, accept_noise=True)
