"""The gallery's map of private cars: true and published averages of one slot.

The cars are simulated, so the true averages can be shown. Presence is private in the release: the
grid is a declared box, and the fleet's size a declaration.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hexveil as hv
from hexveil.model.areas import Polygon
from hexveil.model.declared_grid import DeclaredGrid
from hexveil.records.dataset import Dataset
from hexveil_research.cars import BOX, ZONE, CarCity
from hexveil_research.pictures import maps
from hexveil_research.pictures.gallery_settings import Picture
from hexveil_research.pictures.png_files import save

CAR_PICTURE = Picture("gallery-cars", (), ends=(20.0, 48.0))
CARS, SEED, EPSILON, SLOT = 100_000, 1, 1, 8
"""Number of cars, their seed, the price, and the hour of day that is shown."""
BOUNDS = (0, 130)


def make(out: Path, work: Path, cars: int = CARS) -> None:
    """Write the picture into a folder; records and ledger go to another."""
    records = work / "cars.parquet"
    if not records.exists():
        CarCity(cars=cars, seed=SEED).write(records)
    named: dict[str, Any] = {
        "user": "car",
        "value": "speed",
        "lat": "lat",
        "lon": "lon",
        "time": "time",
        "bounds": BOUNDS,
        "repeats": "keep",
    }
    grid = hv.Cells(7, "1h", ZONE, "pooled")
    public = hv.read(records, **named, cells=grid, select=hv.Select(min_users=1))
    cells = replace(grid, area=Polygon.of_box(*BOX))
    private: Any = hv.read(records, **named, cells=cells, protect="presence")
    plan = hv.plan(private, epsilon=EPSILON, fleet=cars)
    ledger = hv.Ledger(work / "cars.sqlite", dataset="cars", budget=EPSILON)
    table = hv.release(private, plan, ledger=ledger, accept_noise=True).to_arrow()
    declared = private.public.grid
    columns = {
        "True averages": true_means(public, declared),
        "Published averages": np.asarray(table["mean"].to_numpy(), dtype=np.float64),
    }
    contents = [content(title, declared, values) for title, values in columns.items()]
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
    grades, lies_above = ["good"] * len(places), np.zeros(len(places), dtype=bool)
    return maps.MapContent(title, places, values[shown], grades, lies_above)
