"""Roll-up of a release to coarser cells from its noisy numbers alone: nothing is spent.

The number of a coarser cell is the average of the records of its released cells, weighted by their
public record counts (cell_averages.py). Cells that the release left out are left out. Children of a
hexagon do not tile it exactly: the average is that of the children's records.

Under private presence no record count is public: averages and shares of the open cells are weighted
by their noisy weights, and numbers of units add up (presence/open_cell_averages.py).

Post-processing of released numbers and public facts: it costs no privacy, and repeating it gives
the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.model.statistic_terms import column_of
from hexveil.publishing.derived.cell_averages import average_cells
from hexveil.publishing.derived.cell_numbers import CellNumbers, numbers_to_average
from hexveil.publishing.derived.cell_pairs import check_names, check_open
from hexveil.publishing.derived.coarser_cells import CoarserGrid, group_cells
from hexveil.publishing.derived.derived_columns import DerivedColumns
from hexveil.publishing.derived.derived_table import DerivedTable
from hexveil.publishing.derived.presence.map_roll_up import (
    GRID_OF_RELEASE,
    MEAN,
    roll_up_map,
    statistic_to_roll_up,
)
from hexveil.publishing.derived.presence.open_cells import USERS, limits_of_statistic
from hexveil.publishing.derived.release_source import open_columns, open_source
from hexveil.publishing.estimates.table import name_columns
from hexveil.report.manifest_view import ManifestView, noun
from hexveil.report.templates import render_sentence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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
    `mean_bias`. Under private presence `cells` are open ones, `weight` with its interval takes the
    place of `records`, and the columns are those of the statistic: `share_below_30`, or `users`,
    which has no weight. `statement` names the release that it was made from, its grid, and what
    the intervals cover.

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
    statistic: str | None = None,
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
    statistic : str, optional
        Under private presence "mean", a share such as "share<30", a bin such as "histogram_03", or
        "users"; default the first of these that was released. Else the mean.
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
    return roll_up_release(release, grid, statistic=statistic, key=key)


def roll_up_release(
    release: Release | str | Path,
    grid: CoarserGrid,
    *,
    statistic: str | None = None,
    key: str | Path | None = None,
) -> RolledUpRelease | DerivedColumns[RolledUpRelease]:
    """Return the averages of a release of one or several value columns; see `roll_up`."""
    columns = open_columns(release, key=key)
    if columns is None:
        return roll_up_source(open_source(release, key=key), grid, statistic)
    return DerivedColumns(
        {name: roll_up_source(one, grid, statistic) for name, one in columns.items()}
    )


def roll_up_source(
    source: ReleaseSource, grid: CoarserGrid, statistic: str | None = None
) -> RolledUpRelease:
    """Return the averages of an opened release over coarser cells; see `roll_up`."""
    if source.is_map:
        return _roll_up_map(source, grid, statistic)
    if statistic is not None and column_of(statistic) != MEAN:
        raise InputError(
            "where occupancy is public only averages can be rolled up; leave the statistic out."
        )
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
    covers = render_sentence(
        "derived.txt",
        "roll_up_covers",
        proven=averages.basis == "proven",
    )
    statement = _statement(source, groups.grid, MEAN, averages) | {"covers": covers}
    return _rolled_up(source, columns, statement | _promise(source), averages)


def _roll_up_map(
    source: ReleaseSource, grid: CoarserGrid, statistic: str | None
) -> RolledUpRelease:
    """Return the roll-up of a map with private presence; see `roll_up`."""
    column = statistic_to_roll_up(source, statistic)
    check_open(source)
    groups = group_cells(source.table, source.manifest["grid"], grid)
    made = roll_up_map(source, column, groups.group)
    limits = limits_of_statistic(ManifestView.from_manifest(source.manifest), column)
    numbers = _interval_columns(made.numbers, *limits, column) | made.weight_columns()
    check_names(groups.table.labels, ("cells", *numbers))
    counts = {"cells": np.bincount(groups.group)}
    # Labels end at the first count, which is that of units where there is one.
    columns = numbers | counts if column == USERS else counts | numbers
    coarse = {key: part for key, part in groups.grid.items() if key not in GRID_OF_RELEASE}
    statement = _statement(source, coarse, column, made.numbers) | {
        "model": source.manifest["model"],
        "closed_cells": source.closed_cells,
        "covers": render_sentence(
            "derived.txt", "map_roll_up_covers", statistic=column, noun=noun(column)
        ),
    }
    named = name_columns(groups.table) | columns
    return _rolled_up(source, named, statement | _promise(source), made.numbers)


def _statement(
    source: ReleaseSource, grid: Mapping[str, Any], statistic: str, numbers: CellNumbers
) -> dict[str, Any]:
    return {
        "kind": "roll-up",
        "source": dict(source.identity),
        "dataset": dict(source.manifest["dataset"]),
        "bounds": dict(source.manifest["bounds"]),
        "grid": dict(grid),
        "selection": dict(source.manifest["selection"]),
        "catalogue": dict(source.manifest.get("catalogue", {})),
        "statistic": statistic,
        "basis": numbers.basis,
    }


def _promise(source: ReleaseSource) -> dict[str, Any]:
    return {"promise": source.manifest["guarantee"]["promise"]}


def _rolled_up(
    source: ReleaseSource,
    columns: dict[str, Any],
    statement: dict[str, Any],
    numbers: CellNumbers,
) -> RolledUpRelease:
    table = pa.table(columns)
    coarse = replace(source, manifest={**source.manifest, "grid": statement["grid"]}, table=table)
    return RolledUpRelease(table, statement, numbers, coarse)


def _interval_columns(
    numbers: CellNumbers, lower: float, upper: float, column: str = MEAN
) -> dict[str, Any]:
    low = numbers.number - numbers.noise_low - numbers.bias_low
    high = numbers.number + numbers.noise_high + numbers.bias_high
    return {
        column: np.clip(numbers.number, lower, upper),
        # The true average lies within the bounds.
        f"{column}_low": np.clip(low, lower, upper),
        f"{column}_high": np.clip(high, lower, upper),
        f"{column}_noise95": np.maximum(numbers.noise_low, numbers.noise_high),
        f"{column}_bias": np.maximum(numbers.bias_low, numbers.bias_high),
    }
