"""Averages by hexveil with private presence: read, place on the declared cells, book, release."""

import tempfile
from pathlib import Path

import common
import numpy as np
from numpy.typing import NDArray

import hexveil as hv
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.presence.presence_request import FleetDeclaration, PresenceRequest
from hexveil.publishing.presence.presence_release import release_with_presence
from hexveil.records.placing import place_on_grid


def averages(work: common.Work, *, users: int) -> NDArray[np.float64]:
    """Return the average of each cell of a fleet declared to have so many users."""
    bounds = (int(work.lower), int(work.upper))
    dataset = hv.read(
        work.file,
        user="user",
        value="value",
        bounds=bounds,
        cells=hv.Labels("cell"),
        select=hv.Select(min_users=1),
        repeats="keep",
    )
    grid = DeclaredGrid.of_labels(hv.Labels("cell"), [list(map(str, range(work.cells)))])
    lattice = ValueLattice.of(bounds, "0.001")
    request = PresenceRequest.of(grid, lattice, FleetDeclaration(users), common.EPSILON)
    pairs = place_on_grid(dataset, grid)
    with tempfile.TemporaryDirectory() as folder:
        book = hv.Ledger(Path(folder) / "book.sqlite", dataset="records", budget=1)
        made = release_with_presence(
            pairs, request, source="records", ledger=book, accept_noise=True
        )
    table = made.table
    return work.filled([int(cell) for cell in table["cell"].to_pylist()], table["mean"])


if __name__ == "__main__":
    common.main(averages, itself=True)
