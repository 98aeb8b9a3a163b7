"""The query that makes a table of sums, printed by `hexveil inspect --sql`."""

from __future__ import annotations

from collections.abc import Sequence

from hexveil.base.rational import Number
from hexveil.model.cells import Cells, Labels
from hexveil.model.public_metadata import Unit
from hexveil.records.read_request import Repeats
from hexveil.records.reading_arguments import Protect, requests_of
from hexveil.records.select import Select
from hexveil.records.sql.sums_query import SumsQuery

__all__ = ["SumsQuery", "sums_query"]

_ALL = Select()


def sums_query(  # noqa: PLR0913  a public door: keyword-only, a field per argument
    *,
    source: str,
    user: str,
    value: str,
    bounds: object,
    lat: str | None = None,
    lon: str | None = None,
    location: str | None = None,
    time: str | Sequence[str] | None = None,
    privacy_unit: Unit = "user",
    cells: Cells | Labels,
    quantum: Number = "0.001",
    select: Select = _ALL,
    repeats: Repeats = "drop",
    timezone: str | None = None,
    dialect: str,
    statistics: Sequence[str] | str = (),
    protect: Protect = "values",
    id_space: str | None = None,
) -> str:
    """Return the SQL that makes the table of `from_sums` from a table of records.

    Arguments are those of `hexveil.records.read` and mean the same.

    Parameters
    ----------
    source : str
        A table's name, or a file.
    user, value : str
    bounds : pair of numbers
    lat, lon, location, time : str, optional
    privacy_unit : "user", "user-day" or "user-week"
    cells : Cells or Labels
    quantum : number
    select : Select
        All but `min_users` and `top`, which act on cells.
    repeats : "drop" or "keep"
    timezone : str, optional
        With `Labels`, the local clock of hours, dates and days.
    dialect : "duckdb", "postgres", "bigquery" or "spark"
    statistics : sequence of str, optional
        With quantiles, shares or histograms among them the table has a row per bin as well.
    protect : "values" or "presence"
        Privacy model of the data set that `from_sums` makes.
    id_space : str, optional

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
    (request,) = requests_of(**locals())
    return SumsQuery(source, request, is_private=protect == "presence").render(dialect)
