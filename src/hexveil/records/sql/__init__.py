"""One query that makes the table of `from_sums` from a table of records, in four dialects.

By the rules of reading (docs/reference/python.md), as in `records.duckdb.validation`: unusable
records, then drop_values, hours, dates and box leave; values are clamped, rounded to the quantum
half away from zero, and clamped again; of several with the same user and time one place counts,
with its average (`records.duckdb.counting` has the rule and the proof).

The query is the template `sums.sql`; a template for each dialect has what differs, by one list of
names. A local wall clock is whole seconds since 1970 on that clock, so that flooring to slots is
the same arithmetic everywhere.
"""

from __future__ import annotations

from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat, get_args

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.cells import ALL_RECORDS, Cells, Labels, OneCell
from hexveil.records.feasible_sums import bin_number, squares_fit
from hexveil.records.read_request import ReadRequest
from hexveil.records.reading_arguments import requests_of
from hexveil.records.sums_table import cell_columns, check_labels
from hexveil.records.units import WHOLE_WITH_ZEROS

if TYPE_CHECKING:
    import jinja2

DialectName = Literal["duckdb", "postgres", "bigquery", "spark"]
_BACKSLASHES = {"bigquery": "`", "spark": ""}
"""Dialects in whose text a backslash is an escape, and what it escapes in their names."""
_LARGEST_SQUARED = 10**9
_FILES = (".parquet", ".pq", ".csv", ".tsv", ".gz", ".json", ".jsonl", ".ndjson")


def sums_query(*, source: str, dialect: str, **options: Any) -> str:  # noqa: ANN401  of `read`
    """Return the SQL that makes the table of `from_sums` from a table of records.

    Parameters
    ----------
    source : str
        A table's name, dots between its parts; or a file, which DuckDB reads by itself and other
        engines are assumed to have loaded into a table named like it.
    dialect : "duckdb", "postgres", "bigquery" or "spark"
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
    if options.get("protect") == "presence":
        raise InputError('a query makes sums for protect "values" alone; read the records.')
    (request,) = requests_of(**options)
    if not isinstance(source, str) or not source:
        raise InputError(f"source must be the name of one table or file, got {source!r}.")
    columns, rules = request.columns, request.rules
    if len(columns.times) > 1:
        raise InputError(
            "time: a query takes one column of times; make one of the two where it runs, for "
            "example in a view."
        )
    check_labels(rules.cells, by_bin=bool(rules.terms))
    if dialect not in get_args(DialectName):
        raise InputError(f"sql must be one of {', '.join(get_args(DialectName))}, got {dialect!r}.")
    scale, select = rules.scale, rules.select
    grid = rules.cells if isinstance(rules.cells, Cells) else None
    labels = () if isinstance(rules.cells, Cells) else rules.cells.columns
    lowest, highest = (int(bound / scale.quantum) for bound in (scale.lower, scale.upper))
    # The last steps hold the rounded value, in quanta, beside the labels: another name than theirs.
    k = "hexveil_quanta"
    selects = select.hours is not None or select.dates is not None
    local = selects or rules.privacy_unit != "user" or (grid and grid.seconds) is not None
    return _templates().get_template("sums.sql").render(
        dialect=dialect,
        columns=columns,
        rules=rules,
        scale=scale,
        select=select,
        grid=grid,
        labels=labels,
        all_records=f"'{ALL_RECORDS}'" if isinstance(rules.cells, OneCell) else "",
        keys=(*cell_columns(rules.cells), "user"),
        places=[f"label{i}" for i in range(len(labels))] or ["lat", "lon"],
        placed=grid is not None or select.box is not None,
        local=local,
        hours=[hour * 3600 for hour in select.hours or ()],
        dedupes=request.drops_repeats,
        source=_from(source, columns.user, dialect),
        whole_number=f"^{WHOLE_WITH_ZEROS}$",
        lowest=lowest,
        highest=highest,
        k=k,
        squares=squares_fit(1, scale),
        # Whole squares, which each dialect adds up exactly.
        whole_squares=max(abs(lowest), abs(highest)) < _LARGEST_SQUARED,
        fine_bin="" if rules.bins is None else bin_number(k, (rules.bins.edges + lowest).tolist()),
        python_cells=_python_cells(rules.cells),
        python_options=_python_options(request),
    )  # fmt: skip


@cache
def _templates() -> jinja2.Environment:
    import jinja2  # noqa: PLC0415  commands that print no query start without it

    templates = jinja2.Environment(  # noqa: S701  SQL: names and texts are quoted by filters
        loader=jinja2.PackageLoader("hexveil", "records/sql"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters |= {
        "columns": _with_commas,
        "name": _name,
        "literal": _literal,
        "number": _number,
        "decimal": decimal_text,
        "python": repr,
    }
    return templates


def _with_commas(text: str) -> str:
    """Return lines with a comma after each column; a column's further lines are indented more."""
    lines = [line for line in text.split("\n") if line.strip()]
    margin = len(lines[0]) - len(lines[0].lstrip())
    begins = [line[margin] != " " for line in lines]
    ends = [*begins[1:], False]
    return "".join(line + "," * end + "\n" for line, end in zip(lines, ends, strict=True))


def _name(name: str, dialect: str) -> str:
    """Return the name of a column or table, quoted."""
    if not name.isprintable():
        raise InputError(
            f"the name {name!r} cannot be written in a query; give the column a name without "
            "line breaks or other control characters."
        )
    mark = "`" if dialect in _BACKSLASHES else '"'
    if _BACKSLASHES.get(dialect) == mark:
        # BigQuery escapes a backtick by a backslash, where the others double it.
        return mark + _escaped(name).replace(mark, f"\\{mark}") + mark
    return mark + name.replace(mark, 2 * mark) + mark


def _literal(text: str, dialect: str) -> str:
    """Return text quoted."""
    if dialect in _BACKSLASHES:
        return "'" + _escaped(text).replace("'", "\\'") + "'"
    return "'" + text.replace("'", "''") + "'"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _number(value: SupportsFloat) -> str:
    """Return a double that every dialect reads back exactly, as a double."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _from(source: str, user: str, dialect: str) -> str:
    """Return the table of the FROM clause."""
    is_path = source.lower().endswith(_FILES) or any(mark in source for mark in "/\\*")
    if not is_path:
        return ".".join(_name(part, dialect) for part in source.split("."))
    if dialect != "duckdb":
        return _name(PurePath(source).name.partition(".")[0] or "records", dialect)
    if not source.lower().endswith(_FILES):
        raise InputError(
            f"source: a query cannot read the folder {source!r}; name its files, for example "
            f"{str(PurePath(source) / '*.parquet')!r}."
        )
    if source.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
        # Guessed types would respell ids, such as 007.
        types = f"{{{_literal(user, dialect)}: 'VARCHAR'}}"
        return f"read_csv({_literal(source, dialect)}, types={types})"
    return _literal(source, dialect)


def _python_cells(cells: Cells | Labels) -> str:
    """Return the cells as they are written in Python."""
    if isinstance(cells, Cells):
        return repr(cells)
    if isinstance(cells, OneCell):
        return "OneCell()"
    return f"Labels({', '.join(map(repr, cells.columns))})"


def _python_options(request: ReadRequest) -> str:
    """Return the further arguments of `from_sums`, as Python."""
    select, terms = request.rules.select, [term.text for term in request.rules.terms]
    top = "" if select.top is None else f", top={select.top}"
    statistics = f", statistics={terms!r}" if terms else ""
    # An account takes sums and records of the same ids.
    return f"min_users={select.min_users}{top}{statistics}, id_space={request.id_space!r}"
