"""How far maps with a private interval are off, beside plans without one and a constant.

Flights: 56 cells (airport and scheduled hour), aircraft, 0 to 600 mph, epsilon 1 in all, through
the vetted noise. Nothing is tuned here: the plans' own defaults.
"""

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hexveil as hv
from hexveil.experiments.flights import departures
from hexveil.records import Dataset

RUNS = 50
CELLS = ("origin", "hour")


def flights() -> Dataset:
    """Return the sums of aircraft in cells of airport and scheduled hour."""
    return hv.read(
        departures(),
        user="tailnum",
        value="ground speed",
        bounds=(0, 600),
        cells=hv.Labels(*CELLS),
        select=hv.Select(min_users=1),
        repeats="keep",
    )


def truth(dataset: Dataset) -> NDArray[np.float64]:
    """Return the true average of each cell."""
    occupancy, scale = dataset.occupancy, dataset.public.scale
    sums = np.bincount(occupancy.cell, weights=dataset.sums.total.astype(float))
    return float(scale.lower) + float(scale.quantum) * sums / occupancy.records_per_cell


def errors(
    dataset: Dataset, true: NDArray[np.float64], options: dict[str, Any]
) -> tuple[list[float], list[float]]:
    """Return the average errors over cells of each run: of raw and of smoothed estimates."""
    plan = hv.plan(dataset, epsilon=1, advise=False, **options)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for run in range(RUNS):
            book = hv.Ledger(Path(folder) / "ledger.sqlite", dataset=f"run {run}", budget=1)
            made = hv.release(dataset, plan, ledger=book, estimates=("raw", "smoothed"))
            shown = (made.table[f"mean_{name}"].to_numpy() for name in ("raw", "smoothed"))
            found.append([float(np.abs(one - true).mean()) for one in shown])
    raw, smoothed = zip(*found, strict=True)
    return list(raw), list(smoothed)


def main() -> int:
    """Print a row per plan."""
    dataset = flights()
    true = truth(dataset)
    rows = [("one constant for all cells", [float(np.abs(true - np.median(true)).mean())])]
    for name, options in (
        ("without an interval", {}),
        ('intervals="global"', {"intervals": "global"}),
    ):
        raw, smoothed = errors(dataset, true, options)
        rows += [(name, raw), (f"{name}, smoothed", smoothed)]
    print(f"{dataset.occupancy.n_cells} cells, {dataset.occupancy.n_users:,} users, epsilon 1")
    for name, found in rows:
        print(f"  {name:32} {statistics.mean(found):6.2f} mph on average over {len(found)} runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
