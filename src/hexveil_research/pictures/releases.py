"""Releases for the gallery, made by the command in a folder of their own; and true averages.

Each release is kept in the folder under a name made of its options, so that two panels of one
release are of one draw of noise.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hexveil.base.errors import HexveilError
from hexveil.model.cells import Cells
from hexveil.records.read import read
from hexveil.records.select import Select
from hexveil.simulation import flights

TRUE = ("true", "true_sd")
"""What is known of the invented city alone: average and standard deviation of a cell."""


def prepare_city(folder: Path, options: str, run: str) -> None:
    """Write the city's records and streets, and its run file, into a folder."""
    if not (folder / "city.parquet").exists():
        command(folder, "simulate", *options.split())
    (folder / "buses.toml").write_text(run, "utf-8")


def prepare_flights(folder: Path, run: str) -> None:
    """Write the flights, by airport and scheduled hour, and their run file into a folder."""
    pq.write_table(flights.departures(), folder / "flights.parquet")
    (folder / "flights.toml").write_text(run, "utf-8")


def release(folder: Path, run: str, options: str) -> pa.Table:
    """Return the cells of a release, made in the folder unless it is there."""
    name = hashlib.sha256(f"{run} {options}".encode()).hexdigest()[:12]
    if not (folder / name).exists():
        command(folder, "release", run, *options.split(), "--out", name)
    return pq.read_table(folder / name / "cells.parquet")


def published_average(table: pa.Table) -> str:
    """Return the column of the average that the page of a release shows."""
    return "mean_estimate" if "mean_estimate" in table.column_names else "mean_raw"


def command(folder: Path, *words: str) -> None:
    """Run the command in a folder.

    Raises
    ------
    HexveilError
        What the command said, if it failed.
    """
    process = subprocess.run(  # noqa: S603  this package, words of `gallery_settings`
        [sys.executable, "-m", "hexveil", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise HexveilError(f"hexveil {' '.join(words)}: {process.stderr.strip()}")


def truth(folder: Path, cells: list[str], resolution: int) -> dict[str, NDArray[np.float64]]:
    """Return, by the names in `TRUE`, the true statistics of each named cell of the city."""
    grid = Cells(resolution, timeslot="6h", timezone="Asia/Kolkata", slot="pooled")
    data: Any = read(
        folder / "city.parquet",
        user="license_plate",
        value="speed",
        bounds=(0, 65),
        location="location.coordinates",
        time="observationDateTime",
        cells=grid,
        quantum="0.1",
        select=Select(min_users=1),
    )
    # Sums are in quanta: this many to a km/h, as the span is 65 km/h.
    occupancy, scale = data.public.occupancy, float(data.public.lattice.span_quanta) / 65.0
    sums = (data.sums.total, data.sums.total_sq)
    mean_quanta, mean_square = (
        np.bincount(occupancy.cell, weights=pair_sums) / occupancy.records_per_cell
        for pair_sums in sums
    )
    places = {name: place for place, name in enumerate(data.public.cells.names())}
    rows = [places[cell] for cell in cells]
    mean = mean_quanta / scale
    statistics = (mean, np.sqrt(mean_square / scale**2 - mean**2))
    return {name: numbers[rows] for name, numbers in zip(TRUE, statistics, strict=True)}
