"""Table and statement of a comparison: a row per pair of cells, with its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.publishing.derived.cell_changes import Change
from hexveil.publishing.derived.cell_pairs import check_names, place_columns
from hexveil.report.manifest_view import RANGE

if TYPE_CHECKING:
    from hexveil.base.arrays import Bools
    from hexveil.publishing.derived.cell_numbers import CellNumbers
    from hexveil.publishing.derived.cell_pairs import CellPairs
    from hexveil.publishing.derived.release_source import ReleaseSource
    from hexveil.report.manifest_view import ManifestView


HIGHER, LOWER, UNCLEAR = "higher", "lower", "cannot be told"
"""Verdicts on a cell."""
COLUMNS = (
    "slot_before", "slot_after", "records_before", "records_after", "weight_before", "weight_after",
    "before", "after", "change", "change_low", "change_high", "p_value", "verdict",
)  # fmt: skip
"""Columns of a comparison beside those that name a place."""


def range_of(view: ManifestView, statistic: str) -> tuple[float, float]:
    """Return the ends of a statistic's possible values."""
    span = view.upper - view.lower
    if statistic == "mean":
        return view.lower, view.upper
    if statistic not in RANGE:
        return -np.inf, np.inf
    return 0.0, (span**2 if statistic == "variance" else span) * RANGE[statistic]


def keep_within(change_of: Change, width: float) -> Change:
    """Return changes that numbers within their range can have."""
    change, low, high = (
        np.clip(bound, -width, width) for bound in (change_of.change, change_of.low, change_of.high)
    )
    return Change(change, low, high, change_of.p_value)


def changes_table(
    sources: list[ReleaseSource],
    pairs: CellPairs,
    numbers: list[CellNumbers],
    change: Change,
    is_found: Bools,
    limit: tuple[float, float],
) -> pa.Table:
    """Return the row of each pair of cells: place, slots, numbers, change and verdict.

    Parameters
    ----------
    sources : list of ReleaseSource
    pairs : CellPairs
    numbers : list of CellNumbers
        Of the paired cells of both.
    change : Change
    is_found : ndarray of bool, shape (n_pairs,)
        Whether the change is told.
    limit : tuple of float
        Least and largest value of the statistic.

    Raises
    ------
    InputError
        If a label has the name of a column.
    """
    tables = sources[0].table.take(pairs.before), sources[1].table.take(pairs.after)
    places = place_columns(tables[0])
    check_names(places, COLUMNS)
    columns: dict[str, Any] = {name: tables[0][name] for name in places}
    if "slot" in tables[0].column_names:
        columns |= {"slot_before": tables[0]["slot"], "slot_after": tables[1]["slot"]}
    sides = ("before", "after")
    # Under private presence weights take the place of records, and numbers of units have neither.
    counts = next((name for name in ("records", "weight") if name in tables[0].column_names), None)
    if counts is not None:
        columns |= {
            f"{counts}_{side}": table[counts] for side, table in zip(sides, tables, strict=True)
        }
    columns |= {
        side: np.clip(side_numbers.number, *limit)
        for side, side_numbers in zip(sides, numbers, strict=True)
    }
    direction = np.where(change.change > 0.0, HIGHER, LOWER)
    return pa.table(
        columns
        | {
            "change": change.change,
            "change_low": change.low,
            "change_high": change.high,
            "p_value": change.p_value,
            "verdict": np.where(is_found, direction, UNCLEAR).tolist(),
        }
    )


def comparison_statement(
    sources: list[ReleaseSource],
    statistic: str,
    pairs: CellPairs,
    slots: tuple[str, str] | None,
) -> dict[str, Any]:
    """Return both releases, the statistic, and how cells were paired, for `comparison.json`."""
    manifest = sources[0].manifest
    model = {"model": manifest["model"]} if sources[0].is_map else {}
    return model | {
        "kind": "comparison",
        "before": dict(sources[0].identity),
        "after": dict(sources[1].identity),
        "dataset": dict(manifest["dataset"]),
        "bounds": dict(manifest["bounds"]),
        "grid": dict(manifest["grid"]),
        "statistic": statistic,
        "slots": None if slots is None else list(slots),
        "days_between": pairs.days,
        "cells": {
            "compared": int(pairs.before.size),
            "only_before": pairs.only_before,
            "only_after": pairs.only_after,
        },
    }


def count_verdicts(table: pa.Table) -> dict[str, int]:
    """Return the number of cells of each verdict."""
    verdicts = table["verdict"].to_pylist()
    return {verdict: verdicts.count(verdict) for verdict in (HIGHER, LOWER, UNCLEAR)}
