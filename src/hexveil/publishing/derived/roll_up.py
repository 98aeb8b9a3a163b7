"""Roll-up of a release to coarser cells from its noisy numbers alone: nothing is spent.

The number of a coarser cell is the average of the records of its released cells, weighted by their
public record counts (cell_numbers.py). Cells that the release left out are left out. Children of a
hexagon do not tile it exactly: the average is that of the children's records.

Under private presence no record count is public: averages and shares of the open cells are weighted
by their noisy weights, and numbers of units add up (open_cells.py).

Post-processing of released numbers and public facts: it costs no privacy, and repeating it gives
the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.model.statistic_terms import column_of
from hexveil.publishing.components import refuse_labels
from hexveil.publishing.derived.cell_numbers import CellNumbers, add_cells, average_cells
from hexveil.publishing.derived.days_roll_up import KindOfDay, roll_up_days
from hexveil.publishing.derived.derived_cells import check_open, group_cells
from hexveil.publishing.derived.derived_numbers import (
    DerivedTable,
    ReleaseSource,
    numbers_with_noise,
    open_source,
    roll_up_statement,
)
from hexveil.publishing.derived.open_cells import (
    USERS,
    average_open_cells,
    numbers_to_average,
    unit_numbers,
    weight_numbers,
)
from hexveil.publishing.estimates.table import name_columns
from hexveil.publishing.kinds.guarantee import PRESENCE
from hexveil.publishing.published_numbers import Release
from hexveil.report.manifest_view import is_share, noun
from hexveil.report.templates import render_sentence

Columns = dict[str, Any]

MEAN = "mean"
COUNTS = ("cells", "records")
"""Columns of a roll-up beside those that name its cells and those of its statistic."""
GRID_OF_RELEASE = ("cells", "fingerprint", "in_use")
"""Facts of the declared grid of a map that a coarser one does not have."""


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
    source : ReleaseSource
        The release with the cells of the roll-up, and its averages with the parts of their error.
    """

    source: ReleaseSource


def roll_up(  # noqa: PLR0913  keyword-only, an option of the command per argument
    release: Release | str | Path | Sequence[Release | str | Path],
    *,
    resolution: int | Literal["all"] | None = None,
    timeslot: str | None = None,
    columns: Sequence[str] | None = None,
    value: str | None = None,
    statistic: str | None = None,
    by: KindOfDay | None = None,
    key: str | Path | None = None,
) -> RolledUpRelease | DerivedTable:
    """Return the averages of a release over coarser cells, or of days; nothing is spent.

    Parameters
    ----------
    release : Release, str or Path, or sequence of these
        A release, or its folder, which is checked as by `hv.verify`. Of several releases, one of
        each day of an archive, averages over the days are returned, of each cell.
    resolution : int or "all", optional
        H3 resolution of the parents of its hexagons; "all" for all places or labels together.
    timeslot : str, optional
        Longer slots, such as "1d" for the days of hours; "all" for all times together.
    columns : sequence of str, optional
        Label columns to keep, of a release of labels.
    value : str, optional
        The value column, of a release of several.
    statistic : str, optional
        Under private presence "mean", a share such as "share<30", a bin such as "histogram_03", or
        "users"; default the first of these that was released. Else the mean.
    by : "all", "weekend" or "weekday", optional
        Of several days: over all of them (default), of workdays and weekends, or of each day of the
        week.
    key : str or Path, optional
        File of the holder's public key: then the folder must be signed with it.

    Returns
    -------
    RolledUpRelease
        Of several days a `DerivedTable`, with a row per cell, or per cell and kind of day.

    Raises
    ------
    InputError
        If the folder is not as it was written, no average was released, or the grid is not coarser.
    """
    if not isinstance(release, (Release, str, Path)):
        if (resolution, timeslot, columns, statistic) != (None,) * 4:
            raise InputError("days are rolled up in the cells of their releases; leave these out.")
        return roll_up_days(release, by=by or "all", key=key)
    if by is not None:
        raise InputError("by goes with the releases of several days; pass a list of them.")
    source = open_source(release, value, key=key)
    column = _statistic_to_roll_up(source, statistic)
    check_open(source)
    coarse, group, section = group_cells(
        source.table, source.manifest["grid"], resolution, timeslot, columns
    )
    ends = source.view(column).limits
    average = _average_open_cells if source.is_map else _average_records
    numbers, weights = average(source, column, group, ends)
    averages: Columns = {
        column: np.clip(numbers.number, *ends),
        f"{column}_low": np.clip(numbers.low, *ends),
        f"{column}_high": np.clip(numbers.high, *ends),
    }
    averages[f"{column}_noise95"] = np.maximum(numbers.noise_low, numbers.noise_high)
    averages[f"{column}_bias"] = np.maximum(numbers.bias_low, numbers.bias_high)
    counts = {"cells": np.bincount(group)}
    # Labels end at the first count, which is that of units where there is one.
    own = averages | counts if column == USERS else counts | weights | averages
    refuse_labels(coarse.labels, (*COUNTS, *own))
    table = pa.table(name_columns(coarse) | own)
    section = {key: part for key, part in section.items() if key not in GRID_OF_RELEASE}
    manifest = {**source.manifest, "grid": section}
    rolled_up = replace(source, manifest=manifest, table=table, rolled_up=(column, numbers))
    return RolledUpRelease(table, _statement(rolled_up, column, numbers), rolled_up)


