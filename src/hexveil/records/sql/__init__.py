"""The query that makes a table of sums, printed by `hexveil inspect --sql`."""

from __future__ import annotations

from typing import Any

from hexveil.model.cells import Cells, Labels
from hexveil.records.reading_arguments import Protect, requests_of
from hexveil.records.sql.sums_query import SumsQuery

__all__ = ["SumsQuery", "sums_query"]


def sums_query(
    *,
    source: str,
    user: str,
    value: str,
    bounds: object,
    cells: Cells | Labels,
    dialect: str,
    protect: Protect = "values",
    **options: Any,  # noqa: ANN401  of `read`
) -> str:
    """Return the SQL that makes the table of `from_sums` from a table of records.

    Parameters
    ----------
    source : str
        A table's name, or a file.
    user, value : str
    bounds : pair of numbers
    cells : Cells or Labels
    dialect : "duckdb", "postgres", "bigquery" or "spark"
    protect : "values" or "presence"
        Privacy model of the data set that `from_sums` makes.
    options : keyword arguments
        Those of `hexveil.records.read`, which mean the same. `min_users` and `top`, which act on
        cells, are for `from_sums`; what tells how files are read changes nothing.

    Raises
    ------
    InputError
        If an argument cannot be used.

    Examples
    --------
    >>> from hexveil.model.cells import Labels
    >>> print(sums_query(source="trips", user="bus", value="speed", bounds=(0, 65),
    ...                  cells=Labels("ward"), dialect="duckdb").splitlines()[-1])
    GROUP BY "ward", "user";
    """
    columns = {"user": user, "value": value, "bounds": bounds, "cells": cells}
    (request,) = requests_of(**columns, protect=protect, **options)
    return SumsQuery(source, request, is_private=protect == "presence").render(dialect)
