"""Requests with private presence: plans from declarations alone."""

from dataclasses import replace
from fractions import Fraction

import pytest

from hexveil import Cells, FleetDeclaration, InputError, Labels
from hexveil.accounting.promise import PARTS
from hexveil.mechanisms.presence.presence_allocation import ONE_SHOT
from hexveil.model.declared_grid import DeclaredGrid, Polygon
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.plan_arguments import kind_weights
from hexveil.planning.presence.presence_plan import KINDS, divided
from hexveil.planning.presence.presence_request import PresenceRequest

LABELS = DeclaredGrid.of_labels(Labels("cell"), [list("abcdefghij")])
MANY = DeclaredGrid.of_labels(Labels("cell"), [[str(k) for k in range(400)]])
AREA = DeclaredGrid.of_area(Cells(6, None), Polygon.of_box(20.5, 51.9, 21.4, 52.5))
LATTICE = ValueLattice.of((0, 65), "0.01")


def request(units, grid=LABELS, epsilon=1, **more):
    """Return a request of a fleet of so many units."""
    return PresenceRequest(grid, LATTICE, FleetDeclaration(units), epsilon, **more)


def test_the_form_follows_the_declared_fleet():
    """A small fleet gets one shot, a large one three stages."""
    assert request(999).form() == ONE_SHOT
    assert request(1000).form().coarse_share


def test_histograms_of_a_large_fleet_are_cheap():
    """Shares of histograms fall with fleet and cells; all shares stay within one."""
    forms = [request(n, MANY, epsilon="0.5").form() for n in (1000, 20_000, 10**6)]
    spent = [form.range_share + form.residual_share for form in forms]
    assert spent == sorted(spent, reverse=True)
    assert spent[0] == Fraction("0.15")
    assert spent[-1] == Fraction("0.015")
    # Where cells are few, so is the noise of the map against that of a histogram of all cells.
    assert request(10**6).form().residual_share == Fraction("0.1")
    assert all(
        0 < form.map_share == 1 - form.coarse_share - s
        for form, s in zip(forms, spent, strict=True)
    )


def test_only_an_area_is_tested_for_weight():
    """Cells of a list are all open; those of an area open by their noisy weight."""
    assert request(100).allocation().threshold is None
    assert request(100, AREA).allocation().threshold > 3 * PARTS


def test_the_first_range_is_for_the_declared_weight_of_a_cell():
    """Its typical weight falls with the fleet, and under a delta rises with cells per unit."""
    weights = [request(n).allocation().typical_weight for n in (2000, 999, 100)]
    assert weights == [200.0, 49.95, 5.0]
    assert request(100, delta=Fraction(1, 1000)).allocation().typical_weight > 10.0


def test_the_whole_epsilon_is_booked_for_any_unit():
    """The plan has one loss, that of any unit, and it is what was asked for."""
    (loss,) = request(50, epsilon="0.7").allocation().losses().tolist()
    assert 0 <= Fraction(loss) - Fraction("0.7") < Fraction(1, 2**50)


def test_counts_have_the_declared_cap():
    """A unit counts fully in as many cells as it is declared to be in, or as there are."""
    for cells, cap in ((4, 4), (40, 10)):
        fleet = FleetDeclaration(500, cells_per_unit=cells)
        counts = PresenceRequest(LABELS, LATTICE, fleet, 1, count_share=Fraction(1))
        assert counts.allocation().cell_cap == cap


def test_counts_beside_averages_have_a_share_by_weight():
    """Both parts make up ε; the count's part rises with its weight, and falls with the fleet."""

    def share(units, weight=1, delta=0):
        weights = kind_weights({"users": weight}, KINDS)
        whole = replace(request(units, grid=AREA, epsilon=2), delta=Fraction(delta))
        made = divided(whole, weights)
        plan = made.allocation()
        whole_loss = whole.allocation().promise.amount
        assert (1 - Fraction(1, 10**6)) * whole_loss <= plan.promise.amount <= whole_loss
        assert made.epsilon == 2
        assert plan.counts.false_openings is None
        return made.count_share

    assert share(2000) < share(2000, 4) < share(2000, 100) < 1
    assert share(10**6) < share(2000) < Fraction(1, 2)
    # Under a δ parts of the square of μ, which are as another power of errors.
    assert share(2000, delta="1e-6") < share(2000, 4, "1e-6") < 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FleetDeclaration(0), "units"),
        (lambda: FleetDeclaration(units=True), "units"),
        (lambda: FleetDeclaration(2**40), "at most"),
        (lambda: FleetDeclaration(10, cells_per_unit=0), "cells_per_unit"),
        (lambda: request(10, epsilon=0), "epsilon"),
        (lambda: request(10, epsilon="1e-12").allocation(), "epsilon is too small"),
        (lambda: kind_weights({"speed": 2}, KINDS), "must be a mapping"),
    ],
)
def test_wrong_declarations_are_refused(make, message):
    """Each refusal names the declaration that is wrong."""
    with pytest.raises(InputError, match=message):
        make()
