"""Requests with private presence: plans from declarations alone."""

from fractions import Fraction

import pytest

import hexveil as hv

LABELS = hv.Labels("cell", values=[*"abcdefghij"])
MANY = hv.Labels("cell", values=[str(k) for k in range(400)])
AREA = hv.Cells(6, None, area=(20.5, 51.9, 21.4, 52.5))
PARTS = 2**20
"""Parts of a full weight in which noise is added."""


def declared(cells, statistics="mean"):
    """Return the options of reading records into declared cells."""
    places = {} if isinstance(cells, hv.Labels) else {"lat": "lat", "lon": "lon"}
    facts = {"user": "car", "value": "speed", "bounds": (0, 100), "quantum": "0.1"}
    return facts | places | {"cells": cells, "protect": "presence", "statistics": statistics}


def planned(fleet, cells=LABELS, epsilon=1, statistics="mean", **more):
    """Return the plan of a fleet of so many units."""
    facts = hv.declare(**declared(cells, statistics))
    options = {"fleet": fleet, "epsilon": epsilon, "statistics": statistics, "advise": False}
    return hv.plan(facts, **options, **more)


def form_of(*asked, **more):
    """Return the stages' shares of epsilon."""
    return planned(*asked, **more).stages().form


def test_the_form_follows_the_declared_fleet():
    """A small fleet gets one shot, a large one three stages."""
    assert form_of(999).coarse_share == 0
    assert form_of(1000).coarse_share > 0


def test_histograms_of_a_large_fleet_are_cheap():
    """Shares of histograms fall with fleet and cells; all shares stay within one."""
    forms = [form_of(n, MANY, epsilon="0.5") for n in (1000, 20_000, 10**6)]
    spent = [form.range_share + form.residual_share for form in forms]
    assert spent == sorted(spent, reverse=True)
    assert spent[0] == Fraction("0.15")
    assert spent[-1] == Fraction("0.015")
    # Where cells are few, so is the noise of the map against that of a histogram of all cells.
    assert form_of(10**6).residual_share == Fraction("0.1")
    assert all(
        0 < form.map_share == 1 - form.coarse_share - s
        for form, s in zip(forms, spent, strict=True)
    )


def test_only_an_area_is_tested_for_weight():
    """Cells of a list are all open; those of an area open by their noisy weight."""
    assert planned(100).stages().threshold is None
    assert planned(100, AREA).stages().threshold > 3 * PARTS


def test_the_first_range_is_for_the_declared_weight_of_a_cell():
    """Its typical weight falls with the fleet, and under a delta rises with cells per unit."""
    weights = [planned(n).stages().typical_weight for n in (2000, 999, 100)]
    assert weights == [200.0, 49.95, 5.0]
    assert planned(100, delta=Fraction(1, 1000)).stages().typical_weight > 10.0


def test_the_whole_epsilon_is_booked_for_any_unit():
    """The plan has one loss, that of any unit, and it is what was asked for."""
    (loss,) = planned(50, epsilon="0.7").losses().tolist()
    assert 0 <= Fraction(loss) - Fraction("0.7") < Fraction(1, 2**50)


def test_counts_have_the_declared_cap():
    """A unit counts fully in as many cells as it is declared to be in, or as there are."""
    for cells, cap in ((4, 4), (40, 10)):
        fleet = hv.FleetDeclaration(500, cells_per_unit=cells)
        assert planned(fleet, statistics="users").stages().cell_cap == cap


def test_counts_beside_averages_have_a_share_by_weight():
    """Both parts make up ε; the count's part rises with its weight, and falls with the fleet."""
    both = {"statistics": ("mean", "users")}

    def share(units, weight=1, **delta):
        made = planned(units, AREA, 2, weights={"users": weight}, **both, **delta)
        whole, plan = planned(units, AREA, 2, **delta).stages(), made.stages()
        assert (1 - Fraction(1, 10**6)) * whole.promise.amount <= plan.promise.amount
        assert plan.promise.amount <= whole.promise.amount
        assert made.epsilon == 2
        assert plan.counts.false_openings is None
        return plan.counts.promise.amount / plan.promise.amount

    assert share(2000) < share(2000, 4) < share(2000, 100) < 1
    assert share(10**6) < share(2000) < Fraction(1, 2)
    # Under a δ parts of the square of μ, which are as another power of errors.
    assert share(2000, delta="1e-6") < share(2000, 4, delta="1e-6") < 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hv.FleetDeclaration(0), "units"),
        (lambda: hv.FleetDeclaration(units=True), "units"),
        (lambda: hv.FleetDeclaration(2**40), "at most"),
        (lambda: hv.FleetDeclaration(10, cells_per_unit=0), "cells_per_unit"),
        (lambda: planned(10, epsilon=0), "epsilon"),
        (lambda: planned(10, epsilon="1e-12").stages(), "epsilon is too small"),
        (
            lambda: planned(10, statistics=("mean", "users"), weights={"speed": 2}),
            "must be a mapping",
        ),
    ],
)
def test_wrong_declarations_are_refused(make, message):
    """Each refusal names the declaration that is wrong."""
    with pytest.raises(hv.InputError, match=message):
        make()
