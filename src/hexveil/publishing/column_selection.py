"""Columns and rows of a released table by the names that a user types, and suggestions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.errors import InputError, suggest
from hexveil.model.statistic_terms import term_of
from hexveil.report.manifest_view import column_prefixes

NO_OUTLINES = "cells of labels have no outlines"


def column_name(table: pa.Table, name: str) -> str | None:
    """Return the column of a name: a statistic alone means its estimates, or its raw numbers."""
    # Columns first: a label may have the name of a statistic.
    prefix = _prefix(name)
    # Under private presence the estimate has the name of the statistic.
    named = (name, f"{prefix}_estimate", f"{prefix}_raw", prefix)
    return next((column for column in named if column in table.column_names), None)


def statistic_prefix(statistics: Sequence[str], name: str | None) -> str:
    """Return the prefix of the columns of a released statistic, by default of the first.

    Raises
    ------
    InputError
        If it was not released.

    Examples
    --------
    >>> statistic_prefix(("mean", "share<10"), "share<10")
    'share_below_10'
    """
    prefixes = column_prefixes(statistics)
    if name is None:
        return prefixes[0]
    if _prefix(name) not in prefixes:
        raise InputError(f"the release has no {name}; it has {', '.join(statistics)}.")
    return _prefix(name)


def _prefix(name: str) -> str:
    """Return the prefix of the columns of a statistic; another name as it is."""
    term = term_of(name)
    return name if term is None or name.startswith("histogram_") else term.column


def require_column(table: pa.Table, name: object) -> str:
    """Return the column of a name; raise InputError with those that there are."""
    if not isinstance(name, str):
        raise InputError(
            f"a column of a release is named by text, got {type(name).__name__}; for rows use "
            "release.table or release.to_pandas()."
        )
    column = column_name(table, name)
    if column is None:
        hint = suggest(name, table.column_names)
        raise InputError(f"the release has no column {name!r}; {hint}")
    return column


def select(table: pa.Table, key: str | list[str] | NDArray[np.bool_]) -> Any:  # noqa: ANN401
    """Return a column as an array, or an Arrow table of columns or rows: see `Release`."""
    if isinstance(key, list):
        return table.select([require_column(table, name) for name in key])
    if isinstance(key, np.ndarray) and key.dtype == np.bool_ and key.shape == (table.num_rows,):
        return table.filter(key)
    values = table[require_column(table, key)].to_numpy()
    # An Arrow buffer is shared with the release, and must not be written to.
    values.setflags(write=False)
    return np.asarray(values)


def describe_missing(release: Any, name: str) -> str:  # noqa: ANN401  it imports this module
    """Return the message for an attribute that a release does not have."""
    missing = f"'Release' object has no attribute {name!r}"
    if name == "__geo_interface__":
        return f"{missing}: {NO_OUTLINES}."
    # Private names are asked for by tools; copies ask before there is a table.
    if name.startswith("_") or "table" not in vars(release):
        return missing
    if name in release:
        return f"{missing}; release[{name!r}] is that column."
    return (
        f"{missing}; release.to_pandas() and release.to_polars() are data frames, release.table "
        "is an Arrow table."
    )
