"""Roll-up of a release to coarser cells from its noisy numbers alone: nothing is spent.

The number of a coarser cell is the average of the records of its released cells, weighted by their
public record counts (cell_averages.py). Cells that the release left out are left out. Children of a
hexagon do not tile it exactly: the average is that of the children's records.

Post-processing of released numbers and public facts: it costs no privacy, and repeating it gives
the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from hexveil.publishing.derived.cell_averages import average_cells
from hexveil.publishing.derived.cell_numbers import CellNumbers, numbers_to_average
from hexveil.publishing.derived.cell_pairs import check_names
from hexveil.publishing.derived.coarser_cells import CoarserGrid, group_cells
from hexveil.publishing.derived.derived_columns import DerivedColumns
from hexveil.publishing.derived.derived_table import DerivedTable
from hexveil.publishing.derived.release_source import open_columns, open_source
from hexveil.publishing.estimates.table import name_columns
from hexveil.report.manifest_view import ManifestView
from hexveil.report.templates import render_sentence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hexveil.publishing.derived.release_source import ReleaseSource
    from hexveil.publishing.published_numbers import Release

COLUMNS = ("cells", "records", "mean", "mean_low", "mean_high", "mean_noise95", "mean_bias")
"""Columns of a roll-up beside those that name its cells."""


@dataclass(frozen=True, eq=False, repr=False)
class RolledUpRelease(DerivedTable):
    """Averages of a release over coarser cells, with 95 percent intervals.

    `table` has a row per coarser cell: its name, `cells` and `records` in it, `mean`, the ends
    `mean_low` and `mean_high` of its interval, and the parts of its error, `mean_noise95` and
    `mean_bias`. `statement` names the release that it was made from, its grid, and what the
    intervals cover.

    Attributes
    ----------
    numbers : CellNumbers
        The averages with the parts of their error.
    source : ReleaseSource
        The release.
    """

    numbers: CellNumbers
    source: ReleaseSource

    def __repr__(self) -> str:
        return f"RolledUpRelease({self.statement['source']['dataset']!r}, n_cells={len(self)})"


def roll_up(
    release: Release | str | Path,
    *,
    resolution: int | Literal["all"] | None = None,
    timeslot: str | None = None,
    columns: Sequence[str] | None = None,
    one_cell: bool = False,
    key: str | Path | None = None,
) -> RolledUpRelease | DerivedColumns[RolledUpRelease]:
    """Return the averages of a release over coarser cells; nothing is spent.

    Parameters
    ----------
    release : Release, str or Path
        A release, or its folder, which is checked as by `hv.verify`.
    resolution : int or "all", optional
        H3 resolution of the parents of its hexagons; "all" for all places together.
    timeslot : str, optional
        Longer slots, such as "1d" for the days of hours; "all" for all times together.
    columns : sequence of str, optional
        Label columns to keep, of a release of labels.
    one_cell : bool
        All cells together.
    key : str or Path, optional
        File of the holder's public key: then the folder must be signed with it.

    Returns
    -------
    RolledUpRelease
        Of several value columns one for each, as `DerivedColumns`.

    Raises
    ------
    InputError
        If the folder is not as it was written, no average was released, or the grid is not coarser.
    """
    grid = CoarserGrid(resolution, timeslot, columns, one_cell)
    return roll_up_release(release, grid, key=key)


def roll_up_release(
    release: Release | str | Path, grid: CoarserGrid, *, key: str | Path | None = None
) -> RolledUpRelease | DerivedColumns[RolledUpRelease]:
    """Return the averages of a release of one or several value columns; see `roll_up`."""
    columns = open_columns(release, key=key)
    if columns is None:
        return roll_up_source(open_source(release, key=key), grid)
    return DerivedColumns({name: roll_up_source(one, grid) for name, one in columns.items()})


def roll_up_source(source: ReleaseSource, grid: CoarserGrid) -> RolledUpRelease:
    """Return the averages of an opened release over coarser cells; see `roll_up`."""
    numbers = numbers_to_average(source)
    groups = group_cells(source.table, source.manifest["grid"], grid)
    records = np.asarray(source.table["records"].to_numpy(), dtype=np.float64)
    averages = average_cells(numbers, records, groups.group)
    view = ManifestView.from_manifest(source.manifest)
    check_names(groups.table.labels, COLUMNS)
    columns = name_columns(groups.table) | {
        "cells": np.bincount(groups.group),
        "records": np.bincount(groups.group, records).astype(np.int64),
        **_interval_columns(averages, view.lower, view.upper),
    }
    statement = {
        "kind": "roll-up",
        "source": dict(source.identity),
        "dataset": dict(source.manifest["dataset"]),
        "bounds": dict(source.manifest["bounds"]),
        "grid": dict(groups.grid),
        "statistic": "mean",
        "basis": averages.basis,
        "covers": render_sentence(
            "derived.txt",
            "roll_up_covers",
            proven=averages.basis == "proven",
            shared=averages.shares_noise,
        ),
        "promise": source.manifest["guarantee"]["promise"],
    }
    coarse = replace(
        source, manifest={**source.manifest, "grid": dict(groups.grid)}, table=pa.table(columns)
    )
    return RolledUpRelease(pa.table(columns), statement, averages, coarse)


def _interval_columns(numbers: CellNumbers, lower: float, upper: float) -> dict[str, Any]:
    low = numbers.number - numbers.noise_low - numbers.bias_low
    high = numbers.number + numbers.noise_high + numbers.bias_high
    return {
        "mean": np.clip(numbers.number, lower, upper),
        # The true average lies within the bounds.
        "mean_low": np.clip(low, lower, upper),
        "mean_high": np.clip(high, lower, upper),
        "mean_noise95": numbers.noise_low,
        "mean_bias": np.maximum(numbers.bias_low, numbers.bias_high),
    }
