"""Releases with private presence at the door to the noise: what they hand over, and what it tells.

The release runs as it is, with an oracle in place of the door (attack/exact_law.py). Along the path
of outcomes that tell most, two data sets that differ by all records of one unit are told apart by
no more than the ledger charges any unit.
"""

from fractions import Fraction

import numpy as np
import pytest

from attack.exact_law import EXACT, Heard, Oracle, choice, door, new_book
from hexveil.model.cells import Labels
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import fine_bins, parse_statistics
from hexveil.planning.presence.presence_request import (
    FleetDeclaration,
    PresenceRequest,
)
from hexveil.publishing.booking import ANY_UNIT
from presence_laws import release_pairs

GRID = DeclaredGrid.of_labels(Labels("route"), [["4", "7", "9"]])
LATTICE = ValueLattice.of((0, 60), 1)
TERMS = parse_statistics(("p85", "share<20"))[1]
BINS = fine_bins(LATTICE, TERMS)
SHAPES = {"terms": TERMS, "bins": BINS, "has_mean": False}
REQUESTS = {
    "three stages": PresenceRequest(GRID, LATTICE, FleetDeclaration(2000), 2, 0),
    "capped": PresenceRequest(GRID, LATTICE, FleetDeclaration(2000), 2),
    "one shot": PresenceRequest(GRID, LATTICE, FleetDeclaration(500), 2),
    "counts": PresenceRequest(
        GRID, LATTICE, FleetDeclaration(500, cells_per_unit=2), 2, count_share=Fraction(1)
    ),
    "shapes": PresenceRequest(GRID, LATTICE, FleetDeclaration(2000), 2, 0, **SHAPES),
    "capped shapes": PresenceRequest(GRID, LATTICE, FleetDeclaration(2000), 2, **SHAPES),
}
OTHERS = [(0, 0, 3, 90), (1, 0, 1, 10), (1, 1, 5, 250), (2, 2, 2, 60)]
UNITS = {
    "everywhere": [(0, 9, 1, 60), (1, 9, 9, 0), (2, 9, 4, 100)],
    "once": [(2, 9, 1, 60)],
    "heavy": [(0, 9, 10**6, 6 * 10**7), (1, 9, 1, 0)],
}


def pairs_of(rows):
    """Return private pairs of rows (cell, unit, n, total)."""
    cell, unit, n, total = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    # All records of a pair have its mean.
    by_bin = (cell, unit, np.searchsorted(BINS.edges, total // n), n)
    return PrivatePairs(cell, unit, n, total, by_bin=by_bin)


def asked(rows, request, outcomes):
    """Return the call that a release makes after these outcomes, and the charge of any unit."""
    book = new_book()
    oracle = Oracle(tuple(outcomes), book, ([ANY_UNIT], None))
    with door(oracle):
        try:
            release_pairs(pairs_of(rows), request, source="laws", ledger=book)
        except Heard:
            return oracle.call, oracle.charged
    return None, oracle.charged


def most_telling(without, present):
    """Return the outcome of a call that tells two data sets apart most, and its log-ratio."""
    if without.chosen:
        scale = float(without.scales[0])
        logs = [choice(tuple(one.values.tolist()), scale) for one in (without, present)]
        ratio = logs[1] - logs[0]
        best = int(np.argmax(ratio))
        return best, float(ratio[best])
    # Numbers only grow with a unit: above both, an outcome tells as much as any does.
    outcome = np.maximum(without.values, present.values) + 10**9
    return outcome, float((np.abs(present.values - without.values) / without.scales).sum())


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", REQUESTS)
def test_a_path_tells_no_more_than_is_charged(name, unit):
    """The log-ratio along a telling path is below ε, and the map's part of it is spent."""
    request, outcomes, told = REQUESTS[name], [], []
    while True:
        (without, booked), (present, again) = (
            asked(rows, request, outcomes) for rows in (OTHERS, [*OTHERS, *UNITS[unit]])
        )
        assert booked == again or without is None
        if without is None:
            assert present is None
            break
        assert without.alike(present), "the noise asked for depends on a unit"
        charged = booked[0]
        outcome, ratio = most_telling(without, present)
        outcomes.append(outcome)
        told.append(ratio)
    assert charged == pytest.approx(2.0)
    assert sum(told) <= charged * (1 + EXACT)
    # Under a cap the unit weighs little: the outcome of its stage says that others have far more.
    if not name.startswith("capped"):
        assert told[-1] >= 0.6 * charged * (0.5 if (name, unit) == ("counts", "once") else 1)
