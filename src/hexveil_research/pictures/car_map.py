"""The gallery's map of private cars: true, published and smoothed averages of one slot.

The cars are simulated, so the true averages can be shown. Presence is private in the release: the
grid is a declared box, and the fleet's size a declaration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hexveil.records.placing import place_on_grid

import hexveil as hv
from hexveil.model.declared_grid import DeclaredGrid, Polygon
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.presence.presence_request import FleetDeclaration, PresenceRequest
from hexveil.publishing.presence.presence_release import release_with_presence
from hexveil.simulation.cars import CarCity
from hexveil.simulation.cars.car_city import BOX, ZONE
from hexveil_research.pictures import maps
from hexveil_research.pictures.gallery_settings import Picture
from hexveil_research.pictures.png_files import save

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from hexveil.records.dataset import Dataset

CAR_PICTURE = Picture("gallery-cars", (), ends=(20.0, 48.0))
CARS, SEED, EPSILON, SLOT = 100_000, 1, 1, 8
"""Number of cars, their seed, the price, and the hour of day that is shown."""
BOUNDS = (0, 130)


def make(out: Path, work: Path, cars: int = CARS) -> None:
    """Write the picture into a folder; records and ledger go to another."""
    records = work / "cars.parquet"
    if not records.exists():
        CarCity(cars=cars, seed=SEED).write(records)
    cells = hv.Cells(7, "1h", ZONE, "pooled")
    dataset = hv.read(
        records, user="car", value="speed", lat="lat", lon="lon", time="time",
        bounds=BOUNDS, cells=cells, select=hv.Select(min_users=1), repeats="keep",
    )  # fmt: skip
    grid = DeclaredGrid.of_area(cells, Polygon.of_box(*BOX))
    lattice = ValueLattice.of(BOUNDS, "0.001")
    request = PresenceRequest.of(grid, lattice, FleetDeclaration(cars), EPSILON)
    ledger = hv.Ledger(work / "cars.sqlite", dataset="cars", budget=EPSILON)
    pairs = place_on_grid(dataset, grid)
    table = release_with_presence(
        pairs, request, source=f"cars, seed {SEED}", ledger=ledger, accept_noise=True
    ).table
    columns = {
        "True averages": true_means(dataset, grid),
        "Published averages": np.asarray(table["mean"].to_numpy(), dtype=np.float64),
        "Smoothed": np.asarray(table["smoothed"].to_numpy(), dtype=np.float64),
    }
    contents = [content(title, grid, values) for title, values in columns.items()]
    empty = {"type": "FeatureCollection", "features": []}
    save(maps.draw(CAR_PICTURE, contents, empty), out / f"{CAR_PICTURE.name}.png")


def true_means(dataset: Dataset, grid: DeclaredGrid) -> NDArray[np.float64]:
    """Return the true average of each cell of the grid, NaN without records."""
    number = {name: cell for cell, name in enumerate(grid.table.names())}
    cells = np.array([number.get(name, -1) for name in dataset.public.cells.names()])
    occupancy, lattice = dataset.occupancy.local(), dataset.public.lattice
    at = cells[occupancy.cell]
    inside = at >= 0
    n = np.bincount(at[inside], occupancy.n[inside], grid.n_cells)
    total = np.bincount(at[inside], dataset.sums.total[inside], grid.n_cells)
    mean = np.full(grid.n_cells, np.nan)
    used = n > 0
    mean[used] = float(lattice.lower) + float(lattice.quantum) * total[used] / n[used]
    return mean


def content(title: str, grid: DeclaredGrid, values: NDArray[np.float64]) -> maps.MapContent:
    """Return the map of one slot; hexagons without a number are left out."""
    _, slots = grid.shape
    of_slot = np.arange(SLOT, grid.n_cells, slots)
    shown = of_slot[np.isfinite(values[of_slot])]
    places = [int(name, 16) for name in np.array(grid.table.hexagon_names())[shown]]
    return maps.MapContent(title, places, values[shown], ["good"] * len(places))