def _statistic_to_roll_up(source: ReleaseSource, statistic: str | None) -> str:
    """Return the prefix of the statistic to roll up: the one named, or the first that can be.

    Raises
    ------
    InputError
        If it does not follow from those of finer cells; the message names what does.
    """
    if source.is_map:
        possible = [entry for entry in source.statistics if _adds_up(entry)]
    else:
        possible = [MEAN] if f"{MEAN}_scale" in source.table.column_names else []
    column = column_of(statistic) if statistic else ""
    follows = _adds_up(column) if source.is_map else column == MEAN
    if not possible or (column and not follows):
        remedy = f", or roll up {', '.join(possible)}" if possible else ""
        raise InputError(
            f"the {noun(column or source.statistics[0])} of coarser cells does not follow from "
            f"those of finer ones; publish the coarser grid{remedy}."
        )
    return column or column_of(possible[0])


def _adds_up(statistic: str) -> bool:
    return statistic in (MEAN, USERS) or is_share(statistic)


def _average_records(
    source: ReleaseSource, statistic: str, group: Ints, _: tuple[float, float]
) -> tuple[CellNumbers, Columns]:
    """Return the average of the records of each group of cells, and their number."""
    numbers, records = numbers_with_noise(source, statistic), source.column("records")
    counted = np.bincount(group, records).astype(np.int64)
    return average_cells(numbers, records, group), {"records": counted}


def _average_open_cells(
    source: ReleaseSource, column: str, group: Ints, limits: tuple[float, float]
) -> tuple[CellNumbers, Columns]:
    """Return the statistic of each group of open cells, and the weight of its units, if any."""
    if column == USERS:
        return add_cells(unit_numbers(source), group), {}
    weights = weight_numbers(source)
    averages = average_open_cells(numbers_to_average(source, column), weights, limits, group)
    total = add_cells(weights, group)
    ends = {"weight": total.number, "weight_low": total.low, "weight_high": total.high}
    # Noise can take a weight below 0, which no weight is.
    return averages, {name: np.maximum(weight, 0.0) for name, weight in ends.items()}


def _statement(source: ReleaseSource, column: str, numbers: CellNumbers) -> dict[str, Any]:
    """Return the statement of a roll-up, for `roll-up.json`."""
    macro, words = "roll_up_covers", Columns(proven=numbers.basis == "proven")
    of_map = {}
    if source.is_map:
        macro, words = "map_roll_up_covers", Columns(statistic=column, noun=noun(column))
        of_map = {"model": PRESENCE, "closed_cells": source.closed_cells}
    statement = roll_up_statement(source, column, numbers.basis)
    return statement | of_map | {"covers": render_sentence("derived.txt", macro, **words)}
