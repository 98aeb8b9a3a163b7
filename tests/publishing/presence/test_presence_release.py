"""Releases with private presence through a ledger: one balance for any unit, nothing else told."""

from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil import BudgetError, FleetDeclaration, InputError, Labels
from hexveil.ledger import hash_losses
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.model.pair_bins import PairBins
from hexveil.model.private_pairs import PrivatePairs
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import fine_bins, parse_statistics
from hexveil.planning.plan_arguments import kind_weights
from hexveil.planning.presence.presence_plan import KINDS, divided
from hexveil.planning.presence.presence_request import PresenceRequest
from mechanisms.presence.presence_laws import release_pairs

GRID = DeclaredGrid.of_labels(Labels("route"), [["4", "7", "9", "12"]])
LATTICE = ValueLattice.of((0, 60), "0.1")
MANY, FEW = FleetDeclaration(2000, 100, 3), FleetDeclaration(500, 100, 3)
TERMS = parse_statistics(("p50", "p85", "share<15"))[1]
REQUESTS = {
    "three stages": PresenceRequest(GRID, LATTICE, MANY, "1.5", 0),
    "one shot": PresenceRequest(GRID, LATTICE, FEW, "1.5"),
    "counts": PresenceRequest(GRID, LATTICE, MANY, "1.5", count_share=Fraction(1)),
    "shapes": PresenceRequest(
        GRID, LATTICE, MANY, "1.5", terms=TERMS, bins=fine_bins(LATTICE, TERMS)
    ),
}
REQUESTS["counted"] = divided(
    PresenceRequest(GRID, LATTICE, MANY, "1.5"), kind_weights(None, KINDS)
)


def records(n_units=1800, seed=1):
    """Return pairs of so many units."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(n_units), 3)
    cell = rng.integers(0, 3, unit.size)
    return pairs_of(cell, unit, 100 + 100 * cell + unit % 50)


def pairs_of(cell, unit, quanta):
    """Return the pairs of records, with their counts by bin."""
    ones = np.ones(cell.size, dtype=np.int64)
    place = np.searchsorted(fine_bins(LATTICE, TERMS).edges, quanta)
    return PrivatePairs(cell, unit, ones, quanta, PairBins(np.arange(ones.size), place, ones))


NOBODY = pairs_of(*np.zeros((3, 0), dtype=np.int64))


def ledger_of(tmp_path, name="ledger", budget="2"):
    """Return a new ledger."""
    return hv.Ledger(tmp_path / f"{name}.sqlite", dataset="taxis", budget=budget)


def facts_of(ledger):
    """Return all that the ledger says of its bookings, but for noisy numbers and instants."""
    return [
        (entry.request, dict(entry.facts), {k: len(v) for k, v in entry.stages.items()})
        for entry in ledger.entries()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUESTS)
def test_nothing_but_noisy_numbers_depends_on_records(name, tmp_path):
    """No records at all, or others: facts, bookings, stages and their sizes are the same."""
    told = []
    for number, pairs in enumerate((records(), records(1799), NOBODY, records(5, 2))):
        ledger = ledger_of(tmp_path, f"{number}")
        made = release_pairs(pairs, REQUESTS[name], source="May", ledger=ledger)
        columns = (made.table.column_names, made.table["cell"].to_pylist())
        told.append((facts_of(ledger), ledger.spent, made.facts, columns))
    assert all(one == told[0] for one in told)


def test_a_budget_is_refused_for_any_unit(tmp_path):
    """A second source of the same account adds up, whoever is in it."""
    ledger = ledger_of(tmp_path)
    release_pairs(records(), REQUESTS["one shot"], source="May", ledger=ledger)
    with pytest.raises(BudgetError):
        release_pairs(NOBODY, REQUESTS["one shot"], source="June", ledger=ledger)
    assert ledger.spent == Fraction("1.5")


def test_an_account_is_pinned_to_one_model(tmp_path):
    """An account that promises private presence books no release of public occupancy."""
    ledger = ledger_of(tmp_path)
    release_pairs(records(), REQUESTS["counts"], source="May", ledger=ledger)
    losses = hash_losses([b"7"], np.array([0.1]), ledger.key, max_loss=Fraction(1))
    with ledger.drawing(), pytest.raises(InputError, match="presence is private"):
        ledger.reserve("0" * 64, losses, privacy_unit="user", facts={}, plan=b"{}")
