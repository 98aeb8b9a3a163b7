"""Read records: from a file or table to counts, sums and sums of squares.

The rules and their order: docs/reference/python.md. Assumption: whether a record carries a usable
value (present, finite, a number) is public, as are its user, place and time.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, overload

from hexveil.base.errors import InputError
from hexveil.base.scratch import place
from hexveil.model.column_facts import DeclaredColumns
from hexveil.model.public_metadata import Unit, ValueLattice
from hexveil.records.columns.column_reading import read_column, read_value_columns
from hexveil.records.columns.value_columns import value_columns
from hexveil.records.private_presence.declared_reading import (
    Protect,
    check_protect,
    declare_facts,
    refuse_versions_by_file,
    terms_of,
)
from hexveil.records.private_presence.record_reading import (
    read_declared,
    read_declared_columns,
)
from hexveil.records.read_request import ReadRequest, RecordColumns, Repeats, Rules
from hexveil.records.select import Select
from hexveil.records.sources.record_format import PLAIN, RecordFormat
from hexveil.records.sources.source_files import is_spark
from hexveil.records.unambiguous_names import quoted

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from hexveil.base.rational import Number
    from hexveil.model.cells import Cells, Labels
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.model.statistic_terms import Term
    from hexveil.records.columns.column_datasets import ColumnDatasets, PrivateColumns
    from hexveil.records.dataset import Dataset
    from hexveil.records.private_presence.private_dataset import PrivateDataset
    from hexveil.records.sources.versions import Version

_ALL = Select()


@overload
def read(
    source: object,
    *,
    user: str,
    value: str,
    bounds: object,
    lat: str | None = ...,
    lon: str | None = ...,
    location: str | None = ...,
    time: str | Sequence[str] | None = ...,
    protect: Literal["values"] = ...,
    privacy_unit: Unit = ...,
    cells: Cells | Labels,
    quantum: Number = ...,
    select: Select = ...,
    repeats: Repeats = ...,
    value_unit: str | None = ...,
    max_bad_rows: float = ...,
    max_repeats: float = ...,
    accept_single_records: bool = ...,
    memory: str = ...,
    engine: object = ...,
    version: Version | None = ...,
    timezone: str | None = ...,
    cache: str | os.PathLike[str] | None = ...,
    scratch: str | os.PathLike[str] | None = ...,
    format: RecordFormat = ...,
    statistics: Sequence[str] | str = ...,
    id_space: str | None = ...,
) -> Dataset: ...


@overload
def read(
    source: object,
    *,
    user: str,
    value: str,
    bounds: object,
    lat: str | None = ...,
    lon: str | None = ...,
    location: str | None = ...,
    time: str | Sequence[str] | None = ...,
    protect: Literal["presence"],
    privacy_unit: Unit = ...,
    cells: Cells | Labels,
    quantum: Number = ...,
    select: Select = ...,
    repeats: Repeats = ...,
    value_unit: str | None = ...,
    max_bad_rows: float = ...,
    max_repeats: float = ...,
    accept_single_records: bool = ...,
    memory: str = ...,
    engine: object = ...,
    version: Version | None = ...,
    timezone: str | None = ...,
    cache: str | os.PathLike[str] | None = ...,
    scratch: str | os.PathLike[str] | None = ...,
    format: RecordFormat = ...,
    statistics: Sequence[str] | str = ...,
    id_space: str | None = ...,
) -> PrivateDataset: ...


@overload
def read(
    source: object,
    *,
    user: str,
    value: tuple[str, ...] | list[str],
    bounds: object,
    lat: str | None = ...,
    lon: str | None = ...,
    location: str | None = ...,
    time: str | Sequence[str] | None = ...,
    protect: Literal["values"] = ...,
    privacy_unit: Unit = ...,
    cells: Cells | Labels,
    quantum: Number | Mapping[str, Number] = ...,
    select: Select = ...,
    repeats: Repeats = ...,
    value_unit: str | Mapping[str, str] | None = ...,
    max_bad_rows: float = ...,
    max_repeats: float = ...,
    accept_single_records: bool = ...,
    memory: str = ...,
    engine: object = ...,
    version: Version | None = ...,
    timezone: str | None = ...,
    cache: None = ...,
    scratch: str | os.PathLike[str] | None = ...,
    format: RecordFormat = ...,
    statistics: Sequence[str] | str = ...,
    id_space: str | None = ...,
) -> Dataset | ColumnDatasets: ...


@overload
def read(
    source: object,
    *,
    user: str,
    value: tuple[str, ...] | list[str],
    bounds: object,
    lat: str | None = ...,
    lon: str | None = ...,
    location: str | None = ...,
    time: str | Sequence[str] | None = ...,
    protect: Literal["presence"],
    privacy_unit: Unit = ...,
    cells: Cells | Labels,
    quantum: Number | Mapping[str, Number] = ...,
    select: Select = ...,
    repeats: Repeats = ...,
    value_unit: str | Mapping[str, str] | None = ...,
    memory: str = ...,
    engine: object = ...,
    version: Version | None = ...,
    timezone: str | None = ...,
    cache: str | os.PathLike[str] | None = ...,
    scratch: str | os.PathLike[str] | None = ...,
    format: RecordFormat = ...,
    statistics: Sequence[str] | str = ...,
    id_space: str | None = ...,
) -> PrivateDataset | PrivateColumns: ...


def read(  # noqa: PLR0913  a public door: keyword-only, a field per argument
    source: object,
    *,
    user: str,
    value: str | Sequence[str],
    bounds: object,
    lat: str | None = None,
    lon: str | None = None,
    location: str | None = None,
    time: str | Sequence[str] | None = None,
    protect: Protect = "values",
    privacy_unit: Unit = "user",
    cells: Cells | Labels,
    quantum: Number | Mapping[str, Number] = "0.001",
    select: Select = _ALL,
    repeats: Repeats = "drop",
    value_unit: str | Mapping[str, str] | None = None,
    max_bad_rows: float = 0.1,
    max_repeats: float = 0.2,
    accept_single_records: bool = False,
    memory: str = "1GB",
    engine: object = None,
    version: Version | None = None,
    timezone: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
    format: RecordFormat = PLAIN,  # noqa: A002  the field of a run, and what users look for
    statistics: Sequence[str] | str = (),
    id_space: str | None = None,
) -> Dataset | PrivateDataset | ColumnDatasets | PrivateColumns:
    """Read the records of a source as public metadata and private sums per (cell, user).

    Sums are of values and of their squares, both exact. `Dataset.has_squares` says whether sums
    of squares are there: they are left out if the fullest pair's, n * (span / quantum)^2, could
    reach 2^62, and a coarser quantum brings them back.

    Parameters
    ----------
    source : str, path, list of them, or table
        A Parquet, CSV (.gz, .zst), JSON (array or one document a line) or GeoJSON file; a folder
        or glob of such files with the same columns; a list of files, whose columns may differ; or
        a table: of pandas, polars or Arrow, a polars LazyFrame or a DuckDB relation. Such a query
        runs once, and its result is held in memory: select its columns before. Folders of Parquet
        files that are all named like `ward=7` are a column of text, unless the files have it
        themselves. JSON may be NGSI-LD entities; `.pb`, `.pbf` and `.bin` files are snapshots of
        a GTFS-Realtime feed (extra `gtfs`), whose vehicle positions are the records. With Spark
        also a Spark DataFrame, or the addresses of Parquet files, like `s3://...`; local files
        must then be where every executor finds them, and a table in memory goes through the
        driver.
    user, value : str
        Column of the user id and of the value. Ids of text are kept apart byte for byte; numbers
        by their value: 7, 7.0 and 7.00 are one user. A float that is not whole, or so large that
        it is not exact, is refused as an id. The name of an NGSI-LD attribute means its value.
        Several value columns are read in one pass, and planned and released together
        (docs/how-to/several-sensors.md): bounds, quantum and value_unit then are mappings of column
        to what is stated of it, or the same for all. A record counts for each column of which it
        has a usable value. With `cache` and by Spark one column is read after the other.
    bounds : pair of numbers
        Values are clamped to these; both are multiples of `quantum`. Public.
    lat, lon : str, optional
        Columns of latitude and longitude, in degrees.
    location : str, optional
        One column of the place in GeoJSON order, longitude first: a list, a GeoJSON point, a
        GeoProperty, text of these or of WKT ("POINT (72.8 21.1)"), or a pair of columns ending in
        /0 and /1. Text of two numbers with a comma, "21.1, 72.8", has its latitude first.
    time : str or pair of str, optional
        Column of the time: ISO 8601 text, a timestamp, or seconds or milliseconds since 1970
        (micro- and nanoseconds by `RecordFormat(time_format="us")`); or two columns, of the date
        and of the time of day.
    protect : "values" or "presence"
        Privacy model. With "values" it is public who reported where and when; with "presence" it
        is private, cells are declared by `area` or `values`, and what is returned is a
        `PrivateDataset` (docs/how-to/private-presence.md). max_bad_rows, max_repeats,
        accept_single_records, min_users, top and versions by file are then left out, since no
        refusal, no cell and no name of a release may depend on a record.
    privacy_unit : "user", "user-day" or "user-week"
        What is protected.
    cells : Cells, Labels or OneCell
        What a cell is. `OneCell()` makes one cell of all records.
    quantum : number
        Step to which values are rounded, in value units.
    select : Select
        Which records and cells are used.
    repeats : "drop" or "keep"
        Of several records with the same user and time, "drop" counts one place, drawn by a hash of
        user and time, with the average of the records there; "keep" counts all. Where times are
        coarser than the reports, "keep" is right. Without a time column repeats are kept.
    value_unit : str, optional
        Unit of measure, like "km/h".
    max_bad_rows : float
        Share of records that may be unusable, 0 to 1.
    max_repeats : float
        Share of records that `repeats="drop"` may leave out, 0 to 1; more is refused, for such
        times are probably coarser than the reports.
    accept_single_records : bool
        Whether nearly every user may have a single record, as sensors that report once do. Else
        that is refused, since a column such as a row number would make each record a user.
    memory : str
        What the engine may use here, like "1GB"; more goes to the scratch folder. What it may use
        in each of Spark's tasks is Spark's setting `spark.hexveil.taskMemory`.
    engine : "duckdb", "spark", SparkSession or None
        What reads the records: DuckDB here, or Spark's executors, with the same result. "spark"
        is the session that is there, or else a new one; None is DuckDB, and for a Spark DataFrame
        its own session.
    version : str or mapping of str to str, optional
        Version of the records, as their holder declares it; with `cache` also by the names of
        files or patterns of them, of which the first that fits counts.
    timezone : str, optional
        Time zone of times without an offset, and with `Labels` the local clock; default the
        time zone of `cells`.
    cache : str or path, optional
        Private folder of sums per file, made if it is not there: only files that are new are
        read, or whose declared `version` is. What is returned is the same. With Spark its
        executors see the folder too.
    scratch : str or path, optional
        Private folder of temporary files, made if it is not there; default HEXVEIL_SCRATCH, else
        a folder in the machine's temporary folder. What killed runs left in it is removed.
        Spark's executors go by their own HEXVEIL_SCRATCH.
    format : RecordFormat
        Decimal comma, format of times, unit after values, nested records, files with different
        columns.
    statistics : sequence of str, optional
        Statistics that will be published, if there are quantiles, shares or histograms among them
        (`hexveil.plan`): records are then counted by bin of their value as well, with an edge at
        each threshold. A cache keeps them for the bins they were asked for.
    id_space : str, optional
        Name of what an id of `user` names, like "vehicle"; the name of the column by default. An
        account pins it: the same vehicles under other ids would look unspent. Declare it where two
        columns hold the same ids.

    Returns
    -------
    Dataset or PrivateDataset; of several value columns ColumnDatasets or PrivateColumns

    Raises
    ------
    InputError
        If an argument, the source or a column cannot be used, or nothing is left of the records.

    Privacy
    -------
    Neighbours: the same users, places, times and counts; the values of one unit change within
    the bounds. Everything but the sums is public by that promise. With `drop_values` it is
    assumed that having one of these values is public too (ERRATA 13).

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hexveil.model.cells import Labels
    >>> table = pa.table({"bus": ["a", "b"], "ward": ["x", "x"], "speed": [10.0, 20.0]})
    >>> read(table, user="bus", value="speed", bounds=(0, 65), cells=Labels("ward"),
    ...      select=Select(min_users=1))
    Dataset('speed', privacy_unit='user', n_cells=1, n_users=2, n_pairs=2)
    """
    is_private = check_protect(protect, cells)
    terms = terms_of(statistics, is_private=is_private)
    spark = _spark(engine, source)
    # All arguments are checked before a file is opened.
    requests = [
        _request_of(
            user=user, value=column.name, bounds=column.bounds, lat=lat, lon=lon, location=location,
            time=time, privacy_unit=privacy_unit, cells=cells, quantum=column.quantum,
            select=select, repeats=repeats, value_unit=column.value_unit, max_bad_rows=max_bad_rows,
            max_repeats=max_repeats,
            accept_single_records=accept_single_records, memory=memory, version=version,
            timezone=timezone, scratch=scratch, format=format, terms=terms, id_space=id_space,
        )
        for column in value_columns(value, bounds, quantum, value_unit)
    ]  # fmt: skip
    if len(requests) > 1:
        if is_private:
            return read_declared_columns(
                source, requests, spark=spark, cache=cache, version=version
            )
        return read_value_columns(source, requests, spark, (cache, version))
    (request,) = requests
    if is_private:
        return read_declared(source, request, spark=spark, cache=cache, version=version)
    return read_column(source, request, spark, (cache, version))


@overload
def declare(
    source: object = ...,
    *,
    value: str,
    **options: Any,  # noqa: ANN401  see `read`
) -> DeclaredFacts: ...


@overload
def declare(
    source: object = ...,
    *,
    value: tuple[str, ...] | list[str],
    **options: Any,  # noqa: ANN401  see `read`
) -> DeclaredFacts | DeclaredColumns: ...


def declare(
    source: object = "",
    **options: Any,
) -> DeclaredFacts | DeclaredColumns:
    """Return the declared facts of a reading with private presence; no record is read.

    A plan needs nothing else, so that it can be made before there are any records. Of several
    value columns they are `DeclaredColumns`.

    Parameters
    ----------
    source : object
        Not looked at.
    options : keyword arguments
        As for `read`.

    Raises
    ------
    InputError
        If a declaration is missing or cannot be used.

    Examples
    --------
    >>> from hexveil.model.cells import Labels
    >>> declare(user="car", value="speed", bounds=(0, 130), protect="presence",
    ...         cells=Labels("road", values=["A4", "A8"])).grid.n_cells
    2
    """
    bound = inspect.signature(read).bind(source, **options)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    if not check_protect(arguments["protect"], arguments["cells"]):
        raise InputError('declare is for protect="presence"; otherwise read the records.')
    terms = terms_of(arguments["statistics"], is_private=True)
    refuse_versions_by_file(arguments["version"])
    stated = [arguments.pop(name) for name in ("value", "bounds", "quantum", "value_unit")]
    for name in ("source", "protect", "engine", "cache", "statistics"):
        del arguments[name]
    facts = {
        column.name: declare_facts(
            _request_of(
                **arguments, value=column.name, bounds=column.bounds, quantum=column.quantum,
                value_unit=column.value_unit, terms=terms,
            )
        )
        for column in value_columns(*stated)
    }  # fmt: skip
    return DeclaredColumns(facts) if len(facts) > 1 else next(iter(facts.values()))


def _request_of(  # noqa: PLR0913  an argument of `read` each
    *,
    user: str,
    value: str,
    bounds: object,
    lat: str | None,
    lon: str | None,
    location: str | None,
    time: str | Sequence[str] | None,
    privacy_unit: Unit,
    cells: Cells | Labels,
    quantum: Number,
    select: Select,
    repeats: Repeats,
    value_unit: str | None,
    max_bad_rows: float,
    max_repeats: float,
    accept_single_records: bool,
    memory: str,
    version: Version | None,
    timezone: str | None,
    scratch: str | os.PathLike[str] | None,
    format: RecordFormat,  # noqa: A002  see `read`
    terms: tuple[Term, ...] = (),
    id_space: str | None = None,
) -> ReadRequest:
    """Return the request of a reading, checked."""
    from hexveil.records.duckdb.session import check_memory  # noqa: PLC0415  the engine

    columns = RecordColumns(user, value, lat, lon, location, time)
    scale = ValueLattice.of(bounds, quantum)
    rules = Rules(
        scale,
        cells,
        select,
        privacy_unit,
        repeats,
        timezone,
        max_bad_rows,
        accept_single_records,
        max_repeats,
        terms,
        id_space,
    )
    # Quoted, so that no version can be spelled like the placeholder of a missing one.
    declared = None if isinstance(version, Mapping) or not version else quoted(str(version))
    return ReadRequest(
        columns,
        rules,
        check_memory(memory),
        format,
        value_unit or "",
        declared,
        # Resolved now: the working folder may be another one when a capacity table counts again.
        scratch=None if scratch is None else str(place(scratch)),
    )


def _spark(engine: object, source: object) -> Any:  # noqa: ANN401  pyspark is not loaded
    """Return the Spark session that reads the records, None where DuckDB does."""
    frame = is_spark(source, "DataFrame")
    if engine is None and not frame:
        return None
    if engine == "duckdb":
        if frame:
            raise InputError('engine "duckdb" reads no Spark DataFrame; leave engine out.')
        return None
    if not (engine is None or engine == "spark" or is_spark(engine, "SparkSession")):
        raise InputError(
            f'engine must be "duckdb", "spark", a Spark session or left out, got {engine!r}.'
        )
    if find_spec("pyspark") is None:
        raise InputError('engine "spark" needs the package pyspark: pip install "hexveil[spark]".')
    from hexveil.records.spark.session import session_of  # noqa: PLC0415  the engine

    return session_of(engine, source)
